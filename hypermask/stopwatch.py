"""How long work on a device takes."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Wall-clock seconds of this thread's work on a device, with pauses."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._paused = device, 0.0
        self._start = self._now()

    def seconds(self) -> float:
        return self._now() - self._start - self._paused

    def paused(self) -> Stopwatch:
        """`with watch.paused():` the time spent inside does not count."""
        return self

    def __enter__(self) -> None:
        self._pause_start = self._now()

    def __exit__(self, *_: object) -> None:
        self._paused += self._now() - self._pause_start

    def _now(self) -> float:
        if self._device.type == "cuda":
            # Not the whole device: other threads' work is not this one's, and one of them may be capturing a graph.
            torch.cuda.current_stream(self._device).synchronize()
        return time.perf_counter()

"""A training step captured in a CUDA graph: one launch per step, no work on the host."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

# While one thread captures, no other may begin to, nor load a library: that waits for the whole device, which would
# break the capture.
ONE_AT_A_TIME = threading.Lock()
# Steps before the capture: libraries choose their algorithms and the optimizer makes its state in them. They are real
# steps of the training.
WARM_UP = 3


# Device -> the stream beside the default one, for each thread.
_BESIDE = threading.local()
# Kept to the end of the process.
_FAILED: list[torch.cuda.CUDAGraph] = []


def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream to capture on, the same for every task: the thread's own, or one of it beside the default stream.

    Streams come round from a pool of 32, so that a new one for each task would soon be another thread's, and libraries
    keep a workspace for each.
    """
    current = torch.cuda.current_stream(device)
    if current != torch.cuda.default_stream(device):
        return current
    streams = _BESIDE.__dict__
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)
    return streams[device]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What is collected inside may be an earlier graph, and to destroy one breaks a capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class CapturedStep:
    """Runs `step(iteration)` again and again, captured after a few runs.

    step: takes the iteration (from 0) as a tensor of one integer on the device and returns the loss; everything that
    changes from step to step must live on the device.  generators: all that the step draws from.  If the step cannot be
    captured, it goes on uncaptured, with a warning.
    """

    def __init__(
        self,
        step: Callable[[torch.Tensor], torch.Tensor],
        device: torch.device,
        generators: Sequence[torch.Generator],
    ) -> None:
        # An earlier graph that is destroyed later on would take the workspaces of its stream along.
        gc.collect()
        self._step, self._generators = step, generators
        self._iteration = torch.zeros(1, dtype=torch.int64, device=device)
        self._stream = _stream(device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._runs = 0
        self._capturable = True

    def __call__(self) -> torch.Tensor:
        """One step; the returned loss is overwritten by the next."""
        if self._graph is None and self._runs >= WARM_UP and self._capturable:
            self._capture()
        self._runs += 1
        if self._graph is None:
            return self._uncaptured()
        self._graph.replay()
        return self._loss

    def _once(self) -> torch.Tensor:
        loss = self._step(self._iteration)
        self._iteration += 1
        return loss

    def _uncaptured(self) -> torch.Tensor:
        # On the stream of the capture, so that memory and libraries' workspaces are those that the graph will use.
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            loss = self._once()
        current.wait_stream(self._stream)
        return loss

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        if torch.__version__ < (2, 14):
            # Later versions find out by themselves.
            for generator in self._generators:
                graph.register_generator_state(generator)
        drawn = [*self._generators, torch.cuda.default_generators[self._iteration.device.index]]
        states = [generator.get_state() for generator in drawn]
        current = torch.cuda.current_stream(self._stream.device)
        try:
            # thread_local: other seeds may train in other threads.
            with (
                ONE_AT_A_TIME,
                _nothing_collected(),
                torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                self._loss = self._once()
        except RuntimeError as error:
            self._capturable = False
            # The allocator may go on asking a graph whose capture did not end.
            _FAILED.append(graph)
            # A capture that fails may leave its stream current, and generators that wait for its end.
            torch.cuda.set_stream(current)
            for generator, state in zip(drawn, states, strict=True):
                as_before = torch.Generator(generator.device)
                as_before.set_state(state)
                generator.graphsafe_set_state(as_before)
            warnings.warn(f"this step cannot be captured and runs without a CUDA graph ({error}).", stacklevel=3)
            return
        self._graph = graph

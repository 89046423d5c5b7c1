"""Several seeds of an experiment: side by side where one seed leaves the GPU idle, else one after another.

Networks whose output layer fills the memory bus gain nothing from company, nor does a CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import torch

from hypermask import needs
from hypermask.device import resolve
from hypermask.engine.graph import ONE_AT_A_TIME
from hypermask.experiments import Experiment
from hypermask.progress import Progress, choose
from hypermask.records import Record
from hypermask.training import run_experiment

# Output layers up to this size leave a GPU's memory bus idle for much of a step.
SMALL_OUTPUT_LAYER_BYTES = 512 * 2**20
MOST_AT_ONCE = 5


def at_once(experiment: Experiment, seeds: Sequence[int], device: torch.device) -> int:
    """How many of the seeds run at a time on the device."""
    parameters = needs.hypernetwork_parameters(experiment.config)
    small = parameters is not None and 4 * parameters <= SMALL_OUTPUT_LAYER_BYTES
    return min(len(seeds), MOST_AT_ONCE) if device.type == "cuda" and small else 1


def run_seeds(
    experiment: Experiment,
    seeds: Sequence[int],
    *,
    root: Path,
    device: str = "auto",
    workers: int | None = None,
    **options: Any,
) -> Iterator[Record]:
    """Train the seeds, each as `run_experiment` does alone; gives each record when its seed ends.

    workers: seeds at a time; chosen by `at_once` if None.  options: further arguments of `run_experiment`.
    """
    chosen = resolve(device)
    workers = workers or at_once(experiment, seeds, chosen)
    if workers == 1:
        for seed in seeds:
            yield run_experiment(experiment, seed, root=root, device=device, **options)
        return
    stop = threading.Event()

    def alone(seed: int, row: int) -> Record:
        progress = _Stoppable(options.get("progress") or choose(row), stop)
        settings = options | {"progress": progress, "seeds_at_once": workers}
        with _own_stream(chosen):
            if chosen.type == "cuda":
                _load_libraries(chosen)
            return run_experiment(experiment, seed, root=root, device=device, **settings)

    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(alone, seed, row) for row, seed in enumerate(seeds)}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            stop.set()
            for future in waiting:
                future.cancel()


def _load_libraries(device: torch.device) -> None:
    """Use the libraries of convolutions, products and factors once: each thread has handles of its own to them, which
    it makes at its first use, and by then another thread may be capturing a graph."""
    with ONE_AT_A_TIME:
        factor, _ = torch.linalg.cholesky_ex(torch.eye(8, dtype=torch.float64, device=device))
        torch.linalg.solve_triangular(factor, factor, upper=False)
        image = torch.ones(1, 1, 8, 8, device=device)
        torch.conv2d(image, image[..., :3, :3]) @ image[..., :6, :6]
        torch.cuda.synchronize(device)


class _Stoppable(Progress):
    """Passes reports on, and ends the training that makes them once `stop` is set."""

    def __init__(self, shown: Progress, stop: threading.Event) -> None:
        self._stop = stop
        self.begin: Callable[..., None] = shown.begin
        self.finished_task: Callable[..., None] = shown.finished_task
        self.end: Callable[..., None] = shown.end
        self._iteration, self._reading = shown.iteration, shown.reading

    def iteration(self, *details) -> None:
        self._end_if_stopped()
        self._iteration(*details)

    def reading(self, *details) -> None:
        self._end_if_stopped()
        self._reading(*details)

    def _end_if_stopped(self) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt


def _own_stream(device: torch.device):
    """A stream of the thread's own, so that the seeds' kernels may overlap."""
    return torch.cuda.stream(torch.cuda.Stream(device) if device.type == "cuda" else None)

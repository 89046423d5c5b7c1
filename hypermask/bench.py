"""Milliseconds per iteration: a plain reference loop, the eager and the fused engine, interleaved in one run.

Task k is set up as it would be after k - 1 tasks, with untrained embeddings: what an iteration costs does not depend on
how well they were learned. Iterations from the middle of the task are measured, where the first task's sparsity is
between 0 and its final value.
"""

from __future__ import annotations

import copy
import difflib
import gc
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TextIO

import torch

from hypermask import benchmarks, experiments, files, methods
from hypermask import engine as engines
from hypermask.config import Config
from hypermask.device import environment, make_current, resolve
from hypermask.engine import Batches, graph
from hypermask.errors import HyperMaskError
from hypermask.model import HyperMask
from hypermask.needs import MEGABYTE, PASSES_PER_STEP
from hypermask.progress import say
from hypermask.reference import ReferenceLoop
from hypermask.saved_benches import LOOPS, SCHEMA, folder
from hypermask.schedule import batch_order
from hypermask.seeds import generator
from hypermask.stopwatch import Stopwatch

# The experiments of each benchmark; a task is measured in the first that has it.
BENCHMARKS = {
    "split_mnist": ("split_mnist/hypermask-t",),
    "permuted_mnist": ("permuted_mnist_10/hypermask-t", "permuted_mnist_100/hypermask-t"),
}
ITERATIONS = 30
SEED = 1
# Loops take turns of a few iterations, so that whatever else changes on the machine meets them all.
TURN = 5
# Iterations before the first turn: on a GPU the fused step is captured in the last but one.
WARM_UP = graph.WARM_UP + 2
# Larger than the caches, and on a GPU large enough to take much longer than starting the copy.
COPIED_BYTES = {"cpu": 2**28, "cuda": 2**30}
COPY = "copy"


@dataclass(frozen=True)
class ReleasedTime:
    """Milliseconds per iteration of the authors' released training loop, measured apart from this program."""

    task: int
    device: str
    machine: str
    ms: float


RELEASED = {
    "split_mnist": (
        ReleasedTime(1, "cpu", "2 idle CPU cores", 139),
        ReleasedTime(5, "cpu", "2 idle CPU cores", 259),
        ReleasedTime(1, "cuda", "one H100", 38),
        ReleasedTime(5, "cuda", "one H100", 52),
    ),
    "permuted_mnist": (
        ReleasedTime(1, "cuda", "one H100", 66),
        ReleasedTime(10, "cuda", "one H100", 87),
    ),
}


class Loop(Protocol):
    """What is measured: the engines, the reference, and copying."""

    def step(self, iteration: int) -> Any: ...


def run(
    benchmark: str, tasks: Sequence[int] | None = None, *, device: str = "auto", iterations: int = ITERATIONS
) -> dict[str, Any]:
    """Measure a benchmark of the paper (`BENCHMARKS`) at some tasks, counted from 1; JSON-plain, see `measure`.

    tasks: by default the first and the last of its smallest experiment.
    """
    if benchmark not in BENCHMARKS:
        close = difflib.get_close_matches(benchmark, BENCHMARKS, n=1) or BENCHMARKS
        raise HyperMaskError(f"unknown benchmark {benchmark!r}; did you mean {', '.join(close)}?")
    choices = [experiments.get(name).config for name in BENCHMARKS[benchmark]]
    tasks = tasks or (1, choices[0].benchmark.tasks)
    most = choices[-1].benchmark.tasks
    config = next((choice for choice in choices if choice.benchmark.tasks >= max(tasks)), choices[-1])
    wrong = [task for task in tasks if not 1 <= task <= most]
    if wrong:
        raise HyperMaskError(f"{benchmark} has no task {wrong[0]}; it has tasks 1 to {most}, so name some of those.")
    return measure(benchmark, config, tasks, resolve(device), iterations)


def measure(
    name: str, config: Config, tasks: Sequence[int], device: torch.device, iterations: int = ITERATIONS
) -> dict[str, Any]:
    """Measure the three loops at some tasks (from 1) of a HyperMask configuration; JSON-plain.

    Rows hold, for each task, medians of milliseconds per iteration, `speedup` (reference over fused), `bandwidth_share`
    (10 passes over the hypernetwork's output layer at the copy bandwidth measured here, over the fused time) and peak
    device memory in MB (2^20 bytes), null on a CPU.  first_call_seconds: setting up and the first iteration, with
    compilation.  residual: see `residual_errors`.  others_cpu_share: CPU time that other programs used meanwhile, as a
    share of one core, null where the system does not tell; with much of it these are not an idle machine's times.
    """
    if iterations < 1:
        raise HyperMaskError(f"the number of iterations is {iterations}; expected at least 1.")
    make_current(device)
    began, others_before = time.perf_counter(), _cpu_seconds_of_others()
    measured = [_measure_task(config, task, device, iterations) for task in dict.fromkeys(tasks)]
    others = None if others_before is None else _cpu_seconds_of_others() - others_before
    bandwidth = 1e-6 * _copied(device) / statistics.median(ms for task in measured for ms in task.turns[COPY])
    return {
        "schema": SCHEMA,
        "benchmark": name,
        "device": device.type,
        "rows": [task.row(bandwidth) for task in measured],
        "iterations": iterations,
        "copy_gb_per_s": round(bandwidth, 2),
        "first_call_seconds": [{"task": task.task, **task.first_call_seconds} for task in measured],
        "residual": [{"task": task.task, **task.residual} for task in measured if task.residual],
        "released_loop": [asdict(entry) for entry in RELEASED.get(name, ())],
        "others_cpu_share": None if others is None else round(max(0.0, others / (time.perf_counter() - began)), 3),
        "config": config.to_dict(),
        "environment": environment(device) | {"kernel": measured[0].kernel},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def save(bench: dict[str, Any]) -> Path:
    """Write a bench to records/bench/BENCHMARK/DEVICE.json, in place of an earlier one; returns the path."""
    device = re.sub(r"[^a-z0-9]+", "-", bench["environment"]["device_name"].lower()).strip("-")
    path = folder() / bench["benchmark"] / f"{device}.json"
    files.write_atomic(path, files.pretty_json(bench))
    return path


@dataclass(frozen=True)
class _Task:
    """What was measured of one task (from 1).  turns: milliseconds per iteration of each turn of each loop."""

    task: int
    turns: dict[str, list[float]]
    first_call_seconds: dict[str, float]
    peak_memory_mb: dict[str, float | None]
    output_layer_bytes: int
    kernel: str | None
    residual: dict[str, float | None]

    def row(self, bandwidth: float) -> dict[str, Any]:
        """bandwidth: of copying, GB/s, bytes read and written."""
        median = {loop: statistics.median(self.turns[loop]) for loop in LOOPS}
        least = 1e-6 * PASSES_PER_STEP * self.output_layer_bytes / bandwidth
        return {
            "task": self.task,
            **{f"{loop}_ms": round(median[loop], 3) for loop in LOOPS},
            "speedup": round(median["reference"] / median["fused"], 2),
            "bandwidth_share": round(least / median["fused"], 3),
            "peak_memory_mb": self.peak_memory_mb,
        }


def _measure_task(config: Config, task: int, device: torch.device, iterations: int) -> _Task:
    config = replace(config, benchmark=replace(config.benchmark, tasks=task))
    start = methods.build(config.method, benchmarks.build(config.benchmark, SEED, "cpu"), SEED)
    weight, bias = start.output_layer()
    trained = {name: copy.deepcopy(start) for name in LOOPS}
    loops: dict[str, Loop] = {}
    first_call_seconds, peak_memory_mb = {}, {}
    with tempfile.TemporaryFile("w", newline="") as log:
        for name, method in trained.items():
            say(f"bench: task {task}, sets up the {name} loop")
            memory_before = _start_of_peak(device)
            method.to(device)
            watch = Stopwatch(device)
            loops[name] = _loop(name, method, config, task - 1, device, iterations, log)
            loops[name].step(0)
            first_call_seconds[name] = round(watch.seconds(), 3)
            for iteration in range(1, WARM_UP):
                loops[name].step(iteration)
            peak_memory_mb[name] = _peak_megabytes(device, memory_before)
        say(f"bench: task {task}, measures {iterations} iterations of each loop")
        turns = _take_turns(loops | {COPY: _Copy(device)}, config.training.iterations, iterations, device)
    loops["fused"].synchronise()
    return _Task(
        task,
        turns,
        first_call_seconds,
        peak_memory_mb,
        output_layer_bytes=weight.element_size() * (weight.numel() + bias.numel()),
        kernel=loops["fused"].kernel,
        residual=residual_errors(start, trained["fused"], task - 1) if task > 1 else {},
    )


def _loop(
    name: str, method: HyperMask, config: Config, task: int, device: torch.device, iterations: int, log: TextIO
) -> Loop:
    """One loop about to train `task` (0-based), with data of its own, for so many iterations after a warm-up."""
    training = config.training
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu" if name == "reference" else device)
    if name == "reference":
        return ReferenceLoop(method, benchmark, task, training, SEED, log)
    data = benchmark.task(task)
    # A captured step counts for itself, and may be asked for more iterations than a task has.
    length = max(training.iterations, WARM_UP + iterations)
    order = batch_order(len(data.train), training.batch_size, length, SEED, task).to(device)
    batches = Batches(benchmark, data, order, generator(SEED, "augmentation", task, device))
    method.train()
    method.begin_task(task)
    return engines.make(name, method, task, training, training.iterations, batches)


def _take_turns(loops: dict[str, Loop], length: int, iterations: int, device: torch.device) -> dict[str, list[float]]:
    """Milliseconds per iteration of each turn, A B C A B C ...  length: iterations of a whole task."""
    turns: dict[str, list[float]] = {name: [] for name in loops}
    for first in range(0, iterations, TURN):
        count = min(TURN, iterations - first)
        for name, loop in loops.items():
            watch = Stopwatch(device)
            # Of the middle of a task; a captured step counts for itself.
            for number in range(first, first + count):
                loop.step((length // 2 + number) % length)
            turns[name].append(1000 * watch.seconds() / count)
    return turns


class _Copy:
    """A loop that does nothing but copy memory."""

    def __init__(self, device: torch.device) -> None:
        # Ones, since zeros never written need no memory; cloned, so that the target's pages are there as well.
        self._source = torch.ones(COPIED_BYTES[device.type] // 4, device=device)
        self._target = self._source.clone()

    def step(self, iteration: int) -> None:
        self._target.copy_(self._source)


def _copied(device: torch.device) -> int:
    """Bytes read and written by a step of `_Copy`."""
    return 2 * COPIED_BYTES[device.type]


def _cpu_seconds_of_others() -> float | None:
    """CPU time used on this machine since it started, but for this process's own; None where /proc does not tell."""
    try:
        user, nice, system, _, _, interrupts, soft_interrupts = Path("/proc/stat").read_text().split()[1:8]
    except (OSError, ValueError):
        return None
    ticks = sum(map(int, (user, nice, system, interrupts, soft_interrupts)))
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _start_of_peak(device: torch.device) -> int:
    """Bytes in use on the device before a loop is set up; the peak is counted from here."""
    if device.type != "cuda":
        return 0
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak_megabytes(device: torch.device, before: int) -> float | None:
    """What a loop added to the memory in use, at its highest; None on a CPU."""
    if device.type != "cuda":
        return None
    return round((torch.cuda.max_memory_allocated(device) - before) / MEGABYTE, 1)


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def residual_errors(start: HyperMask, now: HyperMask, previous: int) -> dict[str, float | None]:
    """How exactly the residual R = D U + W* E of the previous tasks' outputs can be formed (`engine.fused`), measured.

    start, now: the method at the start of the task and some steps later.  Returns `ratio`, |W* E| / |R|, and the
    relative errors of R against float64 when its products are formed in float32 and in TF32 (null on a CPU).
    """
    device = now.output_layer()[0].device
    hidden_start, hidden = start.hidden(range(previous)).to(device), now.hidden(range(previous))
    ones = hidden.new_ones(previous, 1)
    u, e = torch.cat([hidden, ones], 1).T, torch.cat([hidden - hidden_start, 0 * ones], 1).T
    squares = dict.fromkeys(("exact", "moved", "float32", "tf32"), 0.0)
    layers = zip(*(torch.split(part, 2**16) for part in (*start.output_layer(), *now.output_layer())), strict=True)
    for weight_start, bias_start, weight, bias in layers:
        w_start = torch.cat([weight_start, bias_start[:, None]], 1).to(device)
        change = torch.cat([weight, bias[:, None]], 1) - w_start
        moved = w_start.double() @ e.double()
        exact = change.double() @ u.double() + moved
        squares["exact"] += exact.square().sum().item()
        squares["moved"] += moved.square().sum().item()
        for name, precision in (("float32", "highest"), ("tf32", "high")):
            with _matmul_precision(precision):
                squares[name] += (change @ u + w_start @ e - exact).square().sum().item()
    relative = {name: float(f"{(value / squares['exact']) ** 0.5:.3g}") for name, value in squares.items()}
    return {
        "ratio": relative["moved"],
        "float32_error": relative["float32"],
        "tf32_error": relative["tf32"] if device.type == "cuda" else None,
    }

"""Algorithm 1: learn the tasks one after another, evaluate every learned task after each, and write down what happened.

The loop knows no method by name. Each use of randomness has its own generator (`hypermask.seeds`), so evaluating or
logging more often changes no number.
"""

from __future__ import annotations

import gc
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypermask import benchmarks, hidden_state, identity, inference, methods, own_code, preflight, records
from hypermask import engine as engines
from hypermask.benchmarks.base import Benchmark, Split, Task
from hypermask.checkpoints import Checkpoints, KeptWeights, State
from hypermask.config import TrainingConfig, check_optimizer, section_from_dict, section_to_dict
from hypermask.device import environment, make_current, memory_told, resolve
from hypermask.engine import Batches
from hypermask.errors import HyperMaskError
from hypermask.evaluation import evaluate, sample_logits
from hypermask.experiments import Experiment
from hypermask.files import canonical_json, sha256
from hypermask.methods import Method
from hypermask.progress import Progress, choose
from hypermask.records import Record
from hypermask.schedule import Schedule, batch_order
from hypermask.seeds import generator, seed_layers
from hypermask.stopwatch import Stopwatch

LOGITS_PER_TASK = 400


@dataclass
class History:
    """What a run has measured so far; `accuracy[i][j]` is the accuracy on task j after training task i, in percent."""

    accuracy: list[list[float]] = field(default_factory=list)
    validation: list[dict[str, list[float]]] = field(default_factory=list)
    task_seconds: list[float] = field(default_factory=list)
    evaluation_seconds: list[float] = field(default_factory=list)
    peak_memory_mb: list[float | None] = field(default_factory=list)
    inference: dict[str, dict[str, Any]] = field(default_factory=dict)
    engine: str = ""
    kernel: str | None = None


@dataclass(frozen=True)
class Settings:
    """How a run is watched and driven; no part of the configuration, and changing no result beyond rounding.

    seed: batch order, augmentation and samples.  engine: `auto`, `eager` or `fused` (`hypermask.engine`).
    evaluate_every: iterations between points of the validation curve, the last iteration is one in any case; where a
    model is chosen among ends of epochs, those are the points.  logits_per_task: test images per task whose
    logits the record keeps.  progress: chosen by where the process runs if None.  after_task(t): called when task t
    (0-based) is learned and evaluated.  seeds_at_once: how many runs share the device, for the record.  infer: `ent`,
    `fecam`, how to classify without the task's identity after each task (`hypermask.inference`).
    """

    seed: int
    engine: str = "auto"
    evaluate_every: int = 1000
    logits_per_task: int = LOGITS_PER_TASK
    progress: Progress | None = None
    after_task: Callable[[int], None] | None = None
    seeds_at_once: int = 1
    infer: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("evaluate_every", 1), ("logits_per_task", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer):
                raise HyperMaskError(f"{name} is {value!r}; expected a whole number.")
            if value < least:
                raise HyperMaskError(f"{name} is {value}; expected {least} or more.")
            # Of numpy's whole numbers no record could be written.
            object.__setattr__(self, name, int(value))
        object.__setattr__(self, "infer", (self.infer,) if isinstance(self.infer, str) else tuple(self.infer))


def _settings(seed: int, given: dict[str, Any]) -> Settings:
    """`Settings` of a caller's keywords, with a sentence on those that are none."""
    known = [each.name for each in fields(Settings) if each.name != "seed"]
    if unknown := given.keys() - set(known):
        raise HyperMaskError(
            f"{sorted(unknown)[0]} is no setting of a run; expected {', '.join(known)}. How long a task is trained, by "
            "which optimizer and in which batches says training, a TrainingConfig."
        )
    return Settings(seed=seed, **given)


def train(
    method: Method,
    benchmark: Benchmark,
    training: TrainingConfig | None = None,
    *,
    seed: int = 1,
    name: str | None = None,
    root: Path | str | None = None,
    overwrite: bool = False,
    keep_weights: bool = False,
    **settings: Any,
) -> Record:
    """Train your own method, or HyperMask over your own network, on a benchmark and return the record of the run.

    method: moved to the benchmark's device.  training: 500 iterations per task by default.  seed: batch order,
    augmentation and samples; the method and the benchmark were made from their own.  name: BENCHMARK/METHOD, `own` as
    the method by default.  root: write the record below this folder (`runs/`, say); without it nothing is written and
    the logits are not kept; a record that is there already is an error before the training begins, unless `overwrite`
    says that it may be replaced.  keep_weights: as in `run_experiment`, for `HyperMask.load`; needs a root.  settings:
    the other fields of `Settings`.

    The record's configuration tells other methods, networks and data apart - by `describe`, modules, shapes, the source
    of their classes and plain values in their attributes but for one called `seed`, by checksums, sizes and how images
    are prepared - so that their runs are not mixed. What global variables hold it cannot tell. A run whose weights stop
    being finite, or whose scores have no softmax any more, ends there with the status "diverged".

    With a root the run leaves a checkpoint after every task. Stopped and called again in the same way - a new method,
    made as the first was - it goes on from the last one, unless the method keeps something from task to task outside
    its parameters and buffers (`hypermask.hidden_state`): a warning names that, and the run starts anew.
    """
    preflight.check(method, benchmark)
    if training is not None and not isinstance(training, TrainingConfig):
        raise HyperMaskError(
            f"training is {training!r}; expected a TrainingConfig, say TrainingConfig(iterations=500)."
        )
    training = section_from_dict(TrainingConfig, section_to_dict(training or TrainingConfig(iterations=500)))
    check_optimizer(getattr(method, "settings", None), training)
    chosen = _settings(seed, settings)
    if keep_weights and root is None:
        raise HyperMaskError("weights are kept beside a record, and there will be none; name its folder with root.")
    name = name or f"{benchmark.name}/own"
    config = {
        "benchmark": {
            **benchmark.describe(),
            **({"class": type(benchmark).__qualname__} if own_code.is_own(type(benchmark)) else {}),
            "name": benchmark.name,
            "tasks": benchmark.tasks,
            "data": identity.data_digest(benchmark),
        },
        "method": method.describe() | {"network": identity.network_digest(method)},
        "training": section_to_dict(training),
    }
    run = {
        "experiment": name,
        "seed": chosen.seed,
        "config": config,
        "overrides": [],
        "config_hash": sha256(canonical_json(config)),
    }
    with memory_told(f"a run of {name}"), _process_left_as_it_was(benchmark.device):
        if root is not None:
            return _learn_and_write(method, benchmark, training, chosen, run, Path(root), keep_weights, overwrite)
        measured, _ = _learn(method, benchmark, training, chosen, f"{name}, seed {chosen.seed}")
    return Record(records.seal({"schema": records.SCHEMA, **run, **measured, "logits": None}))


@contextmanager
def _process_left_as_it_was(device: torch.device) -> Iterator[None]:
    """What a run sets for the whole process - torch's global generators, cuDNN's choices - is as before afterwards:
    code of one's own that draws between runs is not to draw the same each time.
    """
    deterministic = torch.backends.cudnn.deterministic
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic = deterministic


def run_experiment(
    experiment: Experiment,
    seed: int,
    *,
    root: Path,
    device: str = "auto",
    keep_weights: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> Record:
    """Train one seed of an experiment and write its record below `root` (`runs/` for your own).

    keep_weights: also write the weights after each task beside the record, for `HyperMask.load`.  overwrite: replace a
    record that is there.  settings: the other fields of `Settings`.

    The run leaves a checkpoint after every task, and goes on from the last one if it was stopped.
    """
    chosen = _settings(seed, settings)
    seed = chosen.seed
    config = experiment.config
    run = {
        "experiment": experiment.name,
        "seed": seed,
        "config": config.to_dict(),
        "overrides": list(experiment.overrides),
        "config_hash": config.hash,
    }
    with memory_told(f"a run of {experiment.name}"):
        benchmark = benchmarks.build(config.benchmark, seed, resolve(device))
        method = methods.build(config.method, benchmark, seed)
        return _learn_and_write(method, benchmark, config.training, chosen, run, root, keep_weights, overwrite)


def _learn_and_write(
    method: Method,
    benchmark: Benchmark,
    training: TrainingConfig,
    settings: Settings,
    run: dict[str, Any],
    root: Path,
    keep_weights: bool,
    overwrite: bool,
) -> Record:
    """A run with checkpoints, whose record lies below `root`; run: the part of it that is known before."""
    name, seed = run["experiment"], run["seed"]
    path = records.prepare(root, name, run["config_hash"], seed, overwrite)
    weights = KeptWeights(path, benchmark, keep_weights)
    with Checkpoints(
        path, identity.resumable(run, [settings.engine, settings.evaluate_every, *settings.infer], benchmark, method)
    ) as saved:
        measured, arrays = _learn(method, benchmark, training, settings, f"{name}, seed {seed}", weights, saved)
        payload = {"schema": records.SCHEMA, **run, **measured}
        written = records.write(payload, arrays or None, root, overwrite=overwrite)
        weights.close(sum(row[0] is not None for row in measured["accuracy"]))
        saved.remove()
    return records.read(written)


def _learn(
    method: Method,
    benchmark: Benchmark,
    training: TrainingConfig,
    settings: Settings,
    title: str,
    weights: KeptWeights | None = None,
    saved: Checkpoints | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The whole of Algorithm 1; returns what `_measured` does."""
    procedures = (*settings.infer, *method.procedures())
    inference.check(procedures, method, benchmark)
    make_current(benchmark.device)
    if benchmark.device.type == "cuda":
        # Two runs of a seed are to be equal, and cuDNN may choose convolutions that add up in any order.
        torch.backends.cudnn.deterministic = True
    method.to(benchmark.device)
    # The first optimizer of a process imports much of torch, which is no part of a task's time.
    torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    # The code that runs is the one there is now, whatever is edited or committed in the meantime.
    origin = {"method_digest": identity.method_digest(method), "environment": environment(benchmark.device)}
    preflight.claim(method)
    history, layers = History(), []
    held = hidden_state.digests(method) if saved else {}
    if state := _latest(saved, weights):
        method.set_weights(state.weights)
        history, layers = History(**state.history), state.layers
    status = "finished"
    progress = settings.progress or choose()
    lengths = [_iterations(training, len(benchmark.task(task).train)) for task in range(benchmark.tasks)]
    progress.begin(title, lengths, len(layers))

    def infer(task: int) -> None:
        for procedure in dict.fromkeys(procedures):
            progress.reading(task, procedure)
            inference.measure(history.inference, procedure, method, benchmark, task, settings.seed)

    try:
        if layers:
            # A checkpoint is written before its last task is inferred.
            infer(len(layers) - 1)
        for task in range(len(layers), benchmark.tasks):
            # Layers such as dropout draw from the global generator: it starts each task where the seed says.
            seed_layers(settings.seed, task)
            _learn_task(method, benchmark, training, task, settings, history, progress)
            if not _finite(method) or not _evaluate_learned(method, benchmark, task, history):
                status = "diverged"
                break
            layers.append({name: layer.cpu().clone() for name, layer in method.shared_layers().items()})
            row = history.accuracy[task]
            progress.finished_task(task, row[task], sum(row) / len(row), history.task_seconds[task])
            if weights:
                weights.save(task, method.weights(), row)
            if settings.after_task is not None:
                settings.after_task(task)
            if saved and (lost := hidden_state.changed(held, hidden_state.digests(method))):
                warnings.warn(
                    f"no checkpoint from task {task + 1} on: {type(method).__name__} keeps more than its weights "
                    f"({', '.join(lost)}); if the run is stopped, these tasks are trained again.",
                    stacklevel=2,
                )
                saved = None
            if saved:
                saved.save(State(task + 1, method.weights(), asdict(history), layers))
            infer(task)
    finally:
        progress.end()
        # Layers such as dropout are off in what is predicted next.
        method.eval()
    return _measured(method, benchmark, settings, status, history, layers, origin)


def _latest(saved: Checkpoints | None, weights: KeptWeights | None) -> State | None:
    """The state that a run goes on from, if there is one."""
    state = saved.latest() if saved else None
    if state and weights and not weights.there(state.finished):
        warnings.warn("the checkpoint is left aside: its tasks were trained without keeping weights.", stacklevel=3)
        return None
    return state


def _measured(
    method: Method,
    benchmark: Benchmark,
    settings: Settings,
    status: str,
    history: History,
    layers: list[dict[str, torch.Tensor]],
    origin: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a run has measured, as a record has it, and its arrays.  origin: code and machine when it began."""
    arrays = sample_logits(method, benchmark, settings.seed, settings.logits_per_task) if status == "finished" else {}
    payload = {
        "status": status,
        "accuracy": _square(history.accuracy, benchmark.tasks),
        **{name: value for name, value in asdict(history).items() if name not in ("accuracy", "kernel")},
        "target_distance": _distances(layers) if status == "finished" else None,
        "logits": {"per_task": int(arrays["labels"].shape[1])} if arrays else None,
        "inference": (history.inference or None) if status == "finished" else None,
        "data": benchmark.checksums,
        "method_digest": origin["method_digest"],
        "evaluation_interval": settings.evaluate_every,
        "environment": {
            **origin["environment"],
            "kernel": history.kernel,
            "seeds_at_once": settings.seeds_at_once,
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return payload, arrays


def _learn_task(
    method: Method,
    benchmark: Benchmark,
    training: TrainingConfig,
    task: int,
    settings: Settings,
    history: History,
    progress: Progress,
) -> None:
    """One pass of Algorithm 1's outer loop; a method without anything to train for a task skips the iterations, and one
    that diverged what follows them.
    """
    device = benchmark.device
    data = benchmark.task(task)
    curve: dict[str, list[float]] = {"iteration": [], "loss": [], "accuracy": []}
    if device.type == "cuda":
        # What is left of the last task's steps in reference cycles would count as this one's.
        gc.collect()
        torch.cuda.reset_peak_memory_stats(device)
    watch = Stopwatch(device)
    method.train()
    method.begin_task(task)
    if any(parameter.requires_grad for parameter in method.parameters()):
        with watch.paused():
            preflight.try_out(method, benchmark, task, features="fecam" in settings.infer)
        steps = _iterate(method, benchmark, training, data, settings, progress, watch, curve)
        history.engine, history.kernel = steps.name, steps.kernel
    else:
        preflight.check_untrained(method)
    if _finite(method):
        method.end_task(task)
        method.collect_statistics(task, lambda: benchmark.prepare(data.train.images, task), data.train.labels)
    history.task_seconds.append(round(watch.seconds(), 3))
    history.validation.append({**curve, "iteration": [i + 1 for i in curve["iteration"]]})
    # Of runs that share a device nobody can tell whose memory it is.
    alone = device.type == "cuda" and settings.seeds_at_once == 1
    history.peak_memory_mb.append(round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if alone else None)


def _finite(method: Method) -> bool:
    """Whether all weights are finite. Buffers may be infinite for good reason, as those of causal masks are."""
    return all(bool(parameter.isfinite().all()) for parameter in method.parameters())


def _iterate(
    method: Method,
    benchmark: Benchmark,
    training: TrainingConfig,
    data: Task,
    settings: Settings,
    progress: Progress,
    watch: Stopwatch,
    curve: dict[str, list[float]],
) -> engines.Engine:
    """All training steps of a task, with the learning-rate schedule; leaves the chosen model in place."""
    task, device = data.index, benchmark.device
    iterations = _iterations(training, len(data.train))
    epoch = math.ceil(len(data.train) / training.batch_size)
    order = batch_order(len(data.train), training.batch_size, iterations, settings.seed, task)
    batches = Batches(benchmark, data, order.to(device), generator(settings.seed, "augmentation", task, device))
    steps = engines.make(settings.engine, method, task, training, iterations, batches)
    schedule = Schedule(training, math.ceil(iterations / epoch))
    best: tuple[float, dict[str, torch.Tensor]] | None = None
    # Where a model is chosen among ends of epochs, or the rate follows them, the curve has these points alone; the last
    # epoch may be a part of one.
    by_epoch = training.scheduler != "none" or training.model_choice != "last"
    for iteration in range(iterations):
        loss = steps.step(iteration)
        progress.iteration(task, iteration + 1, loss)
        done = iteration + 1
        if by_epoch and (done % epoch == 0 or done == iterations):
            steps.synchronise()
            value = _validate(method, benchmark, task, data.validation, iteration, curve)
            steps.set_learning_rate(schedule.after_epoch(value))
            lowest = best is None or value < best[0] or math.isnan(best[0])
            if training.model_choice == "lowest-validation-loss" and lowest:
                best = value, {name: tensor.clone() for name, tensor in method.weights().items()}
        if not by_epoch and (done % settings.evaluate_every == 0 or done == iterations):
            with watch.paused():
                steps.synchronise()
                _validate(method, benchmark, task, data.validation, iteration, curve)
    steps.synchronise()
    if best is not None:
        method.set_weights(best[1])
    return steps


def _iterations(training: TrainingConfig, images: int) -> int:
    return training.iterations or training.epochs * math.ceil(images / training.batch_size)


def _validate(
    method: Method,
    benchmark: Benchmark,
    task: int,
    split: Split,
    iteration: int,
    curve: dict[str, list[float]],
) -> float:
    """Add a point to the validation curve (null where the loss is not finite) and return the loss."""
    accuracy, loss = evaluate(method, benchmark, task, split)
    curve["iteration"].append(iteration)
    curve["loss"].append(round(loss, 6) if math.isfinite(loss) else None)
    curve["accuracy"].append(accuracy)
    return loss


def _evaluate_learned(method: Method, benchmark: Benchmark, task: int, history: History) -> bool:
    """A new row of the accuracy matrix: every task up to this one, measured.

    False, and no row, where some class scores are plus infinity or not a number: they have no softmax, and the largest
    of them tells nothing.
    """
    watch = Stopwatch(benchmark.device)
    measured = [evaluate(method, benchmark, j, benchmark.task(j).test) for j in range(task + 1)]
    if any(math.isnan(loss) for _, loss in measured):
        return False
    history.accuracy.append([accuracy for accuracy, _ in measured])
    history.evaluation_seconds.append(round(watch.seconds(), 3))
    return True


def _square(rows: list[list[float]], tasks: int) -> list[list[float | None]]:
    padded = [row + [None] * (tasks - len(row)) for row in rows]
    return padded + [[None] * tasks for _ in range(tasks - len(rows))]


def _distances(layers: list[dict[str, torch.Tensor]]) -> dict[str, list[list[float]]] | None:
    """D(i, j) of tables 5-7: L1 distance between each layer's weights and biases after task i and after task j."""
    if not layers[0]:
        return None
    return {
        name: [[float((a[name] - b[name]).abs().sum(dtype=torch.float64)) for b in layers] for a in layers]
        for name in layers[0]
    }

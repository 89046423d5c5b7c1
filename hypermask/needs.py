"""What an experiment needs before one starts it: GPU memory and minutes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from hypermask import paths, records
from hypermask.config import Config, HyperMaskConfig
from hypermask.experiments import Experiment

FLOAT_BYTES = 4
MEGABYTE = 2**20
# One training step reads or writes the hypernetwork's weights this often: forward, backward, gradient, Adam's
# reads and writes.
PASSES_PER_STEP = 10
BYTES_PER_SECOND = 3e12


@dataclass(frozen=True)
class _Shape:
    """What sizes follow from. pixels: inputs of the target network; stored: bytes of an image as kept."""

    pixels: int
    classes: int
    images: int
    stored: int


# Known without loading images, so that asking costs nothing; the images are 8-bit.
_SHAPES = {
    "permuted_mnist": _Shape(pixels=1024, classes=10, images=70_000, stored=784),
    "split_mnist": _Shape(pixels=784, classes=2, images=70_000, stored=784),
    "split_digits": _Shape(pixels=64, classes=2, images=1_797, stored=64),
}


@dataclass(frozen=True)
class Needs:
    """What one seed needs; None where this version cannot tell.

    gpu_memory_mb: an estimate.  minutes: measured, or a lower bound; `basis` says which, in words.
    """

    gpu_memory_mb: float | None
    minutes: float | None
    basis: str


def needs(experiment: Experiment) -> Needs:
    """What one seed of the experiment needs.

    Memory is computed from the configuration. Minutes are those of committed runs of this configuration, with
    their device, if there are any; otherwise a lower bound from memory traffic alone, which no measurement
    stands behind.
    """
    config = experiment.config
    memory = gpu_memory_mb(config)
    measured = _measured_minutes(experiment)
    if measured:
        device, minutes = max(measured.items(), key=lambda entry: len(entry[1]))
        runs = "1 run" if len(minutes) == 1 else f"{len(minutes)} runs"
        return Needs(memory, mean(minutes), f"measured: {mean(minutes):.1f} min on {device} (mean of {runs})")
    bound = _least_minutes(config)
    if bound is None:
        return Needs(memory, None, "not known: no committed run, and this version cannot size the target network")
    return Needs(
        memory,
        bound,
        f"at least {bound:.2g} min, a bound and no measurement: steps x {PASSES_PER_STEP} passes over the "
        "weights at "
        f"{BYTES_PER_SECOND / 1e12:.0f} TB/s",
    )


def target_parameters(config: Config) -> int | None:
    """P, the mask values the hypernetwork produces: the target's weights and biases.

    None if this version cannot size the target.
    """
    shape = _SHAPES.get(config.benchmark.name)
    if shape is None or not isinstance(config.method, HyperMaskConfig) or config.method.target != "mlp":
        return None
    return _dense(shape.pixels, *config.method.target_hidden, shape.classes)


def hypernetwork_parameters(config: Config) -> int | None:
    """Weights and biases of the hypernetwork, without the task embeddings."""
    target = target_parameters(config)
    if target is None:
        return None
    return _dense(config.method.embedding_size, *config.method.hypernetwork_hidden, target)


def gpu_memory_mb(config: Config) -> float | None:
    """Memory of a run in MB (2^20 bytes), estimated.

    The hypernetwork's output layer, P x (h + 1) float32 values, as weights, gradient, Adam's two moments and
    the copy from the start of the task; P values of each previous task as outputs, their targets, differences
    and gradients; the images.
    """
    target = target_parameters(config)
    if target is None:
        return None
    shape = _SHAPES[config.benchmark.name]
    last_hidden = (config.method.embedding_size, *config.method.hypernetwork_hidden)[-1]
    output_layer = 5 * target * (last_hidden + 1) * FLOAT_BYTES
    previous_tasks = 4 * (config.benchmark.tasks - 1) * target * FLOAT_BYTES
    return (output_layer + previous_tasks + shape.images * shape.stored) / MEGABYTE


def _dense(*widths: int) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def _measured_minutes(experiment: Experiment) -> dict[str, list[float]]:
    """Device -> minutes of each finished committed run of this very configuration."""
    minutes = defaultdict(list)
    for record in records.find(experiment.name, experiment.config.hash, paths.records()):
        if record.finished:
            minutes[record.environment["device_name"]].append(record.seconds / 60)
    return minutes


def _least_minutes(config: Config) -> float | None:
    weights = hypernetwork_parameters(config)
    if weights is None or config.training.iterations is None:
        return None
    steps = config.benchmark.tasks * config.training.iterations
    return steps * PASSES_PER_STEP * weights * FLOAT_BYTES / BYTES_PER_SECOND / 60

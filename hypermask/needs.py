"""What an experiment needs before one starts it: GPU memory and minutes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

from hypermask import experiments, paths, records
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
    """What sizes follow from.

    pixels: inputs of the target network.  channels: of an image.  classes: of a task.  images: of all tasks; per_task:
    for training and validation in the smallest task.  stored: bytes of an image as kept.
    """

    pixels: int
    channels: int
    classes: int
    images: int
    per_task: int
    stored: int


# Known without loading images, so that asking costs nothing; the images are 8-bit.
_SHAPES = {
    "made_shapes": _Shape(pixels=768, channels=3, classes=2, images=2_400, per_task=120, stored=768),
    "permuted_mnist": _Shape(pixels=1024, channels=1, classes=10, images=70_000, per_task=60_000, stored=784),
    "split_cifar100": _Shape(pixels=3072, channels=3, classes=10, images=60_000, per_task=5_000, stored=3072),
    "split_cifar100_5x20": _Shape(pixels=3072, channels=3, classes=20, images=60_000, per_task=10_000, stored=3072),
    "split_digits": _Shape(pixels=64, channels=1, classes=2, images=1_797, per_task=283, stored=64),
    "split_mnist": _Shape(pixels=784, channels=1, classes=2, images=70_000, per_task=11_263, stored=784),
    "tiny_imagenet": _Shape(pixels=12288, channels=3, classes=5, images=110_000, per_task=2_500, stored=12288),
}


@dataclass(frozen=True)
class Needs:
    """What one seed needs; None where this version cannot tell.

    gpu_memory_mb: an estimate.  minutes: measured of this configuration or of the named one, or a lower bound; `basis`
    says which, in words.
    """

    gpu_memory_mb: float | None
    minutes: float | None
    basis: str


def needs(experiment: Experiment) -> Needs:
    """What one seed of the experiment needs.

    Memory is computed from the configuration. Minutes are those of committed runs of this configuration, with
    their device, if there are any, or else, of a changed setting, those of the named experiment; otherwise a lower
    bound from memory traffic alone, which no measurement stands behind.
    """
    config = experiment.config
    memory = gpu_memory_mb(config)
    named = experiments.get(experiment.name) if experiment.overrides else experiment
    for like, start in ((experiment, "measured"), (named, "like the main setting, measured")):
        measured = _measured_minutes(like)
        if measured:
            device, minutes = max(measured.items(), key=lambda entry: len(entry[1]))
            of = "one run" if len(minutes) == 1 else f"mean of {len(minutes)} runs"
            return Needs(memory, mean(minutes), f"{start}: {mean(minutes):.1f} min on {device} ({of})")
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
    shape, method = _SHAPES.get(config.benchmark.name), config.method
    if shape is None or not isinstance(method, HyperMaskConfig):
        return None
    if method.target == "mlp":
        # Of permuted MNIST, the one benchmark with a choice.
        pixels = shape.stored if config.benchmark.pixels == "standardised" else shape.pixels
        return _dense(pixels, *method.target_hidden, shape.classes)
    if method.target == "resnet18":
        convolutions = _convolutions(shape.channels, method.target_hidden, method.target_stem)
        return sum(before * maps * size**2 for before, maps, size in convolutions) + _dense(
            method.target_hidden[-1], shape.classes
        )
    return None


def hypernetwork_parameters(config: Config) -> int | None:
    """Weights and biases of the hypernetwork, without the task embeddings."""
    target = target_parameters(config)
    if target is None:
        return None
    return _dense(config.method.embedding_size, *config.method.hypernetwork_hidden, target)


def gpu_memory_mb(config: Config) -> float | None:
    """Memory of a run in MB (2^20 bytes), estimated for the fused engine.

    The hypernetwork's output layer, P x (h + 1) float32 values, as weights, Adam's two moments and the copy from the
    start of the task, whatever the number of tasks; the images.
    """
    target = target_parameters(config)
    if target is None:
        return None
    shape = _SHAPES[config.benchmark.name]
    last_hidden = (config.method.embedding_size, *config.method.hypernetwork_hidden)[-1]
    output_layer = 4 * target * (last_hidden + 1) * FLOAT_BYTES
    return (output_layer + shape.images * shape.stored) / MEGABYTE


def _convolutions(channels: int, widths: tuple[int, ...], stem: str) -> list[tuple[int, int, int]]:
    """Maps before and after, and kernel size, of each of ResNet-18's convolutions, none of which has a bias."""
    convolutions = [(channels, widths[0], 7 if stem == "conv7-pool" else 3)]
    for group, (before, maps) in enumerate(pairwise(widths)):
        convolutions += [(before, maps, 3), *[(maps, maps, 3)] * 3]
        if group > 0 or before != maps:
            convolutions.append((before, maps, 1))
    return convolutions


def _dense(*widths: int) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(widths))


def runs_at_once(environment: Mapping[str, Any]) -> int:
    """How many runs shared the device with this one, itself included; where it is not written down, it was alone."""
    return environment.get("seeds_at_once", 1)


def _measured_minutes(experiment: Experiment) -> dict[str, list[float]]:
    """Device -> minutes of each finished committed run of this very configuration.

    Of those that had the device to themselves; if there are none, of all, with how many shared it beside its name.
    """
    finished = [
        record for record in records.find(experiment.name, experiment.config.hash, paths.records()) if record.finished
    ]
    alone = [record for record in finished if runs_at_once(record.environment) == 1]
    minutes = defaultdict(list)
    for record in alone or finished:
        device = record.environment["device_name"]
        together = "" if alone else f", {runs_at_once(record.environment)} at once"
        minutes[f"{device}{together}"].append(record.seconds / 60)
    return minutes


def _least_minutes(config: Config) -> float | None:
    weights = hypernetwork_parameters(config)
    if weights is None:
        return None
    steps = config.benchmark.tasks * _iterations(config)
    return steps * PASSES_PER_STEP * weights * FLOAT_BYTES / BYTES_PER_SECOND / 60


def _iterations(config: Config) -> int:
    """Updates per task; in the smallest task where the length is given in epochs."""
    training = config.training
    if training.iterations is not None:
        return training.iterations
    images = _SHAPES[config.benchmark.name].per_task - config.benchmark.validation
    return training.epochs * math.ceil(images / training.batch_size)

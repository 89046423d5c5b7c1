"""Benchmarks: sequences of classification tasks whose images live on the training device."""

from __future__ import annotations

import difflib

import torch

from hypermask.benchmarks.base import Benchmark, Split, Task
from hypermask.benchmarks.class_incremental import ClassIncremental
from hypermask.benchmarks.made_shapes import made_shapes
from hypermask.benchmarks.permuted_mnist import permuted_mnist
from hypermask.benchmarks.split_cifar100 import cifar100_tasks, split_cifar100, split_cifar100_5x20
from hypermask.benchmarks.split_digits import split_digits
from hypermask.benchmarks.split_mnist import split_mnist
from hypermask.benchmarks.tiny_imagenet import tiny_imagenet
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError

__all__ = [
    "Benchmark",
    "ClassIncremental",
    "Split",
    "Task",
    "build",
    "cifar100_tasks",
    "made_shapes",
    "permuted_mnist",
    "split_cifar100",
    "split_cifar100_5x20",
    "split_digits",
    "split_mnist",
    "tiny_imagenet",
]

FACTORIES = {
    "made_shapes": made_shapes,
    "permuted_mnist": permuted_mnist,
    "split_cifar100": split_cifar100,
    "split_cifar100_5x20": split_cifar100_5x20,
    "split_digits": split_digits,
    "split_mnist": split_mnist,
    "tiny_imagenet": tiny_imagenet,
}
AUGMENTED = ("made_shapes", "split_cifar100", "split_cifar100_5x20", "split_mnist", "tiny_imagenet")
_OF_CIFAR100 = ("split_cifar100", "split_cifar100_5x20")
CHOICES = {
    "normalise": ("split_mnist",),
    "first_task_permuted": ("permuted_mnist",),
    "pixels": ("permuted_mnist",),
    "stratified": _OF_CIFAR100,
    "statistics": (*_OF_CIFAR100, "tiny_imagenet"),
}
"""Which benchmarks leave which choice to the configuration; all others have its default."""


def build(config: BenchmarkConfig, seed: int, device: torch.device | str) -> Benchmark:
    """The benchmark a configuration names, its images on `device`; `seed` decides what it draws, such as permutations.

    Raises HyperMaskError for an unknown name, too many tasks or validation images, or an augmentation or another
    choice where the benchmark has none.
    """
    if config.name not in FACTORIES:
        close = difflib.get_close_matches(config.name, FACTORIES, n=1) or FACTORIES
        raise HyperMaskError(f"unknown benchmark {config.name!r}; did you mean {', '.join(close)}?")
    settings = {"tasks": config.tasks, "validation": config.validation, "seed": seed, "device": device}
    if config.name in AUGMENTED:
        settings["augment"] = config.augment
    elif config.augment:
        raise HyperMaskError(f"{config.name} has no augmentation, yet augment is true; set augment=false.")
    for choice, benchmarks in CHOICES.items():
        value, default = getattr(config, choice), getattr(BenchmarkConfig, choice)
        if value == default:
            continue
        if config.name not in benchmarks:
            given, needed = str(value).lower(), str(default).lower()
            raise HyperMaskError(
                f"{config.name} leaves no choice of {choice}, yet it is {given}; set {choice}={needed}."
            )
        settings[choice] = value
    return FACTORIES[config.name](**settings)

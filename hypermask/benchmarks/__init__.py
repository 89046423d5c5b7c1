"""Benchmarks: sequences of classification tasks whose images live on the training device."""

from __future__ import annotations

import difflib

import torch

from hypermask.benchmarks.base import Benchmark, Split, Task
from hypermask.benchmarks.permuted_mnist import permuted_mnist
from hypermask.benchmarks.split_digits import split_digits
from hypermask.benchmarks.split_mnist import split_mnist
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError

__all__ = ["Benchmark", "Split", "Task", "build", "permuted_mnist", "split_digits", "split_mnist"]

FACTORIES = {"permuted_mnist": permuted_mnist, "split_digits": split_digits, "split_mnist": split_mnist}
AUGMENTED = ("split_mnist",)


def build(config: BenchmarkConfig, seed: int, device: torch.device | str) -> Benchmark:
    """The benchmark a configuration names, its images on `device`; `seed` decides the permutations.

    Raises HyperMaskError for an unknown name, too many tasks or validation images, or an augmentation where
    the benchmark has none.
    """
    if config.name not in FACTORIES:
        close = difflib.get_close_matches(config.name, FACTORIES, n=1) or FACTORIES
        raise HyperMaskError(f"unknown benchmark {config.name!r}; did you mean {', '.join(close)}?")
    settings = {"tasks": config.tasks, "validation": config.validation, "seed": seed, "device": device}
    if config.name in AUGMENTED:
        settings["augment"] = config.augment
    elif config.augment:
        raise HyperMaskError(f"{config.name} has no augmentation, yet augment is true; set augment=false.")
    return FACTORIES[config.name](**settings)

"""Permuted MNIST: the same ten digits in every task, their pixels shuffled by each task's own permutation.

Images padded with zeros to 32 x 32, no augmentation, 5000 images for validation: appendix "Architecture details". Where
the paper is silent: the first task is permuted too, pixel values lie in [0, 1] without normalisation, and the images
for validation are the first of the training set.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hypermask.benchmarks.augment import scale
from hypermask.benchmarks.base import Benchmark, Task, check_tasks, check_validation, to_device
from hypermask.benchmarks.data import load_mnist
from hypermask.seeds import generator

PADDING = 2
PIXELS = 32 * 32


class PermutedMNIST(Benchmark):
    """All tasks share one copy of the images; `permutations` is int64 [tasks, 1024] on the device."""

    name = "permuted_mnist"
    classes_per_task = 10
    image_shape = (1, 28, 28)
    input_shape = (PIXELS,)

    def __init__(
        self, tasks: int, seed: int, validation: int, first_task_permuted: bool, device: torch.device | str
    ) -> None:
        train, test, checksums = load_mnist()
        check_tasks(self.name, tasks)
        check_validation(self.name, validation, len(train.labels))
        self.tasks = tasks
        self.device = torch.device(device)
        self.class_names = tuple(f"{digit} in task {task + 1}" for task in range(tasks) for digit in range(10))
        permutations = [draw_permutation(seed, task) for task in range(tasks)]
        if not first_task_permuted:
            permutations[0] = torch.arange(PIXELS)
        self.checksums = {**checksums, "permutations": [checksum(p) for p in permutations]}
        self.permutations = torch.stack(permutations).to(self.device)
        images = to_device(train, self.device)
        self._parts = {
            "train": images[validation:],
            "validation": images[:validation],
            "test": to_device(test, self.device),
        }

    def describe(self) -> dict[str, Any]:
        return {"validation": len(self._parts["validation"])}

    def _task(self, index: int) -> Task:
        # A digit of another task is another class: 10 x tasks absolute classes.
        classes = tuple(range(10 * index, 10 * index + 10))
        return Task(index, classes, **self._parts)

    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        padded = F.pad(images, (PADDING,) * 4).flatten(1)
        return scale(padded.index_select(1, self.permutations[task]))


def permuted_mnist(
    tasks: int = 10,
    seed: int = 1,
    device: torch.device | str = "cpu",
    validation: int = 5000,
    first_task_permuted: bool = True,
) -> PermutedMNIST:
    """Permuted MNIST with any number of tasks, one permutation per task drawn from `seed`.

    validation: how many of the 60 000 training images, from the first on, are set aside.  first_task_permuted: False
    leaves the pixels of the first task in their order; the other tasks' permutations stay the same.
    """
    return PermutedMNIST(tasks, seed, validation, first_task_permuted, device)


def draw_permutation(seed: int, task: int) -> Tensor:
    """The permutation of the 1024 pixels of task `task` (from 0), int64 [1024] on the CPU."""
    return torch.randperm(PIXELS, generator=generator(seed, "permutation", task))


def checksum(permutation: Tensor) -> str:
    """SHA-256 of a permutation, as little-endian 64-bit integers."""
    return hashlib.sha256(permutation.numpy().astype("<i8").tobytes()).hexdigest()

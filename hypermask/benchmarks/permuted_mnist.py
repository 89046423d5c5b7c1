"""Permuted MNIST: the same ten digits in every task, their pixels shuffled by each task's own permutation.

Images padded with zeros to 32 x 32, no augmentation, 5000 images for validation: appendix "Architecture details". Where
the paper is silent: the first task is permuted too, pixel values lie in [0, 1] without normalisation, and the images
for validation are the first of the training set. In WSN's public code (Kang et al., 2022) images are neither padded nor
in [0, 1], but standardised.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hypermask.benchmarks.augment import normalise, scale
from hypermask.benchmarks.base import Benchmark, Task, check_tasks, check_validation, to_device
from hypermask.benchmarks.data import MNIST_MEAN, MNIST_STD, load_mnist
from hypermask.config import PIXELS
from hypermask.errors import HyperMaskError
from hypermask.seeds import generator

PADDING = 2
SIDE = 28


class PermutedMNIST(Benchmark):
    """All tasks share one copy of the images; `permutations` is int64 [tasks, 1024] on the device, [tasks, 784] where
    images are not padded.
    """

    name = "permuted_mnist"
    classes_per_task = 10
    image_shape = (1, 28, 28)

    def __init__(
        self,
        tasks: int,
        seed: int,
        validation: int,
        first_task_permuted: bool,
        pixels: str,
        device: torch.device | str,
    ) -> None:
        train, test, checksums = load_mnist()
        check_tasks(self.name, tasks)
        check_validation(self.name, validation, len(train.labels))
        self.tasks = tasks
        self._padded = pixels == "padded"
        size = (SIDE + 2 * PADDING * self._padded) ** 2
        self.input_shape = (size,)
        self.device = torch.device(device)
        self.class_names = tuple(f"{digit} in task {task + 1}" for task in range(tasks) for digit in range(10))
        permutations = [draw_permutation(seed, task, size) for task in range(tasks)]
        if not first_task_permuted:
            permutations[0] = torch.arange(size)
        self.checksums = {**checksums, "permutations": [checksum(p) for p in permutations]}
        self.permutations = torch.stack(permutations).to(self.device)
        images = to_device(train, self.device)
        self._parts = {
            "train": images[validation:],
            "validation": images[:validation],
            "test": to_device(test, self.device),
        }

    def describe(self) -> dict[str, Any]:
        pixels = {} if self._padded else {"pixels": "standardised"}
        return {"validation": len(self._parts["validation"])} | pixels

    def _task(self, index: int) -> Task:
        # A digit of another task is another class: 10 x tasks absolute classes.
        classes = tuple(range(10 * index, 10 * index + 10))
        return Task(index, classes, **self._parts)

    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        if self._padded:
            images = F.pad(images, (PADDING,) * 4)
        pixels = scale(images.flatten(1).index_select(1, self.permutations[task]))
        return pixels if self._padded else normalise(pixels, MNIST_MEAN, MNIST_STD)


def permuted_mnist(
    tasks: int = 10,
    seed: int = 1,
    device: torch.device | str = "cpu",
    validation: int = 5000,
    first_task_permuted: bool = True,
    pixels: str = "padded",
) -> PermutedMNIST:
    """Permuted MNIST with any number of tasks, one permutation per task drawn from `seed`.

    validation: how many of the 60 000 training images, from the first on, are set aside.  first_task_permuted: False
    leaves the pixels of the first task in their order; the other tasks' permutations stay the same.  pixels: `padded`
    to 32x32, in [0, 1], or `standardised`, 28x28 as they are, less 0.1307, over 0.3081.
    """
    if pixels not in PIXELS:
        raise HyperMaskError(f"permuted_mnist was asked for pixels {pixels!r}; choose {' or '.join(PIXELS)}.")
    return PermutedMNIST(tasks, seed, validation, first_task_permuted, pixels, device)


def draw_permutation(seed: int, task: int, size: int = (SIDE + 2 * PADDING) ** 2) -> Tensor:
    """The permutation of the pixels of task `task` (from 0), int64 [size] on the CPU; padded images have 1024."""
    return torch.randperm(size, generator=generator(seed, "permutation", task))


def checksum(permutation: Tensor) -> str:
    """SHA-256 of a permutation, as little-endian 64-bit integers."""
    return hashlib.sha256(permutation.numpy().astype("<i8").tobytes()).hexdigest()

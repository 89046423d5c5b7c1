"""Split MNIST: the ten digits in five tasks of two, 0-1, 2-3, 4-5, 6-7, 8-9.

Paper, appendix "Architecture details": augmented training images, 1000 for validation. Here: flattened and
normalised, crops of 28 x 28 at random after padding by 4, the first 1000 images of each task for validation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hypermask.benchmarks.augment import normalise, random_crop, scale
from hypermask.benchmarks.base import Benchmark, Task, check_tasks, check_validation, select
from hypermask.benchmarks.data import MNIST_MEAN, MNIST_STD, load_mnist

TASKS = 5
CROP_PADDING = 4


class SplitMNIST(Benchmark):
    """Each task holds the images of its two digits, in the order of the original files."""

    name = "split_mnist"
    classes_per_task = 2
    image_shape = (1, 28, 28)
    input_shape = (28 * 28,)

    def __init__(self, tasks: int, augment: bool, normalise: bool, validation: int, device: torch.device | str) -> None:
        check_tasks(self.name, tasks, TASKS)
        train, test, checksums = load_mnist()
        self.tasks = tasks
        self.augment = augment
        self.normalise = normalise
        self.device = torch.device(device)
        self.class_names = tuple(str(digit) for digit in range(2 * tasks))
        self.checksums = dict(checksums)
        pairs = [(2 * task, 2 * task + 1) for task in range(tasks)]
        training = [select(train, pair, self.device) for pair in pairs]
        check_validation(self.name, validation, min(len(images) for images in training))
        self._tasks = [
            Task(
                index=index,
                classes=pair,
                train=images[validation:],
                validation=images[:validation],
                test=select(test, pair, self.device),
            )
            for index, (pair, images) in enumerate(zip(pairs, training, strict=True))
        ]

    def describe(self) -> dict[str, Any]:
        validation = len(self._tasks[0].validation)
        return {"validation": validation, "augment": self.augment, "normalise": self.normalise}

    def _task(self, index: int) -> Task:
        return self._tasks[index]

    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        # Cropped before normalising: the padding is black, as the images' background is.
        if self.augment and augmentation is not None:
            images = random_crop(images, CROP_PADDING, augmentation)
        pixels = scale(images.flatten(1))
        return normalise(pixels, MNIST_MEAN, MNIST_STD) if self.normalise else pixels


def split_mnist(
    tasks: int = TASKS,
    augment: bool = True,
    validation: int = 1000,
    device: torch.device | str = "cpu",
    seed: int = 1,
    normalise: bool = True,
) -> SplitMNIST:
    """Split MNIST, its first `tasks` pairs of digits.

    augment: whether `prepare` crops when given a generator.  validation: how many training images of a task,
    from the first on, are set aside.  seed: without effect, as nothing is drawn; every benchmark takes one.  normalise:
    False leaves pixels in [0, 1].
    """
    return SplitMNIST(tasks, augment, normalise, validation, device)

"""Split digits: scikit-learn's 1797 digits of 8 x 8 pixels in five tasks of two classes; a toy.

The parts are fixed and stratified, without a random draw. Within each class, in the order of the data set,
every fifth image from the first on is for testing; of the others, the first validation / 2 are for validation
and the rest for training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypermask.benchmarks.arrays import Arrays
from hypermask.benchmarks.augment import scale
from hypermask.benchmarks.base import Benchmark, Task, check_tasks, check_validation, rank_within_class, select
from hypermask.benchmarks.class_incremental import per_class
from hypermask.benchmarks.data import load_digits

TASKS = 5
TEST_EVERY = 5
HIGHEST = 16


class SplitDigits(Benchmark):
    """Images hold values 0..16, which `prepare` scales to [0, 1] and flattens; there is no augmentation."""

    name = "split_digits"
    classes_per_task = 2
    image_shape = (1, 8, 8)
    input_shape = (64,)

    def __init__(self, tasks: int, validation: int, device: torch.device | str) -> None:
        check_tasks(self.name, tasks, TASKS)
        of_each_class = per_class(self.name, validation, self.classes_per_task)
        digits, checksums = load_digits()
        self.tasks = tasks
        self.device = torch.device(device)
        self.class_names = tuple(str(digit) for digit in range(2 * tasks))
        self.checksums = dict(checksums)
        rank = rank_within_class(digits.labels)
        testing = rank % TEST_EVERY == 0
        check_validation(self.name, validation, 2 * np.bincount(digits.labels[~testing]).min())
        others_before = rank - rank // TEST_EVERY - 1
        validating = ~testing & (others_before < of_each_class)
        parts = {"train": ~testing & ~validating, "validation": validating, "test": testing}
        arrays = {name: Arrays(digits.images[part], digits.labels[part]) for name, part in parts.items()}
        pairs = [(2 * task, 2 * task + 1) for task in range(tasks)]
        self._tasks = [
            Task(index, pair, **{name: select(part, pair, self.device) for name, part in arrays.items()})
            for index, pair in enumerate(pairs)
        ]

    def describe(self) -> dict[str, Any]:
        return {"validation": len(self._tasks[0].validation)}

    def _task(self, index: int) -> Task:
        return self._tasks[index]

    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        return scale(images.flatten(1), HIGHEST)


def split_digits(
    tasks: int = TASKS, validation: int = 40, device: torch.device | str = "cpu", seed: int = 1
) -> SplitDigits:
    """Split digits, its first `tasks` pairs of classes.

    validation: how many images of a task are set aside, an even number, half of each class.  seed: without
    effect, as nothing is drawn; every benchmark takes one.
    """
    return SplitDigits(tasks, validation, device)

"""Tasks cut from one set of labelled colour images, each task some of its classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypermask.benchmarks.arrays import ImageSet
from hypermask.benchmarks.augment import CHANNEL_STATISTICS, normalise, random_crop, random_flip, scale
from hypermask.benchmarks.base import Benchmark, Task, check_validation, rank_within_class, select
from hypermask.errors import HyperMaskError

Augmentation = Callable[[Tensor, torch.Generator], Tensor]


class ClassIncremental(Benchmark):
    """Each task holds the images of its classes, in the order of the data set.

    classes: one list of absolute classes per task; the lists may differ in size. `classes_per_task`, which a network
    shared by all tasks gets outputs for, is the size of the longest; shorter tasks use the first outputs. Within a task
    the labels follow the classes in ascending order, whatever the order in the list. validation: images of each class,
    from the first on, that are set aside; if not `stratified`, as many images of the task, from its first on, whatever
    their classes.  augmentation: from uint8 images [B, C, H, W] and a generator to uint8 images of the same shape; None
    for none.  statistics: a name in `CHANNEL_STATISTICS`.
    """

    def __init__(
        self,
        name: str,
        images: ImageSet,
        classes: Sequence[Sequence[int]],
        *,
        validation: int,
        augmentation: Augmentation | None,
        statistics: str,
        device: torch.device | str,
        stratified: bool = True,
    ) -> None:
        _check_classes(name, classes, len(images.class_names))
        if statistics not in CHANNEL_STATISTICS:
            raise HyperMaskError(
                f"{name} was asked for the channel statistics {statistics!r}; choose {' or '.join(CHANNEL_STATISTICS)}."
            )
        used = [label for task in classes for label in task]
        check_validation(name, validation, np.bincount(images.train.labels)[used].min(), unit="class")
        if images.remark:
            warnings.warn(images.remark, stacklevel=2)
        self.name = name
        self.tasks = len(classes)
        self.classes_per_task = max(len(task) for task in classes)
        self.image_shape = self.input_shape = images.train.images.shape[1:]
        self.class_names = images.class_names
        self.checksums = dict(images.checksums)
        self.device = torch.device(device)
        self._augmentation = augmentation
        self._choices = {"statistics": statistics, "stratified": stratified}
        mean, std = CHANNEL_STATISTICS[statistics]
        self._mean = torch.tensor(mean, device=self.device).view(-1, 1, 1)
        self._std = torch.tensor(std, device=self.device).view(-1, 1, 1)
        aside = _set_aside(images.train.labels, classes, validation, stratified)
        parts = {
            "train": (images.train, ~aside),
            "validation": (images.train, aside),
            "test": (images.test, True),
        }
        self._tasks = [
            Task(
                index=index,
                classes=(ascending := tuple(sorted(task))),
                **{part: select(arrays, ascending, self.device, among) for part, (arrays, among) in parts.items()},
            )
            for index, task in enumerate(classes)
        ]

    def describe(self) -> dict[str, Any]:
        augmentation = self._augmentation
        named = getattr(augmentation, "__qualname__", type(augmentation).__name__)
        return self._choices | {
            "validation": len(self._tasks[0].validation),
            "augment": augmentation is not None,
            "augmentation": None if augmentation is None else named,
        }

    def _task(self, index: int) -> Task:
        return self._tasks[index]

    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        # Augmented before normalising: what lies outside an image is black.
        if self._augmentation is not None and augmentation is not None:
            images = self._augmentation(images, augmentation)
        return normalise(scale(images), self._mean, self._std)


def flip_and_crop(padding: int) -> Augmentation:
    """Mirror at random, then crop at random after padding."""
    return lambda images, generator: random_crop(random_flip(images, generator), padding, generator)


def in_groups(classes: Sequence[int], size: int, tasks: int) -> list[Sequence[int]]:
    """The first `tasks` groups of `size` classes, in their order."""
    return [classes[size * task : size * (task + 1)] for task in range(tasks)]


def per_class(name: str, validation: int, classes: int) -> int:
    """A task's number of validation images as images per class."""
    if not isinstance(validation, Integral) or validation % classes:
        raise HyperMaskError(
            f"{name} was asked for {validation!r} validation images a task; its {classes} classes share them equally, "
            f"so choose a multiple of {classes}."
        )
    return validation // classes


def _set_aside(labels: np.ndarray, classes: Sequence[Sequence[int]], validation: int, stratified: bool) -> np.ndarray:
    """Which training images are for validation: bool [N]."""
    if stratified:
        return rank_within_class(labels) < validation
    aside = np.zeros(len(labels), dtype=bool)
    for task in classes:
        aside[np.flatnonzero(np.isin(labels, task))[: validation * len(task)]] = True
    return aside


def _check_classes(name: str, classes: Sequence[Sequence[int]], known: int) -> None:
    task_of: dict[int, int] = {}
    if not classes or not all(len(task) for task in classes):
        raise HyperMaskError(f"{name} was given {list(classes)} as classes; give a list of classes for each task.")
    for task, members in enumerate(classes, start=1):
        for label in members:
            if not 0 <= label < known:
                raise HyperMaskError(
                    f"{name} has no class {label}, which task {task} lists; its classes are 0 to {known - 1}."
                )
            if label in task_of:
                raise HyperMaskError(
                    f"{name} was given class {label} in task {task_of[label]} and again in task {task}; give each "
                    "class once."
                )
            task_of[label] = task

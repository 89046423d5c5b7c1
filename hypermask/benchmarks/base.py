"""What a benchmark is: tasks of uint8 images on a device, and the way from those to a network's input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypermask.benchmarks.arrays import Arrays
from hypermask.errors import HyperMaskError


@dataclass(frozen=True)
class Split:
    """Images and labels of one part of a task.

    images: uint8 [N, C, H, W].  labels: int64 [N], local to the task, 0..k-1.  Both on one device.
    """

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, part: slice) -> Split:
        """A run of the images, sharing their storage."""
        return Split(self.images[part], self.labels[part])


@dataclass(frozen=True)
class Task:
    """One task.  index: from 0.  classes: the absolute class of each local label, ascending."""

    index: int
    classes: tuple[int, ...]
    train: Split
    validation: Split
    test: Split


PLURAL = {"task": "tasks", "class": "classes"}


class Benchmark(ABC):
    """A sequence of tasks. One of your own has these attributes, `_task`, `_prepare`, and `describe` if it has choices.

    name: as in a configuration.  tasks: how many.  classes_per_task: k.  image_shape: (C, H, W) as stored.
    input_shape: what the target network sees, without the batch.  class_names: of the absolute classes.
    checksums: SHA-256 of the data, and in lists of what a seed draws, such as permutations; JSON-plain.  device: where
    the images live.
    """

    name: str
    tasks: int
    classes_per_task: int
    image_shape: tuple[int, int, int]
    input_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    checksums: dict[str, str | list[str]]
    device: torch.device

    def task(self, index: int) -> Task:
        """Task `index`, counted from 0.  Cheap: tasks that share images share their storage."""
        self._check_index(index)
        return self._task(index)

    def prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None = None) -> Tensor:
        """uint8 images [B, C, H, W] of task `task` as network input, float32 [B, *input_shape].

        With a generator (on the images' device) the images are augmented, if the benchmark augments; without
        one never.  Asks the device for no value, so it may be captured in a CUDA graph once the generator is
        registered with that graph.
        """
        self._check_index(task)
        if images.dtype != torch.uint8 or images.shape[1:] != tuple(self.image_shape):
            raise HyperMaskError(
                f"{self.name} prepares uint8 images of shape {list(self.image_shape)}, found {images.dtype} "
                f"of shape {list(images.shape[1:])}; pass images as a task holds them."
            )
        return self._prepare(images, task, augmentation)

    def describe(self) -> dict[str, Any]:
        """What its images are set aside and prepared by, JSON-plain: part of the configuration of `train`'s records."""
        return {}

    @abstractmethod
    def _task(self, index: int) -> Task:
        """Task `index`, which exists: its splits on `self.device`, images uint8 [N, C, H, W], labels int64 [N] counted
        within the task from 0 in the order of its `classes`.
        """

    @abstractmethod
    def _prepare(self, images: Tensor, task: int, augmentation: torch.Generator | None) -> Tensor:
        """Images that `prepare` has checked, uint8 [B, C, H, W], as float32 [B, *input_shape] on their device.

        Only with a generator may anything be drawn, and from that one alone; no value may be asked of the device.
        """

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.tasks:
            raise HyperMaskError(
                f"{self.name} has no task of index {index}; it has {self.tasks} tasks, so choose 0 to {self.tasks - 1}."
            )


def check_tasks(name: str, tasks: int, most: int | None = None) -> None:
    """Refuse what is no whole number of tasks, or one below 1 or above `most`."""
    if not isinstance(tasks, Integral) or tasks < 1 or (most is not None and tasks > most):
        expected = "at least 1" if most is None else f"1 to {most}"
        raise HyperMaskError(
            f"{name} was asked for {tasks!r} tasks; it has {expected}, so choose a whole number among them."
        )


def check_validation(name: str, validation: int, available: int, unit: str = "task") -> None:
    """Refuse what is no whole number, an empty validation set, and one that uses up the smallest unit's `available`."""
    if not isinstance(validation, Integral) or not 1 <= validation < available:
        raise HyperMaskError(
            f"{name} was asked for {validation!r} validation images a {unit}; its {PLURAL[unit]} allow 1 to "
            f"{available - 1}, so choose a whole number among them."
        )


def to_device(arrays: Arrays, device: torch.device) -> Split:
    """A copy of all images and labels on `device`."""
    return Split(torch.tensor(arrays.images, device=device), torch.tensor(arrays.labels, device=device))


def rank_within_class(labels: np.ndarray) -> np.ndarray:
    """How many images of the same class come before each image, int64 [N]."""
    order = np.argsort(labels, kind="stable")
    ascending = labels[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(labels)) - np.searchsorted(ascending, ascending)
    return rank


def select(arrays: Arrays, classes: tuple[int, ...], device: torch.device, among: np.ndarray | bool = True) -> Split:
    """The images of `classes` (ascending) in their order, with local labels, on `device`; only those where `among`."""
    chosen = np.isin(arrays.labels, classes) & among
    return to_device(Arrays(arrays.images[chosen], np.searchsorted(classes, arrays.labels[chosen])), device)

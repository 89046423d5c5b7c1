"""Split CIFAR-100: ten tasks of ten classes in their order, or five tasks of twenty in FeCAM's.

Paper, appendix "Architecture details", CIFAR-100. Known task identity: augmented as hypnettorch does (mirrored, cropped
after padding by 4). Unknown task identity: the class order and the augmentation of FeCAM (cropped, mirrored,
brightness, AutoAugment). 50 training images of each class are for validation. Where the paper is silent: images are
normalised with ImageNet's channel statistics in the first setting and with CIFAR-100's in the second, and the images
for validation are the first of each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from hypermask.benchmarks import cifar100_files
from hypermask.benchmarks.augment import random_brightness, random_crop, random_flip
from hypermask.benchmarks.autoaugment import AutoAugment
from hypermask.benchmarks.base import check_tasks
from hypermask.benchmarks.class_incremental import (
    Augmentation,
    ClassIncremental,
    flip_and_crop,
    in_groups,
    per_class,
)
from hypermask.benchmarks.data import data_root
from hypermask.benchmarks.download import CIFAR100, fetch

PADDING = 4
BRIGHTNESS = 63 / 255

# The order of the FeCAM project, which the paper follows: five tasks of twenty classes.
FECAM_ORDER = (
    *(87, 0, 52, 58, 44, 91, 68, 97, 51, 15, 94, 92, 10, 72, 49, 78, 61, 14, 8, 86),
    *(84, 96, 18, 24, 32, 45, 88, 11, 4, 67, 69, 66, 77, 47, 79, 93, 29, 50, 57, 83),
    *(17, 81, 41, 12, 37, 59, 25, 20, 80, 73, 1, 28, 6, 46, 62, 82, 53, 9, 31, 75),
    *(38, 63, 33, 74, 27, 22, 36, 3, 16, 21, 60, 19, 70, 90, 89, 43, 5, 42, 65, 76),
    *(40, 30, 23, 85, 2, 95, 56, 48, 71, 64, 98, 13, 99, 7, 34, 55, 54, 26, 35, 39),
)


def split_cifar100(
    tasks: int = 10,
    augment: bool = True,
    validation: int = 500,
    device: torch.device | str = "cpu",
    seed: int = 1,
    statistics: str = "imagenet",
    stratified: bool = True,
    root: str | Path | None = None,
) -> ClassIncremental:
    """Split CIFAR-100, its first `tasks` tens of classes: 0-9, 10-19, ...

    augment: whether `prepare` augments when given a generator.  validation: how many training images of a task are set
    aside, a tenth of each class.  seed: without effect, as nothing is drawn; every benchmark takes one.  statistics: of
    the channels, `imagenet` or `cifar100`, for normalising.  stratified: False sets aside the first images of a task,
    whatever their classes.  root: the data root, as in `data.data_root`.
    """
    name = "split_cifar100"
    check_tasks(name, tasks, 10)
    return cifar100_tasks(
        in_groups(range(100), 10, tasks),
        augmentation=flip_and_crop(PADDING) if augment else None,
        validation=per_class(name, validation, 10),
        device=device,
        statistics=statistics,
        stratified=stratified,
        root=root,
        name=name,
    )


def split_cifar100_5x20(
    tasks: int = 5,
    augment: bool = True,
    validation: int = 1000,
    device: torch.device | str = "cpu",
    seed: int = 1,
    statistics: str = "cifar100",
    stratified: bool = True,
    root: str | Path | None = None,
) -> ClassIncremental:
    """CIFAR-100 as in the experiments with unknown task identity, its first `tasks` twenties of FeCAM's class order.

    Arguments as of `split_cifar100`; a twentieth of `validation` is of each class.
    """
    name = "split_cifar100_5x20"
    check_tasks(name, tasks, 5)
    return cifar100_tasks(
        in_groups(FECAM_ORDER, 20, tasks),
        augmentation=fecam_augmentation(device) if augment else None,
        validation=per_class(name, validation, 20),
        device=device,
        statistics=statistics,
        stratified=stratified,
        root=root,
        name=name,
    )


def cifar100_tasks(
    classes: Sequence[Sequence[int]],
    *,
    augmentation: Augmentation | None = None,
    validation: int = 50,
    device: torch.device | str = "cpu",
    statistics: str = "cifar100",
    stratified: bool = True,
    root: str | Path | None = None,
    name: str = "cifar100_tasks",
) -> ClassIncremental:
    """CIFAR-100 in tasks of your own: a list of classes (0 to 99) for each, of any sizes, as in `ClassIncremental`."""
    return ClassIncremental(
        name,
        cifar100_files.read(fetch(CIFAR100, data_root(root))),
        classes,
        validation=validation,
        augmentation=augmentation,
        statistics=statistics,
        device=device,
        stratified=stratified,
    )


def fecam_augmentation(device: torch.device | str) -> Augmentation:
    """Crop, mirror, brightness, AutoAugment, for 32 x 32 images on `device`."""
    policy = AutoAugment(32, 32, device)

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        images = random_flip(random_crop(images, PADDING, generator), generator)
        return policy(random_brightness(images, BRIGHTNESS, generator), generator)

    return augment

"""Tiny ImageNet: forty tasks of five classes, in an order drawn from the seed.

Paper, appendix "Architecture details", Tiny ImageNet: mirrored and cropped at random (the padding, 4 here, is not
named), 250 images of a task for validation, here the first 50 of each class. The test images are the official
validation images, whose classes are known; normalised with ImageNet's channel statistics.
"""

from __future__ import annotations

from pathlib import Path

import torch

from hypermask.benchmarks import tiny_imagenet_files
from hypermask.benchmarks.base import check_tasks
from hypermask.benchmarks.class_incremental import ClassIncremental, flip_and_crop, in_groups, per_class
from hypermask.benchmarks.data import data_root
from hypermask.benchmarks.download import TINY_IMAGENET, fetch
from hypermask.errors import HyperMaskError
from hypermask.seeds import generator

NAME = "tiny_imagenet"
TASKS = 40
CLASSES_PER_TASK = 5
PADDING = 4


def tiny_imagenet(
    tasks: int = TASKS,
    augment: bool = True,
    validation: int = 250,
    device: torch.device | str = "cpu",
    seed: int = 1,
    statistics: str = "imagenet",
    root: str | Path | None = None,
) -> ClassIncremental:
    """Tiny ImageNet in `tasks` tasks of five classes each; fewer than 40 are another, smaller benchmark.

    Class i is the i-th of the classes that are there, by WordNet identifier. Their order is drawn from `seed` alone, so
    methods share it; the record's data names it under `class order`. augment: whether `prepare` augments when given a
    generator.  validation: how many training images of a task are set aside, a fifth of each class.  statistics: of
    the channels, `imagenet` or `cifar100`, for normalising.  root: the data root, as in `data.data_root`.

    Raises HyperMaskError where there are too few classes for so many tasks.
    """
    check_tasks(NAME, tasks, TASKS)
    folder = fetch(TINY_IMAGENET, data_root(root))
    listing = tiny_imagenet_files.list_images(folder)
    wnids = listing.wnids
    if len(wnids) < CLASSES_PER_TASK * tasks:
        raise HyperMaskError(
            f"{NAME} with {tasks} tasks needs {CLASSES_PER_TASK * tasks} classes, and {folder} has {len(wnids)}; get "
            f"the whole {TINY_IMAGENET.name}, or set tasks={len(wnids) // CLASSES_PER_TASK} or less, which is another "
            "configuration."
        )
    order = torch.randperm(len(wnids), generator=generator(seed, "class order")).tolist()
    classes = in_groups(order, CLASSES_PER_TASK, tasks)
    benchmark = ClassIncremental(
        NAME,
        tiny_imagenet_files.read(listing),
        classes,
        validation=per_class(NAME, validation, CLASSES_PER_TASK),
        augmentation=flip_and_crop(PADDING) if augment else None,
        statistics=statistics,
        device=device,
    )
    benchmark.checksums["class order"] = [" ".join(wnids[label] for label in sorted(task)) for task in classes]
    return benchmark

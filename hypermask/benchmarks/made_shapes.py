"""Made shapes: small coloured shapes drawn from the seed, in tasks of two classes; a toy for trying things out."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from hypermask.benchmarks.arrays import Arrays, ImageSet
from hypermask.benchmarks.base import check_tasks
from hypermask.benchmarks.class_incremental import ClassIncremental, flip_and_crop, in_groups, per_class
from hypermask.seeds import generator

SIZE = 16
PADDING = 2
SHAPES = ("square", "diamond", "disc", "cross")
COLOURS = {
    "red": (160, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 160),
    "yellow": (160, 160, 0),
    "magenta": (160, 0, 160),
    "cyan": (0, 160, 160),
}
NOISE = 96
CLASSES_PER_TASK = 2
TASKS = len(SHAPES) * len(COLOURS) // CLASSES_PER_TASK
PER_CLASS = {"train": 60, "test": 40}


def made_shapes(
    tasks: int = 4,
    augment: bool = True,
    validation: int = 20,
    device: torch.device | str = "cpu",
    seed: int = 1,
) -> ClassIncremental:
    """Shapes of one colour each on black with noise, 3 x 16 x 16: 120 training and 80 test images a task.

    tasks: up to 12.  augment: whether `prepare` mirrors and crops when given a generator.  validation: how many
    training images of a task are set aside, half of each class.  seed: draws places, sizes and noise.
    """
    name = "made_shapes"
    check_tasks(name, tasks, TASKS)
    parts = {part: _draw(seed, part) for part in PER_CLASS}
    checksum = hashlib.sha256(b"".join(arrays.images.tobytes() for arrays in parts.values())).hexdigest()
    class_names = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
    return ClassIncremental(
        name,
        ImageSet(**parts, class_names=class_names, checksums={name: [checksum]}),
        in_groups(range(len(class_names)), CLASSES_PER_TASK, tasks),
        validation=per_class(name, validation, CLASSES_PER_TASK),
        augmentation=flip_and_crop(PADDING) if augment else None,
        statistics="imagenet",
        device=device,
    )


def _draw(seed: int, part: str) -> Arrays:
    """All images of a part, class by class."""
    draw = generator(seed, f"made shapes, {part}")
    labels = torch.arange(len(SHAPES) * len(COLOURS)).repeat_interleave(PER_CLASS[part])
    count = len(labels)
    centre = torch.randint(5, SIZE - 5, (2, count, 1, 1), generator=draw)
    radius = torch.randint(3, 6, (count, 1, 1), generator=draw)
    noise = torch.randint(NOISE, (count, 3, SIZE, SIZE), generator=draw)
    along = torch.arange(SIZE)
    drawn = _shapes((along[:, None] - centre[0]).abs(), (along - centre[1]).abs(), radius)
    inside = drawn[labels % len(SHAPES), torch.arange(count)]
    colours = torch.tensor(list(COLOURS.values()))[labels // len(SHAPES)]
    images = noise + inside[:, None] * colours[:, :, None, None]
    return Arrays(images.to(torch.uint8).numpy(), labels.numpy().astype(np.int64))


def _shapes(rows: Tensor, columns: Tensor, radius: Tensor) -> Tensor:
    """Which pixels each of `SHAPES` covers, given distances from its centre: bool [shapes, N, size, size]."""
    square = torch.maximum(rows, columns) <= radius
    diamond = rows + columns <= radius
    disc = rows**2 + columns**2 <= radius**2
    cross = square & (torch.minimum(rows, columns) == 0)
    return torch.stack([square, diamond, disc, cross])

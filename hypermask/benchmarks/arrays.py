"""Labelled images in memory, before a benchmark cuts them into tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Arrays:
    """images: uint8 [N, C, H, W].  labels: absolute classes, int64 [N]."""

    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class ImageSet:
    """A data set as read.

    class_names: of the absolute classes 0, 1, ...  checksums: of its files, JSON-plain, for the record.  remark: one
    sentence on what sets these files apart from the published ones; empty if nothing does.
    """

    train: Arrays
    test: Arrays
    class_names: tuple[str, ...]
    checksums: dict[str, str | list[str]]
    remark: str = ""

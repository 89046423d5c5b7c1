"""The batches of one task, drawn on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hypermask.benchmarks.base import Benchmark, Task


@dataclass(frozen=True)
class Batches:
    """Training batches of one task in a fixed order.

    order: int64 [iterations, B], which training images each iteration sees.  augmentation: the generator that
    augmentation draws from, on the benchmark's device.
    """

    benchmark: Benchmark
    task: Task
    order: torch.Tensor
    augmentation: torch.Generator

    def at(self, iteration: int | torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs [B, ...] and labels [B] of an iteration, counted from 0.

        A tensor of one integer on the device asks the host for nothing, so that it may change in a captured graph.
        """
        if isinstance(iteration, int):
            chosen = self.order[iteration]
        else:
            chosen = self.order.index_select(0, iteration.view(1)).squeeze(0)
        images = self.task.train.images.index_select(0, chosen)
        labels = self.task.train.labels.index_select(0, chosen)
        return self.benchmark.prepare(images, self.task.index, self.augmentation), labels

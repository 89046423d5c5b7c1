"""The smallest methods and batches that the training loop and the engines take, for tests that need to know every
number."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from hypermask.methods import Method


@dataclass(frozen=True)
class FixedBatches:
    """Batches as an engine asks for them, of any precision: inputs [iterations, B, ...], labels [iterations, B]."""

    inputs: torch.Tensor
    labels: torch.Tensor

    def at(self, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.inputs[iteration], self.labels[iteration]


class Counter(Method):
    """One weight that Adam moves up by the learning rate at each step; every logit pair is (0, weight - turning).

    On labels that are half 0 and half 1 its cross-entropy is lowest where weight = turning; below, class 0 is
    predicted for every image, above it class 1.
    """

    def __init__(self, tasks: int, turning: float = 0.0, scales: tuple[float, ...] = (1.0,)) -> None:
        super().__init__()
        self.tasks = tasks
        self.weight = nn.Parameter(torch.zeros(()))
        self.turning, self.scales = turning, scales
        self.asked: list[tuple] = []

    def begin_task(self, task):
        self.asked.append(("begin", task))

    def end_task(self, task):
        self.asked.append(("end", task, round(self.weight.item(), 4)))

    def loss(self, inputs, labels, task, iteration, iterations):
        return -self.weight * self.scales[task % len(self.scales)]

    def logits(self, inputs, task):
        score = (self.weight - self.turning).expand(len(inputs))
        return torch.stack([torch.zeros_like(score), score], dim=1)

    def describe(self):
        return {"name": "counter", "turning": self.turning}


class Linear(Method):
    """One linear layer for all tasks, with dropout before it."""

    def __init__(self, tasks: int, inputs: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.tasks = tasks
        self.dropout = nn.Dropout(dropout)
        self.layer = nn.Linear(inputs, 2)

    def loss(self, inputs, labels, task, iteration, iterations):
        return F.cross_entropy(self.logits(inputs, task), labels)

    def logits(self, inputs, task):
        return self.layer(self.dropout(inputs))

    def unmasked_logits(self, inputs):
        return self.logits(inputs, 0)

    def describe(self):
        return {"name": "linear"}

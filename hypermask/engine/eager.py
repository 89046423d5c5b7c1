"""Plain PyTorch: loss, backward, step."""

from __future__ import annotations

import torch

from hypermask.config import TrainingConfig
from hypermask.engine import optimizers
from hypermask.engine.batches import Batches
from hypermask.methods.base import Method


class EagerEngine:
    """One new optimizer over all trainable parameters for every task."""

    name = "eager"
    kernel = None

    def __init__(self, method: Method, task: int, training: TrainingConfig, iterations: int, batches: Batches) -> None:
        self._method, self._task, self._iterations, self._batches = method, task, iterations, batches
        parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
        self._optimizer = optimizers.make(training, parameters)

    def step(self, iteration: int) -> torch.Tensor:
        inputs, labels = self._batches.at(iteration)
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._method.backward(inputs, labels, self._task, iteration + 1, self._iterations, self._optimizer)
        self._optimizer.step()
        return loss

    def set_learning_rate(self, rate: float) -> None:
        optimizers.set_rate(self._optimizer, rate)

    def synchronise(self) -> None:
        """Nothing to do: the parameters are always current."""

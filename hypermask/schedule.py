"""What a task's training looks like from outside: which images each step sees, and the learning rate of each epoch."""

from __future__ import annotations

import math

import torch

from hypermask.config import TrainingConfig
from hypermask.seeds import generator


def batch_order(images: int, batch_size: int, iterations: int, seed: int, task: int) -> torch.Tensor:
    """Which training images each iteration of a task sees: int64 [iterations, batch_size].

    A stream of random permutations of the images, cut into batches of equal size: a batch that reaches the end of one
    permutation goes on with the next. An epoch is ceil(images / batch_size) iterations.
    """
    draw = generator(seed, "batch order", task)
    needed = iterations * batch_size
    permutations = [torch.randperm(images, generator=draw) for _ in range(math.ceil(needed / images))]
    return torch.cat(permutations)[:needed].view(iterations, batch_size)


class Schedule:
    """Learning rate of one task of `epochs` epochs, as `TrainingConfig` describes it."""

    def __init__(self, training: TrainingConfig, epochs: int) -> None:
        self._training, self._epochs, self._rate = training, epochs, training.lr
        self._lowest, self._waited, self._ended = math.inf, 0, 0

    def after_epoch(self, validation_loss: float) -> float:
        """The rate of the next epoch, given the validation loss of the one that ended."""
        self._ended += 1
        if self._training.scheduler == "cosine":
            return self._training.lr * (1 + math.cos(math.pi * self._ended / self._epochs)) / 2
        if self._training.scheduler == "none":
            return self._rate
        if validation_loss < self._lowest:
            self._lowest, self._waited = validation_loss, 0
        else:
            self._waited += 1
        if self._waited > self._training.lr_patience:
            self._rate = min(self._rate, max(self._rate * self._training.lr_factor, self._training.lr_floor))
            self._waited = 0
        return self._rate

"""What the training loop asks of a continual-learning method."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn


class Method(nn.Module):
    """A continual-learning method: one object that learns tasks 0, 1, ... one after another.

    The loop calls begin_task(t), then loss(...) once per iteration with an optimizer over all parameters that require a
    gradient, then end_task(t); logits(...) whenever it evaluates. A method holds its own state between tasks and never
    looks at data of another task.

    tasks: how many tasks it can learn.  sources: the source files that define the method, for a record's digest.
    """

    tasks: int
    sources: ClassVar[tuple[str, ...]] = ()

    def begin_task(self, task: int) -> None:
        """Called before the first iteration of a task (0-based)."""

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        """The scalar to minimise for one batch: inputs [B, ...], labels [B] in 0..k-1; iteration counts from 1."""
        raise NotImplementedError

    def end_task(self, task: int) -> None:
        """Called after the last iteration of a task, with the chosen model in place."""

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """Class scores [B, k] of the network for a task."""
        raise NotImplementedError

    def unmasked_logits(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """Class scores [B, k] of the shared network without anything task-specific; None if there is no such
        network."""
        return None

    def shared_layers(self) -> dict[str, torch.Tensor]:
        """Per layer, all trainable weights and biases that the tasks share, flattened: the D of tables 5-7; {} if
        none."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Name and hyperparameters, JSON-plain: the `method` section of a record's configuration."""
        raise NotImplementedError

    def weights(self) -> dict[str, torch.Tensor]:
        """All parameters and buffers by name, each storage once: what a checkpoint holds."""
        return {
            name: tensor.detach()
            for name, tensor in [*self.named_parameters(remove_duplicate=True), *self.named_buffers()]
        }

    @torch.no_grad()
    def set_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Put `weights()` of an equal method back, in place."""
        own = self.weights()
        if own.keys() != weights.keys():
            raise ValueError("weights of another network")
        for name, tensor in own.items():
            tensor.copy_(weights[name])

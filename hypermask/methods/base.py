"""What the training loop asks of a continual-learning method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import nn

from hypermask.errors import HyperMaskError


@dataclass(frozen=True)
class Network:
    """The network of one task, for many batches of inputs [B, ...].

    logits: gives class scores [B, k].  features: gives the input of the last linear layer [B, d].
    """

    logits: Callable[[torch.Tensor], torch.Tensor]
    features: Callable[[torch.Tensor], torch.Tensor]


def last_linear_input(network: nn.Module, run: Callable[[], object]) -> torch.Tensor:
    """Features [B, d]: what entered the last linear layer that the network called while `run` ran it once."""
    last: list[torch.Tensor] = []

    def keep(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        last[:] = given[:1]

    linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_pre_hook(keep) for module in linear]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    if not last:
        raise HyperMaskError(
            f"{type(network).__name__} calls no linear layer, whose input would be its features; end it with "
            "nn.Linear, or override features(inputs, task)."
        )
    return last[0].flatten(1)


_LOSS_EXPECTED = "expected a tensor of one number that depends on what is trained"


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return f"a tensor of shape {list(value.shape)}{'' if value.requires_grad else ' without gradient'}"


class Method(nn.Module):
    """A continual-learning method: one object that learns tasks 0, 1, ... one after another.

    The loop calls begin_task(t), then backward(...) once per iteration, each followed by a step of an optimizer over
    all parameters that required a gradient after begin_task(t), then end_task(t); logits(...) whenever it evaluates.
    Where no parameter requires one, the task has no iterations. A method holds its own state between tasks and never
    looks at data of another task. State in parameters and buffers is kept by checkpoints, from which a stopped run goes
    on; with any other (`hypermask.hidden_state`) it starts anew.

    tasks: how many tasks it can learn.  sources: the source files that define the method, for a record's digest.
    capturable: whether a step's Python does the same at every iteration, so that on a GPU it may run a few times and be
    repeated from a CUDA graph. Draws of `random` or numpy, counters and what depends on the iteration as a number are
    frozen there, so it is off unless a method says so.
    """

    tasks: int
    sources: ClassVar[tuple[str, ...]] = ()
    capturable: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        # Python would find what the class has, and never the module of that name.
        if isinstance(value, nn.Module | nn.Parameter) and hasattr(type(self), name):
            raise HyperMaskError(
                f"{type(self).__name__} has a {name} of its class, which hides the {type(value).__name__} of that "
                "name; give that another name."
            )
        super().__setattr__(name, value)

    def begin_task(self, task: int) -> None:
        """Called before the first iteration of a task (0-based)."""

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, task: int, iteration: int, iterations: int
    ) -> torch.Tensor:
        """The scalar to minimise for one batch: inputs [B, ...], labels [B] in 0..k-1; iteration counts from 1, and is
        a tensor where the step is captured."""
        raise NotImplementedError

    def backward(
        self,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        task: int,
        iteration: int,
        iterations: int,
        optimizer: torch.optim.Optimizer,
    ) -> torch.Tensor:
        """Put the gradient of the loss into the parameters and return the loss, detached.

        By autograd from `loss`; overridden where the gradient depends on the step that the optimizer would take.
        optimizer: may be read, not changed; gradients are cleared before the call and applied after it.
        """
        loss = self.loss(inputs, labels, task, iteration, iterations)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise HyperMaskError(f"loss of {type(self).__name__} gives {_described(loss)}; {_LOSS_EXPECTED}.")
        loss.backward()
        return loss.detach()

    def end_task(self, task: int) -> None:
        """Called after the last iteration of a task, with the chosen model in place."""

    def collect_statistics(self, task: int, inputs: Callable[[], torch.Tensor], labels: torch.Tensor) -> None:
        """Called after end_task for what a method keeps of a task's data; inputs() gives all its training inputs
        [N, ...], not augmented; labels [N] in 0..k-1."""

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """Class scores [B, k] of the network for a task."""
        raise NotImplementedError

    def features(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        """Input of the last linear layer [B, d] in the network for a task, where FeCAM asks."""
        raise HyperMaskError(
            f"{type(self).__name__} gives no features, which FeCAM compares; implement features(inputs, task) or "
            "use ent."
        )

    def task_network(self, task: int) -> Network:
        """The network for a task as it is now; overridden where making it once for many batches saves time."""
        return Network(partial(self.logits, task=task), partial(self.features, task=task))

    def procedures(self) -> dict[str, type]:
        """Its own ways to infer task and class (`hypermask.inference.Procedure`), by name; every run measures them."""
        return {}

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
        return {"name": type(self).__name__}

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
        # Compared by shape too: a smaller tensor could be broadcast into place.
        if {n: t.shape for n, t in own.items()} != {n: t.shape for n, t in weights.items()}:
            raise ValueError("weights of another network")
        for name, tensor in own.items():
            tensor.copy_(weights[name])

"""The hypernetwork's output layer in one pass per step; everything else by autograd.

The layer is linear, so with W = [weight | bias] [P, h+1], hidden vectors u_j with a 1 appended, W* and u*_j their
values at the start of the task, and t previous tasks, the change of all previous outputs is

    R = (W - W*) U + W* E,   U = [u_1 ... u_t],   E = [u_1 - u*_1 ...]                         [P, t]

and kappa |R|^2 = beta L_output has the gradient 2 kappa R U^T for W and 2 kappa W^T R for U. The current task adds g
u^T and W^T g, where g is the gradient of its loss for its output h = W u. Both together, and Adam's update, need one
pass over W, W* and Adam's two moments: no gradient of W and no stored output of a previous task is ever written (sec.
3, L_output).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch

from hypermask.config import TrainingConfig
from hypermask.methods.base import Method


class UnavailableError(Exception):
    """Why the fused engine cannot run: a clause without a full stop."""


@runtime_checkable
class OutputLayerMethod(Protocol):
    """What a method needs to be fused: a linear output layer whose outputs for previous tasks are held by a squared L2
    term."""

    def hidden(self, tasks: range) -> torch.Tensor:
        """Hidden vectors [len(tasks), h] before the output layer, with gradient."""

    def output_layer(self) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
        """Weight [P, h] and bias [P]."""

    def output_coefficient(self, task: int) -> float:
        """kappa, the factor of |R|^2 in the loss while `task` (0-based) trains; unused for task 0."""

    def task_loss(self, output, inputs, labels, task: int, iteration: int, iterations: int) -> torch.Tensor:
        """All other terms of the loss, given the current task's output [P]."""


class FusedEngine:
    """The same steps as `EagerEngine`, equal within rounding."""

    name = "fused"

    def __init__(self, method: Method, task: int, training: TrainingConfig, iterations: int, batches) -> None:
        if not isinstance(method, OutputLayerMethod):
            raise UnavailableError(f"{type(method).__name__} has no linear output layer to fuse")
        self._method, self._task, self._iterations, self._batches = method, task, iterations, batches
        weight, bias = method.output_layer()
        if weight.device.type != "cpu" or weight.dtype not in (torch.float32, torch.float64):
            raise UnavailableError(f"it has no kernel for {weight.dtype} weights on {weight.device.type}")
        from hypermask.engine.output_layer_cpu import OutputLayer

        self._tasks = range(task + 1)
        with torch.no_grad():
            start = method.hidden(self._tasks)
        self._layer = OutputLayer(weight, bias, start[:task], learning_rate=training.lr)
        self.kernel = self._layer.kernel
        layer_parameters = {id(weight), id(bias)}
        others = [p for p in method.parameters() if p.requires_grad and id(p) not in layer_parameters]
        self._optimizer = torch.optim.Adam(others, lr=training.lr, fused=True)
        self._kappa = method.output_coefficient(task) if task > 0 else 0.0

    def step(self, iteration: int) -> torch.Tensor:
        inputs, labels = self._batches(iteration)
        self._optimizer.zero_grad(set_to_none=True)
        hidden = self._method.hidden(self._tasks)
        output = self._layer.forward(hidden.detach()[self._task]).requires_grad_()
        loss = self._method.task_loss(output, inputs, labels, self._task, iteration + 1, self._iterations)
        loss.backward()
        squares, hidden_gradient = self._layer.update(output.grad, hidden.detach(), self._kappa)
        hidden.backward(hidden_gradient)
        self._optimizer.step()
        return loss.detach() + self._kappa * squares

    def set_learning_rate(self, rate: float) -> None:
        self._layer.learning_rate = rate
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def synchronise(self) -> None:
        self._layer.write_back()

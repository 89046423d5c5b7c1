"""The hypernetwork's output layer in one pass per step; everything else by autograd; on a GPU all of it in a CUDA
graph.

The layer is linear, so with W = [weight | bias] [P, h+1], hidden vectors u_j with a 1 appended, W* and u*_j their
values at the start of the task, and t previous tasks, the change of all previous outputs is

    R = (W - W*) U + W* E,   U = [u_1 ... u_t],   E = [u_1 - u*_1 ...]                         [P, t]

and kappa |R|^2 = beta L_output has the gradient 2 kappa R U^T for W and 2 kappa W^T R for U. The current task adds g
u^T and W^T g, where g is the gradient of its loss for its output W u. Both together, and Adam's update, need one pass
over W, W* and Adam's two moments: no gradient of W and no stored output of a previous task is ever written (sec. 3,
L_output).
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, runtime_checkable

import torch

from hypermask.config import TrainingConfig
from hypermask.engine import optimizers
from hypermask.engine.batches import Batches
from hypermask.engine.errors import NothingToFuseError, UnavailableError
from hypermask.engine.graph import CapturedStep
from hypermask.methods.base import Method


@runtime_checkable
class OutputLayerMethod(Protocol):
    """What a method needs to be fused: a linear output layer whose outputs for previous tasks a squared L2 term
    holds."""

    def outputs(self, tasks: range) -> torch.Tensor:
        """The output layer's outputs [len(tasks), P] for the hidden vectors of tasks."""

    def hidden(self, tasks: range) -> torch.Tensor:
        """Hidden vectors [len(tasks), h] before the output layer, with gradient."""

    def output_layer(self) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
        """Weight [P, h] and bias [P]."""

    def output_coefficient(self, task: int) -> float:
        """kappa, the factor of |R|^2 in the loss while `task` (0-based) trains; unused for task 0."""

    def task_loss(self, output, inputs, labels, task: int, iteration, iterations: int) -> torch.Tensor:
        """All other terms of the loss, given the current task's output [P]; the iteration may be a tensor."""


class FusedEngine:
    """The same steps as `EagerEngine`, equal within rounding.

    A method with a linear output layer (`OutputLayerMethod`) has it handled in one pass; on a GPU the step of a
    capturable method runs from a CUDA graph.
    """

    name = "fused"

    def __init__(self, method: Method, task: int, training: TrainingConfig, iterations: int, batches: Batches) -> None:
        device = next(method.parameters()).device
        captures = device.type == "cuda" and _capturable(method)
        if isinstance(method, OutputLayerMethod):
            _demand_known_parts(method, task)
            self._step: _OutputLayerStep | _AutogradStep = _OutputLayerStep(method, task, training, iterations)
        elif captures:
            self._step = _AutogradStep(method, task, training, iterations)
        else:
            raise NothingToFuseError(f"{type(method).__name__} has no linear output layer to fuse")
        self.kernel = self._step.kernel
        # No method of this object: a cycle would keep the task's memory until it is collected, long after the task.
        self._once = partial(_once, self._step, batches)
        self._captured = CapturedStep(self._once, device, [batches.augmentation]) if captures else None

    def step(self, iteration: int) -> torch.Tensor:
        return self._captured() if self._captured else self._once(iteration)

    def set_learning_rate(self, rate: float) -> None:
        self._step.set_learning_rate(rate)

    def synchronise(self) -> None:
        self._step.synchronise()


def _once(step: _OutputLayerStep | _AutogradStep, batches: Batches, iteration: int | torch.Tensor) -> torch.Tensor:
    return step(*batches.at(iteration), iteration)


class _AutogradStep:
    """Loss, backward and the optimizer's step, with all that changes on the device."""

    kernel = None

    def __init__(self, method: Method, task: int, training: TrainingConfig, iterations: int) -> None:
        self._method, self._task, self._iterations = method, task, iterations
        self._optimizer = optimizers.make(training, [p for p in method.parameters() if p.requires_grad], on_device=True)

    def __call__(self, inputs: torch.Tensor, labels: torch.Tensor, iteration: int | torch.Tensor) -> torch.Tensor:
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._method.backward(inputs, labels, self._task, iteration + 1, self._iterations, self._optimizer)
        self._optimizer.step()
        return loss

    def set_learning_rate(self, rate: float) -> None:
        optimizers.set_rate(self._optimizer, rate)

    def synchronise(self) -> None:
        """Nothing to do: the parameters are always current."""


class _OutputLayerStep:
    """The output layer by the formulas above, the rest by autograd."""

    def __init__(self, method: OutputLayerMethod, task: int, training: TrainingConfig, iterations: int) -> None:
        if training.optimizer != "adam":
            raise UnavailableError(f"its kernel takes steps of Adam, not of {training.optimizer}")
        self._method, self._task, self._iterations = method, task, iterations
        self._tasks = range(task + 1)
        self._kappa = method.output_coefficient(task) if task > 0 else 0.0
        weight, bias = method.output_layer()
        with torch.no_grad():
            start = method.hidden(self._tasks)[:task]
        self._layer = _kind_of_layer(weight)(weight, bias, start, learning_rate=training.lr)
        self.kernel = self._layer.kernel
        layer = {id(weight), id(bias)}
        others = [p for p in method.parameters() if p.requires_grad and id(p) not in layer]
        self._optimizer = optimizers.make(training, others, on_device=True)

    def __call__(self, inputs: torch.Tensor, labels: torch.Tensor, iteration: int | torch.Tensor) -> torch.Tensor:
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
        optimizers.set_rate(self._optimizer, rate)

    def synchronise(self) -> None:
        self._layer.write_back()


def _place(method: Method, name: str) -> int:
    """How far up in its classes a method has the attribute: 0 in its own class, more in those it builds on."""
    classes = type(method).__mro__
    return next((number for number, kind in enumerate(classes) if name in vars(kind)), len(classes))


@torch.no_grad()
def _demand_known_parts(method: OutputLayerMethod, task: int) -> None:
    """Refuse a method that changes what `_OutputLayerStep` replaces by parts of it: its change would have no effect."""
    weight, bias = method.output_layer()
    outputs = method.outputs([task])[0]
    found = torch.addmv(bias, weight, method.hidden([task])[0])
    if not torch.allclose(found, outputs, rtol=0.0, atol=1e-3 * outputs.abs().max().item(), equal_nan=True):
        raise UnavailableError(f"{type(method).__name__}'s outputs are not its output layer applied to its hidden")
    # The class that gives the coefficient speaks for all that is regularised; what builds on it may not.
    speaker = _place(method, "output_coefficient")
    for whole, part in (("loss", "task_loss"), ("backward", "task_loss"), ("outputs", "hidden")):
        if _place(method, whole) < max(_place(method, part), speaker):
            raise UnavailableError(f"{type(method).__name__} changes {whole}, in whose place it calls {part}")


def _capturable(method: Method) -> bool:
    """Whether the method says so, itself or its own class: a subclass may do something else in a step, and has to say
    it again."""
    return method.capturable and any("capturable" in vars(place) for place in (method, type(method)))


def _kind_of_layer(weight: torch.Tensor) -> type:
    """The output layer's implementation for the device and precision of its weights."""
    if weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64):
        from hypermask.engine.output_layer_cpu import OutputLayer

        return OutputLayer
    if weight.device.type == "cuda" and weight.dtype == torch.float32:
        try:
            from hypermask.engine.output_layer_cuda import OutputLayer
        except ImportError:
            raise UnavailableError("Triton is not installed") from None
        return OutputLayer
    raise UnavailableError(f"it has no kernel for {weight.dtype} weights on {weight.device.type}")

"""What a run needs of a benchmark and a method, asked before it trains: an error at its end would cost the training."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import torch
from torch import nn

from hypermask.benchmarks.base import Benchmark, Split
from hypermask.errors import HyperMaskError
from hypermask.files import canonical_json
from hypermask.hidden_state import tensor_digest
from hypermask.methods.base import Method

# Modules that a run has trained: another run on them would go on from where that one ended.
_TRAINED: weakref.WeakSet[nn.Module] = weakref.WeakSet()
# Modules that runs only use, as those of a frozen extractor, and a digest of their buffers when the first one began.
_USED: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


def check(method: Method, benchmark: Benchmark) -> None:
    """Refuse a benchmark or a method that no record could be written of, or whose tasks do not fit."""
    kind = type(benchmark).__name__
    lacking = [name for name in Benchmark.__annotations__ if not hasattr(benchmark, name)]
    if lacking:
        raise HyperMaskError(
            f"{kind} has no {' and no '.join(lacking)}; give it what hypermask.benchmarks.Benchmark has."
        )
    if not isinstance(benchmark.device, torch.device):
        raise HyperMaskError(f"device of {kind} is {benchmark.device!r}; expected a torch.device.")
    for name in ("tasks", "classes_per_task"):
        # numpy's whole numbers could not be written to a record.
        if type(value := getattr(benchmark, name)) is not int or value < 1:
            raise HyperMaskError(f"{name} of {kind} is {value!r}; expected an int of at least 1.")
    for name in ("image_shape", "input_shape"):
        value = getattr(benchmark, name)
        if not isinstance(value, tuple | list | torch.Size) or not all(type(size) is int for size in value):
            raise HyperMaskError(f"{name} of {kind} is {value!r}; expected a tuple of ints, such as (784,).")
    _check_kind(method)
    _demand_json(benchmark.checksums, f"checksums of {kind}")
    _demand_json(benchmark.describe(), f"what describe() of {kind} returns")
    _demand_json(method.describe(), f"what describe() of {type(method).__name__} returns")
    if method.tasks != benchmark.tasks:
        raise HyperMaskError(
            f"the method has {method.tasks} tasks and {benchmark.name} has {benchmark.tasks}; make them equal."
        )
    for index in range(benchmark.tasks):
        task = benchmark.task(index)
        if task.index != index:
            raise HyperMaskError(
                f"task({index}) of {benchmark.name} is a task of index {task.index}; give it the index {index}, by "
                "which its network and its images are found."
            )
        for part in ("train", "validation", "test"):
            words = f"{part} images of task {index + 1} of {benchmark.name}"
            _check_split(getattr(task, part), words, len(task.classes), benchmark.device)


def _check_kind(method: Method) -> None:
    """Refuse what is no method, or lacks what every method has."""
    if not isinstance(method, Method):
        given = method.__name__ if isinstance(method, type) else f"a {type(method).__name__}"
        raise HyperMaskError(
            f"the method is {given}; expected an object of a subclass of hypermask.Method, or a network under "
            "HyperMask: HyperMask(network, tasks=...)."
        )
    kind = type(method).__name__
    lazy = [name for name, parameter in method.named_parameters() if nn.parameter.is_lazy(parameter)]
    if lazy:
        raise HyperMaskError(f"{lazy[0]} of {kind} has no shape yet; give the method one batch before its run.")
    if type(method).logits is Method.logits:
        raise HyperMaskError(f"{kind} has no logits(inputs, task), the class scores of a task's network; add it.")
    tasks = getattr(method, "tasks", None)
    if not isinstance(tasks, Integral):
        raise HyperMaskError(f"tasks of {kind} is {tasks!r}; expected a whole number, how many it learns.")


def claim(method: Method) -> None:
    """Refuse a method that has been trained, or has a part that has or whose buffers have changed since another run
    began with it, and note that this one's parts now are."""
    own = [module for module in method.modules() if any(p.requires_grad for p in module.parameters(recurse=False))]
    for module in (method, *own):
        if module in _TRAINED:
            raise HyperMaskError(
                f"this {type(module).__name__} has been in a run before, and may go on from that one's weights; make a "
                "new method, with new networks, for each run."
            )
    trained = {method, *own}
    for module in (part for part in method.modules() if part not in trained):
        buffers = str([tensor_digest(buffer) for buffer in module.buffers(recurse=False)])
        if _USED.setdefault(module, buffers) != buffers:
            raise HyperMaskError(
                f"a {type(module).__name__} of this {type(method).__name__} was part of another run, which changed "
                "its buffers, such as running statistics; make it anew for each run, or hold them fixed."
            )
    _TRAINED.update(trained)


def check_untrained(method: Method) -> None:
    """Refuse a method that would train and has nothing that a run could: its networks are kept where torch does not
    find them."""
    if _has_loss(type(method)) and next(method.parameters(), None) is None:
        raise HyperMaskError(
            f"{type(method).__name__} has a loss and no parameters that it could train; keep networks as attributes or "
            "in a torch.nn.ModuleList, not in a Python list or dict."
        )


def _has_loss(kind: type[Method]) -> bool:
    return kind.loss is not Method.loss or kind.backward is not Method.backward


@torch.no_grad()
def try_out(method: Method, benchmark: Benchmark, task: int, features: bool = False) -> None:
    """Give the network of a task that is about to train two of its images, and refuse one that cannot tell its classes
    apart, or has no features where they will be asked for. The method is left in training mode."""
    kind = type(method)
    if not _has_loss(kind):
        raise HyperMaskError(
            f"{kind.__name__} has no loss(inputs, labels, task, iteration, iterations) to minimise; add it, or let no "
            "parameter require a gradient."
        )
    method.eval()
    inputs = benchmark.prepare(benchmark.task(task).train.images[:2], task)
    if inputs.shape[1:] != tuple(benchmark.input_shape):
        raise HyperMaskError(
            f"{benchmark.name} prepares inputs of shape {list(inputs.shape[1:])} and says that they have "
            f"{list(benchmark.input_shape)} (input_shape); make them equal."
        )
    with _types_told(method, inputs):
        scores = [(task, method.logits(inputs, task))]
    shared = method.unmasked_logits(inputs)
    if shared is not None:
        # One output layer for all tasks.
        scores += [(index, shared) for index in range(benchmark.tasks)]
    for index, logits in scores:
        classes = len(benchmark.task(index).classes)
        shape = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or shape[0] != len(inputs) or shape[1] < classes:
            raise HyperMaskError(
                f"for {len(inputs)} images of task {index + 1} of {benchmark.name}, which has {classes} classes, the "
                f"network gives {shape}; expected scores of shape [{len(inputs)}, {classes}]."
            )
    if features:
        method.features(inputs, task)
    method.train()


@contextmanager
def _types_told(method: Method, inputs: torch.Tensor) -> Iterator[None]:
    """An error of torch inside says of which types the inputs and the weights are, if they are not alike."""
    try:
        yield
    except RuntimeError as error:
        others = {str(parameter.dtype) for parameter in method.parameters() if parameter.dtype != inputs.dtype}
        words = str(error).partition("\n")[0]
        if not others or "dtype" not in words:
            raise
        raise HyperMaskError(
            f"a network with weights of {' and '.join(sorted(others))} cannot take the inputs, which are "
            f"{inputs.dtype} ({words}); make them alike."
        ) from None


def _check_split(split: Split, words: str, classes: int, device: torch.device) -> None:
    _demand_tensor(split.images, torch.uint8, 4, device, f"the {words}")
    _demand_tensor(split.labels, torch.int64, 1, device, f"the labels of the {words}")
    if len(split.images) != len(split.labels) or not len(split.labels):
        raise HyperMaskError(
            f"there are {len(split.images)} {words} and {len(split.labels)} labels; expected as many, at least one."
        )
    low, high = split.labels.min().item(), split.labels.max().item()
    if low < 0 or high >= classes:
        raise HyperMaskError(
            f"labels of the {words} go from {low} to {high}; expected 0 to {classes - 1}, counted within the task."
        )


def _demand_tensor(value: Any, dtype: torch.dtype, dimensions: int, device: torch.device, words: str) -> None:
    if not isinstance(value, torch.Tensor):
        found = type(value).__name__
    elif (value.dtype, value.ndim, value.device.type) != (dtype, dimensions, device.type):
        found = f"{value.dtype} of {value.ndim} dimensions on {value.device.type}"
    else:
        return
    raise HyperMaskError(f"{words} are {found}; expected {dtype} of {dimensions} dimensions on {device.type}.")


def _demand_json(value: Any, words: str) -> None:
    try:
        canonical_json(value)
    except (TypeError, ValueError) as error:
        raise HyperMaskError(f"{words} cannot be written as JSON ({error}); use plain values.") from None
    if not isinstance(value, dict):
        raise HyperMaskError(f"{words} is {value!r}; expected a dictionary.")

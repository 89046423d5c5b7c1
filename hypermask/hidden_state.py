"""What a method knows besides its weights: with it, a checkpoint of weights does not tell the whole run."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import deque
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn

from hypermask import own_code
from hypermask.files import canonical_json, sha256
from hypermask.methods.base import Method

# What torch keeps in every module: its tensors and parts, which are looked at apart, hooks, and the mode, which each
# task sets.
_OF_TORCH = frozenset(vars(nn.Module()))
# Class attributes that a method may write to without making one of its own.
_CONTAINERS = (list, dict, set, deque, bytearray, torch.Tensor)
UNTOLD = "untold"


def digests(method: Method) -> dict[str, str]:
    """Name -> digest of what a method and its parts hold outside parameters and buffers.

    Those are the attributes of modules and parameters, and the containers among those of one's own classes; of a method
    of one's own also which parameters train, and the names and shapes of its weights. `UNTOLD` is the digest of what
    cannot be told, as an open file; in a library's module that is left out. Empty where all is of this package and the
    libraries: its methods' checkpoints are tested to hold everything.
    """
    parts = [*method.named_modules(), *method.named_parameters(), *method.named_buffers()]
    known = {id(part): name for name, part in parts}
    kinds = {kind for module in method.modules() for kind in type(module).__mro__ if own_code.is_own(kind)}
    if not kinds:
        return {}
    found = {
        f"{kind.__name__}.{name}": _digest(value, known)
        for kind in kinds
        for name, value in vars(kind).items()
        if isinstance(value, _CONTAINERS) and not name.startswith("__")
    }
    for path, part in (*method.named_modules(), *method.named_parameters()):
        own = own_code.is_own(type(part))
        # A method of this package sets its attributes anew for every task.
        values = {} if isinstance(part, Method) and not own else held(part)
        told = {f"{path}.{name}".lstrip("."): _digest(value, known) for name, value in values.items()}
        found |= {name: digest for name, digest in told.items() if own or digest != UNTOLD}
    if own_code.is_own(type(method)):
        trained = [name for name, parameter in method.named_parameters() if parameter.requires_grad]
        shapes = {name: list(tensor.shape) for name, tensor in method.weights().items()}
        found["which parameters train"] = sha256(canonical_json(trained))
        found["shapes of its weights"] = sha256(canonical_json(shapes))
    return found


def held(part: nn.Module | nn.Parameter) -> dict[str, Any]:
    """The attributes of a module or parameter that are not torch's own, nor notes of its compiler, nor weights that it
    makes anew from others before each use, as where layers are pruned or weights normalised."""
    parameters = getattr(part, "_parameters", {})
    return {
        name: value
        for name, value in vars(part).items()
        if name not in _OF_TORCH and "dynamo" not in name and not {f"{name}_orig", f"{name}_v"} & parameters.keys()
    }


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """The names of what is not as it was, or cannot be told."""
    return [name for name in before | now if now.get(name) in (None, UNTOLD) or before.get(name) != now[name]]


def tensor_digest(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's type, shape and values."""
    told = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode())
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    # The array itself: a copy of its bytes would be as large as the weights.
    told.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return told.hexdigest()


def _digest(value: Any, known: dict[int, str]) -> str:
    told = io.BytesIO()
    try:
        _Teller(told, known).dump(value)
    # Any object may have its own way to refuse.
    except Exception:
        return UNTOLD
    return sha256(told.getvalue())


class _Teller(pickle.Pickler):
    """Writes down a value: parts of the method, functions and classes by their names, other tensors by digest."""

    def __init__(self, file: io.BytesIO, known: dict[int, str]) -> None:
        super().__init__(file)
        self._known = known

    def persistent_id(self, value: Any) -> tuple[str, ...] | None:
        if isinstance(value, torch.Tensor | nn.Module) and id(value) in self._known:
            return ("part", self._known[id(value)])
        if isinstance(value, torch.Tensor):
            return ("tensor", tensor_digest(value))
        if isinstance(value, set | frozenset):
            # The order of a set is another one in every process.
            return ("set", *sorted(_digest(member, self._known) for member in value))
        if isinstance(value, FunctionType | BuiltinFunctionType | type):
            return ("code", f"{value.__module__}.{value.__qualname__}")
        return None

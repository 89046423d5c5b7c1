"""What tells one's own code apart in a configuration: its source, what it does where none is kept, and its values."""

from __future__ import annotations

import inspect
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from hypermask.files import canonical_json

# Whose classes a record's versions tell.
LIBRARIES = {*sys.stdlib_module_names, "hypermask", "hypnettorch", "torch", "torchvision"}


def sources(parts: Iterable[type | FunctionType]) -> dict[str, str]:
    """Name -> source of the classes and functions which no library brings: those given, those that the classes extend,
    and the ones that they name. What their modules' other names hold is no part of it."""
    return _Telling().sources(parts)


def told(value: Any) -> Any:
    """What a value is, JSON-plain: plain values and containers of them; objects of one's own classes by what they hold;
    functions by what they do and with which values; modules by their class; None of what has no short description, as
    tensors."""
    return _Telling().value(value)


def is_own(part: type | FunctionType) -> bool:
    """Whether no library brings the class or function."""
    return (part.__module__ or "").partition(".")[0] not in LIBRARIES


class _Telling:
    """One description. What it meets again it names by a number: shared parts are told once, and circles end."""

    def __init__(self) -> None:
        # The value too, so that no other one takes its place in memory meanwhile.
        self._met: dict[tuple[int, str], tuple[int, Any]] = {}

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, str | bytes | int | float | complex | torch.dtype):
            return repr(value)
        if isinstance(value, np.generic):
            return repr(value.item())
        if isinstance(value, Enum):
            return f"{_name(type(value))}.{value.name}"
        if isinstance(value, set | frozenset):
            # Their order is another one in every process.
            return sorted(str(told(part)) for part in value)
        if self._meets_again(value, "value"):
            return ["again", self._met[id(value), "value"][0]]
        if isinstance(value, list | tuple):
            return [self.value(part) for part in value]
        if isinstance(value, dict):
            in_order = sorted(((str(told(key)), part) for key, part in value.items()), key=itemgetter(0))
            return [[key, self.value(part)] for key, part in in_order]
        if isinstance(value, partial):
            return [self.value(part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, FunctionType):
            given = [value.__defaults__, value.__kwdefaults__, _closed_over(value)]
            return [_name(value), self.sources([value]), self.value(given)]
        if isinstance(value, MethodType):
            return [self.value(value.__func__), self.value(value.__self__)]
        if isinstance(value, type):
            return [_name(value), self.sources([value])]
        if isinstance(value, nn.Module):
            return self.value(type(value))
        if isinstance(value, SimpleNamespace | Namespace) or not _installed(type(value)):
            return [self.value(type(value)), self.value(getattr(value, "__dict__", None))]
        if isinstance(wrapped := getattr(value, "__wrapped__", None), FunctionType):
            return self.value(wrapped)
        return _name(value) if callable(value) else None

    def sources(self, parts: Iterable[type | FunctionType]) -> dict[str, str]:
        found: dict[str, str] = {}
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            if isinstance(part, type):
                waiting += part.__mro__[1:]
            if is_own(part) and not self._meets_again(part, "source"):
                # Lambdas have one name for all.
                found[_name(part)] = found.get(_name(part), "") + _source(part)
                waiting += _named_by(part)
        return found

    def _meets_again(self, value: Any, what: str) -> bool:
        met = (id(value), what) in self._met
        self._met.setdefault((id(value), what), (len(self._met), value))
        return met


def _name(part: Any) -> str:
    """Module and name of a class or function, or of an object that is called as one."""
    named = getattr(part, "__qualname__", None) or getattr(part, "__name__", None) or type(part).__qualname__
    return f"{getattr(part, '__module__', None)}.{named}"


def _closed_over(function: FunctionType) -> dict[str, Any]:
    """The values of the names that a function takes from the one it was made in."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # A cell is empty until its name has a value.
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _named_by(part: type | FunctionType) -> Iterator[type | FunctionType]:
    """The classes and functions that a class's or function's code names, but for those of installed packages."""
    members = vars(part).values() if isinstance(part, type) else [part]
    for function in _functions(members):
        for name in _names(function.__code__):
            named = function.__globals__.get(name)
            named = inspect.unwrap(named) if callable(named) else None
            if isinstance(named, type | FunctionType) and not _installed(named):
                yield named


def _installed(part: type | FunctionType) -> bool:
    """Whether it comes with a package that was installed: its own calls would lead through all of that."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None) or ""
    return not is_own(part) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _functions(members: Iterable[Any]) -> Iterator[FunctionType]:
    for member in members:
        parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
        for part in parts:
            function = inspect.unwrap(getattr(part, "__func__", part))
            if isinstance(function, FunctionType):
                yield function


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _source(part: type | FunctionType) -> str:
    """Its source; of a class that has no file, such as those typed into a notebook, its functions' and values."""
    if isinstance(part, FunctionType) and part.__name__ == "<lambda>":
        # The lines it stands in hold more than the function.
        return str(_instructions(part.__code__))
    try:
        return inspect.getsource(part)
    except (OSError, TypeError):
        if isinstance(part, FunctionType):
            return str(_instructions(part.__code__))
        members = {name: _member(name, value) for name, value in vars(part).items()}
        return "\n".join(f"{name} = {text}" for name, text in members.items() if text)


def _member(name: str, value: Any) -> str:
    """What a member of a class does: its functions' source, or their code where none is kept; a plain value itself."""
    functions = list(_functions([value]))
    if functions:
        return "".join(map(_source, functions))
    if name.startswith("__"):
        # Python keeps notes of its own under names of this kind, some of them only after a while.
        return ""
    try:
        return canonical_json(value).decode()
    except (TypeError, ValueError):
        return ""


def _instructions(code: CodeType) -> list[Any]:
    """What compiled code does, without where it stands: the same in every process of one version of Python."""
    constants = [
        _instructions(constant)
        if isinstance(constant, CodeType)
        # A set's order is another one in every process.
        else sorted(map(repr, constant))
        if isinstance(constant, frozenset)
        else repr(constant)
        for constant in code.co_consts
    ]
    return [code.co_code.hex(), code.co_names, constants]

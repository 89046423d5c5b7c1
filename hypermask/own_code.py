"""What tells one's own classes apart in a configuration: their source, and what they do where none is kept."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from types import CodeType
from typing import Any

from hypermask.files import canonical_json

# Whose classes a record's versions tell.
LIBRARIES = {*sys.stdlib_module_names, "hypermask", "hypnettorch", "torch", "torchvision"}


def sources(classes: Iterable[type]) -> dict[str, str]:
    """Name -> source of the classes, and of those that they extend, which no library brings; empty where none is
    kept."""
    kinds = {kind for each in classes for kind in each.__mro__}
    return {f"{kind.__module__}.{kind.__qualname__}": _source(kind) for kind in filter(is_own, kinds)}


def is_own(kind: type) -> bool:
    """Whether no library brings the class."""
    return kind.__module__.partition(".")[0] not in LIBRARIES


def _source(kind: type) -> str:
    """A class's source; of one that has no file, such as those typed into a notebook, its functions' and values."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        members = {name: _member(name, value) for name, value in vars(kind).items()}
        return "\n".join(f"{name} = {text}" for name, text in members.items() if text)


def _member(name: str, value: Any) -> str:
    """What a member of a class does: a function's source, or its code where none is kept; a plain value itself."""
    if isinstance(value, property):
        return "".join(_member(name, part) for part in (value.fget, value.fset, value.fdel))
    function = inspect.unwrap(getattr(value, "__func__", value))
    if inspect.isfunction(function):
        try:
            return inspect.getsource(function)
        except (OSError, TypeError):
            return str(_instructions(function.__code__))
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

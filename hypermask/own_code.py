"""What tells one's own code apart in a configuration: its source, what it does where none is kept, and its values."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from hypermask.files import canonical_json

# Whose classes a record's versions tell.
LIBRARIES = {*sys.stdlib_module_names, "hypermask", "hypnettorch", "torch", "torchvision"}


def sources(parts: Iterable[type | FunctionType]) -> dict[str, str]:
    """Name -> source of the classes and functions which no library brings: those given, those that the classes extend,
    and the ones of their modules that they name. What a module's other names hold is no part of it."""
    found: dict[str, str] = {}
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        name = _name(part)
        if isinstance(part, type):
            waiting += part.__mro__[1:]
        if is_own(part) and name not in found:
            found[name] = _source(part)
            waiting += _named_by(part)
    return found


def is_own(part: type | FunctionType) -> bool:
    """Whether no library brings the class or function."""
    return (part.__module__ or "").partition(".")[0] not in LIBRARIES


def told(value: Any) -> Any:
    """What a value is, JSON-plain: of plain values and containers of them what they hold, of functions and callable
    objects what they do and with which values; None of what has no short description, as tensors."""
    return _told(value, ())


def _told(value: Any, within: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if id(value) in within:
        return None
    within = (*within, id(value))
    if isinstance(value, list | tuple):
        return [_told(part, within) for part in value]
    if isinstance(value, dict):
        return [[repr(key), _told(part, within)] for key, part in value.items()]
    if isinstance(value, partial):
        return [_told(part, within) for part in (value.func, value.args, value.keywords)]
    if isinstance(value, FunctionType):
        given = [value.__defaults__, value.__kwdefaults__, _closed_over(value)]
        return [_name(value), sources([value]), _told(given, within)]
    if isinstance(value, MethodType):
        return [_told(value.__func__, within), _told(value.__self__, within)]
    if isinstance(value, BuiltinFunctionType | type):
        return _name(value)
    if callable(value):
        return [_name(type(value)), sources([type(value)]), _told(getattr(value, "__dict__", None), within)]
    return None


def _name(part: type | FunctionType | BuiltinFunctionType) -> str:
    return f"{part.__module__}.{part.__qualname__}"


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
    members = [part] if isinstance(part, FunctionType) else list(_functions(vars(part).values()))
    for function in members:
        for name in _names(function.__code__):
            named = function.__globals__.get(name)
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

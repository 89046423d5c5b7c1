"""What a run is made of: frozen, JSON-plain dataclasses, and the hash that names a configuration.

A configuration has three parts: the benchmark, the method, the training. Its hash is the SHA-256 of the canonical JSON
of all resolved values, so changing any value makes another configuration, and a committed record belongs to exactly
one.

A field added after the first records were committed must not orphan them: declare it with
`field(default=..., metadata={"before": value})`, where `value` means the behaviour before the field existed. At that
value the field is left out of the JSON and so out of the hash.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hypermask.errors import HyperMaskError


@dataclass(frozen=True)
class BenchmarkConfig:
    """A sequence of tasks.

    name: `permuted_mnist`, `split_mnist`, `split_digits`.  tasks: how many.  validation: training images of a task set
    aside for validation.  augment: random crops, where the benchmark has them.
    """

    name: str
    tasks: int
    validation: int
    augment: bool = False

    def __post_init__(self) -> None:
        _check(self, "tasks", self.tasks >= 1, "at least 1")
        _check(self, "validation", self.validation >= 1, "at least 1 image")


@dataclass(frozen=True)
class HyperMaskConfig:
    """HyperMask (sec. 3): hyperparameters of the method and of both networks.

    trainable_target: theta_train; False is the paper's F variant.  beta, lam: weights of L_output and L_target.  p:
    sparsity, percent of each masked tensor set to zero.  l1: L_target `masked` by the current task's mask or `plain`.
    output_regularizer: `paper` weighs the sum over previous tasks by beta/(t-1), `released-code` by beta/(t-1)^2.
    """

    target: str
    target_hidden: tuple[int, ...]
    target_activation: str
    trainable_target: bool
    embedding_size: int
    hypernetwork_hidden: tuple[int, ...]
    beta: float
    lam: float
    p: float
    l1: str = "masked"
    output_regularizer: str = "paper"
    name: str = "hypermask"

    def __post_init__(self) -> None:
        _check(self, "embedding_size", self.embedding_size >= 1, "at least 1")
        _check(
            self,
            "hypernetwork_hidden",
            all(n >= 1 for n in self.hypernetwork_hidden),
            "positive layer widths",
        )
        _check(self, "target_hidden", all(n >= 1 for n in self.target_hidden), "positive layer widths")
        _check(self, "target_activation", self.target_activation in ("relu", "elu"), "relu or elu")
        _check(self, "beta", self.beta >= 0, "at least 0")
        _check(self, "lam", self.lam >= 0, "at least 0")
        _check(self, "p", 0 <= self.p < 100, "a percentage from 0 to below 100")
        _check(self, "l1", self.l1 in ("masked", "plain"), "masked or plain")
        _check(
            self,
            "output_regularizer",
            self.output_regularizer in ("paper", "released-code"),
            "paper or released-code",
        )


@dataclass(frozen=True)
class TrainingConfig:
    """How one task is trained: Adam made anew for every task, on batches of a fixed size.

    Either `iterations` (updates per task) or `epochs` (passes over the task's training images) is given.  scheduler:
    `none`, or `plateau`, which multiplies the rate by `lr_factor` once `lr_patience` epochs have passed without a lower
    validation loss and another one brings none either, down to `lr_floor`.  model_choice: the `last` model, or the one
    with the `lowest-validation-loss` among those at the ends of epochs.
    """

    batch_size: int = 128
    lr: float = 1e-3
    iterations: int | None = None
    epochs: int | None = None
    scheduler: str = "none"
    lr_factor: float = 0.5
    lr_patience: int = 5
    lr_floor: float = 1e-6
    model_choice: str = "last"

    def __post_init__(self) -> None:
        given = [n for n in (self.iterations, self.epochs) if n is not None]
        if len(given) != 1:
            raise HyperMaskError(
                f"training has iterations={self.iterations} and epochs={self.epochs}; give exactly one of them."
            )
        _check(self, "iterations" if self.epochs is None else "epochs", given[0] >= 1, "at least 1")
        _check(self, "batch_size", self.batch_size >= 1, "at least 1")
        _check(self, "lr", self.lr > 0, "a positive learning rate")
        _check(self, "scheduler", self.scheduler in ("none", "plateau"), "none or plateau")
        _check(self, "lr_factor", 0 < self.lr_factor < 1, "between 0 and 1")
        _check(self, "lr_patience", self.lr_patience >= 0, "at least 0 epochs")
        _check(self, "lr_floor", self.lr_floor >= 0, "at least 0")
        _check(
            self,
            "model_choice",
            self.model_choice in ("last", "lowest-validation-loss"),
            "last or lowest-validation-loss",
        )


METHODS: dict[str, type] = {"hypermask": HyperMaskConfig}


@dataclass(frozen=True)
class Config:
    """One run's resolved configuration, without its seed."""

    benchmark: BenchmarkConfig
    method: HyperMaskConfig
    training: TrainingConfig

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Nested, JSON-plain dictionary; `from_dict` reads it back."""
        return {part.name: section_to_dict(getattr(self, part.name)) for part in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, dict[str, Any]]) -> Config:
        """Read `to_dict` back; unknown keys or sections are refused."""
        wanted = [part.name for part in dataclasses.fields(cls)]
        if sorted(values) != sorted(wanted):
            raise HyperMaskError(
                f"a configuration has the sections {', '.join(wanted)}; found {', '.join(sorted(values))}."
            )
        method = values["method"].get("name")
        if method not in METHODS:
            raise HyperMaskError(f"unknown method {method!r} in a configuration; known are {', '.join(METHODS)}.")
        return cls(
            benchmark=section_from_dict(BenchmarkConfig, values["benchmark"]),
            method=section_from_dict(METHODS[method], values["method"]),
            training=section_from_dict(TrainingConfig, values["training"]),
        )

    @cached_property
    def hash(self) -> str:
        """SHA-256 (64 hex digits) of the canonical JSON of all values."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def override(self, assignments: Iterable[str]) -> Config:
        """The configuration with `key=value` assignments applied; an error names close keys."""
        homes = {
            f.name: part.name
            for part in dataclasses.fields(self)
            for f in dataclasses.fields(getattr(self, part.name))
            if f.name != "name"
        }
        changes: dict[str, dict[str, Any]] = {part.name: {} for part in dataclasses.fields(self)}
        for assignment in assignments:
            key, separator, text = assignment.partition("=")
            if not separator:
                raise HyperMaskError(f"{assignment!r} is not an assignment; write key=value, for example beta=0.01.")
            if key not in homes:
                close = difflib.get_close_matches(key, homes, n=3) or sorted(homes)
                raise HyperMaskError(f"unknown key {key!r} in {assignment!r}; did you mean {', '.join(close)}?")
            changes[homes[key]][key] = _parse(type(getattr(self, homes[key])), key, text)
        # Lengths exclude each other: setting one clears the other, so that `--set epochs=1` works on any experiment.
        lengths = changes["training"].keys() & {"iterations", "epochs"}
        if len(lengths) == 1:
            changes["training"].setdefault(({"iterations", "epochs"} - lengths).pop(), None)
        return Config(**{part: dataclasses.replace(getattr(self, part), **new) for part, new in changes.items()})


def section_to_dict(section: Any) -> dict[str, Any]:
    """One part of a configuration as a JSON-plain dictionary, without fields at their `before` value."""
    values = {}
    for f in dataclasses.fields(section):
        value = getattr(section, f.name)
        if "before" in f.metadata and value == f.metadata["before"]:
            continue
        values[f.name] = list(value) if isinstance(value, tuple) else value
    return values


def section_from_dict(section: type, values: dict[str, Any]) -> Any:
    """One part of a configuration from `section_to_dict`; unknown or missing keys are refused."""
    hints = typing.get_type_hints(section)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise HyperMaskError(f"unknown configuration key {unknown[0]!r}; known are {', '.join(hints)}.")
    missing = [f.name for f in dataclasses.fields(section) if f.default is dataclasses.MISSING and f.name not in values]
    if missing:
        raise HyperMaskError(f"the configuration lacks {', '.join(missing)}; give a value for each.")
    return section(**{key: _coerce(hints[key], key, value) for key, value in values.items()})


def _coerce(hint: Any, key: str, value: Any) -> Any:
    """`value` as the field's type, so that 1 and 1.0 of a float field are one configuration."""
    options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = next(option for option in options if option is not type(None))
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if typing.get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_coerce(int, key, item) for item in value)
    raise HyperMaskError(f"{key} is {value!r}; expected {_describe(hint)}.")


def _parse(section: type, key: str, text: str) -> Any:
    """The text of an assignment as the field's type; layer widths are written 100,100 (or [100, 100])."""
    hint = typing.get_type_hints(section)[key]
    if hint is str:
        return text
    source = f"[{text}]" if typing.get_origin(hint) is tuple and not text.startswith("[") else text
    try:
        value = json.loads(source)
    except json.JSONDecodeError:
        raise HyperMaskError(f"{key}={text} cannot be read; expected {_describe(hint)}.") from None
    return _coerce(hint, key, value)


def _describe(hint: Any) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        int | None: "a whole number",
    }
    return names.get(hint, "whole numbers separated by commas")


def _check(section: Any, key: str, holds: bool, expected: str) -> None:
    if not holds:
        raise HyperMaskError(f"{key} is {getattr(section, key)!r}; expected {expected}.")

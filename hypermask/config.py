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
import math
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hypermask.errors import HyperMaskError

STEMS = ("conv3", "conv3-pool", "conv7-pool")
STATISTICS = ("default", "imagenet", "cifar100")
PIXELS = ("padded", "standardised")
CLASSIFIERS = ("ncm", "fetril", "fecam")


@dataclass(frozen=True)
class BenchmarkConfig:
    """A sequence of tasks.

    name: `permuted_mnist`, `split_mnist`, `split_cifar100`, `split_cifar100_5x20`, `tiny_imagenet`; toys:
    `split_digits`, `made_shapes`.  tasks: how many.  validation: training images of a task set aside for validation.
    augment: whether training images are augmented, where the benchmark does.  normalise: False leaves pixels in [0, 1]
    where the benchmark leaves the choice.  first_task_permuted: False leaves the first task of permuted MNIST as it is.
    statistics: whose means and deviations of the colour channels normalise images, `imagenet` or `cifar100`; `default`,
    the benchmark's own.  stratified: False sets aside a task's first images whatever their classes, where the benchmark
    leaves the choice.  pixels: of permuted MNIST, `padded` to 32x32 in [0, 1], or `standardised`, 28x28 with mean 0 and
    deviation 1.
    """

    name: str
    tasks: int
    validation: int
    augment: bool = False
    normalise: bool = field(default=True, metadata={"before": True})
    first_task_permuted: bool = field(default=True, metadata={"before": True})
    statistics: str = field(default="default", metadata={"before": "default"})
    stratified: bool = field(default=True, metadata={"before": True})
    pixels: str = field(default="padded", metadata={"before": "padded"})

    def __post_init__(self) -> None:
        _check(self, "statistics", self.statistics in STATISTICS, "default, imagenet or cifar100")
        _check(self, "pixels", self.pixels in PIXELS, "padded or standardised")
        _check(self, "tasks", self.tasks >= 1, "at least 1")
        _check(self, "validation", self.validation >= 1, "at least 1 image")


@dataclass(frozen=True)
class HyperMaskConfig:
    """HyperMask (sec. 3): hyperparameters of the method and of both networks.

    trainable_target: theta_train; False is the paper's F variant.  beta, lam: weights of L_output and L_target.  p:
    sparsity, percent of each masked tensor set to zero.  l1: L_target `masked` by the current task's mask or `plain`.
    output_regularizer: `paper` weighs the sum over previous tasks by beta/(t-1), `released-code` by beta/(t-1)^2.

    target: `mlp`, with target_hidden its layer widths, or `resnet18`, with the numbers of maps of its stem and its four
    groups.  target_stem: how a ResNet-18 begins: `conv3`, a 3x3 convolution; `conv3-pool`, max pooling after it;
    `conv7-pool`, a 7x7 convolution of stride 2 and max pooling.  batch_stats: with whose statistics batch-norm layers
    predict: `batch`, of the images predicted together, or `task`, of the task's training images, kept when the task is
    learned.  norm_parameters: whether scale and shift of batch-norm layers, shared by all tasks, train `with-target` or
    `always`, a fixed target's too.
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
    target_stem: str = field(default="none", metadata={"before": "none"})
    batch_stats: str = field(default="batch", metadata={"before": "batch"})
    norm_parameters: str = field(default="with-target", metadata={"before": "with-target"})
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
        _check_resnet(self)
        _check(self, "batch_stats", self.batch_stats in ("batch", "task"), "batch or task")
        _check(self, "norm_parameters", self.norm_parameters in ("with-target", "always"), "with-target or always")


@dataclass(frozen=True)
class HNETConfig:
    """HNET, a baseline: a chunked hypernetwork that generates the weights of the target network.

    chunk_size: how many of the target's weights and biases one pass generates.  chunk_embedding_size: of the input that
    says which.  beta: weight of the distance between outputs for previous tasks, divided by their number.
    initialisation: of the hypernetwork, `xavier`, as HNET's authors do, or `hypnettorch`, that library's default.
    """

    target_hidden: tuple[int, ...]
    embedding_size: int
    chunk_embedding_size: int
    chunk_size: int
    hypernetwork_hidden: tuple[int, ...]
    hypernetwork_activation: str
    beta: float
    target_activation: str = "relu"
    initialisation: str = field(default="xavier", metadata={"before": "xavier"})
    name: str = "hnet"

    def __post_init__(self) -> None:
        for key in ("embedding_size", "chunk_embedding_size", "chunk_size"):
            _check(self, key, getattr(self, key) >= 1, "at least 1")
        for key in ("target_hidden", "hypernetwork_hidden"):
            _check(self, key, all(n >= 1 for n in getattr(self, key)), "positive layer widths")
        for key in ("target_activation", "hypernetwork_activation"):
            _check(self, key, getattr(self, key) in ("relu", "elu"), "relu or elu")
        _check(self, "beta", self.beta >= 0, "at least 0")
        known = ("xavier", "hypnettorch")
        _check(self, "initialisation", self.initialisation in known, "xavier or hypnettorch")


@dataclass(frozen=True)
class WSNConfig:
    """WSN, a baseline: a binary mask per task over weights that are frozen once used.

    target, target_hidden, target_stem: as in `HyperMaskConfig`.  c: percent of each tensor's weights that a task's mask
    keeps.
    """

    target: str
    target_hidden: tuple[int, ...]
    target_activation: str
    c: float
    target_stem: str = field(default="none", metadata={"before": "none"})
    name: str = "wsn"

    def __post_init__(self) -> None:
        _check(self, "target_hidden", all(n >= 1 for n in self.target_hidden), "positive layer widths")
        _check(self, "target_activation", self.target_activation in ("relu", "elu"), "relu or elu")
        _check(self, "c", 0 < self.c <= 100, "a percentage above 0, up to 100")
        _check_resnet(self)


@dataclass(frozen=True)
class FrozenConfig:
    """A baseline for unknown task identity: a network trained on the first task alone, and a classifier of features.

    target, target_hidden, target_stem: as in `HyperMaskConfig`.  classifier: `ncm`, nearest class mean; `fetril`;
    `fecam`.
    """

    target: str
    target_hidden: tuple[int, ...]
    target_activation: str
    classifier: str
    target_stem: str = field(default="none", metadata={"before": "none"})
    name: str = "frozen"

    def __post_init__(self) -> None:
        _check(self, "target_hidden", all(n >= 1 for n in self.target_hidden), "positive layer widths")
        _check(self, "target_activation", self.target_activation in ("relu", "elu"), "relu or elu")
        _check(self, "classifier", self.classifier in CLASSIFIERS, "ncm, fetril or fecam")
        _check_resnet(self)


@dataclass(frozen=True)
class TrainingConfig:
    """How one task is trained: an optimizer made anew for every task, on batches of a fixed size.

    Either `iterations` (updates per task) or `epochs` (passes over the task's training images) is given.  scheduler:
    `none`; `plateau`, which multiplies the rate by `lr_factor` once `lr_patience` epochs have passed without a lower
    validation loss and another one brings none either, down to `lr_floor`; or `cosine`, from `lr` to 0 over the task's
    epochs.  model_choice: the `last` model, or the one with the `lowest-validation-loss` among those at the ends of
    epochs.  optimizer: `adam`, or `sgd` with `momentum` and `weight_decay`.
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
    optimizer: str = field(default="adam", metadata={"before": "adam"})
    momentum: float = field(default=0.0, metadata={"before": 0.0})
    weight_decay: float = field(default=0.0, metadata={"before": 0.0})

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for each in dataclasses.fields(self):
            _coerce(hints[each.name], each.name, getattr(self, each.name))
        given = [n for n in (self.iterations, self.epochs) if n is not None]
        if len(given) != 1:
            raise HyperMaskError(
                f"training has iterations={self.iterations} and epochs={self.epochs}; give exactly one of them."
            )
        _check(self, "iterations" if self.epochs is None else "epochs", given[0] >= 1, "at least 1")
        _check(self, "batch_size", self.batch_size >= 1, "at least 1")
        _check(self, "lr", self.lr > 0, "a positive learning rate")
        _check(self, "scheduler", self.scheduler in ("none", "plateau", "cosine"), "none, plateau or cosine")
        _check(self, "lr_factor", 0 < self.lr_factor < 1, "between 0 and 1")
        _check(self, "lr_patience", self.lr_patience >= 0, "at least 0 epochs")
        _check(self, "lr_floor", self.lr_floor >= 0, "at least 0")
        _check(
            self,
            "model_choice",
            self.model_choice in ("last", "lowest-validation-loss"),
            "last or lowest-validation-loss",
        )
        _check(self, "optimizer", self.optimizer in ("adam", "sgd"), "adam or sgd")
        of_sgd = self.optimizer == "sgd"
        _check(self, "momentum", 0 <= self.momentum < 1 and (of_sgd or not self.momentum), "0, or with sgd below 1")
        _check(
            self, "weight_decay", self.weight_decay >= 0 and (of_sgd or not self.weight_decay), "0, or more with sgd"
        )


MethodConfig = HyperMaskConfig | HNETConfig | WSNConfig | FrozenConfig
METHODS: dict[str, type] = {
    "hypermask": HyperMaskConfig,
    "hnet": HNETConfig,
    "wsn": WSNConfig,
    "frozen": FrozenConfig,
}


def keys() -> list[str]:
    """The names of all values that `--set` can change, of any method; `lam` is lambda."""
    sections = (BenchmarkConfig, *METHODS.values(), TrainingConfig)
    return list(dict.fromkeys(f.name for section in sections for f in dataclasses.fields(section) if f.name != "name"))


def check_optimizer(method: Any, training: TrainingConfig) -> None:
    """Refuse an optimizer that a baseline's steps would be wrong with.  method: its configuration; others pass."""
    if isinstance(method, HNETConfig) and training.optimizer != "adam":
        raise HyperMaskError(f"HNET looks ahead by a step of Adam; {training.optimizer} is no choice here.")
    if isinstance(method, WSNConfig) and training.weight_decay > 0:
        raise HyperMaskError(
            "WSN keeps the weights of finished tasks as they are, and weight_decay would shrink them; leave it at 0."
        )


@dataclass(frozen=True)
class Config:
    """One run's resolved configuration, without its seed."""

    benchmark: BenchmarkConfig
    method: MethodConfig
    training: TrainingConfig

    def __post_init__(self) -> None:
        check_optimizer(self.method, self.training)

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
            if key in changes[homes[key]]:
                raise HyperMaskError(f"{key} is given twice; give each key once.")
            changes[homes[key]][key] = _parse(type(getattr(self, homes[key])), key, text)
        # Lengths exclude each other: setting one clears the other, so that `--set epochs=1` works on any experiment.
        lengths = changes["training"].keys() & {"iterations", "epochs"}
        if len(lengths) == 1:
            changes["training"].setdefault(({"iterations", "epochs"} - lengths).pop(), None)
        return Config(**{part: dataclasses.replace(getattr(self, part), **new) for part, new in changes.items()})

    def changes_to(self, other: Config) -> list[str]:
        """The `key=value` assignments by which `override` makes the other configuration, where they can."""
        assignments = []
        for part in dataclasses.fields(self):
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            if type(mine) is not type(theirs):
                continue
            for f in dataclasses.fields(theirs):
                value = getattr(theirs, f.name)
                # Of two lengths one is none, which setting the other sees to.
                if f.name != "name" and value is not None and value != getattr(mine, f.name):
                    assignments.append(f"{f.name}={_assigned(value)}")
        return assignments


def section_to_dict(section: Any) -> dict[str, Any]:
    """One part of a configuration as a JSON-plain dictionary, without fields at their `before` value."""
    values = {}
    hints = typing.get_type_hints(type(section))
    for f in dataclasses.fields(section):
        value = getattr(section, f.name)
        if "before" in f.metadata and value == f.metadata["before"]:
            continue
        if hints[f.name] is float:
            # 1 and 1.0 are one value, but not the same JSON.
            value = float(value)
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
    # What is left out of the JSON had the value from before the field, whatever its default is today.
    before = {f.name: f.metadata["before"] for f in dataclasses.fields(section) if "before" in f.metadata}
    return section(**before | {key: _coerce(hints[key], key, value) for key, value in values.items()})


def _coerce(hint: Any, key: str, value: Any) -> Any:
    """`value` as the field's type, so that 1 and 1.0 of a float field are one configuration."""
    options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = next(option for option in options if option is not type(None))
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
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


def _assigned(value: Any) -> str:
    """A value as `_parse` reads it back."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _describe(hint: Any) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        int | None: "a whole number",
    }
    return names.get(hint, "whole numbers separated by commas")


def _check_resnet(section: HyperMaskConfig | WSNConfig) -> None:
    if section.target == "resnet18":
        _check(section, "target_hidden", len(section.target_hidden) == 5, "the maps of the stem and of four groups")
        _check(section, "target_stem", section.target_stem in STEMS, f"{', '.join(STEMS[:-1])} or {STEMS[-1]}")
    else:
        _check(section, "target_stem", section.target_stem == "none", "none unless the target is resnet18")


def _check(section: Any, key: str, holds: bool, expected: str) -> None:
    if not holds:
        raise HyperMaskError(f"{key} is {getattr(section, key)!r}; expected {expected}.")

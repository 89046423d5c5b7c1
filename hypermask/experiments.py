"""Every run of the paper as a named, frozen configuration; each value with its place in the paper.

A name is BENCHMARK/METHOD. Overriding a value (`--set beta=0.01`) keeps the name and makes another configuration with
another hash, whose records never mix with these.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypermask.config import BenchmarkConfig, Config, HyperMaskConfig, TrainingConfig
from hypermask.errors import HyperMaskError

APPENDIX = "appendix, Architecture details"


@dataclass(frozen=True)
class Experiment:
    """A named configuration of the paper.

    seeds: one per run that the paper averages over.  places: for each key of the configuration, where the paper gives
    its value, or why we chose it where the paper is silent or contradicts itself.
    """

    name: str
    title: str
    config: Config
    seeds: tuple[int, ...]
    places: Mapping[str, str]
    overrides: tuple[str, ...] = ()

    def override(self, assignments: list[str]) -> Experiment:
        """The experiment with `key=value` assignments applied: another configuration under the same name."""
        config = self.config.override(assignments)
        return self if config == self.config else replace(self, config=config, overrides=tuple(sorted(assignments)))


# Places that all experiments on multilayer perceptrons share.
_MLP_PLACES = {
    "target": "sec. 4, Architectures",
    "target_activation": "the paper says ELU, yet ReLU reaches the printed accuracies (REPRODUCIBILITY.md)",
    "output_regularizer": "sec. 3, L_output",
    "scheduler": "none named",
    "lr_factor": "no scheduler here",
    "lr_patience": "no scheduler here",
    "lr_floor": "no scheduler here",
    "epochs": "the length is given in iterations",
}

_NAMED_IN_APPENDIX = (
    *("tasks", "validation", "augment", "target_hidden", "trainable_target", "embedding_size", "hypernetwork_hidden"),
    *("beta", "lam", "p", "l1", "batch_size", "lr", "iterations", "model_choice"),
)


def _places(where: str, **special: str) -> dict[str, str]:
    return dict.fromkeys(_NAMED_IN_APPENDIX, where) | _MLP_PLACES | special


_PERMUTED = HyperMaskConfig(
    target="mlp",
    target_hidden=(1000, 1000),
    target_activation="relu",
    trainable_target=True,
    embedding_size=24,
    hypernetwork_hidden=(100, 100),
    beta=5e-4,
    lam=1e-3,
    p=0.0,
    l1="masked",
)
_PERMUTED_FIXED = replace(_PERMUTED, trainable_target=False, beta=1e-4, lam=0.0)
_PERMUTED_TRAINING = TrainingConfig(batch_size=128, lr=1e-3, iterations=5000)
_PERMUTED_PLACES = _places(
    f"{APPENDIX}, Permuted MNIST",
    lam=f"{APPENDIX}, Permuted MNIST; a fixed target has no L_target",
)

_SPLIT = HyperMaskConfig(
    target="mlp",
    target_hidden=(400, 400),
    target_activation="relu",
    trainable_target=True,
    embedding_size=128,
    hypernetwork_hidden=(25, 25),
    beta=1e-3,
    lam=1e-3,
    p=30.0,
    l1="masked",
)
_SPLIT_FIXED = replace(_SPLIT, trainable_target=False, beta=1e-4, lam=0.0)
_SPLIT_TRAINING = TrainingConfig(batch_size=128, lr=1e-3, iterations=2000)
_SPLIT_PLACES = _places(
    f"{APPENDIX}, Split MNIST",
    target_hidden=f"{APPENDIX}, Split MNIST (400 neurons; section 4 says 1000)",
    lam=f"{APPENDIX}, Split MNIST; a fixed target has no L_target",
    augment=f"{APPENDIX}, Split MNIST (augmented; the kind is not named: random crop of 28 with padding 4, no flip)",
)


def _permuted(tasks: int) -> BenchmarkConfig:
    return BenchmarkConfig(name="permuted_mnist", tasks=tasks, validation=5000)


_ALL = (
    Experiment(
        name="split_mnist/hypermask-t",
        title="HyperMask-T on Split MNIST, 5 tasks",
        config=Config(BenchmarkConfig("split_mnist", 5, validation=1000, augment=True), _SPLIT, _SPLIT_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_SPLIT_PLACES,
    ),
    Experiment(
        name="split_mnist/hypermask-f",
        title="HyperMask-F on Split MNIST, 5 tasks",
        config=Config(BenchmarkConfig("split_mnist", 5, validation=1000, augment=True), _SPLIT_FIXED, _SPLIT_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_SPLIT_PLACES,
    ),
    Experiment(
        name="permuted_mnist_10/hypermask-t",
        title="HyperMask-T on Permuted MNIST, 10 tasks",
        config=Config(_permuted(10), _PERMUTED, _PERMUTED_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_PERMUTED_PLACES,
    ),
    Experiment(
        name="permuted_mnist_10/hypermask-f",
        title="HyperMask-F on Permuted MNIST, 10 tasks",
        config=Config(_permuted(10), _PERMUTED_FIXED, _PERMUTED_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_PERMUTED_PLACES,
    ),
    Experiment(
        name="permuted_mnist_100/hypermask-t",
        title="HyperMask-T on Permuted MNIST, 100 tasks",
        config=Config(_permuted(100), _PERMUTED, _PERMUTED_TRAINING),
        seeds=(1, 2, 3),
        places=_PERMUTED_PLACES,
    ),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown name is answered with the closest ones."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    close = difflib.get_close_matches(name, EXPERIMENTS, n=3, cutoff=0.3) or sorted(EXPERIMENTS)
    raise HyperMaskError(f"unknown experiment {name!r}; did you mean {', '.join(close)}?")


def smoke(name: str) -> Experiment:
    """The experiment's stand-in for the smoke profile: the same method, seconds instead of minutes, on bundled data.

    Only configurations differ: 8x8 digits (or three permutations of MNIST), narrow networks, a few iterations, two
    seeds.
    """
    full = get(name)
    method = replace(full.config.method, target_hidden=(32, 32), embedding_size=8, hypernetwork_hidden=(10, 10))
    if full.config.benchmark.name == "permuted_mnist":
        benchmark, iterations = replace(full.config.benchmark, tasks=3), 60
    else:
        benchmark, iterations = (
            BenchmarkConfig("split_digits", full.config.benchmark.tasks, validation=30),
            60,
        )
    training = replace(full.config.training, iterations=iterations, batch_size=32)
    return replace(
        full,
        title=f"{full.title} (smoke profile)",
        config=Config(benchmark, method, training),
        seeds=(1, 2),
    )

"""Every run of the paper as a named, frozen configuration; each value with its place in the paper.

A name is BENCHMARK/METHOD. Overriding a value (`--set beta=0.01`) keeps the name and makes another configuration with
another hash, whose records never mix with these.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hypermask.config import (
    BenchmarkConfig,
    Config,
    FrozenConfig,
    HNETConfig,
    HyperMaskConfig,
    TrainingConfig,
    WSNConfig,
)
from hypermask.errors import HyperMaskError

APPENDIX = "appendix, Architecture details"


_LENGTHS = {"iterations", "epochs"}


@dataclass(frozen=True)
class Experiment:
    """A named configuration of the paper.

    seeds: one per run that the paper averages over, five where it does not say.  places: for each key of the
    configuration, where the paper gives its value, or why we chose it where the paper is silent or contradicts itself.
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
        if config == self.config:
            return self
        new = {assignment.partition("=")[0] for assignment in assignments}
        # A length replaces the other kind of length as well.
        replaced = new | (_LENGTHS if new & _LENGTHS else set())
        kept = [assignment for assignment in self.overrides if assignment.partition("=")[0] not in replaced]
        return replace(self, config=config, overrides=tuple(sorted([*kept, *assignments])))


# What the places of settings say that an experiment does not use.
NO_SCHEDULER = "no scheduler here"
NO_L_TARGET = "a fixed target has no L_target"
# Places that all experiments on multilayer perceptrons share.
_MLP_PLACES = {
    "target": "sec. 4, Architectures",
    "target_activation": "the paper says ELU; ReLU does better on Split MNIST, the one measured (the open questions)",
    "output_regularizer": "sec. 3, L_output",
    "scheduler": "none named",
    "lr_factor": NO_SCHEDULER,
    "lr_patience": NO_SCHEDULER,
    "lr_floor": NO_SCHEDULER,
    "epochs": "the length is given in iterations",
}
_TRAINING_UNUSED = ("scheduler", "lr_factor", "lr_patience", "lr_floor", "epochs")

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
_PERMUTED_TRAINING = TrainingConfig(batch_size=128, lr=1e-3, iterations=5000)
_PERMUTED_PLACES = _places(f"{APPENDIX}, Permuted MNIST")

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
_SPLIT_TRAINING = TrainingConfig(batch_size=128, lr=1e-3, iterations=2000)
_SPLIT_PLACES = _places(
    f"{APPENDIX}, Split MNIST",
    target_hidden=f"{APPENDIX}, Split MNIST (400 neurons; section 4 says 1000)",
    augment=f"{APPENDIX}, Split MNIST (augmented; the kind is not named: random crop of 28 with padding 4, no flip)",
)


_CIFAR = HyperMaskConfig(
    target="resnet18",
    target_hidden=(16, 16, 32, 64, 128),
    target_activation="relu",
    target_stem="conv3",
    trainable_target=True,
    embedding_size=48,
    hypernetwork_hidden=(100, 100),
    beta=0.1,
    lam=1.0,
    p=15.0,
    l1="plain",
)
_CIFAR_TRAINING = TrainingConfig(
    batch_size=64, lr=1e-3, epochs=200, scheduler="plateau", model_choice="lowest-validation-loss"
)
_TINY = replace(_CIFAR, embedding_size=256, hypernetwork_hidden=(200, 200), beta=10.0, lam=0.1)
_TINY_TRAINING = replace(_CIFAR_TRAINING, batch_size=16, lr=1e-4, epochs=10)


def _resnet_places(paragraph: str, **special: str) -> dict[str, str]:
    where, network = f"{APPENDIX}, {paragraph}", f"{APPENDIX}, CIFAR-100"
    keys = (
        *("tasks", "validation", "trainable_target", "embedding_size", "hypernetwork_hidden", "beta", "lam", "p", "l1"),
        *("batch_size", "lr", "epochs", "scheduler", "lr_factor", "lr_patience", "lr_floor", "model_choice"),
    )
    return {
        **dict.fromkeys(keys, where),
        "lr_patience": f"{where} (halved at the sixth epoch in a row without improvement)",
        "target": f"{network} (ResNet-18)",
        "target_hidden": f"{network} (16 maps, then four groups of 16, 32, 64 and 128)",
        "target_activation": "not named; ReLU as in the ResNet-18 the paper cites",
        "target_stem": f"{network} names a max pooling after the convolution; none here, see the open questions",
        "batch_stats": f"{network} (statistics of the batch, at evaluation too)",
        "output_regularizer": "sec. 3, L_output",
        "iterations": "the length is given in epochs",
        **special,
    }


_CIFAR_PLACES = _resnet_places(
    "CIFAR-100, Known task identity",
    augment=f"{APPENDIX}, CIFAR-100, Known task identity (as in hypnettorch: mirrored, cropped after padding by 4)",
)
_CIFAR_5X20_PLACES = _resnet_places(
    "CIFAR-100, Known task identity (the same for unknown task identity)",
    tasks=f"{APPENDIX}, CIFAR-100, Unknown task identity (five tasks of 20 classes, in the order of FeCAM)",
    validation="50 per class, as for ten tasks",
    augment=f"{APPENDIX}, CIFAR-100, Unknown task identity (as in FeCAM: crop, mirror, brightness, AutoAugment)",
)
_TINY_PLACES = _resnet_places(
    "Tiny ImageNet",
    augment=f"{APPENDIX}, Tiny ImageNet (random cropping, of 64 after padding by 4 here, and mirroring)",
)


# The baselines that are run live.
_HNET_SPLIT = HNETConfig(
    target_hidden=(400, 400),
    embedding_size=96,
    chunk_embedding_size=96,
    chunk_size=42000,
    hypernetwork_hidden=(10, 10),
    hypernetwork_activation="relu",
    beta=0.01,
)
_HNET_PERMUTED = HNETConfig(
    target_hidden=(1000, 1000),
    embedding_size=24,
    chunk_embedding_size=8,
    chunk_size=78000,
    hypernetwork_hidden=(25, 25),
    hypernetwork_activation="elu",
    beta=0.1,
)
_WSN_MLP = WSNConfig(target="mlp", target_hidden=(100, 100), target_activation="relu", c=30.0)
_WSN_MLP_TRAINING = TrainingConfig(
    batch_size=10, lr=1e-3, epochs=5, scheduler="plateau", model_choice="lowest-validation-loss"
)


_WSN_RESNET = WSNConfig(
    target="resnet18",
    target_hidden=_CIFAR.target_hidden,
    target_activation=_CIFAR.target_activation,
    c=50.0,
    target_stem=_CIFAR.target_stem,
)


def _hnet_places(figure: int, *besides: str) -> dict[str, str]:
    where = f"caption of figure {figure}: the default setting of HNET, whose values the paper does not list"
    ours = "as for HyperMask, since the paper does not say"
    keys = (
        *("augment", "target_hidden", "target_activation", "embedding_size"),
        *("chunk_embedding_size", "chunk_size", "hypernetwork_hidden", "hypernetwork_activation", "beta"),
        *("batch_size", "lr", "iterations", *besides),
    )
    special = {"tasks": "sec. 4", "validation": ours, "model_choice": ours}
    return {key: _MLP_PLACES[key] for key in _TRAINING_UNUSED} | dict.fromkeys(keys, where) | special


_WSN = "the protocol of WSN (Kang et al., 2022), from where the paper quotes its values"
_WSN_MLP_PLACES = {
    "tasks": "sec. 4",
    "validation": f"10 % of the training images, {_WSN}",
    "augment": f"{APPENDIX}, Permuted MNIST",
    "pixels": f"28x28 and standardised, as in WSN's public code; {_WSN}",
    "target": _WSN,
    "target_hidden": f"100, 100 without biases, {_WSN}",
    "target_activation": _WSN,
    "c": "table 4 (30 %, the highest of table 3; the others are --set c=3, 5, 10, 50, 70)",
    **dict.fromkeys(("batch_size", "lr", "epochs", "scheduler", "lr_factor", "lr_patience", "lr_floor"), _WSN),
    "iterations": "the length is given in epochs",
    "model_choice": "as for WSN with ResNet-18, since the paper does not say",
}


def _wsn_resnet_places(paragraph: str, hypermask: Mapping[str, str]) -> dict[str, str]:
    where = f"{APPENDIX}, {paragraph}, last paragraph"
    as_hypermask = (
        *("tasks", "target", "target_hidden", "target_activation", "target_stem"),
        *("batch_size", "lr", "epochs", "scheduler", "lr_factor", "lr_patience", "lr_floor", "iterations"),
    )
    return {
        **{key: hypermask[key] for key in as_hypermask},
        "validation": f"{where} (a share of the training images)",
        "augment": "the paper names none for WSN",
        "c": where,
        "model_choice": "as for HyperMask, since the paper does not say",
    }


_FROZEN = FrozenConfig(
    target="resnet18",
    target_hidden=_CIFAR.target_hidden,
    target_activation=_CIFAR.target_activation,
    target_stem="conv3-pool",
    classifier="ncm",
)
_FROZEN_TRAINING = TrainingConfig(
    batch_size=128, lr=0.1, epochs=200, scheduler="cosine", optimizer="sgd", momentum=0.9, weight_decay=5e-4
)
_FROZEN_TITLES = {"ncm": "Nearest class mean", "fetril": "FeTrIL", "fecam": "FeCAM"}
_AS_FECAM = "not named; usual for networks of CIFAR-100 (the values of the table are quoted there)"
_FROZEN_PLACES = {
    **{key: _CIFAR_5X20_PLACES[key] for key in ("tasks", "validation", "augment", "target", "target_hidden")},
    **{key: _CIFAR_5X20_PLACES[key] for key in ("target_activation", "iterations")},
    "target_stem": f"{APPENDIX}, CIFAR-100 (one convolution and one max pooling)",
    **dict.fromkeys(("epochs", "batch_size", "lr", "scheduler", "optimizer", "momentum", "weight_decay"), _AS_FECAM),
    **dict.fromkeys(("lr_factor", "lr_patience", "lr_floor"), "not used by this scheduler"),
    "classifier": "table 2",
    "model_choice": "not named; the cosine schedule ends at its best",
}


def _permuted(tasks: int) -> BenchmarkConfig:
    return BenchmarkConfig(name="permuted_mnist", tasks=tasks, validation=5000)


def _both(
    benchmark: BenchmarkConfig,
    where: str,
    trainable: HyperMaskConfig,
    training: TrainingConfig,
    places: Mapping[str, str],
    name: str | None = None,
    **fixed: float,
) -> tuple[Experiment, Experiment]:
    """HyperMask-T and -F of a benchmark; fixed: what F changes besides, with no L_target."""
    without_target = replace(trainable, trainable_target=False, lam=0.0, **fixed)
    return tuple(
        Experiment(
            name=f"{name or benchmark.name}/hypermask-{kind.lower()}",
            title=f"HyperMask-{kind} on {where}",
            config=Config(benchmark, method, training),
            seeds=(1, 2, 3, 4, 5),
            places=of_kind,
        )
        for kind, method, of_kind in (
            ("T", trainable, places),
            ("F", without_target, {**places, **dict.fromkeys(("lam", "l1"), NO_L_TARGET)}),
        )
    )


_ALL = (
    *_both(
        BenchmarkConfig("split_mnist", 5, validation=1000, augment=True),
        "Split MNIST, 5 tasks",
        _SPLIT,
        _SPLIT_TRAINING,
        _SPLIT_PLACES,
        beta=1e-4,
    ),
    *_both(
        _permuted(10),
        "Permuted MNIST, 10 tasks",
        _PERMUTED,
        _PERMUTED_TRAINING,
        _PERMUTED_PLACES,
        name="permuted_mnist_10",
        beta=1e-4,
    ),
    Experiment(
        name="permuted_mnist_100/hypermask-t",
        title="HyperMask-T on Permuted MNIST, 100 tasks",
        config=Config(_permuted(100), _PERMUTED, _PERMUTED_TRAINING),
        seeds=(1, 2, 3),
        places=_PERMUTED_PLACES,
    ),
    *_both(
        BenchmarkConfig("split_cifar100", 10, validation=500, augment=True),
        "Split CIFAR-100, 10 tasks",
        _CIFAR,
        _CIFAR_TRAINING,
        _CIFAR_PLACES,
        p=0.0,
    ),
    *_both(
        BenchmarkConfig("split_cifar100_5x20", 5, validation=1000, augment=True),
        "CIFAR-100, 5 tasks of 20 classes",
        _CIFAR,
        _CIFAR_TRAINING,
        _CIFAR_5X20_PLACES,
        p=0.0,
    ),
    *(
        Experiment(
            name=f"split_cifar100_5x20/{classifier}",
            title=f"{title} on features of the first task, CIFAR-100, 5 tasks of 20 classes",
            config=Config(
                BenchmarkConfig("split_cifar100_5x20", 5, validation=1000, augment=True),
                replace(_FROZEN, classifier=classifier),
                _FROZEN_TRAINING,
            ),
            seeds=(1, 2, 3, 4, 5),
            places=_FROZEN_PLACES,
        )
        for classifier, title in _FROZEN_TITLES.items()
    ),
    *_both(
        BenchmarkConfig("tiny_imagenet", 40, validation=250, augment=True),
        "Tiny ImageNet, 40 tasks",
        _TINY,
        _TINY_TRAINING,
        _TINY_PLACES,
        beta=1.0,
        p=70.0,
    ),
    Experiment(
        name="split_mnist/hnet",
        title="HNET on Split MNIST, 5 tasks",
        config=Config(
            BenchmarkConfig("split_mnist", 5, validation=1000, normalise=False), _HNET_SPLIT, _SPLIT_TRAINING
        ),
        seeds=(1, 2, 3, 4, 5),
        places=_hnet_places(6, "normalise"),
    ),
    Experiment(
        name="permuted_mnist_10/hnet",
        title="HNET on Permuted MNIST, 10 tasks",
        config=Config(
            replace(_permuted(10), first_task_permuted=False), _HNET_PERMUTED, replace(_PERMUTED_TRAINING, lr=1e-4)
        ),
        seeds=(1, 2, 3, 4, 5),
        places=_hnet_places(8, "first_task_permuted"),
    ),
    Experiment(
        name="permuted_mnist_10/wsn",
        title="WSN on Permuted MNIST, 10 tasks",
        config=Config(replace(_permuted(10), validation=6000, pixels="standardised"), _WSN_MLP, _WSN_MLP_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_WSN_MLP_PLACES,
    ),
    Experiment(
        name="split_cifar100/wsn",
        title="WSN on Split CIFAR-100, 10 tasks",
        config=Config(BenchmarkConfig("split_cifar100", 10, validation=250), _WSN_RESNET, _CIFAR_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_wsn_resnet_places("CIFAR-100, Known task identity", _CIFAR_PLACES),
    ),
    Experiment(
        name="tiny_imagenet/wsn",
        title="WSN on Tiny ImageNet, 40 tasks",
        config=Config(BenchmarkConfig("tiny_imagenet", 40, validation=250), _WSN_RESNET, _TINY_TRAINING),
        seeds=(1, 2, 3, 4, 5),
        places=_wsn_resnet_places("Tiny ImageNet", _TINY_PLACES),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


# Narrow networks for the smoke profile.
_NARROW = {
    HyperMaskConfig: {"target_hidden": (32, 32), "embedding_size": 8, "hypernetwork_hidden": (10, 10)},
    HNETConfig: {
        "target_hidden": (32, 32),
        "embedding_size": 8,
        "chunk_embedding_size": 4,
        "chunk_size": 1000,
        "hypernetwork_hidden": (10, 10),
    },
    WSNConfig: {"target_hidden": (32, 32)},
    FrozenConfig: {"target_hidden": (4, 4, 4, 8, 8)},
}
# The benchmarks of ResNet-18, whose stand-in for the smoke profile needs a network of convolutions too.
OF_PHOTOGRAPHS = ("split_cifar100", "split_cifar100_5x20", "tiny_imagenet")


def get(name: str) -> Experiment:
    """The experiment of that name; an unknown name is answered with the closest ones."""
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    close = difflib.get_close_matches(name, EXPERIMENTS, n=3, cutoff=0.3) or sorted(EXPERIMENTS)
    raise HyperMaskError(f"unknown experiment {name!r}; did you mean {', '.join(close)}?")


def leading_to(name: str, config: Mapping[str, Any], recorded: Sequence[str]) -> Experiment:
    """The named experiment with the changes by which it has a record's configuration.

    config: the record's.  recorded: the changes it was run with, which stay as they are where they lead to it today; a
    name's other values may have been others then. HyperMaskError where no changes lead to it.
    """
    named, wanted = get(name), Config.from_dict(config)
    # What was a change then may be none that can be made today.
    with suppress(HyperMaskError):
        if named.config.override(recorded) == wanted:
            return named.override(list(recorded))
    found = named.override(named.config.changes_to(wanted))
    if found.config != wanted:
        raise HyperMaskError(f"no changes of {name} make the configuration of this record; it is of another kind.")
    return found


def smoke(name: str) -> Experiment:
    """The experiment's stand-in for the smoke profile: the same method, seconds instead of minutes, on bundled data.

    Only configurations differ: 8x8 digits (or three permutations of MNIST, or made shapes in place of photographs),
    narrow networks, a few iterations, two seeds.
    """
    full = get(name)
    narrow, length = dict(_NARROW[type(full.config.method)]), {"iterations": 60, "epochs": None}
    if full.config.benchmark.name == "permuted_mnist":
        benchmark = replace(full.config.benchmark, tasks=3)
    elif full.config.benchmark.name in OF_PHOTOGRAPHS:
        benchmark = BenchmarkConfig("made_shapes", 4, validation=20, augment=True)
        narrow["target_hidden"], length = (4, 4, 4, 8, 8), {"epochs": 4}
    else:
        benchmark = BenchmarkConfig("split_digits", full.config.benchmark.tasks, validation=30)
    method = replace(full.config.method, **narrow)
    training = replace(full.config.training, **length, batch_size=32)
    return replace(
        full,
        title=f"{full.title} (smoke profile)",
        config=Config(benchmark, method, training),
        seeds=(1, 2),
    )

"""The experiments on CIFAR-100 and Tiny ImageNet: the paper's values, one by one."""

import math

import pytest

from hypermask import experiments
from hypermask.config import HyperMaskConfig
from hypermask.errors import HyperMaskError
from hypermask.training import run_experiment

SHARED = {
    "benchmark.augment": True,
    "method.name": "hypermask",
    "method.target": "resnet18",
    "method.target_hidden": (16, 16, 32, 64, 128),
    "method.target_activation": "relu",
    "method.target_stem": "conv3",
    "method.batch_stats": "batch",
    "method.output_regularizer": "paper",
    "training.iterations": None,
    "training.scheduler": "plateau",
    "training.lr_factor": 0.5,
    "training.lr_patience": 5,
    "training.lr_floor": 1e-6,
    "training.model_choice": "lowest-validation-loss",
}
CIFAR = SHARED | {
    "method.embedding_size": 48,
    "method.hypernetwork_hidden": (100, 100),
    "method.beta": 0.1,
    "training.epochs": 200,
    "training.batch_size": 64,
    "training.lr": 1e-3,
}
TEN = CIFAR | {"benchmark.name": "split_cifar100", "benchmark.tasks": 10, "benchmark.validation": 500}
FIVE = CIFAR | {"benchmark.name": "split_cifar100_5x20", "benchmark.tasks": 5, "benchmark.validation": 1000}
CIFAR_T = {"method.trainable_target": True, "method.lam": 1.0, "method.p": 15.0, "method.l1": "plain"}
CIFAR_F = {"method.trainable_target": False, "method.lam": 0.0, "method.p": 0.0}
TINY = SHARED | {
    "benchmark.name": "tiny_imagenet",
    "benchmark.tasks": 40,
    "benchmark.validation": 250,
    "method.embedding_size": 256,
    "method.hypernetwork_hidden": (200, 200),
    "training.epochs": 10,
    "training.batch_size": 16,
    "training.lr": 1e-4,
}
TINY_T = {
    "method.trainable_target": True,
    "method.beta": 10.0,
    "method.lam": 0.1,
    "method.p": 15.0,
    "method.l1": "plain",
}
TINY_F = {"method.trainable_target": False, "method.beta": 1.0, "method.lam": 0.0, "method.p": 70.0}
PRINTED = {
    "split_cifar100/hypermask-t": TEN | CIFAR_T,
    "split_cifar100/hypermask-f": TEN | CIFAR_F,
    "split_cifar100_5x20/hypermask-t": FIVE | CIFAR_T,
    "split_cifar100_5x20/hypermask-f": FIVE | CIFAR_F,
    "tiny_imagenet/hypermask-t": TINY | TINY_T,
    "tiny_imagenet/hypermask-f": TINY | TINY_F,
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_values_are_the_papers(name):
    config = experiments.get(name).config
    found = {key: getattr(getattr(config, key.split(".")[0]), key.split(".")[1]) for key in PRINTED[name]}
    assert found == PRINTED[name]
    assert experiments.get(name).seeds == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("methods", "stem"), [(("hypermask-t", "hypermask-f", "wsn"), "conv3"), (("ncm", "fetril", "fecam"), "conv3-pool")]
)
def test_the_stem_is_the_measured_one_and_of_frozen_features_the_one_of_the_text(methods, stem):
    found = [
        experiment.config.method.target_stem
        for name, experiment in experiments.EXPERIMENTS.items()
        if name.split("/")[0] in ("split_cifar100", "split_cifar100_5x20", "tiny_imagenet")
        and name.split("/")[1] in methods
    ]
    assert len(found) >= 3
    assert set(found) == {stem}


@pytest.mark.parametrize(
    ("name", "training_images", "steps"),
    [
        ("split_cifar100/hypermask-t", 4500, 142_000),
        ("split_cifar100_5x20/hypermask-t", 9000, 141_000),
        ("tiny_imagenet/hypermask-t", 2250, 56_400),
    ],
)
def test_steps_of_one_seed(name, training_images, steps):
    config = experiments.get(name).config
    epoch = math.ceil(training_images / config.training.batch_size)
    assert config.benchmark.tasks * config.training.epochs * epoch == steps


@pytest.mark.parametrize("name", PRINTED)
def test_the_smoke_stand_in_differs_in_size_alone(name):
    full, small = experiments.get(name), experiments.smoke(name)
    assert (small.name, small.seeds, small.title) == (name, (1, 2), f"{full.title} (smoke profile)")
    assert small.config.benchmark.name == "made_shapes"
    sizes = {"target_hidden", "embedding_size", "hypernetwork_hidden"}
    small_method, full_method = (dict(vars(e.config.method)) for e in (small, full))
    assert {key for key in full_method if small_method[key] != full_method[key]} == sizes
    assert (small.config.training.epochs, small.config.training.iterations) == (4, None)


@pytest.mark.parametrize("name", ["split_cifar100/hypermask-t", "tiny_imagenet/hypermask-f"])
def test_the_smoke_stand_in_runs(name, tmp_path):
    record = run_experiment(experiments.smoke(name), 1, root=tmp_path, device="cpu")
    assert record.finished
    assert record.accuracy.shape == (4, 4)
    assert len(record.payload["validation"][0]["loss"]) == 4
    layers = record.target_distance
    assert (layers is None) == name.endswith("-f")
    assert sorted(record.payload["data"]) == ["made_shapes"]
    assert record.arrays()["masked"].shape == (4, 80, 2)


def test_published_hashes_do_not_see_the_later_fields():
    values = experiments.get("split_mnist/hypermask-t").config.to_dict()["method"]
    assert {"target_stem", "batch_stats"}.isdisjoint(values)
    values = experiments.get("split_cifar100/hypermask-t").config.to_dict()["method"]
    assert values["target_stem"] == "conv3"
    assert "batch_stats" not in values


@pytest.mark.parametrize(
    ("name", "assignments", "sentence"),
    [
        ("split_cifar100/hypermask-t", ["target_stem=conv5"], "target_stem is 'conv5'; expected conv3, conv3-pool or "),
        ("split_cifar100/hypermask-t", ["target_hidden=16,16"], "target_hidden is (16, 16); expected the maps of the "),
        ("split_cifar100/hypermask-t", ["batch_stats=moving"], "batch_stats is 'moving'; expected batch or task."),
        ("split_cifar100/hypermask-t", ["target=mlp"], "target_stem is 'conv3'; expected none unless the target "),
        ("split_mnist/hypermask-t", ["target_stem=conv3"], "target_stem is 'conv3'; expected none unless the target "),
    ],
)
def test_bad_overrides_are_one_sentence(name, assignments, sentence):
    with pytest.raises(HyperMaskError) as error:
        experiments.get(name).override(assignments)
    assert str(error.value).startswith(sentence)


def test_an_mlp_on_images_is_an_override():
    config = experiments.get("split_cifar100/hypermask-t").config.override(
        ["target=mlp", "target_stem=none", "target_hidden=10"]
    )
    assert isinstance(config.method, HyperMaskConfig)

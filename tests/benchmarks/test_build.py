import dataclasses
import inspect
import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hypermask.benchmarks import CHOICES, FACTORIES, build, permuted_mnist, split_digits, split_mnist
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError

CONFIGS = [
    BenchmarkConfig("permuted_mnist", tasks=3, validation=50),
    BenchmarkConfig("split_mnist", tasks=2, validation=60, augment=True),
    BenchmarkConfig("split_digits", tasks=4, validation=20),
    BenchmarkConfig("made_shapes", tasks=12, validation=10, augment=True),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_build_follows_the_configuration(config):
    benchmark = build(config, seed=1, device="cpu")
    task = benchmark.task(benchmark.tasks - 1)
    assert (benchmark.name, benchmark.tasks) == (config.name, config.tasks)
    assert benchmark.device == torch.device("cpu")
    assert len(task.validation) == config.validation
    assert task.index == config.tasks - 1
    assert len(task.classes) == benchmark.classes_per_task
    assert max(task.classes) == len(benchmark.class_names) - 1
    for part in (task.train, task.validation, task.test):
        assert part.images.dtype == torch.uint8
        assert part.labels.dtype == torch.int64
        assert part.labels.unique().tolist() == list(range(benchmark.classes_per_task))
        assert benchmark.prepare(part.images[:3], task.index).shape == (3, *benchmark.input_shape)
    assert json.loads(json.dumps(benchmark.checksums)) == benchmark.checksums


def test_build_hands_on_the_baselines_choices():
    plain = build(dataclasses.replace(CONFIGS[0], first_task_permuted=False), seed=4, device="cpu")
    permuted = build(CONFIGS[0], seed=4, device="cpu")
    assert torch.equal(plain.permutations[0], torch.arange(1024))
    assert torch.equal(plain.permutations[1:], permuted.permutations[1:])
    assert plain.checksums["permutations"][0] != permuted.checksums["permutations"][0]
    assert not build(dataclasses.replace(CONFIGS[1], normalise=False), seed=1, device="cpu").normalise
    standardised = build(dataclasses.replace(CONFIGS[0], pixels="standardised"), seed=4, device="cpu")
    assert standardised.permutations.shape == (3, 784)


def test_build_hands_on_seed_and_augmentation():
    permuted = build(CONFIGS[0], seed=4, device="cpu")
    assert permuted.checksums == permuted_mnist(tasks=3, seed=4).checksums
    assert build(CONFIGS[1], seed=1, device="cpu").augment
    assert not build(dataclasses.replace(CONFIGS[1], augment=False), seed=1, device="cpu").augment


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_prepare_asks_the_device_for_no_value(config):
    benchmark = build(config, seed=1, device="cpu")
    images = benchmark.task(1).train.images[:8]
    # Fake tensors have no values: .item(), a boolean index or any other look at one would raise.
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        prepared = benchmark.prepare(mode.from_tensor(images), 1, torch.Generator().manual_seed(1))
    assert prepared.shape == (8, *benchmark.input_shape)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            BenchmarkConfig("split_mnits", 5, 1000),
            "unknown benchmark 'split_mnits'; did you mean split_mnist?",
        ),
        (
            BenchmarkConfig("imagenet", 5, 1000),
            "unknown benchmark 'imagenet'; did you mean tiny_imagenet?",
        ),
        (
            BenchmarkConfig("xyz", 5, 1000),
            "unknown benchmark 'xyz'; did you mean made_shapes, permuted_mnist, split_cifar100, split_cifar100_5x20, "
            "split_digits, split_mnist, tiny_imagenet?",
        ),
        (
            BenchmarkConfig("split_digits", 5, 40, augment=True),
            "split_digits has no augmentation, yet augment is true; set augment=false.",
        ),
        (
            BenchmarkConfig("split_digits", 5, 40, normalise=False),
            "split_digits leaves no choice of normalise, yet it is false; set normalise=true.",
        ),
        (
            BenchmarkConfig("split_mnist", 5, 40, first_task_permuted=False),
            "split_mnist leaves no choice of first_task_permuted, yet it is false; set first_task_permuted=true.",
        ),
        (
            BenchmarkConfig("split_mnist", 5, 40, statistics="cifar100"),
            "split_mnist leaves no choice of statistics, yet it is cifar100; set statistics=default.",
        ),
        (
            BenchmarkConfig("split_mnist", 5, 40, pixels="standardised"),
            "split_mnist leaves no choice of pixels, yet it is standardised; set pixels=padded.",
        ),
    ],
)
def test_refusals(config, message):
    with pytest.raises(HyperMaskError) as error:
        build(config, seed=1, device="cpu")
    assert str(error.value) == message


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_left_at_its_default_is_the_default_of_the_benchmarks_that_have_it(choice):
    default = getattr(BenchmarkConfig, choice)
    for name, factory in FACTORIES.items():
        offered = inspect.signature(factory).parameters.get(choice)
        assert (offered is not None) == (name in CHOICES[choice]), name
        # Whose channel statistics are usual depends on the benchmark.
        assert offered is None or default in (offered.default, "default"), name


def test_the_package_exports_factories_not_modules():
    assert all(callable(factory) for factory in (permuted_mnist, split_digits, split_mnist))

import hashlib
import json

import pytest
import torch
from layouts import CIFAR100_PER_CLASS, write_cifar100
from torch._subclasses.fake_tensor import FakeTensorMode

from hypermask.benchmarks import build, cifar100_files, cifar100_tasks, split_cifar100, split_cifar100_5x20
from hypermask.benchmarks.augment import CHANNEL_STATISTICS, random_brightness, random_crop, random_flip
from hypermask.benchmarks.autoaugment import AutoAugment
from hypermask.benchmarks.split_cifar100 import FECAM_ORDER
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError

pytestmark = pytest.mark.filterwarnings("ignore:.*are not the published files")


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(cifar100_files, "PER_CLASS", CIFAR100_PER_CLASS)
    monkeypatch.setenv("HYPERMASK_DATA", str(tmp_path))
    write_cifar100(tmp_path)


def sizes(task):
    return [len(part) for part in (task.train, task.validation, task.test)]


def test_ten_tasks_in_the_order_of_the_classes():
    benchmark = split_cifar100(validation=20)
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("split_cifar100", 10, 10)
    assert benchmark.input_shape == (3, 32, 32)
    tasks = [benchmark.task(index) for index in range(10)]
    assert [task.classes for task in tasks] == [tuple(range(10 * t, 10 * t + 10)) for t in range(10)]
    assert [sizes(task) for task in tasks] == [[40, 20, 20]] * 10
    assert benchmark.class_names[57] == "name 57"
    assert sorted(benchmark.checksums) == [f"cifar-100-python/{name}" for name in ("meta", "test", "train")]
    assert json.loads(json.dumps(benchmark.checksums)) == benchmark.checksums


def test_five_tasks_in_the_order_of_fecam():
    benchmark = split_cifar100_5x20(validation=40)
    assert sorted(FECAM_ORDER) == list(range(100))
    text = " ".join(map(str, FECAM_ORDER))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "267358b4b4a66ddb"
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("split_cifar100_5x20", 5, 20)
    tasks = [benchmark.task(index) for index in range(5)]
    assert tasks[0].classes == (0, 8, 10, 14, 15, 44, 49, 51, 52, 58, 61, 68, 72, 78, 86, 87, 91, 92, 94, 97)
    assert [task.classes for task in tasks] == [tuple(sorted(FECAM_ORDER[20 * t : 20 * t + 20])) for t in range(5)]
    assert [sizes(task) for task in tasks] == [[80, 40, 40]] * 5


def test_validation_images_without_strata():
    kept = split_cifar100(tasks=1, validation=20).task(0)
    found = build(BenchmarkConfig("split_cifar100", 1, 20, stratified=False), 1, "cpu").task(0)
    assert sizes(found) == sizes(kept)
    assert kept.validation.labels.bincount().tolist() == [2] * 10
    assert found.validation.labels.bincount(minlength=10).tolist() != [2] * 10


@pytest.mark.parametrize(
    ("benchmark", "statistics"),
    [
        (lambda: split_cifar100(tasks=1, validation=20), "imagenet"),
        (lambda: split_cifar100(tasks=1, validation=20, statistics="cifar100"), "cifar100"),
        (lambda: split_cifar100_5x20(tasks=1, validation=40), "cifar100"),
        (lambda: build(BenchmarkConfig("split_cifar100_5x20", 1, 40, statistics="imagenet"), 1, "cpu"), "imagenet"),
        (lambda: build(BenchmarkConfig("split_cifar100", 1, 20), 1, "cpu"), "imagenet"),
    ],
)
def test_channel_statistics(benchmark, statistics):
    found = benchmark()
    images = found.task(0).test.images
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in CHANNEL_STATISTICS[statistics])
    torch.testing.assert_close(found.prepare(images, 0), (images / 255 - mean) / std)


@pytest.mark.parametrize(
    "config",
    [
        BenchmarkConfig("split_cifar100", 2, validation=20, augment=True),
        BenchmarkConfig("split_cifar100_5x20", 2, validation=40, augment=True),
    ],
    ids=lambda config: config.name,
)
def test_built_from_a_configuration_and_augmented_without_a_look_at_the_device(config):
    benchmark = build(config, seed=3, device="cpu")
    images = benchmark.task(1).train.images[:8]
    first, again, other = (benchmark.prepare(images, 1, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, benchmark.prepare(images, 1))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        prepared = benchmark.prepare(mode.from_tensor(images), 1, torch.Generator().manual_seed(1))
    assert prepared.shape == (8, 3, 32, 32)
    plain = build(BenchmarkConfig(config.name, 2, config.validation), seed=3, device="cpu")
    assert torch.equal(plain.prepare(images, 1, torch.Generator().manual_seed(1)), benchmark.prepare(images, 1))


def test_the_ten_tasks_are_mirrored_and_cropped():
    benchmark = build(BenchmarkConfig("split_cifar100", 1, validation=20, augment=True), seed=3, device="cpu")
    images = benchmark.task(0).train.images
    drawn, again = (torch.Generator().manual_seed(5) for _ in range(2))
    expected = random_crop(random_flip(images, drawn), 4, drawn)
    assert torch.equal(benchmark.prepare(images, 0, again), benchmark.prepare(expected, 0))


def test_the_five_tasks_are_cropped_mirrored_brightened_and_augmented_by_the_policy():
    benchmark = build(BenchmarkConfig("split_cifar100_5x20", 1, validation=40, augment=True), seed=3, device="cpu")
    images = benchmark.task(0).train.images
    drawn, again = (torch.Generator().manual_seed(5) for _ in range(2))
    expected = random_brightness(random_flip(random_crop(images, 4, drawn), drawn), 63 / 255, drawn)
    expected = AutoAugment(32, 32, "cpu")(expected, drawn)
    assert torch.equal(benchmark.prepare(images, 0, again), benchmark.prepare(expected, 0))


def test_class_lists_of_your_own():
    lists = [range(50), *(range(50 + 5 * t, 55 + 5 * t) for t in range(10))]
    benchmark = cifar100_tasks(lists, validation=2)
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("cifar100_tasks", 11, 50)
    assert benchmark.task(0).classes == tuple(range(50))
    assert benchmark.task(10).classes == (95, 96, 97, 98, 99)
    assert sizes(benchmark.task(10)) == [20, 10, 10]
    assert benchmark.task(10).test.labels.unique().tolist() == [0, 1, 2, 3, 4]
    assert [benchmark.class_names[label] for label in benchmark.task(1).classes] == [f"name {n}" for n in range(50, 55)]


@pytest.mark.filterwarnings("always:.*are not the published files")
def test_other_files_than_the_published_ones_are_a_warning(tmp_path):
    with pytest.warns(
        UserWarning, match=f"in {tmp_path / 'cifar-100-python'} are not the published files by their MD5"
    ):
        split_cifar100(validation=20)


def test_another_root(tmp_path):
    write_cifar100(tmp_path / "elsewhere", {"train": 3, "test": 2})
    with pytest.raises(
        HyperMaskError, match=r"elsewhere/cifar-100-python/train: expected images as uint8 \[600, 3072\]"
    ):
        split_cifar100(root=tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("factory", "settings", "message"),
    [
        (split_cifar100, {"tasks": 11}, "split_cifar100 was asked for 11 tasks; it has 1 to 10,"),
        (split_cifar100_5x20, {"tasks": 6}, "split_cifar100_5x20 was asked for 6 tasks; it has 1 to 5,"),
        (
            split_cifar100,
            {"validation": 25},
            "split_cifar100 was asked for 25 validation images a task; its 10 classes share them equally, so choose a "
            "multiple of 10.",
        ),
        (
            split_cifar100_5x20,
            {"validation": 120},
            "split_cifar100_5x20 was asked for 6 validation images a class; its classes allow 1 to 5,",
        ),
    ],
)
def test_refusals(factory, settings, message):
    with pytest.raises(HyperMaskError) as error:
        factory(**settings)
    assert str(error.value).startswith(message)

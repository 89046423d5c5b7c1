import json

import pytest
import torch
from layouts import TINY_PER_CLASS, write_tiny_imagenet
from torch._subclasses.fake_tensor import FakeTensorMode

from hypermask.benchmarks import build, tiny_imagenet, tiny_imagenet_files
from hypermask.benchmarks.augment import CHANNEL_STATISTICS, random_crop, random_flip
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError
from hypermask.seeds import generator

pytestmark = pytest.mark.filterwarnings("ignore:.*of the 200 classes")


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(tiny_imagenet_files, "PER_CLASS", TINY_PER_CLASS)
    monkeypatch.setenv("HYPERMASK_DATA", str(tmp_path))
    write_tiny_imagenet(tmp_path, classes=12)


def sizes(task):
    return [len(part) for part in (task.train, task.validation, task.test)]


def test_tasks_in_an_order_drawn_from_the_seed():
    benchmark = tiny_imagenet(tasks=2, validation=10, seed=3)
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("tiny_imagenet", 2, 5)
    assert benchmark.input_shape == (3, 64, 64)
    order = torch.randperm(12, generator=generator(3, "class order")).tolist()
    assert [benchmark.task(t).classes for t in (0, 1)] == [tuple(sorted(order[:5])), tuple(sorted(order[5:10]))]
    assert [sizes(benchmark.task(t)) for t in (0, 1)] == [[20, 10, 15]] * 2


def test_the_order_is_the_seeds_alone_and_stands_in_the_record():
    first, again, other = (
        tiny_imagenet(tasks=2, validation=10, seed=seed, augment=seed > 1).checksums for seed in (1, 1, 2)
    )
    assert first == again
    assert first["tiny-imagenet-200"] == other["tiny-imagenet-200"]
    assert first["class order"] != other["class order"]
    benchmark = tiny_imagenet(tasks=2, validation=10, seed=1)
    names = [
        " ".join(benchmark.class_names[label].split()[2].rstrip(",") for label in benchmark.task(t).classes)
        for t in (0, 1)
    ]
    assert first["class order"] == names
    assert json.loads(json.dumps(first)) == first


def test_built_from_a_configuration_augmented_and_normalised():
    benchmark = build(BenchmarkConfig("tiny_imagenet", 2, validation=10, augment=True), seed=1, device="cpu")
    images = benchmark.task(0).train.images
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in CHANNEL_STATISTICS["imagenet"])
    torch.testing.assert_close(benchmark.prepare(images, 0), (images / 255 - mean) / std)
    augmented = benchmark.prepare(images, 0, torch.Generator().manual_seed(1))
    drawn = torch.Generator().manual_seed(1)
    expected = random_crop(random_flip(images, drawn), 4, drawn)
    assert torch.equal(augmented, benchmark.prepare(expected, 0))
    assert not torch.equal(augmented, benchmark.prepare(images, 0))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        prepared = benchmark.prepare(mode.from_tensor(images[:4]), 1, torch.Generator().manual_seed(1))
    assert prepared.shape == (4, 3, 64, 64)


def test_fewer_classes_than_the_benchmark_needs_are_refused(tmp_path):
    with pytest.raises(HyperMaskError) as error:
        tiny_imagenet()
    assert str(error.value) == (
        f"tiny_imagenet with 40 tasks needs 200 classes, and {tmp_path / 'tiny-imagenet-200'} has 12; get the whole "
        "tiny-imagenet-200.zip, or set tasks=2 or less, which is another configuration."
    )


@pytest.mark.filterwarnings("always:.*of the 200 classes")
def test_a_subset_of_the_classes_is_a_warning():
    with pytest.warns(UserWarning, match="holds 12 of the 200 classes"):
        tiny_imagenet(tasks=1, validation=10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 41}, "tiny_imagenet was asked for 41 tasks; it has 1 to 40,"),
        (
            {"tasks": 1, "validation": 12},
            "tiny_imagenet was asked for 12 validation images a task; its 5 classes share",
        ),
        (
            {"tasks": 1, "validation": 30},
            "tiny_imagenet was asked for 6 validation images a class; its classes allow 1",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        tiny_imagenet(**settings)
    assert str(error.value).startswith(message)

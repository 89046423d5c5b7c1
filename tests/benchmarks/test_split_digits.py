import numpy as np
import pytest
import torch

from hypermask.benchmarks import split_digits
from hypermask.benchmarks.data import DIGITS_SHA256, load_digits
from hypermask.errors import HyperMaskError


def test_tasks():
    benchmark = split_digits()
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("split_digits", 5, 2)
    assert benchmark.input_shape == (64,)
    assert benchmark.checksums == {"digits": DIGITS_SHA256}
    tasks = [benchmark.task(index) for index in range(5)]
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [len(task.train) for task in tasks] == [247, 247, 249, 247, 243]
    assert [len(task.validation) for task in tasks] == [40] * 5
    assert [len(task.test) for task in tasks] == [73, 73, 74, 73, 71]


def test_every_class_is_split_by_its_order_alone():
    digits, _ = load_digits()
    benchmark = split_digits(validation=30)
    for digit in range(10):
        task = benchmark.task(digit // 2)
        images = digits.images[digits.labels == digit]
        rest = np.delete(images, np.s_[::5], axis=0)
        expected = {"test": images[::5], "validation": rest[:15], "train": rest[15:]}
        for name, wanted in expected.items():
            part = getattr(task, name)
            assert np.array_equal(part.images[part.labels == digit % 2].numpy(), wanted)


def test_prepare_scales_0_to_16_and_flattens():
    benchmark = split_digits(tasks=1)
    images = benchmark.task(0).train.images[:12]
    found = benchmark.prepare(images, 0, torch.Generator().manual_seed(1))
    assert torch.equal(found, images.float().flatten(1) / 16)
    assert (found.min(), found.max()) == (0, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 6}, "split_digits was asked for 6 tasks; it has 1 to 5, so choose a whole number among them."),
        (
            {"validation": 31},
            "split_digits was asked for 31 validation images a task; its 2 classes share them equally, "
            "so choose a multiple of 2.",
        ),
        (
            {"validation": "30"},
            "split_digits was asked for '30' validation images a task; its 2 classes share them equally, "
            "so choose a multiple of 2.",
        ),
        (
            {"validation": 400},
            "split_digits was asked for 400 validation images a task; its tasks allow 1 to 277, "
            "so choose a whole number among them.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        split_digits(**settings)
    assert str(error.value) == message


def test_it_tells_its_choices():
    assert split_digits(tasks=1, validation=8).describe() == {"validation": 8}

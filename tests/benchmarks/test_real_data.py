"""The published data sets, or complete subsets of them, where HYPERMASK_TEST_DATA names the folder they lie in."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hypermask.benchmarks import data, split_cifar100, split_cifar100_5x20, tiny_imagenet

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.filterwarnings("ignore:.*(are not the published files|of the 200 classes)"),
]


@pytest.fixture
def root() -> Path:
    return Path(os.environ["HYPERMASK_TEST_DATA"])


@pytest.fixture
def cifar100(root):
    if not (root / "cifar-100-python").is_dir():
        pytest.skip(f"not run: {root} has no cifar-100-python")
    return root


@pytest.fixture
def tiny(root):
    if not (root / "tiny-imagenet-200").is_dir():
        pytest.skip(f"not run: {root} has no tiny-imagenet-200")
    return root


def test_split_cifar100(cifar100):
    benchmark = split_cifar100(root=cifar100)
    tasks = [benchmark.task(index) for index in range(10)]
    assert [[len(part) for part in (t.train, t.validation, t.test)] for t in tasks] == [[4500, 500, 1000]] * 10
    assert benchmark.class_names[:3] == ("apple", "aquarium_fish", "baby")
    assert benchmark.class_names[99] == "worm"
    # The channels' statistics of the training images, which FeCAM's augmentation normalises with.
    pixels = np.concatenate([part.images.numpy() for task in tasks for part in (task.train, task.validation)]) / 255
    assert pixels.mean((0, 2, 3)) == pytest.approx((0.5071, 0.4867, 0.4408), abs=5e-4)
    assert pixels.std((0, 2, 3)) == pytest.approx((0.2675, 0.2565, 0.2761), abs=5e-4)


def test_split_cifar100_5x20(cifar100):
    benchmark = split_cifar100_5x20(root=cifar100)
    tasks = [benchmark.task(index) for index in range(5)]
    assert [[len(part) for part in (t.train, t.validation, t.test)] for t in tasks] == [[9000, 1000, 2000]] * 5
    assert benchmark.class_names[tasks[0].classes[0]] == "apple"


def test_tiny_imagenet(tiny):
    classes = len(os.listdir(tiny / "tiny-imagenet-200" / "train"))
    benchmark = tiny_imagenet(tasks=classes // 5, root=tiny)
    task = benchmark.task(benchmark.tasks - 1)
    assert [len(part) for part in (task.train, task.validation, task.test)] == [2250, 250, 250]
    wnid = benchmark.checksums["class order"][-1].split()[3]
    first = tiny / "tiny-imagenet-200" / "train" / wnid / "images" / f"{wnid}_0.JPEG"
    with Image.open(first) as image:
        expected = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(task.validation.images[task.validation.labels == 3][0].numpy(), expected)


def test_report(root):
    states = {status.name: status.state for status in data.report(root)}
    for name in ("cifar-100-python", "tiny-imagenet-200"):
        assert states[name] == ("found" if (root / name).is_dir() else "missing")

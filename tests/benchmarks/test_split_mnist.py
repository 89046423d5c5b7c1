import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

from hypermask.benchmarks import split_mnist
from hypermask.benchmarks.data import load_mnist
from hypermask.errors import HyperMaskError

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def test_tasks():
    benchmark = split_mnist()
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("split_mnist", 5, 2)
    assert benchmark.input_shape == (784,)
    assert benchmark.class_names == tuple("0123456789")
    tasks = [benchmark.task(index) for index in range(5)]
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [len(task.train) for task in tasks] == [11665, 11089, 10263, 11183, 10800]
    assert [len(task.validation) for task in tasks] == [1000] * 5
    assert [len(task.test) for task in tasks] == [2115, 2042, 1874, 1986, 1983]


def test_images_keep_their_order_and_the_first_are_for_validation():
    train, test, checksums = load_mnist()
    benchmark = split_mnist(validation=700)
    for index in range(5):
        task = benchmark.task(index)
        for arrays, parts in ((train, (task.validation, task.train)), (test, (task.test,))):
            chosen = (arrays.labels == 2 * index) | (arrays.labels == 2 * index + 1)
            images = torch.cat([part.images for part in parts])
            labels = torch.cat([part.labels for part in parts])
            assert np.array_equal(images.numpy(), arrays.images[chosen])
            assert np.array_equal(np.array(task.classes)[labels.numpy()], arrays.labels[chosen])
        assert len(task.validation) == 700
    assert benchmark.checksums == checksums


@pytest.mark.parametrize("device", DEVICES)
def test_prepare_is_torchvisions_crop_then_normalisation_at_the_same_offsets(device):
    benchmark = split_mnist(tasks=1, device=device)
    images = benchmark.task(0).train.images[:40]
    found = benchmark.prepare(images, 0, torch.Generator(device).manual_seed(3))
    offsets = torch.randint(9, (2, 40), generator=torch.Generator(device).manual_seed(3), device=device)
    rest = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    for image, prepared, row, column in zip(images, found, *offsets.tolist(), strict=True):
        padded = functional.pad(Image.fromarray(image[0].cpu().numpy()), [4])
        expected = rest(functional.crop(padded, row, column, 28, 28)).flatten()
        torch.testing.assert_close(prepared.cpu(), expected, rtol=0, atol=1e-6)
    assert len({(row, column) for row, column in offsets.T.tolist()}) > 20


@pytest.mark.parametrize("device", DEVICES)
def test_prepare_without_augmentation(device):
    images = split_mnist(tasks=1, device=device).task(0).test.images[:40]
    expected = ((images.cpu().float() / 255 - 0.1307) / 0.3081).flatten(1)
    plain = split_mnist(tasks=1, device=device).prepare(images, 0)
    torch.testing.assert_close(plain.cpu(), expected, rtol=0, atol=1e-6)
    assert plain.dtype == torch.float32
    generator = torch.Generator(device).manual_seed(1)
    unaugmented = split_mnist(tasks=1, augment=False, device=device)
    assert torch.equal(unaugmented.prepare(images, 0, generator), plain)


def test_prepare_without_normalisation_leaves_pixels_between_0_and_1():
    benchmark = split_mnist(tasks=1, augment=False, normalise=False)
    images = benchmark.task(0).test.images[:40]
    prepared = benchmark.prepare(images, 0, torch.Generator().manual_seed(1))
    torch.testing.assert_close(prepared, images.flatten(1) / 255, rtol=0, atol=1e-6)
    assert (prepared.min(), prepared.max()) == (0, 1)


def test_prepare_leaves_the_images_alone():
    benchmark = split_mnist(tasks=1)
    images = benchmark.task(0).train.images[:40]
    before = images.clone()
    benchmark.prepare(images, 0)
    benchmark.prepare(images, 0, torch.Generator().manual_seed(1))
    assert torch.equal(images, before)


def test_fewer_tasks_are_the_first_pairs():
    two = split_mnist(tasks=2)
    assert two.tasks == 2
    assert two.class_names == tuple("0123")
    assert torch.equal(two.task(1).train.images, split_mnist().task(1).train.images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"tasks": 6},
            "split_mnist was asked for 6 tasks; it has 1 to 5, so choose a whole number among them.",
        ),
        (
            {"tasks": "2"},
            "split_mnist was asked for '2' tasks; it has 1 to 5, so choose a whole number among them.",
        ),
        (
            {"tasks": 2.0},
            "split_mnist was asked for 2.0 tasks; it has 1 to 5, so choose a whole number among them.",
        ),
        (
            {"validation": 1000.0},
            "split_mnist was asked for 1000.0 validation images a task; its tasks allow 1 to 11262, "
            "so choose a whole number among them.",
        ),
        (
            {"validation": 11263},
            "split_mnist was asked for 11263 validation images a task; its tasks allow 1 to 11262, "
            "so choose a whole number among them.",
        ),
        (
            {"validation": 0},
            "split_mnist was asked for 0 validation images a task; its tasks allow 1 to 11262, "
            "so choose a whole number among them.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        split_mnist(**settings)
    assert str(error.value) == message


def test_wrong_task_or_images_are_refused():
    benchmark = split_mnist(tasks=2)
    images = benchmark.task(0).test.images[:3]
    for call in (benchmark.task, lambda index: benchmark.prepare(images, index)):
        for index in (2, -1):
            with pytest.raises(HyperMaskError) as error:
                call(index)
            assert str(error.value) == (f"split_mnist has no task of index {index}; it has 2 tasks, so choose 0 to 1.")
    with pytest.raises(HyperMaskError) as error:
        benchmark.prepare(images.float(), 0)
    assert str(error.value) == (
        "split_mnist prepares uint8 images of shape [1, 28, 28], found torch.float32 of shape [1, 28, 28]; "
        "pass images as a task holds them."
    )


def test_it_tells_its_choices():
    assert split_mnist(tasks=1, augment=False, validation=7).describe() == {
        "validation": 7,
        "augment": False,
        "normalise": True,
    }

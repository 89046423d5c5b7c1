import numpy as np
import pytest
import torch

from hypermask.benchmarks import permuted_mnist
from hypermask.benchmarks.data import load_mnist
from hypermask.benchmarks.permuted_mnist import draw_permutation
from hypermask.errors import HyperMaskError
from hypermask.seeds import generator

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def test_tasks():
    benchmark = permuted_mnist(tasks=3)
    task = benchmark.task(2)
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("permuted_mnist", 3, 10)
    assert benchmark.input_shape == (1024,)
    assert [len(part) for part in (task.train, task.validation, task.test)] == [55000, 5000, 10000]
    assert task.classes == tuple(range(20, 30))
    assert benchmark.class_names[27] == "7 in task 3"
    assert len(benchmark.class_names) == 30


def test_validation_is_the_first_images():
    train, test, _ = load_mnist()
    task = permuted_mnist(tasks=1, validation=100).task(0)
    assert np.array_equal(task.validation.images.numpy(), train.images[:100])
    assert np.array_equal(task.train.images.numpy(), train.images[100:])
    assert np.array_equal(task.train.labels.numpy(), train.labels[100:])
    assert np.array_equal(task.test.images.numpy(), test.images)


def test_all_tasks_share_one_copy_of_the_images():
    benchmark = permuted_mnist(tasks=100)
    first, last = benchmark.task(0), benchmark.task(99)
    assert first.train.images.dtype == torch.uint8
    storages = {
        part.images.untyped_storage().data_ptr() for task in (first, last) for part in (task.train, task.validation)
    }
    assert len(storages) == 1
    assert first.test.images.data_ptr() == last.test.images.data_ptr()


@pytest.mark.parametrize("device", DEVICES)
def test_prepare_pads_to_32_by_32_then_permutes_the_first_task_too(device):
    benchmark = permuted_mnist(tasks=2, seed=5, device=device)
    images = benchmark.task(1).train.images[:7]
    padded = np.pad(images.cpu().numpy()[:, 0], ((0, 0), (2, 2), (2, 2))).reshape(7, 1024)
    for task in range(2):
        expected = padded[:, draw_permutation(5, task).numpy()].astype(np.float32) / np.float32(255)
        found = benchmark.prepare(images, task)
        assert found.dtype == torch.float32
        assert np.array_equal(found.cpu().numpy(), expected)
    assert not torch.equal(benchmark.prepare(images, 0), benchmark.prepare(images, 1))
    assert not np.array_equal(benchmark.prepare(images, 0).cpu().numpy(), padded / np.float32(255))


def test_standardised_pixels_are_those_of_the_files_permuted():
    benchmark = permuted_mnist(tasks=2, seed=5, pixels="standardised")
    images = benchmark.task(1).train.images
    found = benchmark.prepare(images, 1)
    assert (benchmark.input_shape, found.shape) == ((784,), (len(images), 784))
    assert found.mean().item() == pytest.approx(0.0, abs=0.01)
    assert found.std().item() == pytest.approx(1.0, abs=0.01)
    values = (images[:7].flatten(1).numpy() / 255 - 0.1307) / 0.3081
    assert np.allclose(found[:7].numpy(), values[:, draw_permutation(5, 1, 784).numpy()], atol=1e-6)
    in_order = permuted_mnist(tasks=2, seed=5, pixels="standardised", first_task_permuted=False)
    assert torch.equal(in_order.permutations, torch.stack([torch.arange(784), benchmark.permutations[1]]))
    assert benchmark.describe() == {"validation": 5000, "pixels": "standardised"}
    # The name of what there was before there was a choice stays out of the configurations of one's own records.
    assert permuted_mnist(tasks=2).describe() == {"validation": 5000}


def test_prepare_never_augments():
    benchmark = permuted_mnist(tasks=1)
    images = benchmark.task(0).train.images[:9]
    with_generator = benchmark.prepare(images, 0, torch.Generator().manual_seed(1))
    assert torch.equal(with_generator, benchmark.prepare(images, 0))


def test_permutations_follow_from_the_seed_and_stand_in_the_checksums():
    first = permuted_mnist(tasks=3, seed=1).checksums["permutations"]
    # A change here makes every record of Permuted MNIST another data set's.
    assert first[:2] == [
        "6a2743425f35b55d4ea5b3aae16473940fb5523b8932aeb220d6dd826a5ab006",
        "076ebc28c275df40f877bf6bb943b34c2e31854bc5f58ffbeec32b971584c03e",
    ]
    assert permuted_mnist(tasks=2, seed=1).checksums["permutations"] == first[:2]
    assert not set(permuted_mnist(tasks=3, seed=2).checksums["permutations"]) & set(first)
    assert len(set(first)) == 3
    assert draw_permutation(1, 0).equal(torch.randperm(1024, generator=generator(1, "permutation", 0)))
    assert draw_permutation(1, 0).sort().values.equal(torch.arange(1024))


def test_checksums_name_the_files():
    checksums = permuted_mnist(tasks=1).checksums
    assert list(checksums) == [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
        "permutations",
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"tasks": 0},
            "permuted_mnist was asked for 0 tasks; it has at least 1, so choose a whole number among them.",
        ),
        (
            {"validation": 60000},
            "permuted_mnist was asked for 60000 validation images a task; its tasks allow 1 to 59999, "
            "so choose a whole number among them.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        permuted_mnist(**settings)
    assert str(error.value) == message


def test_it_tells_its_choices():
    assert permuted_mnist(tasks=2, validation=7).describe() == {"validation": 7}

import numpy as np
import pytest
import torch

from hypermask.benchmarks.arrays import Arrays, ImageSet
from hypermask.benchmarks.augment import CHANNEL_STATISTICS, random_crop, random_flip
from hypermask.benchmarks.base import rank_within_class
from hypermask.benchmarks.class_incremental import ClassIncremental, flip_and_crop, in_groups, per_class
from hypermask.errors import HyperMaskError

CLASSES = 7


def image_set(remark=""):
    """Ten training and three test images of each class, mixed; each image's first pixel tells it apart."""
    draw = np.random.default_rng(2)
    parts = []
    for count in (10, 3):
        labels = draw.permutation(np.arange(CLASSES).repeat(count))
        images = draw.integers(256, size=(len(labels), 3, 6, 6), dtype=np.uint8)
        images[:, 0, 0, 0] = np.arange(len(labels))
        parts.append(Arrays(images, labels))
    return ImageSet(*parts, tuple("abcdefg"), {"set": "0" * 64}, remark)


def benchmark(
    classes=((3, 1), (6, 0, 5)), validation=4, augmentation=None, statistics="cifar100", remark="", **choices
):
    return ClassIncremental(
        "test_set",
        image_set(remark),
        classes,
        validation=validation,
        augmentation=augmentation,
        statistics=statistics,
        device="cpu",
        **choices,
    )


def test_tasks_of_different_sizes():
    found = benchmark()
    assert (found.name, found.tasks, found.classes_per_task) == ("test_set", 2, 3)
    assert found.image_shape == found.input_shape == (3, 6, 6)
    assert found.checksums == {"set": "0" * 64}
    tasks = [found.task(0), found.task(1)]
    assert [task.classes for task in tasks] == [(1, 3), (0, 5, 6)]
    assert [[found.class_names[label] for label in task.classes] for task in tasks] == [["b", "d"], ["a", "f", "g"]]
    assert [[len(part) for part in (t.train, t.validation, t.test)] for t in tasks] == [[12, 8, 6], [18, 12, 9]]


def test_every_image_is_in_one_part_with_its_class_in_the_order_of_the_set():
    images = image_set()
    found = benchmark()
    for task in (found.task(0), found.task(1)):
        for part, arrays in ((task.train, images.train), (task.validation, images.train), (task.test, images.test)):
            places = part.images[:, 0, 0, 0].long()
            assert torch.equal(places, places.sort().values)
            assert torch.equal(torch.tensor(task.classes)[part.labels], torch.from_numpy(arrays.labels)[places])
        for label in task.classes:
            of_class = np.flatnonzero(images.train.labels == label)
            local = task.classes.index(label)
            assert task.validation.images[task.validation.labels == local][:, 0, 0, 0].tolist() == of_class[:4].tolist()
            assert task.train.images[task.train.labels == local][:, 0, 0, 0].tolist() == of_class[4:].tolist()


def test_without_strata_a_tasks_first_images_are_set_aside():
    labels = image_set().train.labels
    found = benchmark(stratified=False)
    for task in (found.task(0), found.task(1)):
        of_task = np.flatnonzero(np.isin(labels, task.classes)).tolist()
        aside = 4 * len(task.classes)
        assert task.validation.images[:, 0, 0, 0].tolist() == of_task[:aside]
        assert task.train.images[:, 0, 0, 0].tolist() == of_task[aside:]
        # The same number as with strata, of which these are no choice.
        assert task.validation.labels.bincount().tolist() != [4] * len(task.classes)


@pytest.mark.parametrize("statistics", CHANNEL_STATISTICS)
def test_prepare_normalises(statistics):
    images = benchmark().task(0).train.images
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in CHANNEL_STATISTICS[statistics])
    found = benchmark(statistics=statistics).prepare(images, 0)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, (images / 255 - mean) / std)


def test_prepare_augments_with_a_generator_alone():
    augmented = benchmark(augmentation=flip_and_crop(2))
    images = augmented.task(0).train.images
    before = images.clone()
    plain = augmented.prepare(images, 0)
    assert torch.equal(plain, benchmark().prepare(images, 0, torch.Generator().manual_seed(1)))
    found = augmented.prepare(images, 0, torch.Generator().manual_seed(1))
    draw = torch.Generator().manual_seed(1)
    assert torch.equal(found, augmented.prepare(random_crop(random_flip(images, draw), 2, draw), 0))
    assert not torch.equal(found, plain)
    assert torch.equal(images, before)


def test_a_remark_on_the_files_is_a_warning():
    with pytest.warns(UserWarning, match="they differ"):
        benchmark(remark="they differ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": [[0, 7]]}, "test_set has no class 7, which task 1 lists; its classes are 0 to 6."),
        ({"classes": [[0], [-1]]}, "test_set has no class -1, which task 2 lists; its classes are 0 to 6."),
        (
            {"classes": [[0, 1], [2, 1]]},
            "test_set was given class 1 in task 1 and again in task 2; give each class once.",
        ),
        ({"classes": [[0], []]}, "test_set was given [[0], []] as classes; give a list of classes for each task."),
        ({"classes": []}, "test_set was given [] as classes; give a list of classes for each task."),
        (
            {"validation": 10},
            "test_set was asked for 10 validation images a class; its classes allow 1 to 9, so choose a whole number "
            "among them.",
        ),
        (
            {"statistics": "mnist"},
            "test_set was asked for the channel statistics 'mnist'; choose imagenet or cifar100.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        benchmark(**settings)
    assert str(error.value) == message


def test_groups_and_shares():
    assert in_groups((5, 3, 1, 0, 2, 4), 2, 2) == [(5, 3), (1, 0)]
    assert per_class("x", 500, 10) == 50
    with pytest.raises(HyperMaskError, match="x was asked for 501 validation images a task; its 10 classes share them"):
        per_class("x", 501, 10)


def test_rank_within_class():
    assert rank_within_class(np.array([2, 0, 2, 2, 0, 1])).tolist() == [0, 0, 1, 2, 1, 0]

import pytest
import torch

from hypermask.benchmarks import made_shapes
from hypermask.errors import HyperMaskError


def test_tasks():
    benchmark = made_shapes()
    assert (benchmark.name, benchmark.tasks, benchmark.classes_per_task) == ("made_shapes", 4, 2)
    assert benchmark.input_shape == (3, 16, 16)
    tasks = [benchmark.task(index) for index in range(4)]
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [benchmark.class_names[label] for label in tasks[2].classes] == ["green square", "green diamond"]
    assert [[len(part) for part in (t.train, t.validation, t.test)] for t in tasks] == [[100, 20, 80]] * 4


def test_the_images_are_the_seeds():
    first, again, other = (made_shapes(seed=seed) for seed in (1, 1, 2))
    assert first.checksums == again.checksums
    assert first.checksums != other.checksums
    # What a seed draws is a list: runs of several seeds are of one configuration.
    assert all(isinstance(checksum, list) for checksum in first.checksums.values())
    assert torch.equal(first.task(0).train.images, again.task(0).train.images)
    assert not torch.equal(first.task(0).train.images[:5], first.task(0).validation.images[:5])


def test_shapes_have_the_colour_and_form_of_their_class():
    benchmark = made_shapes(tasks=12)
    assert len(benchmark.class_names) == len(set(benchmark.class_names)) == 24
    for index, channels in ((0, [True, False, False]), (7, [True, True, False]), (11, [False, True, True])):
        task = benchmark.task(index)
        brightest = task.test.images.flatten(2).amax(2).float().mean(0)
        assert (brightest > 200).tolist() == channels
    covered = [
        (task.test.images[task.test.labels == local].amax(1) >= 160).float().sum((1, 2)).mean().item()
        for task in (benchmark.task(0), benchmark.task(1))
        for local in (0, 1)
    ]
    square, diamond, disc, cross = covered
    assert square > disc > diamond > cross > 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 13}, "made_shapes was asked for 13 tasks; it has 1 to 12, so choose a whole number among them."),
        (
            {"validation": 21},
            "made_shapes was asked for 21 validation images a task; its 2 classes share them equally, so choose a "
            "multiple of 2.",
        ),
        (
            {"validation": "20"},
            "made_shapes was asked for '20' validation images a task; its 2 classes share them equally, so choose a "
            "multiple of 2.",
        ),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(HyperMaskError) as error:
        made_shapes(**settings)
    assert str(error.value) == message


@pytest.mark.parametrize("augment", [True, False])
def test_it_tells_its_choices(augment):
    assert made_shapes(tasks=1, augment=augment, validation=8).describe() == {
        "validation": 8,
        "augment": augment,
        "augmentation": "flip_and_crop.<locals>.<lambda>" if augment else None,
        "statistics": "imagenet",
        "stratified": True,
    }

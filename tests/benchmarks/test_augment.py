import torch
from torchvision.transforms import functional as reference
from torchvision.transforms.v2 import functional as reference_v2

from hypermask.benchmarks.augment import (
    CHANNEL_STATISTICS,
    brighten,
    crop,
    normalise,
    random_brightness,
    random_crop,
    random_flip,
    scale,
)


def test_the_published_channel_statistics():
    assert CHANNEL_STATISTICS == {
        "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "cifar100": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    }


def test_crop_equals_torchvision_at_every_offset():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (81, 3, 28, 20), dtype=torch.uint8, generator=generator)
    offsets = torch.cartesian_prod(torch.arange(9), torch.arange(9)).T
    cropped = crop(images, offsets, padding=4)
    assert cropped.dtype == torch.uint8
    for image, found, row, column in zip(images, cropped, *offsets.tolist(), strict=True):
        expected = reference.crop(reference.pad(image, [4]), row, column, 28, 20)
        assert torch.equal(found, expected)


def test_random_crop_draws_every_offset_equally_often_and_only_from_its_generator():
    images = torch.zeros(40_000, 1, 5, 5, dtype=torch.uint8)
    images[:, 0, 2, 2] = 255
    state = torch.random.get_rng_state()
    cropped = random_crop(images, 2, torch.Generator().manual_seed(7))
    assert torch.equal(torch.random.get_rng_state(), state)
    # The white pixel lands on each of the 25 places, 1600 times on average (standard deviation 39).
    places = cropped.flatten(1).argmax(1).bincount(minlength=25)
    assert places.sum() == 40_000
    assert ((places - 1600).abs() < 200).all()
    assert torch.equal(cropped, random_crop(images, 2, torch.Generator().manual_seed(7)))
    assert not torch.equal(cropped, random_crop(images, 2, torch.Generator().manual_seed(8)))


def test_scale_and_normalise():
    images = torch.tensor([0, 51, 255], dtype=torch.uint8)
    scaled = scale(images)
    assert scaled.dtype == torch.float32
    torch.testing.assert_close(scaled, torch.tensor([0.0, 0.2, 1.0]))
    torch.testing.assert_close(scale(torch.tensor([4, 16], dtype=torch.uint8), 16), torch.tensor([0.25, 1.0]))
    torch.testing.assert_close(normalise(scaled, 0.2, 0.4), torch.tensor([-0.5, 0.0, 2.0]))
    assert images.tolist() == [0, 51, 255]


def test_random_flip_mirrors_half_of_the_images():
    images = torch.arange(4 * 6, dtype=torch.uint8).view(1, 1, 4, 6).repeat(10_000, 1, 1, 1)
    flipped = random_flip(images, torch.Generator().manual_seed(1))
    mirrored = (flipped != images).flatten(1).any(1)
    assert torch.equal(flipped[mirrored], reference_v2.horizontal_flip(images[mirrored]))
    assert abs(mirrored.float().mean() - 0.5) < 0.02


def test_brighten_equals_torchvision():
    draw = torch.Generator().manual_seed(4)
    images = torch.randint(256, (9, 3, 8, 8), dtype=torch.uint8, generator=draw)
    factors = torch.tensor([0.0, 0.5, 1 - 63 / 255, 1.0, 1.1, 1 + 63 / 255, 1.5, 2.0, 300.0])
    brightened = brighten(images, factors)
    assert brightened.dtype == torch.uint8
    for image, found, factor in zip(images, brightened, factors.tolist(), strict=True):
        assert torch.equal(found, reference_v2.adjust_brightness(image, factor))


def test_random_brightness_is_uniform_around_one():
    images = torch.full((50_000, 1, 1, 1), 100, dtype=torch.uint8)
    levels = random_brightness(images, 0.25, torch.Generator().manual_seed(2)).flatten().int()
    # Levels 75 to 124 are 2 % of the draws each, 1000 (standard deviation 31); 125 needs a factor of exactly 1.25.
    counts = levels.bincount(minlength=126)
    assert counts[:75].sum() == 0
    assert ((counts[75:125] - 1000).abs() < 160).all()
    assert torch.equal(levels, random_brightness(images, 0.25, torch.Generator().manual_seed(2)).flatten().int())


def test_normalise_by_channel():
    images = torch.ones(2, 3, 4, 4)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in CHANNEL_STATISTICS["imagenet"])
    expected = (1 - mean) / std
    torch.testing.assert_close(normalise(images, mean, std), expected.expand(2, 3, 4, 4))

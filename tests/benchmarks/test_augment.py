import torch
from torchvision.transforms import functional as reference

from hypermask.benchmarks.augment import crop, normalise, random_crop, scale


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

import pytest
import torch
from torchvision.transforms.v2 import AutoAugment as Torchvision
from torchvision.transforms.v2 import AutoAugmentPolicy, InterpolationMode

from hypermask.benchmarks.autoaugment import AutoAugment

REFERENCE = Torchvision(AutoAugmentPolicy.CIFAR10)
POLICY = AutoAugment(32, 32, "cpu")
# Sums of products may round to the other side of a level.
WITHIN_ONE_LEVEL = ("Color", "Sharpness")


def images(height=32, width=32):
    """Noise, gradients, little contrast, one level, one level but for a pixel, two levels: uint8 [8, 3, 32, 32]."""
    draw = torch.Generator().manual_seed(3)
    noise = torch.randint(256, (2, 3, height, width), generator=draw)
    across = (torch.arange(width) * 255 // (width - 1)).expand(3, height, width)
    down = (torch.arange(height) * 3)[:, None].expand(3, height, width)
    faint = torch.randint(100, 120, (3, height, width), generator=draw)
    flat = torch.full((3, height, width), 77)
    pixel = flat.clone()
    pixel[1, 4, 5] = 201
    two = torch.randint(2, (3, height, width), generator=draw) * 254
    return torch.cat([noise, torch.stack([across, down, faint, flat, pixel, two])]).to(torch.uint8)


def reference(image, operation):
    if operation.name == "Identity":
        return image
    return REFERENCE._apply_image_or_video_transform(
        image, operation.name, operation.magnitude, InterpolationMode.NEAREST, REFERENCE._fill
    )


def assert_close(found, expected, name):
    differences = (found.int() - expected.int()).abs()
    if name in WITHIN_ONE_LEVEL:
        assert differences.max() <= 1
        assert (differences > 0).float().mean() < 0.05
    else:
        assert differences.max() == 0


def test_the_operations_are_those_of_torchvisions_policy():
    assert len(POLICY.operations) == 25 * 2 * 2 + 1
    names = [name for pair in REFERENCE._policies for name, _, _ in pair]
    assert [operation.name for operation in POLICY.operations[:-1:2]] == names
    signed = {operation.name for operation in POLICY.operations if operation.magnitude < 0}
    assert signed == {"Brightness", "Color", "Contrast", "Rotate", "Sharpness", "ShearY", "TranslateX", "TranslateY"}


@pytest.mark.parametrize("name", sorted({operation.name for operation in POLICY.operations}))
def test_every_operation_equals_torchvisions(name):
    nothing = len(POLICY.operations) - 1
    batch = images()
    for index, operation in enumerate(POLICY.operations):
        if operation.name == name:
            found = POLICY.apply(batch, torch.tensor([[index, nothing]]).expand(len(batch), 2))
            assert found.dtype == torch.uint8
            for image, augmented in zip(batch, found, strict=True):
                assert_close(augmented, reference(image, operation), name)


def test_images_that_are_not_square():
    policy = AutoAugment(20, 30, "cpu")
    batch = images(20, 30)
    for index in (5, 13, 15, 43, 50):
        operation = policy.operations[index]
        found = policy.apply(batch, torch.tensor([[index, 100]]).expand(len(batch), 2))
        for image, augmented in zip(batch, found, strict=True):
            assert_close(augmented, reference(image, operation), operation.name)


def test_each_image_meets_its_own_two_operations_in_order():
    batch = images().repeat(40, 1, 1, 1)
    chosen = POLICY.draw(len(batch), torch.Generator().manual_seed(1))
    found = POLICY.apply(batch, chosen)
    equal = 0
    for image, augmented, (first, second) in zip(batch, found, chosen.tolist(), strict=True):
        expected = reference(reference(image, POLICY.operations[first]), POLICY.operations[second])
        # One level that differs after the first operation may spread in the second.
        equal += (augmented != expected).float().mean() < 0.02
    assert equal >= 0.97 * len(batch)


def test_the_draws_follow_the_policys_probabilities():
    chosen = POLICY.draw(250_000, torch.Generator().manual_seed(2))
    nothing = len(POLICY.operations) - 1
    for policy, pair in enumerate(REFERENCE._policies):
        for stage, (_, probability, _) in enumerate(pair):
            positive = 2 * (2 * policy + stage)
            # 10 000 images meet each policy, half of them with each sign.
            counts = [(chosen[:, stage] == index).sum().item() for index in (positive, positive + 1)]
            assert counts == pytest.approx([5000 * probability] * 2, abs=300)
    assert (chosen[:, 0] == nothing).float().mean() == pytest.approx(
        1 - sum(pair[0][1] for pair in REFERENCE._policies) / 25, abs=0.01
    )


def test_everything_is_drawn_from_the_generator():
    batch = images()
    state = torch.random.get_rng_state()
    found = [POLICY(batch, torch.Generator().manual_seed(seed)) for seed in (7, 7, 8)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])

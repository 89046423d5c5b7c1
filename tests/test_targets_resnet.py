import pytest
import torch
from torch import nn
from torchvision.models import resnet18

from hypermask import targets
from hypermask.errors import HyperMaskError
from hypermask.model import HyperMask
from hypermask.targets import ResNet18

PAPER = (16, 16, 32, 64, 128)
NARROW = (4, 4, 6, 8, 10)


def images(count, size):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_with_torchvisions_widths_and_stem_it_is_torchvisions_resnet18():
    torch.manual_seed(1)
    reference = resnet18(num_classes=7)
    network = ResNet18(3, (64, 64, 128, 256, 512), 7, stem="conv7-pool")
    with torch.no_grad():
        for own, theirs in zip(network.parameters(), reference.parameters(), strict=True):
            own.copy_(theirs)
        torch.testing.assert_close(network(images(4, 64)), reference(images(4, 64)))


@pytest.mark.parametrize(
    ("stem", "classes", "parameters"),
    [("conv3", 10, 699_066), ("conv3-pool", 10, 699_066), ("conv3-pool", 20, 700_356), ("conv7-pool", 10, 700_986)],
)
def test_the_papers_network_has_about_700_000_masked_parameters(stem, classes, parameters):
    network = ResNet18(3, PAPER, classes, stem=stem)
    batch_norm = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    of_batch_norm = sum(p.numel() for m in batch_norm for p in m.parameters())
    assert sum(p.numel() for p in network.parameters()) - of_batch_norm == parameters


def test_seventeen_convolutions_three_projections_and_one_linear_layer():
    network = ResNet18(3, PAPER, 10)
    convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert [c.kernel_size for c in convolutions].count((3, 3)) == 17
    projections = [c for c in convolutions if c.kernel_size == (1, 1)]
    assert [(c.in_channels, c.out_channels, c.stride) for c in projections] == [
        (16, 32, (2, 2)),
        (32, 64, (2, 2)),
        (64, 128, (2, 2)),
    ]
    assert all(c.bias is None for c in convolutions)
    assert [module.out_features for module in network.modules() if isinstance(module, nn.Linear)] == [10]
    assert [name for name, _ in network.named_parameters()][-2:] == ["output.weight", "output.bias"]


@pytest.mark.parametrize(
    ("stem", "size", "after_stem", "after_groups"),
    [("conv3", 32, 32, 4), ("conv3-pool", 32, 16, 2), ("conv7-pool", 32, 8, 1), ("conv3-pool", 64, 32, 4)],
)
def test_the_stem_decides_the_size_of_the_maps(stem, size, after_stem, after_groups):
    network = ResNet18(3, NARROW, 5, stem=stem)
    maps = network.stem(images(2, size))
    assert maps.shape == (2, 4, after_stem, after_stem)
    assert network.groups(maps).shape == (2, 10, after_groups, after_groups)
    assert network(images(2, size)).shape == (2, 5)


def test_weights_start_at_pytorchs_defaults():
    torch.manual_seed(3)
    network = ResNet18(3, NARROW, 2)
    torch.manual_seed(3)
    assert torch.equal(network.stem[0].weight, nn.Conv2d(3, 4, 3, bias=False).weight)
    assert all(m.weight.eq(1).all() and m.bias.eq(0).all() for m in network.modules() if isinstance(m, nn.BatchNorm2d))


def test_the_activation():
    network = targets.build("resnet18", NARROW, "elu", (3, 16, 16), 2, "conv3")
    assert sum(isinstance(module, nn.ELU) for module in network.modules()) == 9
    assert not any(isinstance(module, nn.ReLU) for module in network.modules())


def test_masks_cover_all_but_batch_norm():
    model = HyperMask(ResNet18(3, NARROW, 2), tasks=2, embedding_size=4, hypernetwork_hidden=(5,))
    names = [tensor.name for tensor in model.masked]
    assert names[0] == "stem.0.weight"
    assert names[-2:] == ["output.weight", "output.bias"]
    assert len(names) == 17 + 3 + 2
    assert model.output_bias == "output.bias"
    assert not any("norm" in name for name in names)


def test_one_step_reaches_every_trainable_parameter():
    torch.manual_seed(0)
    model = HyperMask(ResNet18(3, NARROW, 2), tasks=2, embedding_size=4, hypernetwork_hidden=(5,), p=15, l1="plain")
    model.loss(images(8, 16), torch.arange(8) % 2, 0, 1, 10).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.target.parameters())
    fixed = HyperMask(
        ResNet18(3, NARROW, 2), tasks=2, embedding_size=4, hypernetwork_hidden=(5,), trainable_target=False
    )
    fixed.loss(images(8, 16), torch.arange(8) % 2, 0, 1, 10).backward()
    assert all(p.grad is None for p in fixed.target.parameters())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ResNet18(3, NARROW, 2, stem="conv5"), "unknown stem 'conv5'; expected conv3, conv3-pool, conv7-pool."),
        (
            lambda: ResNet18(3, (4, 4), 2),
            "ResNet-18 was given 2 widths; expected 5, of the stem and four groups.",
        ),
        (
            lambda: targets.build("resnet18", NARROW, "relu", (64,), 2),
            "resnet18 takes images, and the benchmark gives inputs of shape [64]; choose a benchmark of colour images, "
            "or the target mlp.",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(HyperMaskError) as error:
        build()
    assert str(error.value) == message

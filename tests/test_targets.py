import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hypermask import targets
from hypermask.errors import HyperMaskError
from hypermask.targets import MLP


@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("elu", F.elu)])
def test_the_mlp_by_hand(activation, function):
    network = MLP(6, (5, 4), 3, activation)
    inputs = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    parameters = list(network.parameters())
    signal = inputs
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        signal = function(signal @ weight.T + bias)
    torch.testing.assert_close(network(inputs), signal @ parameters[-2].T + parameters[-1])


def test_shapes_and_names_in_the_order_of_the_layers():
    network = MLP(784, (400, 400), 2)
    assert [(name, tuple(p.shape)) for name, p in network.named_parameters()] == [
        ("hidden.0.weight", (400, 784)),
        ("hidden.0.bias", (400,)),
        ("hidden.1.weight", (400, 400)),
        ("hidden.1.bias", (400,)),
        ("output.weight", (2, 400)),
        ("output.bias", (2,)),
    ]
    assert sum(p.numel() for p in network.parameters()) == 475_202


def test_images_are_flattened():
    network = MLP(64, (5,), 3)
    images = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(network(images), network(images.flatten(1)))


def test_without_hidden_layers_it_is_linear():
    network = MLP(4, (), 2)
    inputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(network(inputs), network.output(inputs))


def test_weights_start_at_pytorchs_defaults():
    torch.manual_seed(3)
    network = MLP(20, (10,), 2)
    torch.manual_seed(3)
    first, last = nn.Linear(20, 10), nn.Linear(10, 2)
    assert torch.equal(network.hidden[0].weight, first.weight)
    assert torch.equal(network.hidden[0].bias, first.bias)
    assert torch.equal(network.output.weight, last.weight)


def test_build_takes_the_benchmarks_shape():
    network = targets.build("mlp", (5,), "elu", (1, 8, 8), 3)
    assert network(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    assert isinstance(network.activation, nn.ELU)


def test_an_unknown_target_is_one_sentence():
    with pytest.raises(HyperMaskError, match=r"^unknown target network 'vgg'; expected .*mlp.*HyperMask\.$"):
        targets.build("vgg", (5,), "relu", (64,), 2)

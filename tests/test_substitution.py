import pytest
import torch
from torch import nn

from hypermask.model import HyperMask
from hypermask.substitution import call


class Everywhere(nn.Module):
    """One layer under two names, called twice, and a weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.output = nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.output(self.second(torch.tanh(self.again(torch.tanh(self.first(inputs))))))


def test_the_tensors_are_used_wherever_the_parameter_stands_and_leave_nothing_behind():
    network, inputs = Everywhere(), torch.randn(5, 4)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    halved = {"first.weight": network.first.weight / 2, "second.bias": network.second.bias / 2}
    weight = before["first.weight"] / 2
    hidden = torch.tanh(inputs @ weight.T + before["first.bias"])
    hidden = torch.tanh(hidden @ weight.T + before["first.bias"])
    hidden = hidden @ weight.T + before["second.bias"] / 2
    expected = hidden @ before["output.weight"].T + before["output.bias"]
    for _ in range(3):
        torch.testing.assert_close(call(network, halved, inputs), expected)
        assert network.first.weight is network.again.weight is network.second.weight
        assert isinstance(network.first.weight, nn.Parameter)
        assert all(torch.equal(parameter, before[name]) for name, parameter in network.named_parameters())


def test_a_network_that_calls_one_layer_twice_learns_with_masks():
    layer = nn.Linear(4, 4)
    network = nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(4, 2))
    model = HyperMask(network, tasks=2, embedding_size=3, hypernetwork_hidden=(5,), p=30.0)
    inputs, labels = torch.randn(6, 4), torch.tensor([0, 1] * 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for iteration in (1, 2, 3):
        optimizer.zero_grad()
        model.loss(inputs, labels, 0, iteration, 3).backward()
        gradient = layer.weight.grad
        assert gradient.isfinite().all() and gradient.any()
        optimizer.step()
    assert isinstance(layer.weight, nn.Parameter) and (layer.weight != 0).all()


def test_a_recurrent_layer_has_its_own_weights_again_after_the_call():
    layer, inputs = nn.LSTM(4, 3), torch.randn(5, 4)
    before = layer(inputs)[0]
    halved = {name: parameter.detach() / 2 for name, parameter in layer.named_parameters()}
    expected = nn.LSTM(4, 3)
    expected.load_state_dict(halved)
    torch.testing.assert_close(call(layer, halved, inputs)[0], expected(inputs)[0], rtol=0, atol=0)
    torch.testing.assert_close(layer(inputs)[0], before, rtol=0, atol=0)
    assert all(weight is own for weight, own in zip(layer._flat_weights, layer.parameters(), strict=True))


def test_the_parameters_are_back_where_the_network_refuses_its_inputs():
    layer = nn.LSTM(4, 3)
    own = dict(layer.named_parameters())
    with pytest.raises(RuntimeError):
        call(layer, {name: parameter / 2 for name, parameter in own.items()}, torch.randn(5, 7))
    assert all(layer._parameters[name] is parameter for name, parameter in own.items())
    assert all(weight is parameter for weight, parameter in zip(layer._flat_weights, own.values(), strict=True))

import random

import numpy as np
import pytest
import torch
from small_methods import Linear
from torch import nn

from hypermask import HyperMask
from hypermask.hidden_state import UNTOLD, changed, digests
from hypermask.targets import MLP


class Plain(Linear):
    """Its own layer, generators, a teacher and a memory: all that a method may keep."""

    def __init__(self) -> None:
        super().__init__(tasks=2, inputs=3)
        self.memory: list[torch.Tensor] = []
        self.strength = 0.5
        self.activation = lambda inputs: inputs
        self.aliases = {"layer": self.layer, "weight": self.layer.weight}
        self.teacher = [nn.Linear(2, 2)]
        self.draws = {"torch": torch.Generator(), "numpy": np.random.default_rng(1), "python": random.Random(1)}


def lost(method, change) -> list[str]:
    before = digests(method)
    assert changed(before, digests(method)) == [], "looking changes nothing"
    change()
    return changed(before, digests(method))


def forget_gradient(method) -> None:
    method.layer.weight.requires_grad_(False)


@torch.no_grad()
def train(method) -> None:
    for parameter in method.parameters():
        parameter.add_(1)
        parameter.grad = torch.ones_like(parameter)


CHANGES = {
    "memory": lambda method: method.memory.append(torch.zeros(1)),
    "strength": lambda method: setattr(method, "strength", 1.0),
    "aliases": lambda method: method.aliases.update(weight=method.layer.bias),
    "teacher": lambda method: train(method.teacher[0]),
    "later": lambda method: setattr(method, "later", True),
    "which parameters train": forget_gradient,
    "shapes of its weights": lambda method: method.register_buffer("mean", torch.zeros(3)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_weights_do_not_tell_is_seen(name):
    method = Plain()
    assert lost(method, lambda: CHANGES[name](method)) == [name]


@pytest.mark.parametrize(
    "draw",
    [lambda d: torch.rand(1, generator=d["torch"]), lambda d: d["numpy"].random(), lambda d: d["python"].random()],
)
def test_a_generator_that_was_drawn_from_is_seen(draw):
    method = Plain()
    assert lost(method, lambda: draw(method.draws)) == ["draws"]


def test_a_tensor_in_a_list_that_changes_in_place_is_seen():
    method = Plain()
    method.memory.append(torch.zeros(2))
    assert lost(method, lambda: method.memory[0].add_(1)) == ["memory"]


def test_what_weights_tell_is_no_hidden_state():
    method = Plain()
    assert lost(method, lambda: train(method)) == []
    assert lost(method, method.eval) == []


def test_an_attribute_that_is_gone_or_cannot_be_told_is_lost(tmp_path):
    method = Plain()
    assert lost(method, lambda: delattr(method, "strength")) == ["strength"]
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        method.log = [log]
        found = digests(method)
    assert found["log"] == UNTOLD
    assert changed(found, found) == ["log"]


def test_equal_methods_hold_the_same():
    def made() -> dict[str, str]:
        torch.manual_seed(1)
        return digests(Plain())

    assert made() == made()


def test_only_parts_of_ones_own_are_looked_at():
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 2))
            self.calls = 0

    assert digests(HyperMask(MLP(4, (3,), 2), tasks=2, embedding_size=2, hypernetwork_hidden=(2,))) == {}
    method = HyperMask(Counted(), tasks=2, embedding_size=2, hypernetwork_hidden=(2,))
    assert "target.calls" in digests(method) and not any("inner" in name for name in digests(method))
    assert "which parameters train" not in digests(method)
    assert lost(method, lambda: setattr(method.target, "calls", 1)) == ["target.calls"]

import random
from collections import deque
from typing import ClassVar

import numpy as np
import pytest
import salted
import torch
from small_methods import Linear
from torch import nn
from torch.nn.utils import prune

from hypermask import HyperMask
from hypermask.hidden_state import UNTOLD, changed, digests, tensor_digest
from hypermask.targets import MLP


class Plain(Linear):
    """Its own layer, generators, a teacher and a memory: all that a method may keep."""

    shared: ClassVar[list[int]] = []

    def __init__(self) -> None:
        super().__init__(tasks=2, inputs=3)
        self.memory: list[torch.Tensor] = []
        self.strength = 0.5
        self.names = {"a", "b"}
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
    "layer.anchor": lambda method: setattr(method.layer, "anchor", {"weight": torch.zeros(2)}),
    "layer.in_features": lambda method: setattr(method.layer, "in_features", 4),
    "layer.weight.importance": lambda method: setattr(method.layer.weight, "importance", torch.zeros(3)),
    "Plain.shared": lambda method: method.shared.append(1),
    "names": lambda method: method.names.add("c"),
    "which parameters train": forget_gradient,
    "shapes of its weights": lambda method: method.register_buffer("mean", torch.zeros(3)),
}


@pytest.fixture(autouse=True)
def nothing_shared_yet():
    Plain.shared.clear()


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


def test_where_nothing_is_ones_own_nothing_is_looked_at():
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 2))
            self.calls = 0

    assert digests(HyperMask(MLP(4, (3,), 2), tasks=2, embedding_size=2, hypernetwork_hidden=(2,))) == {}
    method = HyperMask(Counted(), tasks=2, embedding_size=2, hypernetwork_hidden=(2,))
    # Of the method, which is none of one's own, it is tested that weights tell all.
    assert "target.calls" in digests(method) and not {"beta", "which parameters train"} & set(digests(method))
    assert lost(method, lambda: setattr(method.target, "calls", 1)) == ["target.calls"]


def test_what_a_library_keeps_beside_its_weights_and_cannot_be_told_is_left_out():
    class Recurrent(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.LSTM(3, 2)

    method = Recurrent()
    assert UNTOLD not in digests(method).values()
    assert lost(method, lambda: setattr(method.recurrent, "dropout", 0.5)) == ["recurrent.dropout"]


def test_weights_that_are_made_anew_from_others_are_no_state():
    class Normed(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.pruned, self.normed = nn.Linear(3, 2), nn.utils.weight_norm(nn.Linear(3, 2))
            prune.l1_unstructured(self.pruned, "weight", amount=0.5)

    method = Normed()

    def step() -> None:
        train(method)
        method.pruned(torch.zeros(1, 3)), method.normed(torch.zeros(1, 3))

    assert lost(method, step) == []


def test_any_layout_has_a_digest():
    tensor = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert tensor_digest(tensor.to_sparse()) == tensor_digest(tensor.to_sparse_csr()) == tensor_digest(tensor)
    imaginary = torch.tensor([1.0 + 2.0j])
    assert tensor_digest(imaginary.conj()) == tensor_digest(torch.tensor([1.0 - 2.0j])) != tensor_digest(imaginary)


def test_sets_are_told_alike_in_every_process():
    program = (
        "import torch\n"
        "from torch import nn\n"
        "from hypermask import HyperMask\n"
        "from hypermask.hidden_state import digests\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer, self.kinds = nn.Linear(2, 2), {'one', 'two', frozenset({'three', 'four'})}\n"
        "        for name in ('mean', 'mask', 'position'):\n"
        "            self.register_buffer(name, torch.zeros(2), persistent=False)\n"
        "print(sorted(digests(HyperMask(Net(), tasks=2)).items()))\n"
    )
    told = salted.printed(program)
    assert len(told) == 1 and "target.kinds" in told.pop()


@pytest.mark.parametrize(
    ("container", "change"),
    [
        ({}, lambda held: held.update(seen=1)),
        (set(), lambda held: held.add(1)),
        (deque(), lambda held: held.append(1)),
        (bytearray(), lambda held: held.extend(b"1")),
        (torch.zeros(2), lambda held: held.add_(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_container_of_a_class_is_looked_at(container, change, monkeypatch):
    monkeypatch.setattr(Plain, "kept", container, raising=False)
    assert lost(Plain(), lambda: change(container)) == ["Plain.kept"]


def test_tensors_of_the_same_bytes_are_told_apart_by_type_and_shape():
    tensors = (torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(6), torch.zeros(2, 3, dtype=torch.int32))
    assert len({tensor_digest(tensor) for tensor in tensors}) == 4

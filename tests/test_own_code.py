import copy
import functools
import inspect
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import salted
import torch
from sklearn.datasets import load_digits
from torch import nn

from hypermask import HyperMask, own_code
from hypermask.benchmarks.split_digits import SplitDigits


class Layer(nn.Linear):
    """One's own, and an extension of a library's."""


def test_the_code_of_libraries_and_of_python_is_no_part_of_a_configuration():
    """It would make the configuration another one with every version of Python."""
    assert own_code.sources([SplitDigits, HyperMask, nn.Linear]) == {}
    assert own_code.sources([Layer]) == {f"{__name__}.Layer": inspect.getsource(Layer)}


def halved(x):
    return x / 2


def quartered(x):
    return halved(halved(x))


class Helped(nn.Module):
    """Calls functions beside it, one of them only by way of another; and one of an installed package."""

    data = load_digits

    def forward(self, x):
        return [quartered(part) for part in x] or np.linspace(0, 1) or load_digits()


def test_functions_that_a_class_names_are_its_code_and_those_of_installed_packages_are_not():
    names = {name.rpartition(".")[2]: source for name, source in own_code.sources([Helped]).items()}
    assert list(names) == ["Helped", "quartered", "halved"]
    assert names["halved"] == inspect.getsource(halved)


@functools.cache
def kept(x):
    return quartered(x)


@torch.no_grad()
def without_gradient(x):
    return kept(x)


class Decorated(nn.Module):
    def forward(self, x):
        return without_gradient(x)


def test_decorators_hide_no_function():
    names = [name.rpartition(".")[2] for name in own_code.sources([Decorated])]
    assert names == ["Decorated", "without_gradient", "kept", "quartered", "halved"]
    assert own_code.told(kept) == own_code.told(kept.__wrapped__)


def test_lambdas_are_told_by_what_they_do_and_not_by_their_line():
    one, other = lambda x: x + 1, lambda x: x - 1
    again = lambda x: x + 1  # noqa: E731
    assert own_code.told(one) == own_code.told(again) != own_code.told(other)
    assert "x - 1" not in str(own_code.told(one))


class Kind(Enum):
    SOFT, HARD = 1, 2


@dataclass
class Choices:
    slope: float
    kind: Kind = Kind.SOFT


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Choices(0.1), Choices(0.2)),
        (Choices(0.1), Choices(0.1, Kind.HARD)),
        (SimpleNamespace(slope=0.1), SimpleNamespace(slope=0.2)),
        (np.float32(0.5), np.float32(0.25)),
        (torch.float32, torch.float64),
        (torch.Tensor.relu, torch.Tensor.sigmoid),
        ({"a", "b"}, {"a", "c"}),
        (b"a", b"b"),
        ({Kind.SOFT: 1}, {Kind.HARD: 1}),
        ([Choices(0.1)], [Choices(0.3)]),
    ],
)
def test_other_values_are_told_otherwise_and_equal_ones_alike(one, other):
    assert own_code.told(one) == own_code.told(copy.deepcopy(one)) != own_code.told(other)


def test_modules_in_lists_are_told_by_their_class_and_not_by_torchs_notes():
    """torch numbers hooks through all of a process, so that equal networks differ in them."""

    def hooked() -> list[nn.Module]:
        module = nn.Sequential(nn.Linear(2, 2))
        module.register_forward_hook(lambda *_: None)
        return [module]

    assert own_code.told(hooked()) == own_code.told(hooked()) != own_code.told([nn.Linear(2, 2)])


def test_parts_that_many_share_are_told_once():
    blocks: list = []
    for _ in range(60):
        blocks.append(SimpleNamespace(earlier=list(blocks)))
    assert len(str(own_code.told(blocks))) < 10**6


def crop(padding, fill=0.0):
    return lambda image, generator, *, step=1: image[padding::step] + fill


def itself():
    def again(depth):
        return again(depth - 1) if depth else 0

    return again


class Jitter:
    def __init__(self, strength):
        self.strength, self.weights = strength, torch.zeros(3)

    def __call__(self, image):
        return image * self.strength

    def twice(self, image):
        return self(self(image))


def test_functions_are_told_by_what_they_do_and_the_values_they_do_it_with():
    values = [
        *(crop(2), crop(3), crop(3, 1.0), partial(crop, 2), partial(crop, 3), crop, halved, itself(), print),
        *(Jitter(0.1), Jitter(0.2), Jitter(0.2).twice, np.linspace, {"a": 1}, {"a": 2}, [1, "1"], [1, 1], None),
    ]
    told = [own_code.told(value) for value in values]
    assert len({str(each) for each in told}) == len(values)
    assert [own_code.told(crop(2)), own_code.told(Jitter(0.1))] == [told[0], told[9]]
    assert own_code.told(torch.zeros(2)) is None
    assert own_code.told(print) == "builtins.print"


def test_code_that_keeps_no_source_is_told_alike_in_every_process():
    program = (
        "from hypermask.own_code import _source\n"
        "class Typed:\n"
        "    names = {'x', 'y', 'z'}\n"
        "    def f(self, x):\n"
        "        return x in {'aa', 'bb', 'cc'} or [i * 0.5 for i in range(3)]\n"
        "text = _source(Typed)\n"
        "for _ in range(1000):\n"
        "    Typed().f('q')\n"
        "assert _source(Typed) == text and '0.5' in text\n"
        "print(text)\n"
    )
    assert len(salted.printed(program)) == 1


def test_what_a_function_without_source_calls_tells_it_apart():
    made = [eval(f"lambda x: x.{name}()") for name in ("relu", "tanh", "relu")]
    assert own_code.told(made[0]) == own_code.told(made[2]) != own_code.told(made[1])


class Extended(Layer):
    """Of a class of one's own, whose source counts too."""


def test_the_source_of_ones_own_base_classes_is_told():
    assert set(own_code.sources([Extended])) == {f"{__name__}.Extended", f"{__name__}.Layer"}

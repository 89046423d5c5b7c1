import inspect
import os
import subprocess
import sys
from functools import partial

import numpy as np
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
    told = {
        subprocess.run(
            [sys.executable, "-"],
            input=program,
            env=os.environ | {"PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2", "3")
    }
    assert len(told) == 1

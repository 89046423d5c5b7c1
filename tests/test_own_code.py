import inspect
import os
import subprocess
import sys

from torch import nn

from hypermask import HyperMask, own_code
from hypermask.benchmarks.split_digits import SplitDigits


class Layer(nn.Linear):
    """One's own, and an extension of a library's."""


def test_the_code_of_libraries_and_of_python_is_no_part_of_a_configuration():
    """It would make the configuration another one with every version of Python."""
    assert own_code.sources([SplitDigits, HyperMask, nn.Linear]) == {}
    assert own_code.sources([Layer]) == {f"{__name__}.Layer": inspect.getsource(Layer)}


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

"""The Triton kernel of the output layer without a GPU: its arithmetic by Triton's interpreter on the CPU, its size by
compiling it for one."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import torch
from hypermask.engine.output_layer_cuda import OutputLayer

rows, width, previous, steps = json.loads(sys.argv[1])
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(rows, width) / width**0.5)
bias = torch.nn.Parameter(torch.randn(rows))
start = torch.randn(previous, width)
layer = OutputLayer(weight, bias, start, learning_rate=1e-3)
w = torch.cat([weight, bias[:, None]], 1).detach().double().requires_grad_()
w_start = w.detach().clone()
adam = torch.optim.Adam([w], lr=1e-3)
one = lambda u: torch.cat([u, u.new_ones(len(u), 1)], 1)
kappa, worst = 0.3, {"squares": 0.0, "hidden": 0.0, "weights": 0.0, "output": 0.0}
for step in range(steps):
    hidden = torch.cat([start, torch.randn(1, width)]) + 0.01 * step * torch.randn(previous + 1, width)
    gradient = torch.randn(rows)
    u = one(hidden.double()).requires_grad_()
    difference = w @ u[:-1].T - w_start @ one(start.double()).T
    loss = kappa * difference.square().sum() + (gradient.double() * (w @ u[-1])).sum()
    adam.zero_grad(); loss.backward()
    output = layer.forward(hidden[-1])
    worst["output"] = max(worst["output"], (output - w.detach() @ u.detach()[-1]).abs().max().item())
    squares, hidden_gradient = layer.update(gradient, hidden, kappa)
    adam.step()
    scale = u.grad[:, :-1].abs().max().item()
    expected = difference.square().sum().item()
    worst["hidden"] = max(worst["hidden"], (hidden_gradient - u.grad[:, :-1]).abs().max().item() / scale)
    worst["squares"] = max(worst["squares"], abs(squares.item() - expected) / max(expected, 1.0))
now = torch.cat([weight, bias[:, None]], 1).detach()
worst["weights"] = (now - w.detach()).abs().max().item()
print(json.dumps(worst))
"""


COMPILE = """
import json, re, subprocess, sys, tempfile
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from hypermask.engine import output_layer_cuda as kernel

width, tasks, first = json.loads(sys.argv[1])
chosen = kernel.tiling(tasks)
values = kernel.constants(width, chosen, first=first)
kinds = {"rows": "i32", "previous_count": "i32", "two_kappa": "fp32"} | dict.fromkeys(values, "constexpr")
names = kernel._update.arg_names
signature = {name: kinds.get(name, "*fp32") for name in names}
source = ASTSource(
    kernel._update,
    signature,
    constexprs={(names.index(name),): value for name, value in values.items()},
    attrs={(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name] == "*fp32"},
)
options = {"num_warps": chosen.warps, "num_stages": 1}
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
with tempfile.NamedTemporaryFile("w", suffix=".ptx") as ptx:
    ptx.write(compiled.asm["ptx"])
    ptx.flush()
    assembler = sorted(Path(triton.__file__).parent.rglob("ptxas*"))[0]
    command = [assembler, "-v", "--gpu-name", "sm_90a", ptx.name, "-o", "/dev/null"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
spilled = int(re.search(r"(\\d+) bytes spill stores", report)[1])
print(json.dumps({"shared": chosen.programs * compiled.metadata.shared, "spilled": spilled}))
"""


@pytest.mark.parametrize(
    ("width", "tasks", "first"),
    [(25, 1, True), (25, 5, False), (100, 1, True), (100, 10, False), (100, 100, False), (200, 40, False)],
)
def test_kernel_fits_into_an_h100(width, tasks, first):
    result = subprocess.run(
        [sys.executable, "-c", COMPILE, json.dumps([width, tasks, first])], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    found = json.loads(result.stdout)
    # 227 KB of shared memory for all programs of a multiprocessor; a thread's 255 registers, and little beside them.
    assert found["shared"] <= 227 * 1024
    assert found["spilled"] <= 128


def test_more_tasks_than_the_kernel_takes_are_one_sentence():
    from hypermask.engine.errors import UnavailableError
    from hypermask.engine.output_layer_cuda import tiling

    assert tiling(128).tasks == 128
    with pytest.raises(UnavailableError, match="its kernel takes 128 tasks at most, and this is task 129"):
        tiling(129)


@pytest.mark.parametrize(
    ("rows", "width", "previous"),
    [(70, 25, 0), (130, 25, 4), (200, 20, 17), (64, 16, 1), (90, 40, 15), (70, 20, 70)],
    ids=["first task", "four previous", "the next tiling", "one tile", "the last of a tiling", "the largest tiling"],
)
def test_kernel_equals_autograd_and_adam_in_float64(rows, width, previous):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([rows, width, previous, 3])],
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    worst = json.loads(result.stdout)
    assert worst["output"] < 1e-5
    assert worst["squares"] < 1e-5
    assert worst["hidden"] < 1e-5
    # Adam turns rounding of a gradient near zero into a step of another size: a share of the 3 steps of 1e-3.
    assert worst["weights"] < 3e-5

"""The Triton kernel of the output layer, by Triton's interpreter on the CPU: its arithmetic, not its speed."""

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


@pytest.mark.parametrize(
    ("rows", "width", "previous"),
    [(70, 25, 0), (130, 25, 4), (200, 20, 17), (64, 16, 1)],
    ids=["first task", "four previous tasks", "more tasks than one product takes", "one tile"],
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

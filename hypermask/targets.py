"""The paper's target networks (sec. 4, Architectures)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from hypermask.errors import HyperMaskError

_ACTIVATIONS = {"relu": nn.ReLU, "elu": nn.ELU}


class MLP(nn.Module):
    """Multilayer perceptron: hidden layers of given widths, one output layer shared by all tasks.

    Inputs [B, ...] are flattened to [B, inputs]; returns logits [B, classes].  Weights start at PyTorch's layer
    defaults.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], classes: int, activation: str = "relu") -> None:
        super().__init__()
        widths = [inputs, *hidden]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.output = nn.Linear(widths[-1], classes)
        self.activation = _ACTIVATIONS[activation]()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        signal = inputs.flatten(1)
        for layer in self.hidden:
            signal = self.activation(layer(signal))
        return self.output(signal)


def build(name: str, hidden: Sequence[int], activation: str, input_shape: Sequence[int], classes: int) -> nn.Module:
    """The target network of a configuration.  input_shape: one sample's, without the batch."""
    if name == "mlp":
        return MLP(math.prod(input_shape), hidden, classes, activation)
    raise HyperMaskError(f"unknown target network {name!r}; expected mlp, or build your own and pass it to HyperMask.")

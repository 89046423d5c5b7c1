"""The paper's target networks (sec. 4, Architectures)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from hypermask.config import STEMS
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


class ResNet18(nn.Module):
    """ResNet-18 with few maps: a stem, four groups of two blocks of two 3x3 convolutions, one output layer.

    Images [B, channels, H, W] become logits [B, classes].  widths: maps of the stem and of the groups; the paper's are
    16 and 16, 32, 64, 128.  stem: as in `HyperMaskConfig`.  The first block of groups 2 to 4 has stride 2, and a block
    that changes the shape passes its input through a 1x1 convolution. Convolutions have no bias and are followed by
    batch norm; the last maps are averaged over the image. Weights start at PyTorch's layer defaults.
    """

    def __init__(
        self, channels: int, widths: Sequence[int], classes: int, activation: str = "relu", stem: str = "conv3"
    ) -> None:
        super().__init__()
        if len(widths) != 5:
            raise HyperMaskError(f"ResNet-18 was given {len(widths)} widths; expected 5, of the stem and four groups.")
        self.stem = _stem(channels, widths[0], activation, stem)
        self.groups = nn.Sequential(
            *(
                nn.Sequential(_Block(before, maps, stride, activation), _Block(maps, maps, 1, activation))
                for (before, maps), stride in zip(pairwise(widths), (1, 2, 2, 2), strict=True)
            )
        )
        self.output = nn.Linear(widths[-1], classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        # Not channels_last: with torch 2.14 on a CPU, 1x1 convolutions of stride 2 and 4 maps corrupt memory there.
        return self.output(self.groups(self.stem(images)).mean((2, 3)))


class _Block(nn.Module):
    """Two 3x3 convolutions beside a connection that skips them."""

    def __init__(self, before: int, maps: int, stride: int, activation: str) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(before, maps, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(maps)
        self.convolution2 = nn.Conv2d(maps, maps, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(maps)
        self.skip = nn.Sequential()
        if stride != 1 or before != maps:
            self.skip = nn.Sequential(nn.Conv2d(before, maps, 1, stride, bias=False), nn.BatchNorm2d(maps))
        self.activation = _ACTIVATIONS[activation]()

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        inner = self.activation(self.norm1(self.convolution1(maps)))
        return self.activation(self.norm2(self.convolution2(inner)) + self.skip(maps))


def _stem(channels: int, maps: int, activation: str, kind: str) -> nn.Sequential:
    if kind not in STEMS:
        raise HyperMaskError(f"unknown stem {kind!r}; expected {', '.join(STEMS)}.")
    size, stride = (7, 2) if kind == "conv7-pool" else (3, 1)
    layers = [
        nn.Conv2d(channels, maps, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(maps),
        _ACTIVATIONS[activation](),
    ]
    return nn.Sequential(*layers, *([nn.MaxPool2d(3, 2, padding=1)] if kind.endswith("-pool") else []))


def build(
    name: str,
    hidden: Sequence[int],
    activation: str,
    input_shape: Sequence[int],
    classes: int,
    stem: str = "conv3",
) -> nn.Module:
    """The target network of a configuration.  input_shape: one sample's, without the batch; a ResNet's is [C, H, W]."""
    if name == "mlp":
        return MLP(math.prod(input_shape), hidden, classes, activation)
    if name == "resnet18":
        if len(input_shape) != 3:
            raise HyperMaskError(
                f"resnet18 takes images, and the benchmark gives inputs of shape {list(input_shape)}; choose a "
                "benchmark of colour images, or the target mlp."
            )
        return ResNet18(input_shape[0], hidden, classes, activation, stem)
    raise HyperMaskError(
        f"unknown target network {name!r}; expected mlp or resnet18, or build your own and pass it to HyperMask."
    )

"""A network called with other tensors in place of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.func import functional_call


def call(network: nn.Module, tensors: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """The network's output with tensors in place of the parameters of these names, as in `named_parameters`; all other
    parameters are its own.

    Each place of a parameter is filled once: torch's own search for tied ones takes a module that stands in two places
    for two, and leaves the second tensor behind in the first.
    """
    placed = {place: tensors[name] for place, name in places(network).items() if name in tensors}
    return functional_call(network, placed, (inputs,), tie_weights=False)


def places(network: nn.Module) -> dict[str, str]:
    """Where parameters stand, each module once -> their names in `named_parameters`; tied ones have several places."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    return {
        f"{module_name}.{own}" if module_name else own: names[id(parameter)]
        for module_name, module in network.named_modules()
        for own, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
    }

"""A network called with other tensors in place of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.func import functional_call


def call(network: nn.Module, tensors: Mapping[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """The network's output with tensors in place of the parameters of these names, as in `named_parameters`; all other
    parameters are its own.

    Each place of a parameter is filled once: torch's own search for tied ones takes a module that stands in two places
    for two, and leaves the second tensor behind in the first.
    """
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    found = [place for place in _places(network) if names[id(place[2])] in tensors]
    placed = {f"{path}{own}": tensors[names[id(parameter)]] for path, own, parameter, _ in found}
    try:
        return functional_call(network, placed, (inputs,), tie_weights=False)
    finally:
        for _, own, parameter, module in found:
            # torch's recurrent layers keep a list of their weights besides, and mend it when an attribute is set.
            if type(module).__setattr__ is not nn.Module.__setattr__:
                setattr(module, own, parameter)


def _places(network: nn.Module) -> Iterator[tuple[str, str, nn.Parameter, nn.Module]]:
    """Where parameters stand, each module once: the module's path with its dot, the name in it, parameter and module.

    Tied parameters have several places.
    """
    for path, module in network.named_modules():
        for own, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            yield f"{path}." if path else "", own, parameter, module

"""Batch-norm statistics kept per task, so that a prediction does not depend on which images share its batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from hypermask.errors import HyperMaskError


class TaskStatistics(nn.Module):
    """Mean and (biased) variance of what enters each batch-norm layer of a network, for every task.

    They are those of all images that the network sees while it collects for a task, normalised together: on these
    images the kept statistics give what the batch's would. Buffers, so that they are saved and loaded with the weights.
    """

    def __init__(self, network: nn.Module, tasks: int) -> None:
        super().__init__()
        self._layers = [module for module in network.modules() if isinstance(module, _BatchNorm)]
        self.register_buffer("known", torch.zeros(tasks, dtype=torch.bool))
        for index, layer in enumerate(self._layers):
            self.register_buffer(f"mean{index}", torch.zeros(tasks, layer.num_features))
            self.register_buffer(f"variance{index}", torch.ones(tasks, layer.num_features))

    @contextmanager
    def collecting(self, task: int) -> Iterator[None]:
        """Inside, the network has to run once, on all images whose statistics are to be kept for a task (0-based)."""
        found: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in self._layers]

        def hook(index: int):
            def keep(_: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
                others = [0, *range(2, given[0].dim())]
                found[index].append((given[0].mean(others), given[0].var(others, correction=0)))

            return keep

        hooks = [layer.register_forward_pre_hook(hook(index)) for index, layer in enumerate(self._layers)]
        try:
            yield
        finally:
            for handle in hooks:
                handle.remove()
        for index, calls in enumerate(found):
            if len(calls) != 1:
                raise HyperMaskError(
                    f"batch-norm layer {index + 1} of the network is called {len(calls)} times for one batch; "
                    "statistics per task need layers that are called once, so set batch_stats=batch."
                )
            mean, variance = calls[0]
            self.get_buffer(f"mean{index}")[task] = mean
            self.get_buffer(f"variance{index}")[task] = variance
        self.known[task] = True

    @contextmanager
    def of(self, task: int) -> Iterator[None]:
        """Inside, the network normalises with what is kept for a task; with the batch's statistics if nothing is."""
        if not self.known[task]:
            yield
            return
        modes = [layer.training for layer in self._layers]
        for index, layer in enumerate(self._layers):
            layer.running_mean = self.get_buffer(f"mean{index}")[task]
            layer.running_var = self.get_buffer(f"variance{index}")[task]
            layer.training = False
        try:
            yield
        finally:
            for layer, mode in zip(self._layers, modes, strict=True):
                layer.running_mean = layer.running_var = None
                layer.training = mode

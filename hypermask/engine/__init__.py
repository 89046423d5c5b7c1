"""How one training step runs. The training loop asks an engine for steps and knows nothing of what is inside.

`eager` is plain PyTorch. `fused` does the same arithmetic, equal within rounding, with the hypernetwork's output layer
- nearly all parameters and memory traffic of a step - handled in one pass over its weights.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import torch

from hypermask.config import TrainingConfig
from hypermask.engine.batches import Batches
from hypermask.engine.eager import EagerEngine
from hypermask.engine.errors import NothingToFuseError, UnavailableError
from hypermask.engine.fused import FusedEngine
from hypermask.errors import HyperMaskError
from hypermask.methods.base import Method

ENGINES = ("auto", "eager", "fused")


class Engine(Protocol):
    """One task's training steps.  name: as a record says it.  kernel: what compiled code it runs, if any."""

    name: str
    kernel: str | None

    def step(self, iteration: int) -> torch.Tensor:
        """Run iteration `iteration` (from 0) and return its loss, still on the device."""

    def set_learning_rate(self, rate: float) -> None:
        """Use another learning rate from the next step on."""

    def synchronise(self) -> None:
        """Put all weights into the method's parameters, for evaluation or saving."""


def make(choice: str, method: Method, task: int, training: TrainingConfig, iterations: int, batches: Batches) -> Engine:
    """The engine for one task.

    choice: `eager`; `fused`, an error where that cannot run; `auto`, fused where it can run and else eager, with a
    warning.
    """
    if choice not in ENGINES:
        raise HyperMaskError(f"engine {choice!r} is not known; expected {', '.join(ENGINES)}.")
    if choice != "eager":
        try:
            return FusedEngine(method, task, training, iterations, batches)
        except UnavailableError as reason:
            if choice == "fused":
                raise HyperMaskError(f"the fused engine cannot run here: {reason}; use --engine eager.") from None
            if not isinstance(reason, NothingToFuseError):
                warnings.warn(f"the eager engine is used, since the fused one cannot run here: {reason}.", stacklevel=2)
    return EagerEngine(method, task, training, iterations, batches)

"""The optimizer of one task, as the configuration names it."""

from __future__ import annotations

import torch

from hypermask.config import TrainingConfig

# Adam's other settings: PyTorch's defaults, which the kernels use too.
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def make(
    training: TrainingConfig, parameters: list[torch.nn.Parameter], *, on_device: bool = False
) -> torch.optim.Optimizer:
    """Over all parameters, with one rate.

    on_device: on a GPU, keep all that changes from step to step there, the rate too, so that a captured step sees it.
    """
    on_device = on_device and parameters[0].device.type == "cuda"
    rate = torch.tensor(training.lr, device=parameters[0].device) if on_device else training.lr
    if training.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, momentum=training.momentum, weight_decay=training.weight_decay, fused=True
        )
    betas = (BETA1, BETA2)
    return torch.optim.Adam(parameters, lr=rate, betas=betas, eps=EPSILON, fused=True, capturable=on_device)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use another learning rate from the next step on."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

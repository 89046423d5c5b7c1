"""The three terms of the loss L = L_current + beta * L_output + lambda * L_target (sec. 3).

L_target is only there when the target network trains, and both regularisers only from the second task on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F


def l_current(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the current task's batch: logits [B, k], labels [B] from 0 to k-1."""
    return F.cross_entropy(logits, labels)


def l_output(outputs: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Mean over the previous tasks of the squared L2 distance between hypernetwork outputs now and before this task.

    outputs, stored: [t-1, P], unsparsified (p = 0) and before tanh.
    """
    return (outputs - stored).square().sum() / outputs.shape[0]


def output_weight(beta: float, previous_tasks: int, form: str) -> float:
    """The factor of `l_output`: beta as the paper prints it, or divided by the count again as its released code
    does."""
    return beta / previous_tasks if form == "released-code" else beta


def l_target(
    theta: Sequence[torch.Tensor], stored: Sequence[torch.Tensor], masks: Sequence[torch.Tensor] | None
) -> torch.Tensor:
    """L1 distance of the target's weights from those before this task, each weight's share times its mask if given.

    theta, stored, masks: the same shapes, tensor by tensor.  The mask is the current task's and is not detached.
    """
    if masks is None:
        return sum((now - before).abs().sum() for now, before in zip(theta, stored, strict=True))
    return sum((m * (now - before).abs()).sum() for now, before, m in zip(theta, stored, masks, strict=True))

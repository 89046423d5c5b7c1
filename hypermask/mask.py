"""The semi-binary mask: sigma_p, the percentile threshold c, and the first task's sparsity schedule (sec. 3, Mask
creation).

A hypernetwork output h becomes the mask value m = |tanh(h)| in [0, 1); of each target tensor the p percent smallest
values are set to zero, the others keep their value.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F


def kept_rank(size: int, p: float) -> int:
    """Rank (0-based, ascending) of the smallest value that is kept when p percent of `size` values are masked out.

    The threshold is the linear percentile c, which lies between the order statistics around position (size - 1) p /
    100, and values >= c are kept. So the kept set starts at the first order statistic at or above that position; no
    interpolation is needed. The small slack absorbs the rounding of the product.
    """
    return min(size - 1, max(0, math.ceil((size - 1) * (p / 100) - 1e-9)))


def threshold(values: torch.Tensor, p: float) -> torch.Tensor:
    """The smallest value that the p-th linear percentile keeps: c(p, i, t; x) of sec. 3, for one target tensor.

    values: any shape, mask values of one tensor.  p: percent, 0 <= p < 100.  Returns a 0-dimensional tensor c' such
    that `values >= c'` is the set `values >= np.percentile(values, p)`.
    """
    flat = values.detach().reshape(-1)
    rank = kept_rank(flat.numel(), p)
    if flat.device.type == "cpu":
        # numpy's partition is several times faster than torch.kthvalue or a sort by torch on a CPU.
        return torch.from_numpy(np.partition(flat.numpy(), rank)[rank : rank + 1]).reshape(())
    return torch.kthvalue(flat, rank + 1).values


def sparsify(values: torch.Tensor, p: float) -> torch.Tensor:
    """sigma_p: zero the p percent smallest of one tensor's mask values, keep the others.

    The gradient passes through the kept entries alone, none through the threshold.  Same shape as `values`.
    """
    if p == 0:
        return values
    lowest_kept = threshold(values, p)
    if values.device.type == "cpu":
        # F.threshold keeps what is strictly above a number and is several times faster than torch.where on a CPU.
        below = torch.nextafter(lowest_kept, lowest_kept.new_tensor(-math.inf))
        return F.threshold(values, below.item(), 0.0)
    return torch.where(values >= lowest_kept, values, 0.0)


def scheduled_sparsity(p: float, task: int, iteration: int, iterations: int) -> float:
    """p of c(p, i, t; x): constant from the second task on, p * i / n at iteration i = 1..n of the first (task 0)."""
    return p if task > 0 else p * iteration / iterations

"""The semi-binary mask: sigma_p, the percentile threshold c, and the first task's sparsity schedule (sec. 3, Mask
creation).

A hypernetwork output h becomes the mask value m = |tanh(h)| in [0, 1); of each target tensor the p percent smallest
values are set to zero, the others keep their value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F

RANK_SLACK = 1e-9
# 1.0 as float32.
ONE_BITS = 0x3F80_0000
# Kinds of devices on which the thresholds of all tensors are found together.
TOGETHER = ("cuda",)


def kept_rank(size: int, p: float) -> int:
    """Rank (0-based, ascending) of the smallest value that is kept when p percent of `size` values are masked out.

    The threshold is the linear percentile c, which lies between the order statistics around position (size - 1) p /
    100, and values >= c are kept. So the kept set starts at the first order statistic at or above that position; no
    interpolation is needed. The small slack absorbs the rounding of the product.
    """
    return min(size - 1, max(0, math.ceil((size - 1) * (p / 100) - RANK_SLACK)))


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

    The gradient passes through the kept entries alone, none through the threshold.  NaN stays NaN, so that a run that
    diverges is seen to.  Same shape as `values`.
    """
    if p == 0:
        return values
    lowest_kept = threshold(values, p)
    if values.device.type == "cpu":
        # F.threshold keeps what is strictly above a number and is several times faster than torch.where on a CPU.
        below = torch.nextafter(lowest_kept, lowest_kept.new_tensor(-math.inf))
        return F.threshold(values, below.item(), 0.0)
    return torch.where(values < lowest_kept, 0.0, values)


def sparsify_all(
    values: torch.Tensor, sizes: tuple[int, ...], percents: Sequence[float | torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """sigma_p for all tensors of a network: values [P] cut into pieces of `sizes`, each with its own p in percent.

    On a GPU all thresholds are found together, and p may be a tensor there, so that the step can be captured.
    """
    if values.device.type not in TOGETHER or values.dtype != torch.float32:
        return tuple(sparsify(part, p) for part, p in zip(values.split(sizes), percents, strict=True))
    if all(isinstance(p, float) and p == 0 for p in percents):
        return values.split(sizes)
    segments = _segments(sizes, values.device)
    ranks = segments.kept_ranks(percents)
    lowest_kept = order_statistics(values.detach(), segments, ranks)[segments.of_value]
    return torch.where(values < lowest_kept, 0.0, values).split(sizes)


@dataclass(frozen=True)
class Segments:
    """Pieces of a vector, on its device.  last: int64 [S], size of each piece minus 1.  of_value: int64 [P], whose
    piece."""

    last: torch.Tensor
    of_value: torch.Tensor

    def kept_ranks(self, percents: Sequence[float | torch.Tensor]) -> torch.Tensor:
        """`kept_rank` of each piece, int64 [S], without asking the device for anything."""
        # p may be a number or a tensor of one.
        fractions = torch.cat([self.last.new_zeros(1, dtype=torch.float64) + p / 100 for p in percents])
        ranks = torch.ceil(self.last * fractions - RANK_SLACK).long()
        return torch.minimum(ranks.clamp(min=0), self.last)


@cache
def _segments(sizes: tuple[int, ...], device: torch.device) -> Segments:
    counts = torch.tensor(sizes, device=device)
    segments = Segments(
        counts - 1, torch.repeat_interleave(torch.arange(len(sizes), device=device), counts, output_size=sum(sizes))
    )
    if device.type == "cuda":
        # Kept for all threads, whose streams do not wait for this one.
        torch.cuda.current_stream(device).synchronize()
    return segments


def order_statistics(values: torch.Tensor, segments: Segments, ranks: torch.Tensor) -> torch.Tensor:
    """The value of rank `ranks[s]` (0-based, ascending) of each piece s: float32 [S]; exact, and nothing is sorted.

    values: float32 [P], each in [0, 1].  The bits of such numbers order as they do, so a histogram of the upper 15 bits
    finds the bin that holds the rank, and one of the lower 15 the value within that bin. NaN ranks as 1.
    """
    bits = values.view(torch.int32).clamp(0, ONE_BITS)
    upper, below = _bin_of_rank(bits >> 15, torch.ones_like(bits), segments, ranks)
    in_bin = (bits >> 15 == upper[segments.of_value]).to(torch.int32)
    lower, _ = _bin_of_rank(bits & 0x7FFF, in_bin, segments, ranks - below)
    return (upper << 15 | lower).to(torch.int32).view(torch.float32)


def _bin_of_rank(
    bins: torch.Tensor, weights: torch.Tensor, segments: Segments, ranks: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per piece: the bin (of 2^15) that holds the value of the given rank, and the weight of all bins below it."""
    pieces, width = len(segments.last), 1 << 15
    histogram = weights.new_zeros(pieces * width)
    histogram.scatter_add_(0, segments.of_value * width + bins, weights)
    histogram = histogram.view(pieces, width)
    cumulative = histogram.cumsum(dim=1)
    found = torch.searchsorted(cumulative, (ranks + 1).unsqueeze(1))
    below = cumulative.gather(1, found) - histogram.gather(1, found)
    return found.squeeze(1), below.squeeze(1)


def scheduled_sparsity(p: float, task: int, iteration: int | torch.Tensor, iterations: int) -> float | torch.Tensor:
    """p of c(p, i, t; x): constant from the second task on, p * i / n at iteration i = 1..n of the first (task 0).

    The iteration may be a tensor on the device; so is the result then, unless it is constant.
    """
    if task > 0 or p == 0:
        return p
    return p * (iteration if isinstance(iteration, int) else iteration.double()) / iterations

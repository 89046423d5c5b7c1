"""What an accuracy matrix says, and what several runs say together.

A matrix A has one row per trained task and one column per evaluated task: A[i, j] is the accuracy (percent)
on task j after training task i. Entries above the diagonal are never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hypermask.errors import HyperMaskError


@dataclass(frozen=True)
class Summary:
    """Several runs' values: their number, mean, spread and interval.

    sd: sample standard deviation (n - 1). population_sd: the one the paper is taken to print (n). t95: half width of
    the 95 % interval of the mean by Student's t. All three are None for a single run, which has no spread.
    """

    n: int
    mean: float
    sd: float | None
    population_sd: float | None
    t95: float | None
    values: tuple[float, ...]


def mean_accuracy(accuracy: ArrayLike) -> float:
    """ACC, the paper's mean overall accuracy: the mean over tasks of the last row.

    Tasks weigh alike, whatever their size.
    """
    return float(_matrix(accuracy)[-1].mean())


def diagonal_mean(accuracy: ArrayLike) -> float:
    """Mean over tasks of the accuracy just after training the task."""
    return float(np.diagonal(_matrix(accuracy)).mean())


def backward_transfer(accuracy: ArrayLike) -> float:
    """BWT = 1/(T-1) * sum over tasks j before the last of A[T, j] - A[j, j], in points of percent.

    The paper's table 4; negative when earlier tasks lost accuracy.
    """
    matrix = _matrix(accuracy, at_least=2)
    return float((matrix[-1] - np.diagonal(matrix))[:-1].mean())


def forgetting(accuracy: ArrayLike) -> float:
    """Mean fall of earlier tasks from their best accuracy before the last row to the last row, in points.

    Not minus BWT: an accuracy that rose and fell again counts from its highest point.
    """
    matrix = _matrix(accuracy, at_least=2)
    last = len(matrix) - 1
    return float(np.mean([matrix[task:last, task].max() - matrix[last, task] for task in range(last)]))


def average_incremental_accuracy(accuracy: ArrayLike) -> float:
    """Mean over rows of the mean accuracy on the tasks seen by then."""
    matrix = _matrix(accuracy)
    return float(np.mean([matrix[task, : task + 1].mean() for task in range(len(matrix))]))


def summary(values: Iterable[float]) -> Summary:
    """Number, mean, standard deviations and 95 % t interval of the runs' values."""
    runs = np.asarray(list(values), dtype=np.float64)
    if runs.size == 0 or not np.isfinite(runs).all():
        raise HyperMaskError(
            f"cannot summarise {runs.tolist()}; expected at least one finite value, so leave unfinished runs out."
        )
    n = runs.size
    if n == 1:
        return Summary(1, float(runs[0]), None, None, None, (float(runs[0]),))
    from scipy.special import stdtrit

    sd = float(runs.std(ddof=1))
    t95 = float(stdtrit(n - 1, 0.975)) * sd / math.sqrt(n)
    return Summary(n, float(runs.mean()), sd, float(runs.std()), t95, tuple(runs.tolist()))


def _matrix(accuracy: ArrayLike, at_least: int = 1) -> np.ndarray:
    matrix = np.asarray(accuracy, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < at_least:
        shape = " x ".join(map(str, matrix.shape))
        raise HyperMaskError(
            f"the accuracy matrix is {shape}; expected tasks x tasks with at least {at_least} of them."
        )
    if not np.isfinite(matrix[np.tril_indices(len(matrix))]).all():
        raise HyperMaskError(
            "the accuracy matrix has gaps on or below its diagonal; expected every task measured, so use "
            "finished runs only."
        )
    return matrix

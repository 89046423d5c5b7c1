"""Whether a run trained again agrees with the committed record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hypermask.errors import HyperMaskError
from hypermask.records import Record

STANDARD_DEVIATIONS = 3.0
LEAST_TOLERANCE = 0.3


@dataclass(frozen=True)
class Verdict:
    """Whether two runs agree.

    identical: whether identity was demanded.  differences: final accuracy by task, new minus committed, in
    points of percent.  tolerances: what was allowed.  sentence: the verdict for a person.
    """

    passed: bool
    identical: bool
    differences: tuple[float, ...]
    tolerances: tuple[float, ...]
    sentence: str


def compare(new: Record, committed: Record, siblings: list[Record]) -> Verdict:
    """Compare a record with the committed one of the same configuration and seed.

    On the same device, with the same number of threads, torch version, engine and compiler of its kernel, every
    accuracy has to be identical. Elsewhere, final accuracy by task, new and committed may differ by 3 sample standard
    deviations over `siblings`, the finished committed runs of this configuration, and by 0.3 points at least.
    """
    if (new.config_hash, new.seed) != (committed.config_hash, committed.seed):
        raise HyperMaskError(
            f"cannot compare {new.experiment} seed {new.seed} with {committed.experiment} seed "
            f"{committed.seed}; expected one configuration and seed, so train the record's own."
        )
    for record in (new, committed):
        if not record.finished:
            raise HyperMaskError(
                f"{record.experiment} seed {record.seed} is {record.status}; only finished runs are compared."
            )
    differences = new.accuracy[-1] - committed.accuracy[-1]
    if _made_by(new) == _made_by(committed):
        tolerances = np.zeros_like(differences)
        passed = np.array_equal(new.accuracy, committed.accuracy, equal_nan=True)
        demand = "same machine, engine and torch version: the accuracy matrices must be identical"
        finding = "they are" if passed else f"they differ by up to {_largest(new, committed):.2f} points"
        return _verdict(committed, passed, True, differences, tolerances, f"{demand}, and {finding}")
    tolerances = _tolerances(siblings, committed.tasks)
    beyond = np.flatnonzero(np.abs(differences) > tolerances)
    demand = "another machine, engine or torch version: the final accuracies must agree within the spread"
    if beyond.size:
        worst = beyond[np.argmax(np.abs(differences[beyond]) - tolerances[beyond])]
        size, allowed = differences[worst], tolerances[worst]
        finding = f"task {worst + 1} differs by {size:+.2f} points where {allowed:.2f} are allowed"
    else:
        finding = f"they do (largest difference {np.abs(differences).max():.2f} points)"
    return _verdict(committed, not beyond.size, False, differences, tolerances, f"{demand}, and {finding}")


def _made_by(record: Record) -> tuple[object, ...]:
    environment = record.environment
    # kernel: the compiler that made the fused engine's code for a CPU; none for the eager engine.
    parts = (environment.get(key) for key in ("device_name", "threads", "torch", "kernel"))
    return (*parts, record.payload["engine"])


def _tolerances(siblings: list[Record], tasks: int) -> np.ndarray:
    finals = np.array([record.accuracy[-1] for record in siblings if record.finished]).reshape(-1, tasks)
    if len(finals) < 2:
        return np.full(tasks, LEAST_TOLERANCE)
    return np.maximum(STANDARD_DEVIATIONS * finals.std(axis=0, ddof=1), LEAST_TOLERANCE)


def _largest(new: Record, committed: Record) -> float:
    return float(np.nanmax(np.abs(new.accuracy - committed.accuracy)))


def _verdict(
    committed: Record,
    passed: bool,
    identical: bool,
    differences: np.ndarray,
    tolerances: np.ndarray,
    finding: str,
) -> Verdict:
    word = "agrees" if passed else "DISAGREES"
    sentence = f"{committed.experiment} seed {committed.seed} {word}: {finding}."
    return Verdict(bool(passed), identical, tuple(differences.tolist()), tuple(tolerances.tolist()), sentence)

"""Two methods over the seeds that both have: the one rule by which tables and statements compare them.

A seed decides what both share: a benchmark's draws, such as permutations, and the order of batches of one size. Where a
pair did not get the same draws all the same, it stays a pair, and `other_draws` tells of which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypermask.records import Record


def differences(
    first: Sequence[Record], second: Sequence[Record], value: Callable[[Record], float]
) -> dict[int, float]:
    """Seed -> `value` of the first method minus that of the second, over the seeds that both have."""
    return {mine.seed: value(mine) - value(theirs) for mine, theirs in _pairs(first, second)}


def other_draws(first: Sequence[Record], second: Sequence[Record]) -> dict[str, list[int]]:
    """What was drawn otherwise for the two runs of a seed -> those seeds: `{"permutations": [1, 2]}`."""
    found: dict[str, list[int]] = {}
    for mine, theirs in _pairs(first, second):
        drawn, others = mine.payload["data"], theirs.payload["data"]
        for name in sorted(drawn.keys() | others.keys()):
            if drawn.get(name) != others.get(name):
                found.setdefault(name, []).append(mine.seed)
    return found


def _pairs(first: Sequence[Record], second: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    theirs = {record.seed: record for record in second}
    return ((record, theirs[record.seed]) for record in first if record.seed in theirs)

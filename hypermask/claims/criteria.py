"""What several statements are judged by: forgetting that counts as slight, and differences between settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hypermask import metrics, tables
from hypermask.claims.verdict import Verdict, judged

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

# Fewer points than these, lost on earlier tasks on average, count as slight, minimal or not substantial; ours.
SLIGHT = {"split_mnist": 0.1, "permuted_mnist_10": 0.5, "split_cifar100": 1.0, "tiny_imagenet": 0.5}


def accuracy(record: Record) -> float:
    """Mean overall accuracy of a run, percent."""
    return metrics.mean_accuracy(record.accuracy)


def transfer(record: Record) -> float:
    """Backward transfer of a run, points of percent."""
    return metrics.backward_transfer(record.accuracy)


def mean_transfer(runs: Sequence[Record]) -> float:
    """Backward transfer of the mean over runs, points of percent."""
    return metrics.backward_transfer(tables.mean_of(runs))


def points(number: float) -> str:
    """So many points, in words."""
    return f"{number:g} {'point' if number == 1 else 'points'}"


def forgets_little(runs: Runs) -> Verdict:
    """Whether earlier tasks lose only slightly on average, in every run."""
    most = SLIGHT[runs.name.split("/")[0]]
    return judged(
        f"Under {runs.label} earlier tasks lose less than {points(most)} on average, in every run",
        [runs],
        lambda ours: all(transfer(record) > -most for record in ours),
        lambda ours: [f"BWT, points: {_range([transfer(record) for record in ours])}"],
        ours=True,
    )


def some_task_gains(runs: Runs) -> Verdict:
    """Whether some task ends more accurate than it was just after it was learned, in every run."""
    return judged(
        f"Under {runs.label} some task gains from later ones, in every run",
        [runs],
        lambda ours: all((record.accuracy[-1] > record.accuracy.diagonal()).any() for record in ours),
    )


def all_within(claim: str, runs: Sequence[Runs], most: float, share: float = 1.0) -> Verdict:
    """Whether of the settings after the first more than the share (all of them, if 1) end within so many points of the
    first, the main one.
    """

    def off(main: Sequence[Record], *others: Sequence[Record]) -> list[float]:
        return [tables.final_mean(other) - tables.final_mean(main) for other in others]

    def holds(*settings: Sequence[Record]) -> bool:
        near = [abs(difference) < most for difference in off(*settings)]
        return all(near) if share == 1.0 else sum(near) > share * len(near)

    def furthest(*settings: Sequence[Record]) -> list[str]:
        order = sorted(zip(off(*settings), runs[1:], strict=True), key=lambda pair: -abs(pair[0]))[:2]
        return [
            f"{group.label}: {difference:+.2f} points, with a BWT of {mean_transfer(group.records):+.2f}"
            for difference, group in order
        ]

    return judged(claim, runs, holds, furthest, ours=True)


def last_is_worst(*settings: Sequence[Record]) -> bool:
    """Whether the last setting has the lowest mean accuracy."""
    means = [tables.final_mean(records) for records in settings]
    return min(means) == means[-1]


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:+.3f}" if low == high else f"{low:+.3f} to {high:+.3f}"

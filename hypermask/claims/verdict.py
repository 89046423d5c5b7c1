"""The verdict on one statement of the paper, by our records: supported, not supported, or not to be said.

A statement on every run is judged on those there are. One on a method's mean, or on the difference of two methods over
the seeds that both have, is judged by the 95 % t interval: where that reaches both sides, or one run has none, nothing
is said. Settings of one method, of which there are few runs each, are compared by their means alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypermask import metrics, shared_seeds

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

SUPPORTED, NOT_SUPPORTED, CANNOT_SAY = "supported", "not supported", "cannot say"
# More groups of runs than this are counted in a sentence, not named.
_NAMED = 3


@dataclass(frozen=True)
class Verdict:
    """A statement and what our records say of it.

    answer: `SUPPORTED`, `NOT_SUPPORTED` or `CANNOT_SAY`.  basis: the runs behind it and what was measured, or why
    nothing can be said.  details: lines on what was measured.  ours: whether the statement has a threshold of ours.
    whole: whether all needed runs are there.
    """

    claim: str
    answer: str
    basis: str
    details: tuple[str, ...] = ()
    ours: bool = False
    whole: bool = True

    def __str__(self) -> str:
        if self.answer == CANNOT_SAY:
            first = f"{self.claim}: cannot say, {self.basis}."
        else:
            first = f"{self.claim}: {self.answer} by our records ({self.basis})."
        return "\n".join([first, *(f"  {line}" for line in self.details)])


def judged(
    claim: str,
    runs: Sequence[Runs],
    holds: Callable[..., bool],
    details: Callable[..., Sequence[str]] = lambda *records: (),
    *,
    ours: bool = False,
) -> Verdict:
    """The verdict by a test of the finished records, which `holds` and `details` take as a sequence per group.

    The basis says over how many runs, and of how many where needed ones are missing.
    """
    if lacking := _lacking(runs):
        return Verdict(claim, CANNOT_SAY, lacking, ours=ours)
    records = [group.records for group in runs]
    if len(runs) <= _NAMED:
        basis = " and ".join(f"{group.label}, {group.count}" for group in runs)
    else:
        counts = {group.count for group in runs}
        if len(counts) == 1:
            basis = f"{len(runs)} settings, {counts.pop()} each"
        else:
            missing = "" if _whole(runs) else ", some runs missing"
            basis = f"{len(runs)} settings, {min(map(len, records))} to {max(map(len, records))} runs each{missing}"
    answer = SUPPORTED if holds(*records) else NOT_SUPPORTED
    return Verdict(claim, answer, basis, tuple(details(*records)), ours, _whole(runs))


def by_interval(
    claim: str,
    runs: Sequence[Runs],
    values: Callable[..., Mapping[int, float]],
    *,
    bound: float = 0.0,
    below: bool = False,
    unit: str = "points",
    ours: bool = False,
) -> Verdict:
    """The verdict on a mean over seeds: supported where its 95 % t interval lies above `bound` (below it, if `below`),
    not supported where it lies on the other side.

    values: seed -> value in `unit`, of the groups' finished records.  ours: whether the bound is ours.
    """
    if lacking := _lacking(runs):
        return Verdict(claim, CANNOT_SAY, lacking, ours=ours)
    found = values(*(group.records for group in runs))
    if not found:
        return Verdict(claim, CANNOT_SAY, "no seed has what is compared", ours=ours)
    measured = metrics.summary(found.values())
    # What has a sign is told with it.
    mean = f"{measured.mean:+.3f}" if bound <= 0 else f"{measured.mean:.3f}"
    seeds = f"{'seed' if len(found) == 1 else 'seeds'} {', '.join(map(str, found))}"
    if measured.t95 is None:
        return Verdict(claim, CANNOT_SAY, f"one run has no interval ({mean} {unit}, {seeds})", ours=ours)
    basis = f"{mean} ± {measured.t95:.3f} {unit}, {seeds}"
    if abs(measured.mean - bound) <= measured.t95:
        both = f"the 95 % interval reaches both sides of {bound:g} ({basis})"
        return Verdict(claim, CANNOT_SAY, both, ours=ours)
    answer = SUPPORTED if (measured.mean < bound) == below else NOT_SUPPORTED
    return Verdict(claim, answer, basis, ours=ours, whole=_whole(runs))


def by_rank(
    claim: str, runs: Runs, value: Callable[[Record], float], others: Mapping[str, float], rank: int
) -> Verdict:
    """The verdict on the rank of a mean among printed values, 1 for the highest: by all of its 95 % t interval.

    Ours is rounded to the two digits printed; of equal values each has the better rank.
    """
    if lacking := _lacking([runs]):
        return Verdict(claim, CANNOT_SAY, lacking)
    measured = metrics.summary(map(value, runs.records))

    def place(mean: float) -> int:
        return 1 + sum(other > round(mean, 2) for other in others.values())

    tied = [name for name, other in others.items() if other == round(measured.mean, 2)]
    mean = f"by its mean it is number {place(measured.mean)}" + (f", tied with {' and '.join(tied)}" if tied else "")
    if measured.t95 is None:
        return Verdict(claim, CANNOT_SAY, f"{mean}, and one run has no interval")
    best, worst = place(measured.mean + measured.t95), place(measured.mean - measured.t95)
    basis = (
        f"{mean}, by the 95 % interval {best if best == worst else f'{best} to {worst}'}; {runs.label}, {runs.count}"
    )
    if best == worst == rank:
        return Verdict(claim, SUPPORTED, basis, whole=_whole([runs]))
    return Verdict(claim, CANNOT_SAY if best <= rank <= worst else NOT_SUPPORTED, basis, whole=_whole([runs]))


def paired(value: Callable[[Record], float]) -> Callable[[Sequence[Record], Sequence[Record]], dict[int, float]]:
    """Seed -> `value` of the first method minus that of the second, over the seeds that both have."""
    return lambda first, second: shared_seeds.differences(first, second, value)


def each(value: Callable[[Record], float]) -> Callable[[Sequence[Record]], dict[int, float]]:
    """Seed -> `value` of one method's runs."""
    return lambda found: {record.seed: value(record) for record in found}


def _whole(runs: Sequence[Runs]) -> bool:
    return not any(group.missing_seeds for group in runs)


def _lacking(runs: Sequence[Runs]) -> str:
    """What has not been run, in words; empty where every group has a finished run."""
    missing = [group.label for group in runs if not group.records]
    if not missing:
        return ""
    return f"{' and '.join(missing) if len(missing) <= _NAMED else f'{len(missing)} of {len(runs)} settings'} not run"

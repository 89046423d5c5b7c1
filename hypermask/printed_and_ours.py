"""A value of the paper beside ours: their difference, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics, paper
from hypermask.experiments import OF_PHOTOGRAPHS
from hypermask.metrics import Summary
from hypermask.paper import NO_SPREAD
from hypermask.typesetting import BLANK

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

NOT_PRINTED = "not printed"
OUTSIDE_INTERVAL = "†"
INSIDE_INTERVAL = "‡"
# How tables name the values of a configuration that are changed.
_VALUES = {
    "embedding_size": "embedding",
    "hypernetwork_hidden": "hypernetwork",
    "lam": "lambda",
    "l1": "L1",
    "batch_size": "batch size",
}


SPREAD_NOTE = (
    "Ours: mean ± sample standard deviation over n runs; pop. sd: population standard deviation, the kind that the "
    "paper is taken to print of its own runs; 95 %: half width of the t interval of the mean. One run has no spread."
)
YOURS_NOTE = "Yours: your own runs, mean ± sample standard deviation (runs), apart from ours."
INTERVAL_NOTE = (
    f"{OUTSIDE_INTERVAL}: although within spread, the printed mean lies outside the 95 % interval of ours, by more "
    f"than its rounding; {INSIDE_INTERVAL}: although it differs, inside."
)
STATUS_NOTE = (
    f"Status: '{paper.WITHIN_SPREAD}' if the means lie no further apart than twice the larger of the paper's and our "
    f"sample standard deviation, or than the printed value's rounding, else '{paper.DIFFERS}'; '{paper.ONE_WITHIN}' or "
    f"'{paper.ONE_OUTSIDE}' by the paper's alone, since one run of ours is no measure of a spread; '{NO_SPREAD}' where "
    f"neither has any; '{paper.NOT_RUN}' where there is no run of ours. {INTERVAL_NOTE}"
)

BATCH_NOTE = (
    "Batch norm of HyperMask's and WSN's ResNet-18 (CIFAR-100, Tiny ImageNet) uses the statistics of each batch, in "
    "evaluation too, unless a row says batch_stats=task; that of the classifiers on frozen features uses running ones."
)


@dataclass(frozen=True)
class Comparison:
    """One value of the paper and ours.

    source: whose the printed value is.  ours, yours: summaries of the committed runs and of the reader's own,
    None where there are none.  compared: whether ours could exist at all (a quoted method is not ours to
    run).
    """

    method: str
    benchmark: str
    source: str
    printed: paper.Printed | None
    ours: Summary | None = None
    yours: Summary | None = None
    network: str = ""
    compared: bool = True

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.printed is None else self.ours.mean - self.printed.mean

    @property
    def status(self) -> str:
        """One of `paper.COMPARISONS`; else why there is none: nothing printed, or not ours to run."""
        if not self.compared:
            return BLANK
        if self.printed is None and self.ours is not None:
            return NOT_PRINTED
        return paper.NOT_RUN if self.printed is None else paper.compare(self.printed, self.ours)

    @property
    def marked_status(self) -> str:
        """The status as a table's text: with a sign where the interval of ours says more than the spread."""
        return f"{self.status} {interval_sign(self.status, self.printed, self.ours)}".rstrip()


def batch_note(benchmarks: Iterable[str]) -> list[str]:
    """That accuracies depend on batches, where one of the benchmarks is of networks with batch norm."""
    return [BATCH_NOTE] if set(benchmarks) & set(OF_PHOTOGRAPHS) else []


def interval_sign(status: str, printed: paper.Printed | None, ours: Summary | None) -> str:
    """What the 95 % interval of ours says beyond the status, as a sign; empty where it says the same, or is none."""
    if status not in (paper.WITHIN_SPREAD, paper.DIFFERS) or ours.t95 is None:
        return ""
    outside = paper.outside_interval(printed, ours)
    if outside == (status == paper.DIFFERS):
        return ""
    return OUTSIDE_INTERVAL if outside else INSIDE_INTERVAL


def compared(printed: paper.Printed | None, runs: Runs, value: Callable[[np.ndarray], float]) -> Comparison:
    """`value` of a configuration's accuracy matrices beside what is printed of it."""
    benchmark, method = runs.name.split("/")
    return Comparison(
        method=", ".join([paper.METHODS[method], *map(_setting, runs.need.overrides)]),
        benchmark=benchmark,
        source=BLANK if printed is None else printed.source,
        printed=printed,
        ours=summarise(runs.records, value),
        yours=summarise(runs.own, value),
    )


def summarise(runs: Sequence[Record], value: Callable[[np.ndarray], float]) -> Summary | None:
    """`value` of each run's accuracy matrix, over the runs; None without runs."""
    return metrics.summary([value(record.accuracy) for record in runs]) if runs else None


def _setting(override: str) -> str:
    """`lam=0.01` as a table says it."""
    key, value = override.split("=")
    return f"{_VALUES.get(key, key)} {value.replace(',', '-')}"

"""Table 2: accuracy where the task of an image is not told but inferred, in each reading of `hypermask.inference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import metrics, paper
from hypermask.metrics import Summary
from hypermask.paper import BENCHMARKS
from hypermask.printed_and_ours import STATUS_NOTE, YOURS_NOTE, Comparison
from hypermask.results import counted
from hypermask.typesetting import BLANK, Table, fixed, number, plus_minus

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

# Reading -> what a table calls it.
READINGS = {"released-code": "Released code", "after-task": "After task", "shuffled": "Shuffled"}
# With which the printed value is compared: what the paper's authors ran, and what it quotes from others.
PAPERS, OTHERS = "released-code", "after-task"
SHUFFLED = "shuffled"
TASK_STATISTICS = "batch_stats=task"
BEST = "max"
_CLASSES, _TASKS = "class_accuracy", "task_accuracy"

READINGS_NOTE = (
    "Readings of ours. Released code, as in the authors' code and so the one that a value they measured is compared "
    "with: the final networks, and batches that hold images of one task only. After task, with which quoted values "
    "are compared: batches of one task, and the networks as they were after task j. Shuffled: the final networks, and "
    "batches of all tasks mixed. In all three HyperMask's batch norm uses the statistics of each batch, that of the "
    "classifiers on frozen features running ones. Task statistics: runs whose batch norm keeps those of each task's "
    "training images, so that batches do not matter."
)
METRICS_NOTE = (
    "Mean overall and last task accuracy: share of the test images of all tasks, pooled, whose class is right; where "
    "tasks differ in size, as on Split MNIST, that is not the mean over tasks of table 1. Average task accuracy: mean "
    "over j of that share among tasks 1 to j, with these j tasks known. Task identity: share of the images whose task "
    "is right, which the paper does not print."
)
SPREAD_NOTE = (
    "Ours: mean ± sample standard deviation over n runs, or the best run where the paper gives its best, by the same "
    "measure; 95 %: half width of the t interval of the mean in the reading that is compared; one run has no spread. "
    "The paper's ± is taken to be the population standard deviation of its own runs: the CSV has ours, too, and the "
    "interval, of each reading."
)


@dataclass(frozen=True)
class Row:
    """One value of table 2 and ours.

    procedure: by which the task is inferred.  quantity: `class_accuracy` or `task_accuracy`.  runs: ours, None where
    the method is not ours to run; task_statistics: those whose batch norm keeps statistics per task.
    """

    method: str
    target: str
    benchmark: str
    aggregate: str
    metric: str
    printed: paper.Printed | None
    procedure: str = ""
    quantity: str = _CLASSES
    runs: Runs | None = None
    task_statistics: Runs | None = None

    def values(self, records: Sequence[Record], reading: str) -> list[float]:
        """One value for each run that has this reading."""
        found = _inferred(records, self.procedure, reading)
        return [_aggregated(run[reading][self.quantity], self.metric) for run in found]

    def measured(self, records: Sequence[Record], reading: str) -> Summary | None:
        """Ours in a reading, None without such a run; of a best run its value alone."""
        values = self.values(records, reading)
        if not values:
            return None
        return metrics.summary([max(values)] if self.aggregate == BEST else values)

    def cells(self) -> dict[str, Summary | None]:
        """Heading -> ours in that reading."""
        records = self.runs.records if self.runs else ()
        found = {name: self.measured(records, reading) for reading, name in READINGS.items()}
        kept = self.task_statistics.records if self.task_statistics else ()
        return found | {"Task statistics": self.measured(kept, PAPERS)}

    @property
    def n(self) -> int:
        """Over how many runs ours is, in the reading that has most."""
        records = self.runs.records if self.runs else ()
        return max(len(self.values(records, reading)) for reading in READINGS)

    @property
    def reading(self) -> str:
        """The reading that the printed value is compared with."""
        quoted = self.printed is not None and self.printed.source != paper.RUN_BY_AUTHORS
        return OTHERS if quoted else PAPERS

    @property
    def comparison(self) -> Comparison:
        """The printed value and ours in the same reading."""
        ours = self.cells()[READINGS[self.reading]]
        source = self.printed.source if self.printed else BLANK
        return Comparison(self.method, self.benchmark, source, self.printed, ours, compared=self.runs is not None)


def table(runs: Mapping[str, Runs]) -> Table:
    """Table 2: every printed row, ours beside those that this project runs, and how often the task was right.

    runs: as `results.gather("table02")` gives them.
    """
    import pandas as pd

    rows = _rows(runs)
    shows_own = any(row.runs and row.runs.own for row in rows)
    return Table(
        title="Table 2. Accuracy with unknown task identity, percent",
        label="unknown_task_identity",
        frame=pd.DataFrame([_numbers(row, shows_own) for row in rows]),
        head=(
            *("Method", "Benchmark", "Accuracy", "Source", "Paper"),
            *(*READINGS.values(), "Task statistics", "n", "95 %", "Difference", "Status"),
            *(("Yours",) if shows_own else ()),
        ),
        body=tuple(_texts(row, shows_own) for row in rows),
        rules=tuple(i for i in range(1, len(rows)) if rows[i].benchmark != rows[i - 1].benchmark),
        notes=(METRICS_NOTE, READINGS_NOTE, SPREAD_NOTE, STATUS_NOTE, *([YOURS_NOTE] if shows_own else [])),
        text_columns=4,
    )


def task_given_away(runs: Mapping[str, Runs]) -> str:
    """Plain text: how much of the accuracy on all tasks comes from batches that hold one task only.

    The two readings differ in nothing but how the same test images are put into batches.
    """
    lines = []
    normalised = False
    for (benchmark, method, procedure), name in _OURS.items():
        group = runs.get(f"{benchmark}/{method}")
        if group is None or method not in ("hypermask-f", "hypermask-t"):
            continue
        title = f"{name}, {method[-1].upper()}, {BENCHMARKS[benchmark]}"
        found = _inferred(group.records, procedure, PAPERS, SHUFFLED)
        if not found:
            lines.append(f"{title}: cannot say, {group.label} not run{f' with {procedure}' if group.records else ''}.")
            continue
        (pure, pure_task), (mixed, mixed_task) = (
            [np.mean([readings[reading][quantity][-1] for readings in found]) for quantity in (_CLASSES, _TASKS)]
            for reading in (PAPERS, SHUFFLED)
        )
        normalised |= group.need.configured.config.method.target == "resnet18"
        lines.append(
            f"{title}: {pure:.2f} % in batches of one task, {mixed:.2f} % in mixed batches, so "
            f"{fixed(pure - mixed, 2)} points come from batches that give the task away (task right: "
            f"{pure_task:.2f} % and {mixed_task:.2f} %; {counted(len(found))})."
        )
    if not normalised:
        lines.append(
            "No HyperMask network with batch norm has run yet: without it the readings agree by construction, so the "
            "question is open."
        )
    return "\n".join(lines)


def per_run(runs: Mapping[str, Runs]) -> str:
    """Plain text: class and task accuracy on all tasks' test images, percent, of every run and reading, by seed."""
    width = max([11, *(len(name) + 1 for name in runs)])
    heads = [f"{kind}, {reading}" for kind in ("class", "task") for reading in READINGS]
    lines = [f"{'experiment':<{width}}{'seed':>5}{'':>9}" + "".join(f"{head:>22}" for head in heads)]
    for name, group in runs.items():
        for kind, shown in (("", group.records), (" (yours)", group.own)):
            for record in shown:
                for procedure in sorted(set(record.payload["inference"]) - {"environment"}):
                    readings = record.payload["inference"][procedure]
                    values = [
                        f"{readings[reading][quantity][-1]:.3f}" if reading in readings else BLANK
                        for quantity in (_CLASSES, _TASKS)
                        for reading in READINGS
                    ]
                    start = f"{name + kind:<{width}}{record.seed:>5}{procedure:>9}"
                    lines.append(start + "".join(f"{value:>22}" for value in values))
        if not group.records and not group.own:
            lines.append(f"{name:<{width}}{paper.NOT_RUN:>14}")
    return "\n".join(lines)


def inferred(runs: Runs, procedure: str) -> Runs:
    """The runs without the records that do not tell what this procedure infers."""
    kept = {
        kind: tuple(record for record in getattr(runs, kind) if procedure in record.payload["inference"])
        for kind in ("records", "own")
    }
    return replace(runs, **kept)


def class_accuracies(runs: Sequence[Record], procedure: str, reading: str, metric: str) -> dict[int, float]:
    """Seed -> class accuracy, percent, of the runs that have this reading.

    metric: of `paper.unknown_task_rows`; on all tasks' test images, or the average over tasks.
    """
    return {
        record.seed: _aggregated(found[reading][_CLASSES], metric)
        for record in runs
        for found in _inferred([record], procedure, reading)
    }


def _aggregated(after_task: Sequence[float], metric: str) -> float:
    """The printed metric of one run's values after each task."""
    return float(np.mean(after_task)) if metric.startswith("average") else after_task[-1]


def _inferred(records: Sequence[Record], procedure: str, *readings: str) -> list[dict[str, Any]]:
    """Reading -> values per task, of each record that tells what the procedure infers in all these readings."""
    found = [record.payload["inference"].get(procedure, {}) for record in records]
    return [per_reading for per_reading in found if per_reading.keys() >= set(readings)]


# (benchmark, method of the experiment, procedure) -> the paper's name.
_OURS = {
    **{
        (benchmark, method, procedure): f"HyperMask+{name}"
        for benchmark, methods in (
            ("permuted_mnist_10", ("hypermask-t",)),
            ("split_mnist", ("hypermask-t",)),
            ("split_cifar100_5x20", ("hypermask-f", "hypermask-t")),
        )
        for method in methods
        for procedure, name in (("ent", "ENT"), ("fecam", "FeCAM"))
    },
    ("permuted_mnist_10", "hnet", "ent"): "HNET+ENT",
    ("split_mnist", "hnet", "ent"): "HNET+ENT",
    ("split_cifar100_5x20", "ncm", "ncm"): "Euclidean-NCM",
    ("split_cifar100_5x20", "fetril", "fetril"): "FeTrIL",
    ("split_cifar100_5x20", "fecam", "fecam"): "FeCAM",
}
# What the paper does not print: the same measure of the task instead of the class.
_IDENTITY = {
    "mean overall accuracy": "task identity",
    "last task accuracy": "last task identity",
    "average task accuracy": "average task identity",
}
_TARGETS = {"hypermask-f": "fixed", "hypermask-t": "trainable"}


def _rows(runs: Mapping[str, Runs]) -> list[Row]:
    rows = []
    for benchmark in BENCHMARKS:
        printed = [row for row in paper.unknown_task_rows() if row.benchmark == benchmark]
        for _, lines in groupby(printed, key=lambda row: (row.method, row.target)):
            group = [_row(line, runs) for line in lines]
            rows += group
            if group[0].n:
                rows += [
                    replace(row, metric=_IDENTITY[row.metric], printed=None, quantity=_TASKS)
                    for row in group
                    if row.aggregate != BEST
                ]
    return rows


def _row(line: paper.UnknownTaskRow, runs: Mapping[str, Runs]) -> Row:
    value = paper.Printed(line.mean, line.sd, line.source, "table 2", line.rounding)
    row = Row(line.method, line.target, line.benchmark, line.aggregate, line.metric, value)
    for (benchmark, method, procedure), name in _OURS.items():
        if (benchmark, name, _TARGETS.get(method, "")) == (line.benchmark, line.method, line.target):
            experiment = f"{benchmark}/{method}"
            kept = runs.get(f"{experiment} [{TASK_STATISTICS}]")
            return replace(row, procedure=procedure, runs=runs[experiment], task_statistics=kept)
    return row


def _numbers(row: Row, shows_own: bool) -> dict[str, Any]:
    comparison = row.comparison
    numbers = {
        "method": row.method,
        "target": row.target,
        "benchmark": row.benchmark,
        "aggregate": row.aggregate,
        "metric": row.metric,
        "source": row.printed.source if row.printed else "",
        "paper_mean": number(row.printed and row.printed.mean),
        "paper_sd": number(row.printed and row.printed.sd),
    }
    for name, summary in row.cells().items():
        key = name.lower().replace(" ", "_")
        numbers |= {
            f"{key}_mean": number(summary and summary.mean),
            f"{key}_sample_sd": number(summary and summary.sd),
            f"{key}_population_sd": number(summary and summary.population_sd),
            f"{key}_t95": number(summary and summary.t95),
        }
    numbers |= {
        "runs": row.n,
        "difference": number(comparison.difference),
        "status": "" if comparison.status == BLANK else comparison.status,
    }
    if shows_own:
        yours = row.measured(row.runs.own, row.reading) if row.runs else None
        count = len(row.values(row.runs.own, row.reading)) if row.runs else 0
        numbers |= {"yours_mean": number(yours and yours.mean), "yours_runs": count}
    return numbers


def _texts(row: Row, shows_own: bool) -> tuple[str, ...]:
    comparison = row.comparison
    ours, difference = comparison.ours, comparison.difference
    texts = [
        f"{row.method}, {row.target} target" if row.target else row.method,
        BENCHMARKS[row.benchmark],
        f"{row.metric}, best run" if row.aggregate == BEST else row.metric,
        row.printed.source if row.printed else BLANK,
        plus_minus(row.printed.mean, row.printed.sd, _digits(row)) if row.printed else BLANK,
        *(plus_minus(summary.mean, summary.sd, 2) if summary else BLANK for summary in row.cells().values()),
        str(row.n) if row.runs else BLANK,
        BLANK if ours is None or ours.t95 is None else fixed(ours.t95, 2),
        BLANK if difference is None else fixed(difference, 2, "+"),
        comparison.marked_status,
    ]
    if shows_own:
        yours = row.measured(row.runs.own, row.reading) if row.runs else None
        count = len(row.values(row.runs.own, row.reading)) if yours else 0
        texts.append(f"{plus_minus(yours.mean, yours.sd, 2)} ({counted(count)})" if yours else BLANK)
    return tuple(texts)


def _digits(row: Row) -> int:
    """As the paper prints them."""
    return 1 if row.benchmark == "split_cifar100_5x20" else 2

"""All methods that ran on one benchmark, beside each other: means over seeds, and differences over shared seeds.

Runs belong together if they learned the same number of tasks of the same benchmark from the same files. Committed runs
and the reader's own stand in rows of their own. Rows are in the order of their names, so that none is chosen by its
test accuracy; what a setting may be chosen by, the validation accuracy, stands beside it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypermask import experiments, items, metrics, paths, records, shared_seeds
from hypermask.config import BenchmarkConfig, section_from_dict
from hypermask.errors import HyperMaskError
from hypermask.files import canonical_json
from hypermask.metrics import Summary
from hypermask.paper import BENCHMARKS, QUOTED, Printed
from hypermask.printed_and_ours import batch_note
from hypermask.records import Record
from hypermask.tables import ACCURACY_NOTE, BWT_NOTE, printed_accuracies
from hypermask.times import device_words
from hypermask.typesetting import BLANK, Table, number, plus_minus

OURS, YOURS = "ours", "yours"
# In it no batch gives its task away: what is compared of runs that infer the task.
_READING = "shuffled"

MEANS_NOTE = (
    "Mean ± half width of the 95 % t interval over n runs; one run has no interval. Paper: what it prints of that "
    "method and setting; its ± is taken to be the population standard deviation of its own runs. Quoted: what it has "
    "from other papers, whose protocol may be another, as HNET's and WSN's; of which kind that ± is, it does not say."
)
VALIDATION_NOTE = (
    "Validation: accuracy of each task just after it was learned, on images set aside from training, mean over tasks. "
    "A setting is chosen by it, not by the test accuracy."
)
INFERRED_NOTE = (
    "Task inferred: class accuracy over the pooled images of all tasks where the task is not told, final networks, "
    "batches of all tasks mixed, by procedure."
)


@dataclass(frozen=True)
class Row:
    """The runs of one configuration below one folder, sorted by seed.

    whose: `ours`, committed, or `yours`.  diverged: those that did not finish; named, never averaged.
    """

    whose: str
    finished: tuple[Record, ...]
    diverged: tuple[Record, ...]

    @property
    def example(self) -> Record:
        return (*self.finished, *self.diverged)[0]

    @property
    def label(self) -> str:
        """The experiment, with the changed values where there are any."""
        return items.label(self.example.experiment, self.changes)

    @property
    def changes(self) -> tuple[str, ...]:
        """The values that the runs have otherwise than the experiment of their name has today."""
        return _changes(self.example)

    @property
    def place(self) -> str:
        """EXPERIMENT/HASH, the folder of the runs."""
        return f"{self.example.experiment}/{self.example.config_hash[:12]}"

    @property
    def problem(self) -> str:
        """What has to be equal for two rows to be compared: benchmark, number of tasks and files, as JSON."""
        return _problem(self.example)

    def summary(self, value: Callable[[Record], float | None]) -> Summary | None:
        """`value` over the finished runs; None where some run has none."""
        values = [value(record) for record in self.finished]
        return metrics.summary(values) if values and None not in values else None

    def difference(self, other: Row) -> Summary | None:
        """Mean accuracy minus the other's, over the seeds that both have; None where there is none."""
        found = shared_seeds.differences(self.finished, other.finished, _accuracy) if self is not other else {}
        return metrics.summary(found.values()) if found else None


def methods(benchmark: str, against: str | None = None, roots: Iterable[Path] | None = None) -> Table:
    """Every method that ran on a benchmark, one row for each configuration, those of your own beside ours.

    benchmark: what experiments' names begin with, `split_mnist`; runs of another name on the same tasks and files are
    found too.  against: the experiment that differences are to, BENCHMARK/hypermask-t by default where it has runs, or
    EXPERIMENT/HASH where it has several configurations; ours before yours.  roots: records/ and runs/ by default.

    Raises HyperMaskError where there are no runs, or `against` names none or several.
    """
    rows = _rows((paths.records(), paths.runs()) if roots is None else roots)
    asked = [row for row in rows if row.example.experiment.startswith(f"{benchmark}/")]
    if not asked:
        there = ", ".join(sorted({row.example.experiment.split("/")[0] for row in rows})) or "none"
        raise HyperMaskError(f"no method has run on {benchmark!r} yet; there are runs on: {there}.")
    base = _base(asked, benchmark, against)
    problem = (base or asked[0]).problem
    shown = [row for row in rows if row.problem == problem]
    return _table(benchmark, shown, base, [row for row in asked if row.problem != problem])


def _rows(roots: Iterable[Path]) -> list[Row]:
    """All runs below the folders by configuration, sorted by name; the named configuration before its changes."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for root, record in records.everything(roots):
        whose = OURS if root == paths.records() else YOURS
        key = (record.experiment, " ".join(_changes(record)), whose, record.config_hash, _problem(record))
        found.setdefault(key, []).append(record)
    rows = []
    for key in sorted(found):
        runs = sorted(found[key], key=lambda record: record.seed)
        finished = tuple(record for record in runs if record.finished)
        rows.append(Row(key[2], finished, tuple(record for record in runs if not record.finished)))
    return rows


def _base(rows: Sequence[Row], benchmark: str, against: str | None) -> Row | None:
    """The row that differences are to; None where nobody asked for one and the default has no runs."""
    name = against or f"{benchmark}/hypermask-t"
    fitting = [row for row in rows if row.finished and name in (row.label, row.place)]
    fitting = [row for row in fitting if row.whose == OURS] or fitting
    places = {row.place for row in fitting}
    if len(places) > 1:
        raise HyperMaskError(f"{name} has several configurations; name one of them: {', '.join(sorted(places))}.")
    if not places and against:
        there = ", ".join(sorted({row.example.experiment for row in rows if row.finished})) or "none"
        raise HyperMaskError(f"{against} has no finished run on {benchmark}; there are: {there}.")
    return fitting[0] if fitting else None


def _table(benchmark: str, rows: Sequence[Row], base: Row | None, others: Sequence[Row]) -> Table:
    import pandas as pd

    printed = _printed()
    devices = sorted({device for row in rows for device in _devices(row)})
    letters = {device: f" {chr(ord('a') + index)}" if len(devices) > 1 else "" for index, device in enumerate(devices)}
    alike = Counter((row.label, row.whose) for row in rows)
    names = [_names(row, benchmark, alike[row.label, row.whose] > 1) for row in rows]
    notes = [ACCURACY_NOTE, BWT_NOTE, MEANS_NOTE, VALIDATION_NOTE]
    if base:
        notes.append(
            f"Difference: accuracy minus that of {base.label} ({base.whose}), mean over the seeds that both have, "
            "pairs in parentheses; an interval that holds 0 shows no difference."
        )
    if any(_inferred(row) for row in rows):
        notes.append(INFERRED_NOTE)
    told = "; ".join(f"{letter.strip()}: {device}" if letter else f"on {device}" for device, letter in letters.items())
    notes.append(
        "Minutes: wall time of training and evaluation, mean over the runs, to be compared on one device alone"
        f"{f' ({told})' * bool(told)}."
    )
    return Table(
        title=f"Methods on {BENCHMARKS.get(benchmark, benchmark)}, task identity known, percent",
        label=f"methods_{benchmark}",
        frame=pd.DataFrame(
            [
                {"experiment": row.example.experiment, "method": method, "setting": setting}
                | _numbers(row, base, printed)
                for (method, setting), row in zip(names, rows, strict=True)
            ]
        ),
        head=(
            *("Method", "Setting", "Runs of", "Training", "n", "Paper", "Accuracy"),
            *("Difference", "BWT", "Validation", "Task inferred", "Minutes"),
        ),
        body=tuple(
            (method, setting or BLANK, *_texts(row, base, printed, letters))
            for (method, setting), row in zip(names, rows, strict=True)
        ),
        notes=(*notes, *batch_note([benchmark]), *_remarks(rows, base, others)),
        text_columns=4,
    )


def _numbers(row: Row, base: Row | None, printed: dict[str, Printed]) -> dict[str, Any]:
    accuracy, transfer, validation = _measures(row)
    difference = base and row.difference(base)
    paper = printed.get(row.example.config_hash)
    return {
        "config_hash": row.example.config_hash[:12],
        "whose": row.whose,
        "training": _training(row.example),
        "runs": len(row.finished),
        "diverged": len(row.diverged),
        "paper_mean": number(paper and paper.mean),
        "paper_sd": number(paper and paper.sd),
        "paper_source": paper.source if paper else "",
        "accuracy_mean": number(accuracy and accuracy.mean),
        "accuracy_sample_sd": number(accuracy and accuracy.sd),
        "accuracy_t95": number(accuracy and accuracy.t95),
        "difference_mean": number(difference and difference.mean),
        "difference_t95": number(difference and difference.t95),
        "pairs": difference.n if difference else 0,
        "bwt_mean": number(transfer and transfer.mean),
        "bwt_t95": number(transfer and transfer.t95),
        "validation_mean": number(validation and validation.mean),
        **{f"inferred_{name}": found.mean for name, found in _inferred(row).items()},
        "minutes_mean": number(_minutes(row) and _minutes(row).mean),
        "devices": "; ".join(_devices(row)),
    }


def _printed() -> dict[str, Printed]:
    """What the paper prints, by the hash of the whole configuration: a name alone may be that of another one."""
    printed = printed_accuracies()
    needed = (need for item in items.ITEMS for need in item.runs if need.label in printed)
    return {need.configured.config.hash: printed[need.label] for need in needed}


def _names(row: Row, benchmark: str, several: bool) -> tuple[str, str]:
    """Method and setting; with the hash where several configurations have the same ones."""
    family, method = row.example.experiment.split("/")
    setting = " ".join((*row.changes, *([row.example.config_hash[:12]] if several else [])))
    return method if family == benchmark else row.example.experiment, setting


def _texts(row: Row, base: Row | None, printed: dict[str, Printed], letters: dict[str, str]) -> tuple[str, ...]:
    accuracy, transfer, validation = _measures(row)
    difference, minutes = base and row.difference(base), _minutes(row)
    paper = printed.get(row.example.config_hash)
    return (
        row.whose,
        _training(row.example),
        str(len(row.finished)),
        f"{plus_minus(paper.mean, paper.sd, 2)}{', quoted' * (paper.source == QUOTED)}" if paper else BLANK,
        _shown(accuracy, 2),
        f"{plus_minus(difference.mean, difference.t95, 2)} ({difference.n})" if difference else BLANK,
        _shown(transfer, 3),
        BLANK if validation is None else f"{validation.mean:.2f}",
        ", ".join(_inferred_text(name, found, row) for name, found in _inferred(row).items()) or BLANK,
        f"{minutes.mean:.1f}{''.join(letters[device] for device in _devices(row))}" if minutes else BLANK,
    )


def _remarks(rows: Sequence[Row], base: Row | None, others: Sequence[Row]) -> list[str]:
    """What a reader has to know of single rows and runs."""

    def told(words: str, row: Row, runs: Sequence[Record]) -> list[str]:
        seeds = ", ".join(str(record.seed) for record in runs)
        return [f"{row.label} ({row.whose}): {words}: seed {seeds}."] if runs else []

    remarks = []
    for row in rows:
        unclean = [record for record in row.finished if record.environment.get("dirty") is not False]
        remarks += told("diverged, and in no mean", row, row.diverged)
        remarks += told("from an unclean tree or an unknown revision", row, unclean)
        if base and (otherwise := _otherwise(row, base)):
            remarks.append(f"{row.label} ({row.whose}) had other images than {base.label}: {otherwise}.")
        for name, seeds in (shared_seeds.other_draws(row.finished, base.finished) if base else {}).items():
            pairs = ", ".join(map(str, seeds))
            remarks.append(f"{row.label} ({row.whose}) had other {name} than {base.label} with the same seed: {pairs}.")
    if others:
        left_out = sorted({f"{row.label} ({row.example.tasks} tasks)" for row in others})
        remarks.append(f"Left out, as their tasks or their data are others: {', '.join(left_out)}.")
    return remarks


def _otherwise(row: Row, base: Row) -> str:
    """How a row's images were set aside or prepared otherwise than the base's, as far as both records tell."""
    mine, theirs = (_prepared(each.example) for each in (row, base))
    makers = [each.example.config["benchmark"].get("class") for each in (row, base)]
    told = [f"made by {makers[0] or 'the benchmark of that name'}"] if makers[0] != makers[1] else []
    return ", ".join(
        told
        + [
            f"{key} {mine[key]} instead of {theirs[key]}"
            for key in sorted(mine.keys() & theirs.keys() - {"name", "tasks", "data", "class"})
            if mine[key] != theirs[key]
        ]
    )


def _prepared(record: Record) -> dict[str, Any]:
    """The benchmark's configuration, with what a record leaves out as it was before there was a choice."""
    values = record.config["benchmark"]
    try:
        return dataclasses.asdict(section_from_dict(BenchmarkConfig, values))
    except HyperMaskError:
        # A benchmark of one's own.
        return values


def _changes(record: Record) -> tuple[str, ...]:
    recorded = tuple(record.payload["overrides"])
    try:
        return experiments.leading_to(record.experiment, record.config, recorded).overrides
    except HyperMaskError:
        # A method of one's own, or a configuration that no experiment of today leads to.
        return recorded


def _problem(record: Record) -> str:
    # Permutations, which a seed draws, are lists; digests of files are strings.
    data = {name: digest for name, digest in record.payload["data"].items() if isinstance(digest, str)}
    return canonical_json([record.config["benchmark"]["name"], record.tasks, data]).decode()


def _measures(row: Row) -> tuple[Summary | None, Summary | None, Summary | None]:
    """Accuracy, backward transfer and validation accuracy."""
    return row.summary(_accuracy), row.summary(_transfer), row.summary(lambda record: record.validation_accuracy)


def _accuracy(record: Record) -> float:
    return metrics.mean_accuracy(record.accuracy)


def _transfer(record: Record) -> float | None:
    # One task has none.
    return metrics.backward_transfer(record.accuracy) if record.tasks > 1 else None


def _minutes(row: Row) -> Summary | None:
    return row.summary(lambda record: record.seconds / 60)


def _inferred(row: Row) -> dict[str, Summary]:
    """Procedure -> class accuracy after the last task, over the finished runs that have it."""
    found: dict[str, list[float]] = {}
    for record in row.finished:
        for name, readings in (record.payload["inference"] or {}).items():
            if _READING in readings:
                found.setdefault(name, []).append(readings[_READING]["class_accuracy"][-1])
    return {name: metrics.summary(values) for name, values in found.items()}


def _inferred_text(name: str, found: Summary, row: Row) -> str:
    there = "" if found.n == len(row.finished) else f" (n = {found.n})"
    return f"{name} {found.mean:.2f}{there}"


def _devices(row: Row) -> list[str]:
    return sorted({device_words(record.environment) for record in row.finished})


def _training(record: Record) -> str:
    """`2000 x 128`, iterations and images of each, or `200 epochs x 32`, of a task."""
    training = record.config["training"]
    length = training["iterations"] or f"{training['epochs']} epochs"
    return f"{length} x {training['batch_size']}"


def _shown(found: Summary | None, digits: int) -> str:
    return BLANK if found is None else plus_minus(found.mean, found.t95, digits)

"""Where our numbers and the paper's lie apart, gathered from tables 2 to 9."""

from __future__ import annotations

from collections.abc import Iterator

from hypermask import ablations, paper, tables, unknown_task
from hypermask.printed_and_ours import OUTSIDE_INTERVAL
from hypermask.results import gather
from hypermask.typesetting import Table, fixed

_APART = (paper.DIFFERS, paper.ONE_OUTSIDE, paper.NO_SPREAD)


def markdown() -> str:
    """Every number of tables 2 to 9 that ours does not agree with, largest difference first in each table, as Markdown.

    Those are the ones that differ, those of one run outside the spread, those without any spread, and those within it
    whose printed mean lies outside the 95 % interval of ours.
    """
    head = ("table", "what", "of", "printed", "ours", "n", "difference", "status")
    rows = [head, ("---",) * len(head)]
    for place, table, digits in _compared():
        rows += [(place, *row) for row in _apart(table, digits)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _compared() -> Iterator[tuple[str, Table, int]]:
    yield "3, accuracy", tables.known_task_identity(gather("table03"), 3), 2
    yield "2, accuracy, task inferred", unknown_task.table(gather("table02")), 2
    yield "4, BWT", tables.backward_transfer(gather("table04")), 3
    distances = gather("table05")["permuted_mnist_10/hypermask-t"]
    yield "5 to 7, growth of the distances", tables.weight_distance_growth(distances), 2
    yield "8, accuracy", ablations.loss_components(gather("table08")), 2
    yield "9, accuracy", ablations.sparsity(gather("table09")), 2


def _apart(table: Table, digits: int) -> list[tuple[str, ...]]:
    status = table.head.index("Status")
    found = []
    for row, cells in zip(table.frame.itertuples(), table.body, strict=True):
        outside = cells[status].endswith(OUTSIDE_INTERVAL)
        if row.runs and (row.status in _APART or outside):
            # Tables of settings are of one method, and name their values.
            setting = ", ".join(map(" ".join, zip(table.head[: table.text_columns], cells, strict=False)))
            method = getattr(row, "method", f"HyperMask-T, {setting}")
            what = f"{method} {getattr(row, 'metric', '')}".rstrip()
            of = paper.BENCHMARKS[getattr(row, "benchmark", "permuted_mnist_10")]
            numbers = (fixed(row.paper_mean, digits), fixed(row.paper_mean + row.difference, digits), str(row.runs))
            found.append((abs(row.difference), (what, of, *numbers, fixed(row.difference, digits, "+"), cells[status])))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])]

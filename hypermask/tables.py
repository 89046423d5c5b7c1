"""One function per kind of table, and what notebooks tell of accuracies in plain text.

Every comparison shows the paper's value, ours as mean and spread over n runs with the half width of the 95 %
t interval, their difference and a status. The paper's +- is taken to be the population standard deviation; ours is
given with both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import experiments, metrics, paper
from hypermask.metrics import Summary
from hypermask.paper import BENCHMARKS, METHODS
from hypermask.printed_and_ours import (
    SPREAD_NOTE,
    STATUS_NOTE,
    YOURS_NOTE,
    Comparison,
    batch_note,
    compared,
    summarise,
)
from hypermask.results import counted
from hypermask.typesetting import BLANK, Table, fixed, number, plus_minus, rounded

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

ACCURACY_NOTE = (
    "Accuracy: mean over tasks of the test accuracy after the last task, percent; every task weighs the same."
)
BWT_NOTE = "BWT = 1/(T-1) * sum over tasks i before the last of A[T, i] - A[i, i], points of percent."
HNET_NOTE = "HNET+ENT here is HNET with known task identity."


def accuracy_comparison(runs: Runs) -> Comparison:
    """An experiment's mean overall accuracy beside the value the paper prints for it; a changed setting's alone."""
    benchmark, method = runs.name.split("/")
    printed = None if runs.need.overrides else paper.printed_accuracy(method, benchmark)
    return compared(printed, runs, metrics.mean_accuracy)


def comparisons(
    rows: Sequence[Comparison],
    title: str,
    label: str = "",
    notes: Sequence[str] = (ACCURACY_NOTE,),
    digits: int = 2,
) -> Table:
    """The table of several comparisons, in their order, with a line between benchmarks; of accuracies by default."""
    import pandas as pd

    shows_own = any(row.yours is not None for row in rows)
    shows_hnet = any(row.method.startswith("HNET") for row in rows)
    head = [
        "Method",
        "Benchmark",
        "Network",
        "Source",
        "Paper",
        "Ours",
        "n",
        "Pop. sd",
        "95 %",
        "Difference",
        "Status",
    ]
    frame = pd.DataFrame([_numbers(row, shows_own) for row in rows])
    body = [_texts(row, digits, shows_own) for row in rows]
    rules = [i for i in range(1, len(rows)) if rows[i].benchmark != rows[i - 1].benchmark]
    return Table(
        title=title,
        label=label,
        frame=frame,
        head=tuple(head + (["Yours"] if shows_own else [])),
        body=tuple(body),
        rules=tuple(rules),
        notes=(
            *(*notes, *([HNET_NOTE] if shows_hnet and HNET_NOTE not in " ".join(notes) else [])),
            *(*batch_note(row.benchmark for row in rows), SPREAD_NOTE, STATUS_NOTE),
            *([YOURS_NOTE] if shows_own else []),
        ),
        text_columns=4,
    )


def settings(
    keys: tuple[str, ...],
    rows: Sequence[tuple[tuple[float, ...], Comparison]],
    title: str,
    label: str,
    notes: Sequence[str],
    digits: int = 2,
) -> Table:
    """The table of comparisons of one method in several settings: their values stand in columns of their own."""
    whole = comparisons([row for _, row in rows], title, label, notes, digits)
    frame = whole.frame.drop(columns=["method", "benchmark", "network"])
    for column, key in enumerate(keys):
        frame.insert(column, key, [setting[column] for setting, _ in rows])
    constant = 4  # method, benchmark, network and source
    return replace(
        whole,
        frame=frame,
        head=(*keys, *whole.head[constant:]),
        body=tuple(
            (*(f"{value:g}" for value in setting), *cells[constant:])
            for (setting, _), cells in zip(rows, whole.body, strict=True)
        ),
        text_columns=len(keys),
    )


def known_task_identity(runs: Mapping[str, Runs], table: int) -> Table:
    """Table 1 or 3 (its full version): every printed row, marked quoted or run by the authors, ours beside
    HyperMask's.

    runs: what there is of the rows that this project runs, as `results.gather` gives them.
    """
    rows = []
    for benchmark in BENCHMARKS:
        for printed in paper.known_task_rows():
            if printed.benchmark != benchmark or not _stands_in(printed.place, table):
                continue
            ours = runs.get(_repeated_by(printed))
            name = f"{printed.method}, {printed.setting}" if printed.setting else printed.method
            row = Comparison(
                name,
                benchmark,
                printed.source,
                printed.printed,
                network=printed.target_network,
                compared=ours is not None,
            )
            if ours is not None:
                row = replace(row, ours=_accuracy(ours.records), yours=_accuracy(ours.own))
            rows.append(row)
    full = " in full" if table == 3 else ""
    title = f"Table {table}. Mean overall accuracy with known task identity{full}, percent"
    notes = [
        ACCURACY_NOTE,
        f"Source: '{paper.QUOTED}' values were taken by the paper from other papers, under protocols and "
        f"networks of their own; '{paper.RUN_BY_AUTHORS}' are the authors' own runs. Rows without a status "
        "are not run by this project.",
        HNET_NOTE,
    ]
    return comparisons(rows, title, f"known_task_identity_{table}", notes)


def backward_transfer(runs: Mapping[str, Runs]) -> Table:
    """Table 4: every printed row, ours beside those this project runs."""
    rows = []
    for benchmark in BENCHMARKS:
        printed = [row for row in paper.table4() if row.benchmark == benchmark]
        for line in printed:
            source = paper.RUN_BY_AUTHORS if line.runs.isdigit() else line.runs
            value = paper.Printed(line.mean, line.sd, source, "table 4", line.rounding)
            ours = runs.get(f"{benchmark}/{_KEYS[line.method.split(',')[0]]}")
            row = Comparison(line.method, benchmark, value.source, value, compared=ours is not None)
            if ours is not None:
                row = replace(row, ours=_bwt(ours.records), yours=_bwt(ours.own))
            rows.append(row)
    notes = [
        BWT_NOTE,
        f"The authors ran HNET+ENT and HyperMask; WSN's zero holds by construction. {HNET_NOTE} The paper prints WSN's "
        "row with c=30%; our runs on Split CIFAR-100 and Tiny ImageNet keep 50 % of the weights, as its appendix says.",
    ]
    return comparisons(rows, "Table 4. Mean backward transfer, points of percent", "backward_transfer", notes, digits=3)


def first_task(runs: Runs) -> list[Comparison]:
    """What the caption of figure 3 prints of HyperMask-T's first task: its accuracy just after training it and
    after all tasks.
    """
    just_after, after_all = (row for row in paper.statements() if row.place == "figure 3")
    benchmark, method = runs.name.split("/")
    return [
        Comparison(
            f"{METHODS[method]}, task 1 {when}",
            benchmark,
            paper.RUN_BY_AUTHORS,
            paper.Printed(printed.value, None, paper.RUN_BY_AUTHORS, "caption of figure 3", printed.rounding),
            summarise(runs.records, lambda accuracy, row=row: float(accuracy[row, 0])),
            summarise(runs.own, lambda accuracy, row=row: float(accuracy[row, 0])),
        )
        for when, printed, row in (("just after", just_after, 0), ("after all tasks", after_all, -1))
    ]


def models(runs: Runs, numbers: Sequence[int]) -> list[Comparison]:
    """Single models of figure 11: our run of seed k beside the paper's model k."""
    benchmark, method = runs.name.split("/")
    target = {"hypermask-f": "fixed", "hypermask-t": "trainable"}[method]
    rows = []
    for printed in paper.tiny_imagenet_models():
        if printed.target == target and printed.model in numbers:
            ours, yours = (
                _accuracy([record for record in records if record.seed == printed.model])
                for records in (runs.records, runs.own)
            )
            value = paper.Printed(printed.mean, None, paper.RUN_BY_AUTHORS, "caption of figure 11")
            name = f"{METHODS[method]}, model {printed.model}"
            rows.append(Comparison(name, benchmark, value.source, value, ours, yours))
    return rows


def weight_distance(runs: Runs, layer: int) -> Table:
    """Table 5, 6 or 7: L1 distance of a target layer's weights and bias after task i and after task j, i < j.

    The paper's is one exemplary model, ours the mean over the runs. Body rows: for each i the paper's and
    ours (and the reader's own) over j.
    """
    import pandas as pd

    printed = paper.weight_distance(layer)
    pairs = [(i, j) for i in range(len(printed)) for j in range(i + 1, len(printed))]
    ours = _distances(runs.records, layer, pairs)
    yours = _distances(runs.own, layer, pairs)
    rows = []
    for pair in pairs:
        value = paper.Printed(float(printed[pair]), None, paper.RUN_BY_AUTHORS, f"table {layer + 4}")
        rows.append(
            Comparison("HyperMask-T", "permuted_mnist_10", value.source, value, ours.get(pair), yours.get(pair))
        )
    frame = pd.DataFrame(
        [
            {"after_task_i": i + 1, "after_task_j": j + 1, **_numbers(row, bool(yours))}
            for (i, j), row in zip(pairs, rows, strict=True)
        ]
    ).drop(columns=["method", "network", "paper_sd"])
    series = [("paper", {pair: float(printed[pair]) for pair in pairs})]
    series.append(("ours", {pair: summary.mean for pair, summary in ours.items()}))
    if yours:
        series.append(("yours", {pair: summary.mean for pair, summary in yours.items()}))
    body = [
        (str(i + 1), name, *(_distance_cell(values, i, j) for j in range(1, len(printed))))
        for i in range(len(printed) - 1)
        for name, values in series
    ]
    rules = tuple(range(len(series), len(body), len(series)))
    notes = [
        "D(i, j): sum over the layer's weights and biases of their absolute change between the ends of tasks i and j.",
        f"Paper: one exemplary model. Ours: {_mean_over(len(runs.records))}.",
    ]
    if len(runs.records) > 1:
        differ = [f"D({i + 1},{j + 1})" for (i, j), row in zip(pairs, rows, strict=True) if row.status == paper.DIFFERS]
        named = f": {', '.join(differ)}" if differ else ""
        notes.append(f"By the spread over our runs {len(differ)} of the {len(pairs)} distances differ{named}.")
    names = {1: "first hidden layer", 2: "second hidden layer", 3: "output layer"}
    return Table(
        title=f"Table {layer + 4}. L1 distance of the target's weights, {names[layer]}, Permuted MNIST",
        label=f"target_weight_distance_layer{layer}",
        frame=frame,
        head=("after task i", "", *(f"j = {j + 1}" for j in range(1, len(printed)))),
        body=tuple(body),
        rules=rules,
        notes=tuple(notes),
        text_columns=2,
    )


def weight_distance_growth(runs: Runs) -> Table:
    """What the paper's text says of tables 5 to 7: D(1, 10) - D(1, 2) of each layer, ours beside it."""
    last = len(paper.weight_distance(1)) - 1
    rows = []
    for layer in (1, 2, 3):
        printed = paper.weight_distance(layer)
        value = paper.Printed(float(printed[0, last] - printed[0, 1]), None, paper.RUN_BY_AUTHORS, f"table {layer + 4}")
        ours = _growth(runs.records, layer, last)
        yours = _growth(runs.own, layer, last)
        rows.append(
            Comparison(f"layer {layer}: D(1,10) - D(1,2)", "permuted_mnist_10", value.source, value, ours, yours)
        )
    return comparisons(rows, "Growth of the distances", notes=())


def per_run(runs: Mapping[str, Runs]) -> str:
    """Plain text: mean accuracy, its value just after training, backward transfer and device of every finished run, by
    seed.
    """
    width = max([31, *(len(name) + 1 for name in runs)])
    lines = [f"{'experiment':<{width}}{'seed':>5}{'ACC, %':>10}{'just after, %':>15}{'BWT, points':>13}  device"]
    for name, group in runs.items():
        for kind, shown in (("", group.records), (" (yours)", group.own)):
            for record in shown:
                accuracy = metrics.mean_accuracy(record.accuracy)
                after = metrics.diagonal_mean(record.accuracy)
                transfer = metrics.backward_transfer(record.accuracy)
                start = f"{name + kind:<{width}}{record.seed:>5}"
                numbers = f"{accuracy:>10.3f}{after:>15.3f}{fixed(transfer, 3, '+'):>13}"
                lines.append(f"{start}{numbers}  {record.environment['device_name']}")
        if not group.records and not group.own:
            lines.append(f"{name:<{width}}{paper.NOT_RUN:>15}")
    return "\n".join(lines)


def per_task(runs: Runs) -> str:
    """Plain text: mean and 95 % half width per task, just after training it and after all tasks; of many, every tenth.
    The reader's own runs, where they are shown, below.
    """
    return _ours_and_yours(runs, _per_task)


def mean_of(runs: Sequence[Record]) -> np.ndarray:
    """Mean accuracy matrix [T, T] of several runs, percent, NaN above the diagonal."""
    return np.mean([record.accuracy for record in runs], axis=0)


def final_mean(runs: Sequence[Record]) -> float:
    """Mean overall accuracy of several runs, percent."""
    return _accuracy(runs).mean


def mean_matrix(runs: Runs, digits: int = 2) -> str:
    """Plain text: the mean accuracy matrix, row = after training task, column = evaluated on task; of the reader's own
    runs, where they are shown, below.
    """
    return _ours_and_yours(runs, partial(_mean_matrix, digits=digits))


def others_printed(benchmark: str, method: str) -> dict[str, float]:
    """The printed values of table 1's column, by method, without that method's own."""
    return {
        row.method: row.mean
        for row in paper.known_task_rows()
        if row.benchmark == benchmark and row.method != method and _stands_in(row.place, 1)
    }


def printed_accuracies() -> dict[str, paper.Printed]:
    """What table 3 prints of each configuration that we repeat, by its label: the experiment, with changed values."""
    repeated = {_repeated_by(row): row for row in paper.known_task_rows() if _stands_in(row.place, 3)}
    return {label: row.printed for label, row in repeated.items() if label is not None}


_KEYS = {name: key for key, name in METHODS.items()}


def _repeated_by(row: paper.KnownTaskRow) -> str | None:
    """The label of our configuration that repeats a printed row; None if there is none, as for networks other than
    ResNet-18 of WSN.
    """
    name = f"{row.benchmark}/{_KEYS.get(row.method)}"
    if row.method != "WSN":
        return name
    if row.target_network not in ("", "ResNet-18"):
        return None
    share = float(row.setting.removeprefix("c=").removesuffix("%"))
    return name if experiments.get(name).config.method.c == share else f"{name} [c={share:g}]"


def _ours_and_yours(runs: Runs, text: Callable[[str, Sequence[Record]], str]) -> str:
    found = [text(runs.name, runs.records)]
    if runs.own:
        found.append(text(f"{runs.name}, your own runs", runs.own))
    return "\n\n".join(found)


def _per_task(name: str, runs: Sequence[Record]) -> str:
    if not runs:
        return f"{name}: {paper.NOT_RUN}"
    matrices = np.stack([record.accuracy for record in runs])
    tasks = matrices.shape[1]
    shown = range(tasks) if tasks <= 20 else [0, *range(9, tasks, 10)]
    lines = [
        f"{name}, {counted(len(matrices))}",
        f"{'task':>4}{'just after training, %':>26}{'after all tasks, %':>24}",
    ]
    for task in shown:
        after, last = (metrics.summary(values) for values in (matrices[:, task, task], matrices[:, -1, task]))
        lines.append(f"{task + 1:>4}{plus_minus(after.mean, after.t95, 2):>26}{plus_minus(last.mean, last.t95, 2):>24}")
    return "\n".join(lines)


def _mean_matrix(name: str, runs: Sequence[Record], digits: int) -> str:
    if not runs:
        return f"{name}: {paper.NOT_RUN}"
    mean = mean_of(runs)
    tasks = range(len(mean))
    numbers = "".join(f"{task + 1:>7}" for task in tasks)
    lines = [f"{name}, {_mean_over(len(runs))}", "after training task | evaluated on task", f"{'|':>21}{numbers}"]
    lines += [f"{i + 1:>19} |" + "".join(f"{value:>7.{digits}f}" for value in mean[i, : i + 1]) for i in tasks]
    return "\n".join(lines)


def layer_distance(record: Record, layer: int) -> np.ndarray:
    """D(i, j) of tables 5 to 7 for layer 1, 2 or 3 of a run, [tasks, tasks]."""
    return list(record.target_distance.values())[layer - 1]


def _mean_over(n: int) -> str:
    return {0: paper.NOT_RUN, 1: counted(1)}.get(n, f"mean of {counted(n)}")


def _accuracy(runs: Sequence[Record]) -> Summary | None:
    return summarise(runs, metrics.mean_accuracy)


def _bwt(runs: Sequence[Record]) -> Summary | None:
    return summarise(runs, metrics.backward_transfer)


def _stands_in(place: str, table: int) -> bool:
    return place.startswith("table") and str(table) in place.replace("and", "").split()


def _distances(runs: Sequence[Record], layer: int, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Summary]:
    if not runs:
        return {}
    matrices = [layer_distance(record, layer) for record in runs]
    tasks = min(len(matrix) for matrix in matrices)
    return {(i, j): metrics.summary([matrix[i, j] for matrix in matrices]) for i, j in pairs if j < tasks}


def _growth(runs: Sequence[Record], layer: int, last: int) -> Summary | None:
    distances = _distances(runs, layer, [(0, 1), (0, last)])
    if (0, last) not in distances:
        return None
    pairs = zip(distances[0, last].values, distances[0, 1].values, strict=True)
    return metrics.summary([far - near for far, near in pairs])


def _distance_cell(values: Mapping[tuple[int, int], float], i: int, j: int) -> str:
    if j <= i:
        return ""
    return f"{values[i, j]:.2f}" if (i, j) in values else BLANK


def _numbers(row: Comparison, shows_own: bool) -> dict[str, Any]:
    ours, yours = row.ours, row.yours
    numbers = {
        "method": row.method,
        "benchmark": row.benchmark,
        "network": row.network,
        "source": "" if row.source == BLANK else row.source,
        "paper_mean": number(row.printed and row.printed.mean),
        "paper_sd": number(row.printed and row.printed.sd),
        "ours_mean": number(ours and ours.mean),
        "ours_sample_sd": number(ours and ours.sd),
        "ours_population_sd": number(ours and ours.population_sd),
        "ours_t95": number(ours and ours.t95),
        "runs": ours.n if ours else 0,
        "difference": number(row.difference),
        "status": "" if row.status == BLANK else row.status,
    }
    if shows_own:
        numbers |= {"yours_mean": number(yours and yours.mean), "yours_runs": yours.n if yours else 0}
    return numbers


def _texts(row: Comparison, digits: int, shows_own: bool) -> tuple[str, ...]:
    ours = row.ours
    texts = [
        row.method,
        BENCHMARKS[row.benchmark],
        row.network or BLANK,
        row.source,
        plus_minus(row.printed.mean, row.printed.sd, digits, 2) if row.printed else BLANK,
        plus_minus(ours.mean, ours.sd, digits) if ours else BLANK,
        str(ours.n) if ours else ("0" if row.compared else BLANK),
        rounded(ours and ours.population_sd, digits),
        rounded(ours and ours.t95, digits),
        BLANK if row.difference is None else fixed(row.difference, digits, "+"),
        row.marked_status,
    ]
    if shows_own:
        yours = row.yours
        texts.append(f"{plus_minus(yours.mean, yours.sd, digits)} ({counted(yours.n)})" if yours else BLANK)
    return tuple(texts)

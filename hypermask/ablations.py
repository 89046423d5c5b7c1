"""Tables 8 to 11: HyperMask in several settings, one or more values of its configuration changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import experiments, metrics, paper
from hypermask.paper import NO_SPREAD
from hypermask.printed_and_ours import BATCH_NOTE, Comparison, compared
from hypermask.tables import ACCURACY_NOTE, settings
from hypermask.typesetting import BLANK, Table, fixed, number, plus_minus

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

YOURS_ONE_NOTE = "Yours: your own run of that setting, ± over its tasks."
SEEDS_NOTE = "The paper's means are over three runs; ours over the runs of seeds 1 to 3 that there are, for every row."
TASKS_NOTE = (
    "±: standard deviation over the 40 tasks of one run (ours: population); it tells how tasks differ, not how runs do."
)
SINGLE_NOTE = (
    f"Status: '{NO_SPREAD}' where a run of ours stands beside the printed one, since two single runs cannot tell "
    f"whether they differ; '{paper.NOT_RUN}' where there is none."
)
MAIN = "*"
_MAIN_NOTES = {
    "fixed": f"{MAIN}: the setting of the main experiments, the one of the highest printed accuracy.",
    "trainable": f"{MAIN}: the setting of the main experiments. The paper chose it by several runs of a setting; the "
    "highest printed accuracy of a single run, which is what the table shows, is another setting's.",
}
TWICE_NOTE = "Two values with a slash: the paper prints the setting twice, with other values."


def loss_components(runs: Mapping[str, Runs]) -> Table:
    """Table 8: HyperMask-T on Permuted MNIST without one of the two regularisers.

    runs: as `results.gather("table08")` gives them, one for each printed row, in their order.
    """
    rows = [
        ((row.beta, row.lam), _beside(row.mean, row.sd, group, "table 8"))
        for row, group in zip(paper.loss_components(), runs.values(), strict=True)
    ]
    title = "Table 8. HyperMask-T without one of its loss components, Permuted MNIST, 10 tasks, accuracy in percent"
    return settings(("beta", "lambda"), rows, title, "loss_components", [ACCURACY_NOTE, SEEDS_NOTE])


def sparsity(runs: Mapping[str, Runs]) -> Table:
    """Table 9: HyperMask-T on Permuted MNIST by sparsity p.

    runs: as `results.gather("table09")` gives them, one for each printed row, in their order.
    """
    rows = [
        ((row.p,), _beside(row.mean, row.sd, group, "table 9"))
        for row, group in zip(paper.sparsity(), runs.values(), strict=True)
    ]
    main = paper.printed_accuracy("HyperMask-T", "permuted_mnist_10")
    notes = [
        ACCURACY_NOTE,
        "p: share of each masked tensor set to zero, percent. p = 0 is the main setting, for which table 1 prints "
        f"{plus_minus(main.mean, main.sd, 2)} over five runs.",
        SEEDS_NOTE,
    ]
    title = "Table 9. HyperMask-T by sparsity p, Permuted MNIST, 10 tasks, accuracy in percent"
    return settings(("p",), rows, title, "permuted_mnist_sparsity", notes, digits=3)


def tiny_imagenet(runs: Mapping[str, Runs], target: str) -> Table:
    """Table 10 (`fixed`) or 11 (`trainable`): the mean accuracy of one run of each setting, its spread over the tasks.

    runs: as `results.gather` gives them, one for each distinct setting, in the order they are printed in. A setting
    that is printed twice has both printed values in one row.
    """
    import pandas as pd

    table, name, keys, heads = {
        "fixed": (10, "HyperMask-F", ("embedding_size", "hypernetwork_hidden", "beta", "p"), ()),
        "trainable": (11, "HyperMask-T", ("embedding_size", "hypernetwork_hidden", "beta", "p", "lam"), ("lambda",)),
    }[target]
    printed: dict[tuple, list[paper.AblationRow]] = {}
    for row in paper.tiny_imagenet_ablation(target):
        printed.setdefault(tuple(getattr(row, key) for key in keys), []).append(row)
    shows_own = any(group.own for group in runs.values())
    rows = list(zip(printed.values(), runs.values(), strict=True))
    sparsities = [values[0].p for values, _ in rows]
    twice = any(len(values) > 1 for values, _ in rows)
    return Table(
        title=f"Table {table}. {name} on Tiny ImageNet in several settings, mean accuracy over 40 tasks, percent",
        label=f"tiny_imagenet_{target}_ablation",
        frame=pd.DataFrame([_numbers(values, group, keys, twice, shows_own) for values, group in rows]),
        head=(
            *("Embedding", "Hypernetwork", "beta", "p", *heads),
            *("Paper", "Ours", "n", "Difference", "Status"),
            *(("Yours",) if shows_own else ()),
        ),
        body=tuple(_texts(values, group, keys, shows_own) for values, group in rows),
        rules=tuple(i for i in range(1, len(sparsities)) if sparsities[i] != sparsities[i - 1]),
        notes=(
            *(ACCURACY_NOTE, BATCH_NOTE, TASKS_NOTE, SINGLE_NOTE, _MAIN_NOTES[target]),
            *([TWICE_NOTE] if twice else []),
            *([YOURS_ONE_NOTE] if shows_own else []),
        ),
        text_columns=2,
    )


def by_sparsity(runs: Mapping[str, Runs], target: str) -> str:
    """Plain text: the best accuracy of table 10 or 11 for each p, and the best of ours; arguments as for
    `tiny_imagenet`.
    """
    rows = paper.tiny_imagenet_ablation(target)
    lines = [f"{'p':>3}{'settings':>10}{'paper, best':>13}{'run':>5}{'ours, best':>12}"]
    for p in dict.fromkeys(row.p for row in rows):
        settings_of_p = {label: group for label, group in runs.items() if f"p={p:g}" in group.need.overrides}
        best = max(row.mean for row in rows if row.p == p)
        ours = [found[0] for group in settings_of_p.values() if (found := _over_tasks(group.records))]
        shown = f"{max(ours):.2f}" if ours else paper.NOT_RUN
        lines.append(f"{p:>3g}{len(settings_of_p):>10}{best:>13.2f}{len(ours):>5}{shown:>12}")
    return "\n".join(lines)


def _beside(mean: float, sd: float, runs: Runs, place: str) -> Comparison:
    return compared(paper.Printed(mean, sd, paper.RUN_BY_AUTHORS, place), runs, metrics.mean_accuracy)


def _over_tasks(runs: Sequence[Record]) -> tuple[float, float] | None:
    """Mean over tasks of the accuracy after all of them, and its population standard deviation over the tasks, each
    averaged over the runs.
    """
    if not runs:
        return None
    last = np.stack([record.accuracy[-1] for record in runs])
    return float(last.mean()), float(last.std(axis=1).mean())


def _numbers(
    printed: Sequence[paper.AblationRow], runs: Runs, keys: Sequence[str], twice: bool, shows_own: bool
) -> dict[str, Any]:
    ours, yours = _over_tasks(runs.records), _over_tasks(runs.own)
    again = printed[1] if len(printed) > 1 else None
    numbers = {"lambda" if key == "lam" else key: getattr(printed[0], key) for key in keys}
    numbers |= {"hypernetwork_hidden": _hidden(printed[0])}
    numbers |= {"paper_mean": printed[0].mean, "paper_sd_over_tasks": printed[0].sd_over_tasks}
    if twice:
        numbers |= {
            "paper_again_mean": number(again and again.mean),
            "paper_again_sd_over_tasks": number(again and again.sd_over_tasks),
        }
    numbers |= {
        "ours_mean": number(ours and ours[0]),
        "ours_sd_over_tasks": number(ours and ours[1]),
        "runs": len(runs.records),
        "difference": number(ours and ours[0] - printed[0].mean),
    }
    if twice:
        numbers |= {"difference_again": number(ours[0] - again.mean if ours and again else None)}
    numbers |= {"status": _status(runs)}
    if shows_own:
        numbers |= {"yours_mean": number(yours and yours[0]), "yours_runs": len(runs.own)}
    return numbers


def _texts(printed: Sequence[paper.AblationRow], runs: Runs, keys: Sequence[str], shows_own: bool) -> tuple[str, ...]:
    ours, yours = _over_tasks(runs.records), _over_tasks(runs.own)
    differences = [fixed(ours[0] - row.mean, 2, "+") for row in printed] if ours else []
    main = runs.need.configured.config == experiments.get(runs.name).config
    return (
        f"{printed[0].embedding_size}{MAIN * main}",
        _hidden(printed[0]),
        *(f"{getattr(printed[0], key):g}" for key in keys[2:]),
        " / ".join(plus_minus(row.mean, row.sd_over_tasks, 2) for row in printed),
        plus_minus(*ours, 2) if ours else BLANK,
        str(len(runs.records)),
        " / ".join(differences) or BLANK,
        _status(runs),
        *([plus_minus(*yours, 2) if yours else BLANK] if shows_own else []),
    )


def _status(runs: Runs) -> str:
    return NO_SPREAD if runs.records else paper.NOT_RUN


def _hidden(row: paper.AblationRow) -> str:
    return "-".join(map(str, row.hypernetwork_hidden))

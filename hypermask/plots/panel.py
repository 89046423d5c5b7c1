"""What the panels of a figure show: the runs of a configuration and what the paper prints for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics, paper
from hypermask.results import counted

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs


@dataclass(frozen=True)
class Panel:
    """What one panel shows.

    title: above the panel.  matrices: [n, T, T], percent, the finished runs, None where there are none.
    tasks: T of the panel, also when nothing was run.  printed: mean and spread (None of a single model) the
    paper prints for the mean after all tasks, None where it prints none.  own: [m, T, T], the reader's own
    runs; changed: their values that are not the panel's.  whose: what the mean of `matrices` is called.  quoted:
    whether the paper took `printed` from another one.
    """

    title: str
    tasks: int
    matrices: np.ndarray | None = None
    printed: tuple[float, float | None] | None = None
    own: np.ndarray | None = None
    whose: str = "ours"
    quoted: bool = False
    changed: str = ""

    @property
    def runs(self) -> int:
        """How many finished runs the panel shows."""
        return 0 if self.matrices is None else len(self.matrices)

    @property
    def empty(self) -> bool:
        """Whether no run of anybody is there."""
        return self.matrices is None and self.own is None

    def values(self) -> str:
        """Our mean accuracy after all tasks, and what the paper prints or quotes; on a line each with own runs."""
        parts = []
        if self.matrices is None:
            parts.append("not run")
        else:
            parts.append(_mean_of_runs(self.whose, self.matrices))
        if self.own is not None:
            parts.append(_mean_of_runs("yours", self.own))
        if self.printed is not None:
            parts.append(f"{'quoted' if self.quoted else 'paper'} {self.printed_text()}")
        return ("; " if self.own is None else "\n").join(parts)

    def printed_text(self) -> str:
        """The printed mean, with its spread where it has one."""
        mean, spread = self.printed
        return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def panels(runs: Mapping[str, Runs], tasks: int | Sequence[int]) -> list[Panel]:
    """A panel for each titled configuration, with the mean accuracy the paper prints for it, if it is the main one.

    tasks: how many tasks a panel without runs shows, one number for all panels or one each.
    """
    counts = [tasks] * len(runs) if isinstance(tasks, int) else tasks
    return [_panel(title, group, count) for (title, group), count in zip(runs.items(), counts, strict=True)]


def model_panels(runs: Runs, title: str, tasks: int, models: Sequence[int]) -> list[Panel]:
    """A panel for each of figure 11's models of this kind: our run of seed k, the accuracy of the paper's model k."""
    target = {"hypermask-f": "fixed", "hypermask-t": "trainable"}[runs.name.split("/")[1]]
    printed = {row.model: row.mean for row in paper.tiny_imagenet_models() if row.target == target}
    return [
        _drawn(
            f"{title} {model}",
            tasks,
            (printed[model], None),
            *([record for record in records if record.seed == model] for records in (runs.records, runs.own)),
        )
        for model in models
    ]


def own_beside(panels: Sequence[Panel]) -> list[Panel]:
    """The panels, each with own runs followed by one that shows those alone."""
    apart = []
    for panel in panels:
        apart.append(replace(panel, own=None))
        if panel.own is not None:
            apart.append(Panel(f"{panel.title}, your own runs", panel.own.shape[1], panel.own, whose="yours"))
    return apart


def mean_curves(matrices: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Per task mean and 95 % half width (NaN for a single run) of the diagonal and of the last row."""
    values = {"just_after": np.diagonal(matrices, axis1=1, axis2=2), "after_all": matrices[:, -1, :]}
    curves = {}
    for key, per_run in values.items():
        summaries = [metrics.summary(list(column)) for column in per_run.T]
        half_widths = [np.nan if s.t95 is None else s.t95 for s in summaries]
        curves[key] = (np.array([s.mean for s in summaries]), np.array(half_widths))
    return curves


def _mean_of_runs(whose: str, matrices: np.ndarray) -> str:
    found = metrics.summary([metrics.mean_accuracy(matrix) for matrix in matrices])
    spread = f" ± {found.sd:.2f}" if found.n > 1 else ""
    return f"{whose} {found.mean:.2f}{spread} ({counted(found.n)})"


def _panel(title: str, runs: Runs, tasks: int) -> Panel:
    benchmark, method = runs.name.split("/")
    if runs.need.overrides:
        return _drawn(title, tasks, None, runs.records, runs.own)
    found = paper.printed_accuracy(method, benchmark)
    panel = _drawn(title, tasks, (found.mean, found.sd), runs.records, runs.own)
    changed = " ".join(runs.changed.overrides) if runs.changed else ""
    return replace(panel, quoted=found.source == paper.QUOTED, changed=changed)


def _drawn(
    title: str,
    tasks: int,
    printed: tuple[float, float | None] | None,
    records: Sequence[Record],
    own_records: Sequence[Record],
) -> Panel:
    matrices, own = (
        np.stack([record.accuracy for record in group]) if group else None for group in (records, own_records)
    )
    shown = matrices if matrices is not None else own
    return Panel(title, tasks if shown is None else shown.shape[1], matrices, printed, own)

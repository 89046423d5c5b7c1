"""One function per kind of figure; the style in one place.

Figures are built without pyplot, so nothing is shown twice and no state is shared. Text is at least 7 pt at
the printed size (3.3 in, one column, or 6.8 in, the page). The colours are Okabe and Ito's, told apart by the
colour-blind and, being of different lightness, in grey; series differ in marker and line as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics, paper

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hypermask.results import Runs

COLUMN = 3.3
PAGE = 6.8

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREY = "#6B6B6B"
BLACK = "#1A1A1A"

JUST_AFTER = "just after training the task"
AFTER_ALL = "after all tasks"
YOURS = f"your own runs, {AFTER_ALL}"
PAPER = f"paper, mean {AFTER_ALL} ± sd"
AFTER_TASK = "after training task"
ON_TASK = "evaluated on task"

ANNOTATED_TASKS = 10

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 8.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "hypermask",
}


@contextmanager
def style() -> Iterator[None]:
    """The style of every figure, for drawing and for saving."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


@dataclass(frozen=True)
class Panel:
    """What one panel shows.

    title: above the panel.  matrices: [n, T, T], percent, the finished runs, None where there are none.
    tasks: T of the panel, also when nothing was run.  printed: mean and spread the paper prints for the mean
    after all tasks, None where it prints none.  own: [m, T, T], the reader's own runs.
    """

    title: str
    tasks: int
    matrices: np.ndarray | None = None
    printed: tuple[float, float] | None = None
    own: np.ndarray | None = None

    @property
    def runs(self) -> int:
        """How many finished runs the panel shows."""
        return 0 if self.matrices is None else len(self.matrices)

    def values(self) -> str:
        """Our mean accuracy after all tasks and the paper's; on two lines where there are own runs."""
        parts = []
        if self.matrices is None:
            parts.append("not run")
        else:
            ours = metrics.summary([metrics.mean_accuracy(matrix) for matrix in self.matrices])
            spread = f" ± {ours.sd:.2f}" if ours.n > 1 else ""
            parts.append(f"ours {ours.mean:.2f}{spread} (n = {ours.n})")
        if self.own is not None:
            own = metrics.summary([metrics.mean_accuracy(matrix) for matrix in self.own])
            parts[0] += f"; yours {own.mean:.2f} (n = {own.n})"
        if self.printed is not None:
            parts.append(f"paper {self.printed[0]:.2f} ± {self.printed[1]:.2f}")
        return ("; " if self.own is None else "\n").join(parts)


def panels(runs: Mapping[str, Runs], tasks: int | Sequence[int]) -> list[Panel]:
    """A panel for each titled experiment, with the mean accuracy the paper prints for it.

    tasks: how many tasks a panel without runs shows, one number for all panels or one each.
    """
    counts = [tasks] * len(runs) if isinstance(tasks, int) else tasks
    return [_panel(title, group, count) for (title, group), count in zip(runs.items(), counts, strict=True)]


def _panel(title: str, runs: Runs, tasks: int) -> Panel:
    benchmark, method = runs.name.split("/")
    printed = paper.printed_accuracy(method, benchmark)
    matrices = np.stack([record.accuracy for record in runs.records]) if runs.records else None
    own = np.stack([record.accuracy for record in runs.own]) if runs.own else None
    shown = matrices if matrices is not None else own
    return Panel(title, tasks if shown is None else shown.shape[1], matrices, (printed.mean, printed.sd), own)


def accuracy_matrices(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy matrices as heat maps, one per panel, on one colour scale.

    Rows: after training task i. Columns: evaluated on task j. Values are written into the cells up to 10
    tasks. A panel without runs says so and shows the mean the paper prints. Own runs have a panel of their
    own.
    """
    panels = _own_beside(panels)
    with style():
        width = COLUMN if len(panels) == 1 else PAGE
        figure = _figure(title, width, width / len(panels) + 0.25)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        means = [None if panel.matrices is None else panel.matrices.mean(axis=0) for panel in panels]
        shown = [matrix for matrix in means if matrix is not None]
        low = min((float(np.floor(np.nanmin(matrix))) for matrix in shown), default=0.0)
        image = None
        for ax, panel, matrix in zip(axes, panels, means, strict=True):
            _task_axes(ax, panel)
            if matrix is None:
                _not_run(ax, panel, aspect="equal" if shown else "auto")
                continue
            image = ax.imshow(matrix, cmap="Blues", vmin=min(low, 99.0), vmax=100.0, aspect="equal")
            ax.spines[:].set_visible(False)
            if panel.tasks <= ANNOTATED_TASKS:
                _annotate(ax, matrix, image)
        if image is not None:
            bar = figure.colorbar(image, ax=list(axes), shrink=0.75, pad=0.02, label="test accuracy, %")
            bar.outline.set_visible(False)
        return figure


def mean_accuracy(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy per task with 95 % t intervals: just after training the task, and after all tasks.

    The paper's printed mean after all tasks is a dashed line with its spread as a band. A single run has no
    interval, and the panel says so. Own runs are hollow diamonds (after all tasks).
    """
    with style():
        width = COLUMN if len(panels) == 1 else PAGE
        figure = _figure(title, width, 3.0)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, panel in zip(axes, panels, strict=True):
            _mean_accuracy(ax, panel)
        handles, labels = _legend_entries(axes)
        columns = 1 if len(panels) == 1 else len(labels)
        figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, 4))
        return figure


def matrix_data(panels: Sequence[Panel]) -> pd.DataFrame:
    """The plotted accuracy matrices, one row per panel, row and column; values are missing where nothing was
    run.
    """
    import pandas as pd

    rows = []
    for panel in _own_beside(panels):
        mean = None if panel.matrices is None else panel.matrices.mean(axis=0)
        rows += [
            {
                "panel": panel.title,
                "after_training_task": i + 1,
                "evaluated_on_task": j + 1,
                "accuracy_mean": np.nan if mean is None else mean[i, j],
                "runs": panel.runs,
            }
            for i in range(panel.tasks)
            for j in range(i + 1)
        ]
    return pd.DataFrame(rows)


def mean_accuracy_data(panels: Sequence[Panel]) -> pd.DataFrame:
    """The plotted means and 95 % half widths, one row per panel and task; values are missing where nothing
    was run.
    """
    import pandas as pd

    rows = []
    shows_own = any(panel.own is not None for panel in panels)
    for panel in panels:
        curves = None if panel.matrices is None else _curves(panel.matrices)
        own = None if panel.own is None else panel.own[:, -1, :].mean(axis=0)
        for task in range(panel.tasks):
            row = {"panel": panel.title, "task": task + 1}
            for key in ("just_after", "after_all"):
                mean, half_width = (np.nan, np.nan) if curves is None else (c[task] for c in curves[key])
                row |= {f"{key}_mean": mean, f"{key}_t95": half_width}
            row |= {"runs": panel.runs}
            if shows_own:
                row["own_after_all_mean"] = np.nan if own is None else own[task]
            rows.append(row)
    return pd.DataFrame(rows)


def describe(panels: Sequence[Panel], title: str) -> str:
    """The figure in words, as alternative text and caption: its panels, their values, and what the spreads
    are.
    """
    lines = [f"{title}."]
    for panel in panels:
        lines.append(f"{panel.title}: {panel.values().replace(chr(10), '; ')}.")
    lines.append(
        "Mean accuracy after all tasks, percent. Ours ± sample standard deviation; "
        "paper ± population standard deviation."
    )
    return "\n".join(lines)


def mask_images(images: Sequence[np.ndarray], titles: Sequence[str], title: str) -> Figure:
    """Masks of single units as images in [0, 1], [H, W] each, zeros white."""
    with style():
        figure = _figure(title, PAGE, 2.3)
        axes = figure.subplots(1, len(images), squeeze=False)[0]
        for ax, image, name in zip(axes, images, titles, strict=True):
            shown = ax.imshow(image, cmap="Blues", vmin=0.0, vmax=max(1e-12, max(i.max() for i in images)))
            ax.set(title=name, xticks=[], yticks=[])
        figure.colorbar(shown, ax=list(axes), label="mask value")
        return figure


def _own_beside(panels: Sequence[Panel]) -> list[Panel]:
    """The panels, each with own runs followed by one that shows those alone."""
    apart = []
    for panel in panels:
        apart.append(replace(panel, own=None))
        if panel.own is not None:
            apart.append(Panel(f"{panel.title}, your own runs", panel.own.shape[1], panel.own))
    return apart


def _figure(title: str, width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    return figure


def _task_axes(ax: Axes, panel: Panel) -> None:
    ax.set(title=f"{panel.title}\n{panel.values()}", xlabel=ON_TASK, ylabel=AFTER_TASK)
    step = 1 if panel.tasks <= 10 else 20
    ticks = np.arange(0, panel.tasks, step)
    ax.set_xticks(ticks, [str(t + 1) for t in ticks])
    ax.set_yticks(ticks, [str(t + 1) for t in ticks])


def _annotate(ax: Axes, matrix: np.ndarray, image) -> None:
    digits = 2 if len(matrix) <= 6 else 1
    for i in range(len(matrix)):
        for j in range(i + 1):
            red, green, blue, _ = image.cmap(image.norm(matrix[i, j]))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            ax.text(
                j,
                i,
                f"{matrix[i, j]:.{digits}f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else BLACK,
            )


def _not_run(ax: Axes, panel: Panel, aspect: str) -> None:
    text = "not run"
    if panel.printed is not None:
        mean, spread = panel.printed
        text += f"\n\nThe paper prints the mean\nafter all tasks:\n{mean:.2f} ± {spread:.2f} %"
    ax.set(xlim=(-0.5, panel.tasks - 0.5), ylim=(panel.tasks - 0.5, -0.5), aspect=aspect, facecolor="#F4F4F4")
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=BLACK)


def _curves(matrices: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Per task mean and 95 % half width (NaN for a single run) of the diagonal and of the last row."""
    values = {"just_after": np.diagonal(matrices, axis1=1, axis2=2), "after_all": matrices[:, -1, :]}
    curves = {}
    for key, per_run in values.items():
        summaries = [metrics.summary(list(column)) for column in per_run.T]
        half_widths = [np.nan if s.t95 is None else s.t95 for s in summaries]
        curves[key] = (np.array([s.mean for s in summaries]), np.array(half_widths))
    return curves


def _mean_accuracy(ax: Axes, panel: Panel) -> None:
    tasks = np.arange(1, panel.tasks + 1)
    many = panel.tasks > 20
    if panel.matrices is not None:
        curves = _curves(panel.matrices)
        offset = 0.0 if many else 0.08
        for key, label, color, marker, shift in (
            ("just_after", JUST_AFTER, BLUE, "o", -offset),
            ("after_all", AFTER_ALL, ORANGE, "s", offset),
        ):
            mean, half_width = curves[key]
            bars = None if panel.runs == 1 else half_width
            if many and bars is not None:
                ax.fill_between(tasks, mean - bars, mean + bars, color=color, alpha=0.3, linewidth=0)
            ax.errorbar(
                tasks + shift,
                mean,
                yerr=None if many else bars,
                label=label,
                color=color,
                marker=marker,
                markersize=4,
                markevery=10 if many else 1,
                markeredgecolor=BLACK,
                markeredgewidth=0.4,
                linewidth=1,
                linestyle="-" if many or key == "just_after" else (0, (4, 1.5)),
                capsize=2,
                elinewidth=0.9,
            )
    if panel.printed is not None:
        mean, spread = panel.printed
        ax.axhspan(mean - spread, mean + spread, color=GREY, alpha=0.2, linewidth=0, zorder=0.5)
        ax.axhline(mean, color=GREY, linestyle=":", linewidth=1.3, zorder=0.6, label=PAPER)
    if panel.own is not None:
        own = panel.own[:, -1, :].mean(axis=0)
        ax.plot(tasks, own, "D", color=BLACK, fillstyle="none", markersize=5, label=YOURS)
    if panel.matrices is None and panel.own is None:
        mean = 50.0 if panel.printed is None else panel.printed[0]
        ax.set_ylim(mean - 2, mean + 2)
        ax.text(0.5, 0.25, "not run", transform=ax.transAxes, ha="center", va="center", color=BLACK)
    note = "\n(one run: no interval)" if panel.runs == 1 else ""
    ax.set(title=f"{panel.title}\n{panel.values()}{note}", xlabel="task", ylabel="test accuracy, %")
    ax.set_xlim(0.5, panel.tasks + 0.5)
    ax.set_xticks(tasks if panel.tasks <= 10 else [1, *range(20, panel.tasks + 1, 20)])
    _accuracy_ticks(ax)
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.5)
    ax.set_axisbelow(True)


def _accuracy_ticks(ax: Axes) -> None:
    # An interval may reach above 100 %, a tick there would promise an accuracy that cannot be.
    low, high = ax.get_ylim()
    ax.locator_params(axis="y", nbins=6)
    ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= min(high, 100.0 + 1e-9)])
    ax.set_ylim(low, high)


def _legend_entries(axes: Sequence[Axes]) -> tuple[list, list[str]]:
    entries = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    order = [label for label in (JUST_AFTER, AFTER_ALL, YOURS, PAPER) if label in entries]
    return [entries[label] for label in order], order

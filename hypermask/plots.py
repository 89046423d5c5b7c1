"""One function per kind of figure; the style in one place.

Figures are built without pyplot, so nothing is shown twice and no state is shared. Text is at least 7 pt at
the printed size (3.3 in, one column, or 6.8 in, the page). The colours are Okabe and Ito's, told apart by the
colour-blind and, being of different lightness, in grey, and two more where there are ten; series differ in marker
and line as well, groups of points in marker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics, paper
from hypermask.errors import HyperMaskError
from hypermask.results import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hypermask.records import Record
    from hypermask.results import Runs

COLUMN = 3.3
PAGE = 6.8

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
PINK = "#CC79A7"
SKY = "#56B4E9"
GREY = "#6B6B6B"
BLACK = "#1A1A1A"

# Groups of points, such as digits: of neighbours one is dark and one light.
GROUPS = (BLUE, ORANGE, BLACK, SKY, GREEN, "#F0E442", "#882255", PINK, "#5E35B1", "#D55E00")

JUST_AFTER = "just after training the task"
AFTER_ALL = "after all tasks"
YOURS = f"your own runs, {AFTER_ALL}"
PAPER = f"paper, mean {AFTER_ALL} ± sd"
MODEL_MEAN = f"mean {AFTER_ALL}"
MODEL_PAPER = f"paper's model, mean {AFTER_ALL}"
MAIN_PAPER = f"paper, main setting, mean {AFTER_ALL} ± sd"
AFTER_TASK = "after training task"
ON_TASK = "evaluated on task"

ANNOTATED_TASKS = 10

# Colour, marker and line of each series of a panel, the main one first.
_SERIES = (
    (BLACK, "o", "-"),
    (ORANGE, "s", (0, (4, 1.5))),
    (BLUE, "^", (0, (1, 1))),
    (GREEN, "D", (0, (5, 1.5, 1, 1.5))),
    (PINK, "v", (0, (6, 3))),
    (SKY, "P", (0, (3, 1, 1, 1, 1, 1))),
)

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
    tasks: T of the panel, also when nothing was run.  printed: mean and spread (None of a single model) the
    paper prints for the mean after all tasks, None where it prints none.  own: [m, T, T], the reader's own
    runs.  whose: what the mean of `matrices` is called.  quoted: whether the paper took `printed` from another one.
    """

    title: str
    tasks: int
    matrices: np.ndarray | None = None
    printed: tuple[float, float | None] | None = None
    own: np.ndarray | None = None
    whose: str = "ours"
    quoted: bool = False

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
            parts.append(f"{self.whose} {ours.mean:.2f}{spread} ({counted(ours.n)})")
        if self.own is not None:
            own = metrics.summary([metrics.mean_accuracy(matrix) for matrix in self.own])
            parts[0] += f"; yours {own.mean:.2f} ({counted(own.n)})"
        if self.printed is not None:
            parts.append(f"paper {self.printed_text()}")
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


def _panel(title: str, runs: Runs, tasks: int) -> Panel:
    benchmark, method = runs.name.split("/")
    if runs.need.overrides:
        return _drawn(title, tasks, None, runs.records, runs.own)
    found = paper.printed_accuracy(method, benchmark)
    panel = _drawn(title, tasks, (found.mean, found.sd), runs.records, runs.own)
    return replace(panel, quoted=found.source == paper.QUOTED)


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


def accuracy_matrices(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy matrices as heat maps, one per panel, on one colour scale.

    Rows: after training task i. Columns: evaluated on task j. Values are written into the cells up to 10
    tasks. The scale spans the values, to the next half point, and ends at 100 if one is above 99. A panel without
    runs says so and shows the mean the paper prints. Own runs have a panel of their own.
    """
    panels = _own_beside(panels)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with style():
        width = COLUMN if columns == 1 else PAGE
        figure = _figure(title, width, rows * width / columns + 0.25)
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for unused in axes[len(panels) :]:
            unused.set_visible(False)
        axes = axes[: len(panels)]
        means = [None if panel.matrices is None else panel.matrices.mean(axis=0) for panel in panels]
        shown = [matrix for matrix in means if matrix is not None]
        low, high = _scale(shown)
        image = None
        for ax, panel, matrix in zip(axes, panels, means, strict=True):
            _task_axes(ax, panel)
            if matrix is None:
                _not_run(ax, panel, aspect="equal" if shown else "auto")
                continue
            image = ax.imshow(matrix, cmap="Blues", vmin=low, vmax=high, aspect="equal")
            ax.spines[:].set_visible(False)
            if panel.tasks <= ANNOTATED_TASKS:
                _annotate(ax, matrix, image)
        if image is not None:
            bar = figure.colorbar(image, ax=list(axes), shrink=0.75, pad=0.02, label="test accuracy, %")
            bar.outline.set_visible(False)
        return figure


def mean_accuracy(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy per task with 95 % t intervals: just after training the task, and after all tasks. Those of two
    runs, wide as they are, may leave the panel, which holds the runs themselves.

    The paper's printed mean after all tasks is a dotted line with its spread as a band. A single run has no
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


def single_models(panels: Sequence[Panel], title: str, columns: int = 1) -> Figure:
    """Accuracy of single models on each of many tasks: just after training the task, and after all tasks.

    A line joins the two values of a task. Dashed: the model's mean after all tasks; dotted: that of the
    paper's model. Panels fill the rows, `columns` to a row, on one scale.
    """
    rows = math.ceil(len(panels) / columns)
    with style():
        figure = _figure(title, PAGE, 1.55 * rows + 0.7)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for ax, panel in zip(axes.flat, panels, strict=True):
            _single_model(ax, panel)
        if not any(panel.matrices is not None or panel.own is not None for panel in panels):
            means = [panel.printed[0] for panel in panels if panel.printed is not None]
            axes[0, 0].set_ylim(min(means) - 5, max(means) + 5)
        _accuracy_ticks(axes[0, 0])
        for ax in axes[:, 0]:
            ax.set_ylabel("accuracy, %")
        for ax in axes[-1]:
            ax.set_xlabel("task")
        handles, labels = _legend_entries(axes.flat)
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))
        return figure


def settings(groups: Mapping[str, Sequence[Panel]], title: str, intervals: bool = False) -> Figure:
    """Accuracy on each task after all tasks, in several settings: a panel per group, a line per setting.

    groups: the title of a panel -> its settings, the main one first, at most 6.  intervals: draw 95 % t
    intervals where a setting has several runs, each panel on a scale of its own. The legends name what was not
    run. The paper's mean in the main setting is a dotted line with its spread as a band. Own runs are hollow
    markers.
    """
    columns = min(3, len(groups))
    rows = math.ceil(len(groups) / columns)
    with style():
        figure = _figure(title, PAGE, 3.0 * rows + 0.4)
        # Intervals of two runs are so wide that on a common scale nothing else could be seen.
        grid = figure.subplots(rows, columns, squeeze=False, sharey=not intervals)
        axes = list(grid.flat)
        for unused in axes[len(groups) :]:
            unused.set_visible(False)
        for ax, (group, panels) in zip(axes, groups.items(), strict=False):
            _setting_curves(ax, group, panels, intervals)
        _settings_scales(axes if intervals else axes[:1], [panel for panels in groups.values() for panel in panels])
        for ax in grid[:, 0]:
            ax.set_ylabel("accuracy after all tasks, %")
        handles, labels = _legend_entries(axes)
        figure.legend(handles, labels, loc="outside lower center", ncols=1)
        return figure


def settings_data(groups: Mapping[str, Sequence[Panel]]) -> pd.DataFrame:
    """The plotted means and 95 % half widths, one row per panel, setting and task; values are missing where nothing was
    run.
    """
    import pandas as pd

    frames = []
    for group, panels in groups.items():
        frame = mean_accuracy_data(panels).rename(columns={"panel": "setting"})
        frame = frame.drop(columns=["just_after_mean", "just_after_t95"])
        frame.insert(0, "panel", group)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def describe_settings(groups: Mapping[str, Sequence[Panel]], title: str, chosen: str, drawn: str) -> str:
    """The figure of settings in words, as alternative text and caption.

    chosen: whose choice the settings are.  drawn: what is drawn, over how many runs, with which interval.
    """
    lines = [f"{title}.", chosen]
    main = next(panel for panels in groups.values() for panel in panels if panel.printed is not None)
    lines.append(f"Main setting: {main.values().replace(chr(10), '; ')}.")
    for group, panels in groups.items():
        values = [
            f"{panel.title}: {'the main setting' if panel.printed else panel.values().replace(chr(10), '; ')}"
            for panel in panels
        ]
        lines.append(f"{group} - {'; '.join(values)}.")
    lines.append(
        f"{drawn} The numbers are means after all tasks, percent; ours ± sample standard deviation, paper ± population "
        "standard deviation."
    )
    return "\n".join(lines)


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


def describe(panels: Sequence[Panel], title: str, intervals: bool = False) -> str:
    """The figure in words, as alternative text and caption: its panels, their values, and what the spreads
    are.

    intervals: whether bars show intervals of each task's mean.
    """
    lines = [f"{title}."]
    for panel in panels:
        lines.append(f"{panel.title}: {panel.values().replace(chr(10), '; ')}.")
    quoted = " and ".join(panel.title for panel in panels if panel.quoted)
    but = f", but for {quoted}, whose value it quotes without saying which deviation it is" if quoted else ""
    lines.append(
        "Mean accuracy after all tasks, percent. Ours ± sample standard deviation; "
        f"paper ± population standard deviation{but}."
    )
    if intervals and any(panel.runs > 1 for panel in panels):
        cut = " Those of two runs are so wide that they are cut at the panel's edge."
        lines.append(
            f"Bars: 95 % t intervals of a task's mean over the runs.{cut if any(p.runs == 2 for p in panels) else ''}"
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


def methods(frame: pd.DataFrame, title: str) -> Figure:
    """Every method of `comparison.methods`, by its numbers: accuracy, and the difference to one of them where there
    are any.

    frame: the table's numbers. Whiskers: 95 % t intervals, cut at the panel's edge, which those of two runs may
    leave; a method of one run has none. Ours are full dots, yours hollow squares, the paper's value a bar.
    """
    shown = frame[frame["runs"] > 0].reset_index(drop=True)
    if shown.empty:
        raise HyperMaskError("no method has a finished run, so there is nothing to draw; train one first.")
    printed = shown["paper_mean"].dropna()
    # Each with what counts its runs, its label, and what its panel holds besides.
    quantities = {"accuracy": ("runs", "accuracy after all tasks, %", printed)}
    if shown["pairs"].any():
        quantities["difference"] = ("pairs", "difference over shared seeds, points", [0.0])
    with style():
        figure = _figure(title, PAGE, 0.17 * len(shown) + 1.1)
        axes = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for ax, (quantity, (count, label, besides)) in zip(axes, quantities.items(), strict=True):
            _whiskers(ax, shown, quantity, shown[count] > 2, besides)
            ax.set_xlabel(label)
            _grid(ax)
        if len(printed):
            axes[0].plot(printed, printed.index, "|", color=BLACK, markersize=9, label="paper")
        for ax in axes[1:]:
            ax.axvline(0, color=GREY, linewidth=0.6)
        axes[0].set_yticks(range(len(shown)), (shown["method"] + " " + shown["setting"]).str.strip())
        axes[0].set_ylim(len(shown) - 0.4, -0.6)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _whiskers(ax: Axes, shown: pd.DataFrame, quantity: str, narrow: pd.Series, besides: Sequence[float]) -> None:
    """Means of a quantity with their intervals; the panel holds all means, the intervals that are `narrow`, and what
    there is besides."""
    means, widths = shown[f"{quantity}_mean"], shown[f"{quantity}_t95"].fillna(0.0)
    for whose, look in (("ours", {"color": BLUE, "marker": "o"}), ("yours", _hollow(ORANGE) | {"marker": "s"})):
        rows = shown["whose"] == whose
        if rows.any():
            given = {"linestyle": "", "markersize": 4, "elinewidth": 0.8, "label": f"{whose}, 95 % interval"}
            ax.errorbar(means[rows], shown.index[rows], xerr=widths[rows], **given, **look)
    kept = widths.where(narrow, 0.0)
    low, high = min([(means - kept).min(), *besides]), max([(means + kept).max(), *besides])
    room = 0.06 * max(high - low, 0.1)
    ax.set_xlim(low - room, high + room)


def _own_beside(panels: Sequence[Panel]) -> list[Panel]:
    """The panels, each with own runs followed by one that shows those alone."""
    apart = []
    for panel in panels:
        apart.append(replace(panel, own=None))
        if panel.own is not None:
            apart.append(Panel(f"{panel.title}, your own runs", panel.own.shape[1], panel.own, whose="yours"))
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


def _scale(matrices: Sequence[np.ndarray]) -> tuple[float, float]:
    """Lowest and highest value of a colour scale on which differences of tenths show, at least half a point apart."""
    if not matrices:
        return 0.0, 100.0
    highest = max(float(np.nanmax(matrix)) for matrix in matrices)
    low = min(math.floor(2 * float(np.nanmin(matrix))) / 2 for matrix in matrices)
    high = 100.0 if highest > 99 else math.ceil(2 * highest) / 2
    return min(low, high - 0.5), high


def _not_run(ax: Axes, panel: Panel, aspect: str) -> None:
    text = "not run"
    if panel.printed is not None:
        text += f"\n\nThe paper prints the mean\nafter all tasks:\n{panel.printed_text()} %"
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
    _printed_line(ax, panel, PAPER)
    if panel.own is not None:
        own = panel.own[:, -1, :].mean(axis=0)
        ax.plot(tasks, own, "D", **_hollow(BLACK), markersize=5, label=YOURS)
    if panel.matrices is None and panel.own is None:
        mean = 50.0 if panel.printed is None else panel.printed[0]
        ax.set_ylim(mean - 2, mean + 2)
        ax.text(0.5, 0.25, "not run", transform=ax.transAxes, ha="center", va="center", color=BLACK)
    if panel.runs == 2:
        ax.set_ylim(*_limits(panel))
    note = "\n(one run: no interval)" if panel.runs == 1 else ""
    ax.set(title=f"{panel.title}\n{panel.values()}{note}", xlabel="task", ylabel="test accuracy, %")
    ax.set_xlim(0.5, panel.tasks + 0.5)
    ax.set_xticks(tasks if panel.tasks <= 10 else [1, *range(20, panel.tasks + 1, 20)])
    _accuracy_ticks(ax)
    _grid(ax)


def _limits(panel: Panel) -> tuple[float, float]:
    """The lowest and highest accuracy that a panel has to show besides intervals, with room around."""
    drawn = [panel.matrices.diagonal(axis1=1, axis2=2), panel.matrices[:, -1]]
    if panel.own is not None:
        drawn.append(panel.own[:, -1])
    if panel.printed is not None:
        mean, spread = panel.printed
        drawn.append(np.array([mean - (spread or 0.0), mean + (spread or 0.0)]))
    values = np.concatenate([each.ravel() for each in drawn])
    room = 0.15 * max(np.ptp(values), 0.5)
    return values.min() - room, values.max() + room


def _single_model(ax: Axes, panel: Panel) -> None:
    tasks = np.arange(1, panel.tasks + 1)
    if panel.matrices is not None:
        (after, _), (last, _) = _curves(panel.matrices).values()
        ax.vlines(tasks, after, last, color=BLACK, linewidth=0.7, zorder=2)
        edge = {"markeredgecolor": BLACK, "markeredgewidth": 0.4}
        # The circle shows around the square where the two values are equal.
        ax.plot(tasks, after, "o", color=BLUE, markerfacecolor="white", markersize=4.6, label=JUST_AFTER)
        ax.plot(tasks, last, "s", color=ORANGE, markersize=2.8, label=AFTER_ALL, **edge)
        mean = metrics.mean_accuracy(panel.matrices[0])
        ax.axhline(mean, color=BLACK, linestyle=(0, (5, 2)), linewidth=0.9, zorder=1, label=MODEL_MEAN)
    _printed_line(ax, panel, MODEL_PAPER)
    if panel.own is not None:
        ax.plot(tasks, panel.own[:, -1, :].mean(axis=0), "D", **_hollow(BLACK), markersize=4, label=YOURS)
    ax.set_title(f"{panel.title}\n{panel.values()}")
    ax.set_xlim(0, panel.tasks + 1)
    ax.set_xticks(tasks if panel.tasks <= 10 else [1, *range(10, panel.tasks + 1, 10)])
    _grid(ax)


def _setting_curves(ax: Axes, group: str, panels: Sequence[Panel], intervals: bool) -> None:
    count = max(panel.tasks for panel in panels)
    step = 0.0 if count > 20 else min(0.1, 0.5 / len(panels))
    entries = []
    for number, panel in enumerate(panels):
        color, marker, line = _SERIES[number]
        tasks = np.arange(1, panel.tasks + 1) + step * (number - (len(panels) - 1) / 2)
        if panel.matrices is not None:
            mean, half_width = _curves(panel.matrices)["after_all"]
            entries.append(
                ax.errorbar(
                    tasks,
                    mean,
                    yerr=half_width if intervals and panel.runs > 1 else None,
                    label=f"{panel.title} ({counted(panel.runs)})",
                    color=color,
                    marker=marker,
                    linestyle=line,
                    markersize=4,
                    markeredgecolor=BLACK,
                    markeredgewidth=0.4,
                    linewidth=1,
                    capsize=2,
                    elinewidth=0.8,
                    # The first series, the main setting, stays visible among the others.
                    zorder=4 if number == 0 else 3,
                )
            )
        if panel.own is not None:
            own = panel.own[:, -1, :].mean(axis=0)
            entries += ax.plot(tasks, own, marker, **_hollow(color), markersize=5.5, label=f"{panel.title}, yours")
        if panel.matrices is None and panel.own is None:
            entries += ax.plot([], [], linestyle="none", label=f"{panel.title}: not run")
        _printed_line(ax, panel, MAIN_PAPER)
    if all(panel.matrices is None and panel.own is None for panel in panels):
        ax.text(0.5, 0.25, "not run", transform=ax.transAxes, ha="center", va="center", color=BLACK)
    ax.set(title=group, xlabel="task")
    ax.set_xlim(0.5, count + 0.5)
    ax.set_xticks(range(1, count + 1) if count <= 10 else [1, *range(10, count + 1, 10)])
    _grid(ax)
    ax.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, -0.26), handlelength=2.6)


def _settings_scales(axes: Sequence[Axes], panels: Sequence[Panel]) -> None:
    if all(panel.matrices is None and panel.own is None for panel in panels):
        printed = [panel.printed[0] for panel in panels if panel.printed is not None]
        for ax in axes:
            ax.set_ylim(min(printed) - 2, max(printed) + 2)
    for ax in axes:
        _accuracy_ticks(ax)


def _printed_line(ax: Axes, panel: Panel, label: str) -> None:
    if panel.printed is None:
        return
    mean, spread = panel.printed
    if spread is not None:
        ax.axhspan(mean - spread, mean + spread, color=GREY, alpha=0.2, linewidth=0, zorder=0.5)
    ax.axhline(mean, color=GREY, linestyle=":", linewidth=1.3, zorder=0.6, label=label)


def _hollow(color: str) -> dict[str, str]:
    return {"color": color, "fillstyle": "none"}


def _grid(ax: Axes) -> None:
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
    known = (JUST_AFTER, AFTER_ALL, MODEL_MEAN, YOURS, PAPER, MODEL_PAPER, MAIN_PAPER)
    order = [label for label in known if label in entries]
    return [entries[label] for label in order], order

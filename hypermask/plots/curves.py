"""Accuracy along the tasks: of several runs, of single models, in several settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics
from hypermask.plots.panel import Panel, mean_curves
from hypermask.plots.styling import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    PINK,
    SKY,
    grid,
    hollow,
    new_figure,
    style,
)
from hypermask.results import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

JUST_AFTER = "just after training the task"
AFTER_ALL = "after all tasks"
YOURS = f"your own runs, {AFTER_ALL}"
PAPER = f"paper, mean {AFTER_ALL} ± sd"
MODEL_MEAN = f"mean {AFTER_ALL}"
MODEL_PAPER = f"paper's model, mean {AFTER_ALL}"
INTERVALS = "around our means: 95 % t intervals, from three runs on"
MAIN_PAPER = f"paper, main setting, mean {AFTER_ALL} ± sd"

# Colour, marker and line of each series of a panel, the main one first.
_SERIES = (
    (BLACK, "o", "-"),
    (ORANGE, "s", (0, (4, 1.5))),
    (BLUE, "^", (0, (1, 1))),
    (GREEN, "D", (0, (5, 1.5, 1, 1.5))),
    (PINK, "v", (0, (6, 3))),
    (SKY, "P", (0, (3, 1, 1, 1, 1, 1))),
)


def mean_accuracy(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy per task with 95 % t intervals: just after training the task, and after all tasks.

    The paper's printed mean after all tasks is a dotted line with its spread as a band. A single run has no interval,
    and that of two is too wide to say anything: they are dots, and the panel says so. Own runs are hollow diamonds
    (after all tasks).
    """
    with style():
        width = COLUMN if len(panels) == 1 else PAGE
        figure = new_figure(title, width, 3.0)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, panel in zip(axes, panels, strict=True):
            _mean_accuracy(ax, panel)
        handles, labels = _legend_entries(axes)
        columns = 1 if len(panels) == 1 else len(labels)
        said = INTERVALS if any(panel.runs > 2 for panel in panels) else None
        figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, 4), title=said)
        return figure


def single_models(panels: Sequence[Panel], title: str, columns: int = 1) -> Figure:
    """Accuracy of single models on each of many tasks: just after training the task, and after all tasks.

    A line joins the two values of a task. Dashed: the model's mean after all tasks; dotted: that of the
    paper's model. Panels fill the rows, `columns` to a row, on one scale.
    """
    rows = math.ceil(len(panels) / columns)
    with style():
        figure = new_figure(title, PAGE, 1.55 * rows + 0.7)
        axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for ax, panel in zip(axes.flat, panels, strict=True):
            _single_model(ax, panel)
        _accuracy_scale(axes[0, 0], panels, around=5)
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
        figure = new_figure(title, PAGE, 3.0 * rows + 0.4)
        # Intervals of two runs are so wide that on a common scale nothing else could be seen.
        placed = figure.subplots(rows, columns, squeeze=False, sharey=not intervals)
        axes = list(placed.flat)
        for unused in axes[len(groups) :]:
            unused.set_visible(False)
        for ax, (group, panels) in zip(axes, groups.items(), strict=False):
            _setting_curves(ax, group, panels, intervals)
        scales = groups.values() if intervals else [list(chain(*groups.values()))]
        for ax, panels in zip(axes, scales, strict=False):
            _accuracy_scale(ax, panels, around=2)
        for ax in placed[:, 0]:
            ax.set_ylabel("accuracy after all tasks, %")
        handles, labels = _legend_entries(axes)
        figure.legend(handles, labels, loc="outside lower center", ncols=1)
        return figure


def _mean_accuracy(ax: Axes, panel: Panel) -> None:
    tasks = np.arange(1, panel.tasks + 1)
    many = panel.tasks > 20
    if panel.matrices is not None:
        curves = mean_curves(panel.matrices)
        offset = 0.0 if many else 0.08
        for key, label, color, marker, shift in (
            ("just_after", JUST_AFTER, BLUE, "o", -offset),
            ("after_all", AFTER_ALL, ORANGE, "s", offset),
        ):
            mean, half_width = curves[key]
            bars = half_width if panel.runs > 2 else None
            if panel.runs == 2:
                both = panel.matrices.diagonal(axis1=1, axis2=2) if key == "just_after" else panel.matrices[:, -1]
                for values in both:
                    ax.plot(tasks + shift, values, ".", color=color, markersize=3, zorder=1)
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
        ax.plot(tasks, own, "D", **hollow(BLACK), markersize=5, label=YOURS)
    if panel.empty:
        ax.text(0.5, 0.07, "not run", transform=ax.transAxes, ha="center", va="center", color=BLACK)
    note = {1: "\n(one run: no interval)", 2: "\n(dots: the two runs)"}.get(panel.runs, "")
    ax.set(title=f"{panel.title}\n{panel.values()}{note}", xlabel="task", ylabel="test accuracy, %")
    ax.set_xlim(0.5, panel.tasks + 0.5)
    ax.set_xticks(tasks if panel.tasks <= 10 else [1, *range(20, panel.tasks + 1, 20)])
    _accuracy_scale(ax, [panel], around=2)
    grid(ax)


def _single_model(ax: Axes, panel: Panel) -> None:
    tasks = np.arange(1, panel.tasks + 1)
    if panel.matrices is not None:
        (after, _), (last, _) = mean_curves(panel.matrices).values()
        ax.vlines(tasks, after, last, color=BLACK, linewidth=0.7, zorder=2)
        edge = {"markeredgecolor": BLACK, "markeredgewidth": 0.4}
        # The circle shows around the square where the two values are equal.
        ax.plot(tasks, after, "o", color=BLUE, markerfacecolor="white", markersize=4.6, label=JUST_AFTER)
        ax.plot(tasks, last, "s", color=ORANGE, markersize=2.8, label=AFTER_ALL, **edge)
        mean = metrics.mean_accuracy(panel.matrices[0])
        ax.axhline(mean, color=BLACK, linestyle=(0, (5, 2)), linewidth=0.9, zorder=1, label=MODEL_MEAN)
    _printed_line(ax, panel, MODEL_PAPER)
    if panel.own is not None:
        ax.plot(tasks, panel.own[:, -1, :].mean(axis=0), "D", **hollow(BLACK), markersize=4, label=YOURS)
    ax.set_title(f"{panel.title}\n{panel.values()}")
    ax.set_xlim(0, panel.tasks + 1)
    ax.set_xticks(tasks if panel.tasks <= 10 else [1, *range(10, panel.tasks + 1, 10)])
    grid(ax)


def _setting_curves(ax: Axes, group: str, panels: Sequence[Panel], intervals: bool) -> None:
    count = max(panel.tasks for panel in panels)
    step = 0.0 if count > 20 else min(0.1, 0.5 / len(panels))
    entries = []
    for number, panel in enumerate(panels):
        color, marker, line = _SERIES[number]
        tasks = np.arange(1, panel.tasks + 1) + step * (number - (len(panels) - 1) / 2)
        if panel.matrices is not None:
            mean, half_width = mean_curves(panel.matrices)["after_all"]
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
            label = f"yours with {panel.changed}" if panel.changed else f"{panel.title}, yours"
            entries += ax.plot(tasks, own, marker, **hollow(color), markersize=5.5, label=label)
        if panel.empty:
            entries += ax.plot([], [], linestyle="none", label=f"{panel.title}: not run")
        _printed_line(ax, panel, MAIN_PAPER)
    if all(panel.empty for panel in panels):
        ax.text(0.5, 0.07, "not run", transform=ax.transAxes, ha="center", va="center", color=BLACK)
    ax.set(title=group, xlabel="task")
    ax.set_xlim(0.5, count + 0.5)
    ax.set_xticks(range(1, count + 1) if count <= 10 else [1, *range(10, count + 1, 10)])
    grid(ax)
    ax.legend(handles=entries, loc="upper center", bbox_to_anchor=(0.5, -0.26), handlelength=2.6)


def _printed_line(ax: Axes, panel: Panel, label: str) -> None:
    if panel.printed is None:
        return
    mean, spread = panel.printed
    if spread is not None:
        ax.axhspan(mean - spread, mean + spread, color=GREY, alpha=0.2, linewidth=0, zorder=0.5)
    ax.axhline(mean, color=GREY, linestyle=":", linewidth=1.3, zorder=0.6, label=label)


def _accuracy_scale(ax: Axes, panels: Sequence[Panel], around: float) -> None:
    """The scale of panels that share one: without any run, so many points around the printed means."""
    if all(panel.empty for panel in panels):
        printed = [panel.printed[0] for panel in panels if panel.printed is not None]
        if not printed:
            # Nothing is drawn, so the axis would count something that is no accuracy.
            ax.set_yticks([])
            return
        ax.set_ylim(min(printed) - around, max(printed) + around)
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

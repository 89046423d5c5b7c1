"""Every method by its numbers, with their intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hypermask.errors import HyperMaskError
from hypermask.paper import QUOTED
from hypermask.plots.styling import BLACK, BLUE, GREY, ORANGE, PAGE, grid, hollow, new_figure, style
from hypermask.results import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Letters in a line of a row's name.
_NAME_WIDTH = 48


def methods(frame: pd.DataFrame, title: str) -> Figure:
    """Every method of `comparison.methods`, by its numbers: accuracy, and the difference to one of them where there
    are any.

    frame: the table's numbers. Whiskers: 95 % t intervals, cut at the panel's edge, which those of two runs may
    leave; a method of one run has none. Ours are full dots, yours hollow squares, the paper's value a bar, a grey one
    if it quotes it.
    """
    shown = frame[frame["runs"] > 0].reset_index(drop=True)
    if shown.empty:
        raise HyperMaskError("no method has a finished run, so there is nothing to draw; train one first.")
    printed = shown["paper_mean"].dropna()
    columns = (shown[name] for name in ("method", "setting", "runs"))
    names = [_row(method, setting, runs) for method, setting, runs in zip(*columns, strict=True)]
    lines = sum(len(name.splitlines()) for name in names)
    # Each with what counts its runs, its label, and what its panel holds besides.
    quantities = {"accuracy": ("runs", "accuracy after all tasks, %", printed)}
    if shown["pairs"].any():
        quantities["difference"] = ("pairs", "difference over shared seeds, points", [0.0])
    with style():
        figure = new_figure(title, PAGE, 0.17 * lines + 1.1)
        axes = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for ax, (quantity, (count, label, besides)) in zip(axes, quantities.items(), strict=True):
            _whiskers(ax, shown, quantity, shown[count] > 2, besides)
            ax.set_xlabel(label)
            grid(ax)
        quoted = shown.loc[printed.index, "paper_source"] == QUOTED
        for label, color, values in (("paper", BLACK, printed[~quoted]), ("quoted", GREY, printed[quoted])):
            if len(values):
                axes[0].plot(values, values.index, "|", color=color, markersize=9, label=label)
        for ax in axes[1:]:
            ax.axvline(0, color=GREY, linewidth=0.6)
        axes[0].set_yticks(range(len(shown)), names)
        axes[0].set_ylim(len(shown) - 0.4, -0.6)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure


def _row(method: str, setting: str, runs: int) -> str:
    """A method's name, its setting in lines of its own where it is long, and how many runs it has."""
    # What is in parentheses stays on one line.
    count = f"({counted(runs)})".replace(" ", "\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(" ".join(filter(None, (method, setting, count))), _NAME_WIDTH, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _whiskers(ax: Axes, shown: pd.DataFrame, quantity: str, narrow: pd.Series, besides: Sequence[float]) -> None:
    """Means of a quantity with their intervals; the panel holds all means, the intervals that are `narrow`, and what
    there is besides."""
    means, widths = shown[f"{quantity}_mean"], shown[f"{quantity}_t95"].fillna(0.0)
    for whose, look in (("ours", {"color": BLUE, "marker": "o"}), ("yours", hollow(ORANGE) | {"marker": "s"})):
        rows = shown["whose"] == whose
        if rows.any():
            given = {"linestyle": "", "markersize": 4, "elinewidth": 0.8, "label": f"{whose}, 95 % interval"}
            ax.errorbar(means[rows], shown.index[rows], xerr=widths[rows], **given, **look)
    kept = widths.where(narrow, 0.0)
    low, high = min([(means - kept).min(), *besides]), max([(means + kept).max(), *besides])
    room = 0.06 * max(high - low, 0.1)
    ax.set_xlim(low - room, high + room)

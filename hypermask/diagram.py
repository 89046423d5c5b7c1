"""Figure 1, the method in one picture, drawn from a real small model (`hypermask.illustration`).

Left to right, as in the paper: trainable embeddings, the hypernetwork, semi-binary masks, the target network, and the
network of task i. Distances are inches on the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypermask.plots import styling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hypermask.illustration import Illustration

_HEIGHT = 4.0
# Centres of the columns and of the rows of tasks 1, i-1 and i.
_EMBEDDING, _HYPERNETWORK, _MASK, _TIMES, _TARGET, _MODEL = 0.62, 1.86, 3.12, 3.8, 4.52, 5.98
_ROWS = (2.98, 1.69, 0.93)
_HEADING, _LOSS = 3.57, 0.22
_CELL = 0.092
_NETWORK_WIDTH, _NETWORK_BOTTOM, _NETWORK_TOP = 1.1, 1.9, 3.4
_THICKEST = 2.0
_DASHES = (0, (2, 1.5))
_SYMBOLS = ("1", "{i-1}", "i")


def shown_tasks(illustration: Illustration) -> tuple[int, int, int]:
    """The tasks (from 0) that are drawn as 1, i-1 and i: the first and the last two."""
    return 0, illustration.tasks - 2, illustration.tasks - 1


def draw(illustration: Illustration, title: str) -> Figure:
    """The method diagram; every colour and line width is a value of the model."""
    from matplotlib.figure import Figure

    with styling.style():
        figure = Figure(figsize=(styling.PAGE, _HEIGHT))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, styling.PAGE), ylim=(0, _HEIGHT))
        ax.set_axis_off()
        ax.text(styling.PAGE / 2, _HEIGHT - 0.14, title, ha="center", va="center", fontsize=8.5)
        _headings(ax)
        _hypernetwork(ax)
        for row, (task, symbol) in enumerate(zip(shown_tasks(illustration), _SYMBOLS, strict=True)):
            _task(ax, illustration, task, symbol, _ROWS[row])
        for x in (_EMBEDDING, _MASK):
            ax.text(x, (_ROWS[0] + _ROWS[1]) / 2, "⋮", ha="center", va="center", fontsize=12)
        _target_and_model(ax, illustration)
        _losses(ax)
        _scale(ax)
        return figure


def data(illustration: Illustration) -> pd.DataFrame:
    """What is drawn, one row per value: embeddings by task and position, masks by task, layer and connection, theta by
    layer and connection; tasks, positions and units count from 1.
    """
    import pandas as pd

    rows = [
        {"what": "embedding", "task": task + 1, "to_unit": position + 1, "value": value}
        for task in shown_tasks(illustration)
        for position, value in enumerate(illustration.embeddings[task])
    ]
    for layer, weights in illustration.theta.items():
        values = [("theta", None, weights)]
        values += [("mask", task + 1, illustration.masks[layer][task]) for task in shown_tasks(illustration)]
        rows += [
            {"what": what, "task": task, "layer": layer, "to_unit": j + 1, "from_unit": i + 1, "value": value}
            for what, task, matrix in values
            for (j, i), value in np.ndenumerate(matrix)
        ]
    frame = pd.DataFrame(rows, columns=["what", "task", "layer", "to_unit", "from_unit", "value"])
    return frame.astype({"task": "Int64", "from_unit": "Int64"})


def describe(illustration: Illustration, title: str) -> str:
    """The figure in words, as alternative text and caption."""
    method = illustration.config.method
    first, before, last = (task + 1 for task in shown_tasks(illustration))
    hidden = "-".join(map(str, method.target_hidden))
    return "\n".join(
        [
            f"{title}.",
            "The hypernetwork turns the embedding of each task into a semi-binary mask; the mask, multiplied with the "
            "target network's weights, gives the network of the task.",
            f"Drawn from a real model: scikit-learn's 8x8 digits in {illustration.tasks} tasks, target network "
            f"64-{hidden}-2, p = {method.p:g} %, seed {illustration.seed}; tasks {first}, {before} and {last} stand "
            "for 1, i-1 and i.",
            "Heat maps: mask, weights and masked weights of one layer, white where switched off. Lines: all layers but "
            "the first, which sees the 64 pixels; as thick as the weight's absolute value (target network) or as its "
            "mask value (network of task i), missing where switched off.",
        ]
    )


def says(illustration: Illustration) -> str:
    """Plain text: what the paper's caption says, and what the drawn model shows of it."""
    _, before, last = shown_tasks(illustration)
    mask, other = (np.concatenate([m[task].ravel() for m in illustration.masks.values()]) for task in (last, before))
    kept = mask[mask > 0]
    lines = [
        ("Paper, caption of figure 1", "The drawn model"),
        (
            "a subset of weights was switched off",
            f"{(mask == 0).sum()} of {mask.size} connections are off (p = {illustration.p:g} %)",
        ),
        (
            "the others were scored continuously from 0 to 1",
            f"{len(np.unique(kept))} values from {kept.min():.3f} to {kept.max():.3f}",
        ),
        (
            "a subnetwork dedicated",
            f"{((mask > 0) != (other > 0)).sum()} connections are on for one of the last two tasks alone",
        ),
        (
            "to solve the i-th task",
            f"{illustration.accuracy[-1, -1]:.1f} % on it, {np.nanmean(illustration.accuracy[-1]):.1f} % on all tasks",
        ),
    ]
    width = max(len(left) for left, _ in lines)
    return "\n".join(f"{left.ljust(width)}  {right}" for left, right in lines)


def _headings(ax: Axes) -> None:
    for x, text in (
        (_EMBEDDING, "Trainable\nembeddings"),
        (_MASK, "Semi-binary\nmasks"),
        (_TARGET, "Target network"),
        (_MODEL, "Model for the $i$-th task"),
    ):
        ax.text(x, _HEADING, text, ha="center", va="center", fontweight="bold")


def _hypernetwork(ax: Axes) -> None:
    from matplotlib.patches import Polygon

    left, right, middle = _HYPERNETWORK - 0.52, _HYPERNETWORK + 0.52, (_ROWS[0] + _ROWS[-1]) / 2
    corners = [(left, middle - 0.75), (right, middle - 1.25), (right, middle + 1.25), (left, middle + 0.75)]
    ax.add_patch(Polygon(corners, facecolor="#E8EEF4", edgecolor=styling.BLACK, linewidth=0.8, joinstyle="round"))
    ax.text(_HYPERNETWORK, middle + 0.1, "Hypernetwork", ha="center", va="center", fontweight="bold")
    _symbol(ax, _HYPERNETWORK, middle - 0.14, r"$\mathcal{H}(\,\cdot\,, p\,; \mathbf{\Phi})$")


def _task(ax: Axes, illustration: Illustration, task: int, symbol: str, y: float) -> None:
    """One task's embedding, its way through the hypernetwork, and its mask of the shown layer."""
    embedding, mask = illustration.embeddings[task][None], _shown(illustration.masks)[task]
    strip = _heat_map(ax, embedding, _EMBEDDING, y, _embedding_colors(illustration))
    tile = _heat_map(ax, mask, _MASK, y, _mask_colors())
    _symbol(ax, _EMBEDDING, y + 0.17, rf"$\mathbf{{e}}_{symbol}$")
    _symbol(ax, _MASK, y + tile[1] / 2 + 0.1, rf"$\mathcal{{H}}(\mathbf{{e}}_{symbol}, p\,; \mathbf{{\Phi}})$")
    middle = (_ROWS[0] + _ROWS[-1]) / 2
    _arrow(ax, (_EMBEDDING + strip[0] / 2, y), (_HYPERNETWORK - 0.52, middle + 0.45 * (y - middle)))
    _arrow(ax, (_HYPERNETWORK + 0.52, middle + 0.85 * (y - middle)), (_MASK - tile[0] / 2, y))


def _target_and_model(ax: Axes, illustration: Illustration) -> None:
    """theta and theta times the mask of task i: the shown layer as heat maps, and the networks."""
    last = shown_tasks(illustration)[-1]
    theta, mask = _shown(illustration.theta), _shown(illustration.masks)[last]
    colors = _weight_colors(theta)
    tile = _heat_map(ax, theta, _TARGET, _ROWS[-1], colors)
    _heat_map(ax, np.where(mask > 0, theta * mask, np.nan), _MODEL, _ROWS[-1], colors)
    _symbol(ax, _TARGET, _NETWORK_BOTTOM - 0.22, r"$\boldsymbol{\theta}$", size=11)
    model = r"$f\,(\,\cdot\,;\,\boldsymbol{\theta} \odot \mathcal{H}(\mathbf{e}_i, p\,; \mathbf{\Phi}))$"
    _symbol(ax, _MODEL, _NETWORK_BOTTOM - 0.22, model)
    for x, text in ((_TARGET, "weights of one layer"), (_MODEL, "masked weights")):
        ax.text(x, _ROWS[-1] + tile[1] / 2 + 0.1, text, ha="center", va="center", fontsize=7)
    _symbol(ax, _TIMES, _ROWS[-1], r"$\odot$", size=14)
    _arrow(ax, (_TARGET + tile[0] / 2, _ROWS[-1]), (_MODEL - tile[0] / 2, _ROWS[-1]))
    largest = max(np.abs(weights).max() for weights in illustration.theta.values())
    _network(ax, _TARGET, [np.abs(weights) / largest for weights in illustration.theta.values()], styling.GREY)
    _network(ax, _MODEL, [masks[last] for masks in illustration.masks.values()], styling.BLUE)


def _network(ax: Axes, x: float, strengths: Sequence[np.ndarray], color: str) -> None:
    """Units as circles, and a connection as thick as its strength in [0, 1]; none where that is zero."""
    widths = [strengths[0].shape[1], *(len(matrix) for matrix in strengths)]
    columns = np.linspace(x - _NETWORK_WIDTH / 2, x + _NETWORK_WIDTH / 2, len(widths))
    middle, step = (_NETWORK_BOTTOM + _NETWORK_TOP) / 2, (_NETWORK_TOP - _NETWORK_BOTTOM) / max(widths)
    heights = [middle + step * (np.arange(n)[::-1] - (n - 1) / 2) for n in widths]
    for matrix, (left, right), (start, end) in zip(strengths, pairwise(columns), pairwise(heights), strict=True):
        for (j, i), strength in np.ndenumerate(matrix):
            if strength > 0:
                width = _THICKEST * strength
                ax.plot(
                    [left, right], [start[i], end[j]], color=color, linewidth=width, solid_capstyle="butt", zorder=1
                )
    for column, ys in zip(columns, heights, strict=True):
        ax.plot(
            [column] * len(ys), ys, "o", color="white", markersize=6, markeredgecolor=styling.BLACK, markeredgewidth=0.8
        )


def _losses(ax: Axes) -> None:
    """The three terms of the loss, each below what it acts on; L_output acts on the masks of earlier tasks."""
    for x, name, meaning in (
        (_MASK, "output", "old masks stay"),
        (_TARGET, "target", "weights move little"),
        (_MODEL, "current", "task $i$ is learned"),
    ):
        _symbol(ax, x, _LOSS + 0.06, rf"$\mathcal{{L}}_{{{name}}}$", size=10)
        ax.text(x, _LOSS - 0.12, meaning, ha="center", va="center", fontsize=7)
    for x in (_TARGET, _MODEL):
        _arrow(ax, (x, _LOSS + 0.15), (x, _ROWS[-1] - 3.2 * _CELL), dashed=True)
    aside = _MASK + 0.46
    way = [_MASK + 0.24, aside, aside], [_LOSS + 0.06, _LOSS + 0.06, _ROWS[0]]
    ax.plot(*way, color=styling.BLACK, linewidth=0.8, linestyle=_DASHES)
    for y in _ROWS[:2]:
        _arrow(ax, (aside + 0.02, y), (_MASK + 3 * _CELL, y))


def _scale(ax: Axes) -> None:
    """What the masks' colours mean."""
    x, y = _HYPERNETWORK, _LOSS + 0.06
    _heat_map(ax, np.zeros((1, 1)), x - 0.5, y, _mask_colors())
    width, _ = _heat_map(ax, np.linspace(0.02, 1, 8)[None], x + 0.12, y, _mask_colors())
    for at, text in ((x - 0.5, "off"), (x + 0.12 - width / 2, "0"), (x + 0.12 + width / 2, "1")):
        ax.text(at, y - 0.13, text, ha="center", va="center", fontsize=7)
    ax.text(x, y + 0.14, "mask value", ha="center", va="center", fontsize=7)


def _heat_map(ax: Axes, values: np.ndarray, x: float, y: float, colors: dict) -> tuple[float, float]:
    """Cells of a matrix around (x, y), its first row on top; returns their width and height."""
    rows, columns = values.shape
    width, height = columns * _CELL, rows * _CELL
    across = np.linspace(x - width / 2, x + width / 2, columns + 1)
    down = np.linspace(y + height / 2, y - height / 2, rows + 1)
    shown = np.ma.masked_invalid(np.where(values == 0, np.nan, values))
    ax.pcolormesh(across, down, shown, edgecolors=styling.GREY, linewidth=0.3, **colors)
    return width, height


def _shown(layers: dict[str, np.ndarray]) -> np.ndarray:
    """The layer of the heat maps: the first of those that are drawn."""
    return next(iter(layers.values()))


def _mask_colors() -> dict:
    # Darker than white from the smallest value on: only what is switched off is white.
    return _colors("Blues", -0.3, 1.0)


def _embedding_colors(illustration: Illustration) -> dict:
    largest = np.abs(illustration.embeddings).max()
    return _colors("cividis", -largest, largest)


def _weight_colors(theta: np.ndarray) -> dict:
    return _colors("cividis", -np.abs(theta).max(), np.abs(theta).max())


def _colors(name: str, low: float, high: float) -> dict:
    from matplotlib import colormaps

    return {"cmap": colormaps[name].with_extremes(bad="white"), "vmin": low, "vmax": high}


def _symbol(ax: Axes, x: float, y: float, text: str, size: float = 8.5) -> None:
    # STIX has all of the paper's letters; the style's own font lacks the calligraphic ones.
    ax.text(x, y, text, ha="center", va="center", fontsize=size, math_fontfamily="stix")


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], dashed: bool = False) -> None:
    from matplotlib.patches import FancyArrowPatch

    arrow = FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=7, linewidth=0.8, color=styling.BLACK, shrinkA=1.5, shrinkB=1.5
    )
    arrow.set_linestyle(_DASHES if dashed else "-")
    ax.add_patch(arrow)

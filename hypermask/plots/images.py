"""Numbers as shades: accuracy matrices and masks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypermask.plots.panel import Panel, own_beside
from hypermask.plots.styling import BLACK, COLUMN, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AFTER_TASK = "after training task"
ON_TASK = "evaluated on task"
ANNOTATED_TASKS = 10


def accuracy_matrices(panels: Sequence[Panel], title: str) -> Figure:
    """Mean accuracy matrices as heat maps, one per panel, on one colour scale.

    Rows: after training task i. Columns: evaluated on task j. Values are written into the cells up to 10
    tasks. The scale spans the values, to the next half point, and ends at 100 if one is above 99. A panel without
    runs says so and shows the mean the paper prints. Own runs have a panel of their own.
    """
    panels = own_beside(panels)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with style():
        width = COLUMN if columns == 1 else PAGE
        figure = new_figure(title, width, rows * width / columns + 0.25)
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


def mask_images(images: Sequence[np.ndarray], titles: Sequence[str], title: str) -> Figure:
    """Masks of single units as images in [0, 1], [H, W] each, zeros white."""
    with style():
        figure = new_figure(title, PAGE, 2.3)
        axes = figure.subplots(1, len(images), squeeze=False)[0]
        for ax, image, name in zip(axes, images, titles, strict=True):
            shown = ax.imshow(image, cmap="Blues", vmin=0.0, vmax=max(1e-12, max(i.max() for i in images)))
            ax.set(title=name, xticks=[], yticks=[])
        figure.colorbar(shown, ax=list(axes), label="mask value")
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

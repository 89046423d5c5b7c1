"""Figures 12 to 14: t-SNE embeddings as pictures, as data, in words, and the purities that say what the eye sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypermask import metrics, paper
from hypermask.plots import styling
from hypermask.printed_and_ours import Comparison, summarise
from hypermask.tsne import NEIGHBOURS, NETWORKS, Embedding, chance, purity, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hypermask.results import Runs

_MARKERS = "os^vDPX<>p"
_TURNS = 4
# A task's points may lie apart for each output unit; up to so many places in all have a number each.
_MOST_NUMBERS = 20
# In parts of the picture's extent: how far around a point its own kind is counted, and the radius of a number, which
# stands so many radii from its point.
_AROUND = 0.05
_BADGE = 0.03
_STEPS = (2.0, 2.5, 3.0, 4.0, 5.0)
_DIRECTIONS = 16
# A place has at least so many points of its group, and this share of them.
_FEWEST = 3
_SHARE = 0.05


def draw(embeddings: Sequence[Embedding], title: str, by: Sequence[str], command: str = "") -> Figure:
    """The embeddings with masks (left) and without (right); for each run a row for each way to tell points apart.

    by: `digit`, `task`. Each digit or task has a colour and a marker, and its number points to where it is densest, if
    most points there are its own.  command: what makes the run, shown where there is none.
    """
    from matplotlib.figure import Figure

    rows = [(embedding, kind) for embedding in embeddings or [None] for kind in by]
    with styling.style():
        figure = Figure(figsize=(styling.PAGE, 3.3 * len(rows) + 0.25), layout="constrained")
        figure.suptitle(styling.broken(title, styling.PAGE))
        for part, (embedding, kind) in zip(figure.subfigures(len(rows), squeeze=False)[:, 0], rows, strict=True):
            for ax, (network, name) in zip(part.subplots(1, len(NETWORKS)), NETWORKS.items(), strict=True):
                ax.set(xticks=[], yticks=[], title=f"{name}, by {kind}")
                ax.spines[:].set(visible=True, color=styling.GREY)
                if embedding is None:
                    _not_run(ax, command)
                else:
                    _map(ax, embedding, network, kind)
            if embedding is not None:
                handles, labels = ax.get_legend_handles_labels()
                part.legend(
                    handles, labels, ncols=len(labels), loc="outside lower center", markerscale=1.8, columnspacing=1
                )
            if len(embeddings) > 1:
                part.suptitle(embedding.run)
        return figure


def data(embeddings: Sequence[Embedding]) -> pd.DataFrame:
    """The plotted points, one row per run and test image; no rows where nothing was run."""
    import pandas as pd

    points = [
        pd.DataFrame({"run": embedding.run, "task": embedding.sample.tasks + 1, "digit": embedding.sample.digits})
        for embedding in embeddings
    ]
    frame = pd.concat(points) if points else pd.DataFrame(columns=["run", "task", "digit"])
    for network, name in NETWORKS.items():
        for column, axis in enumerate("xy"):
            values = [embedding.positions[network][:, column] for embedding in embeddings]
            frame[f"{axis}_{name.replace(' ', '_')}"] = np.concatenate([*values, []])
    return frame


def describe(embeddings: Sequence[Embedding], title: str) -> str:
    """The figure in words, as alternative text and caption: what is embedded, how, and how pure the picture is."""
    lines = [f"{title}."]
    for embedding in embeddings:
        points, settings = embedding.sample, embedding.settings
        lines.append(
            f"{embedding.run}: the {points.logits['masked'].shape[1]} logits of {len(points.tasks)} test images, "
            f"{np.bincount(points.tasks)[0]} of each task; t-SNE with exact neighbours, perplexity "
            f"{settings.perplexity:g}, seed {settings.seed}."
        )
        for network, name in NETWORKS.items():
            shares = [
                f"{purity(embedding.positions[network], groups).mean():.1f} % are of the same {kind}"
                for kind, groups in points.kinds().items()
            ]
            lines.append(f"{name.capitalize()}: of the {NEIGHBOURS} nearest points in the picture {', '.join(shares)}.")
    if not embeddings:
        lines.append("Not run.")
    lines.append(
        "Left with masks, right without. A number points to where its digit (or task) is densest, if most points "
        "there are its own."
    )
    return "\n".join(lines)


def purity_table(embeddings: Sequence[Embedding]) -> str:
    """Plain text: mean purities of all points, of those of task 1 and of the other tasks; logits and embedding."""
    return "\n\n".join(map(_purities, embeddings)) or paper.NOT_RUN


def accuracy_comparison(runs: Runs, place: str) -> Comparison:
    """The accuracy of the run that a figure shows, beside that of the paper's model, which its text prints.

    place: of the printed number, as in `paper.statements()`.
    """
    printed = next(row for row in paper.statements() if row.place == place)
    value = paper.Printed(printed.value, None, paper.RUN_BY_AUTHORS, place, printed.rounding)
    benchmark, method = runs.name.split("/")
    ours, yours = (summarise(found, metrics.mean_accuracy) for found in shown(runs))
    name = f"{paper.METHODS[method]}, the shown model (ours: seed {runs.seeds[0]})"
    return Comparison(name, benchmark, value.source, value, ours, yours)


def _not_run(ax: Axes, command: str) -> None:
    made_by = "\n\nto make it:\n" + command.replace(" run ", " run\n") if command else ""
    ax.set(facecolor="#F4F4F4")
    ax.text(0.5, 0.5, f"not run{made_by}", transform=ax.transAxes, ha="center", va="center", color=styling.BLACK)


def _map(ax: Axes, embedding: Embedding, network: str, kind: str) -> None:
    """One network's points, told apart by digit or task, with numbers beside the places that are one's own."""
    groups, positions, units = embedding.sample.kinds()[kind], embedding.positions[network], embedding.sample.units
    pure = purity(positions, groups).mean()
    ax.set_title(f"{ax.get_title()}\nof the {NEIGHBOURS} nearest points, {pure:.0f} % are of the same {kind}")
    first = 1 if kind == "task" else 0
    colors = [styling.GROUPS[group % len(styling.GROUPS)] for group in range(groups.max() + 1)]
    # In turns, so that no group covers the others.
    for turn in range(_TURNS):
        for group in np.unique(groups):
            ax.scatter(
                *positions[groups == group][turn::_TURNS].T,
                s=8,
                color=colors[group],
                marker=_MARKERS[group % len(_MARKERS)],
                linewidths=0.2,
                edgecolors="white",
                label=None if turn else f"{kind} {group + first}",
            )
    by_unit = groups * (units.max() + 1) + units
    points = _own_places(positions, by_unit if len(np.unique(by_unit)) <= _MOST_NUMBERS else groups)
    for point, place in zip(points, _free_places(positions, points), strict=True):
        ax.annotate(
            str(groups[point] + first),
            positions[point],
            place,
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold",
            color=styling.BLACK,
            bbox={"boxstyle": "circle,pad=0.18", "facecolor": "white", "edgecolor": colors[groups[point]]},
            arrowprops={"arrowstyle": "-", "color": styling.BLACK, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2},
        )
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.04)


def _own_places(positions: np.ndarray, groups: np.ndarray) -> list[int]:
    """For each group the index of the point with most of its own points around it, of those around which most points
    are its own; none of a group that has no such place. A few points that lie apart are no place.
    """
    near = np.linalg.norm(positions[:, None] - positions[None], axis=2) < _AROUND * _extent(positions)
    chosen = []
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        own = near[members][:, members].sum(axis=1)
        own[(2 * own <= near[members].sum(axis=1)) | (own < max(_FEWEST, _SHARE * len(members)))] = 0
        if own.any():
            chosen.append(int(members[own.argmax()]))
    return chosen


def _free_places(positions: np.ndarray, points: Sequence[int]) -> list[np.ndarray]:
    """Beside each of the points, a place for its number: within the picture, where it hides the fewest points and no
    other number.
    """
    size = _BADGE * _extent(positions)
    turns = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    around = np.concatenate(
        [steps * size * np.stack([np.cos(turns), np.sin(turns)], axis=1) for steps in _STEPS], dtype=positions.dtype
    )
    places: list[np.ndarray] = []
    for point in points:
        candidates = positions[point] + around
        hidden = (np.linalg.norm(candidates[:, None] - positions[None], axis=2) < size).sum(axis=1)
        outside = (candidates < positions.min(axis=0)) | (candidates > positions.max(axis=0))
        hidden[outside.any(axis=1)] += len(positions)
        for other in [*places, *positions[list(points)]]:
            hidden[np.linalg.norm(candidates - other, axis=1) < 2 * size] += len(positions)
        places.append(candidates[hidden.argmin()])
    return places


def _extent(positions: np.ndarray) -> float:
    return float(np.ptp(positions, axis=0).max())


def _purities(embedding: Embedding) -> str:
    points = embedding.sample
    parts = {"all": points.tasks >= 0, "of task 1": points.tasks == 0, "of the others": points.tasks > 0}
    spaces = [points.logits[network] for network in NETWORKS] + [embedding.positions[network] for network in NETWORKS]
    lines = [
        f"{embedding.run}: of the {NEIGHBOURS} nearest points, percent of the same kind",
        f"{'':<36}{'logits':^26}{'embedding':^26}".rstrip(),
        f"{'kind':<13}{'points':<14}{'chance':>9}" + f"{'with masks':>13}{'without':>13}" * 2,
    ]
    for kind, groups in points.kinds().items():
        pure = [purity(space, groups) for space in spaces]
        for part, chosen in parts.items():
            numbers = "".join(f"{values[chosen].mean():>13.1f}" for values in pure)
            lines.append(f"{kind:<13}{part:<14}{chance(groups):>9.1f}{numbers}")
    return "\n".join(lines)

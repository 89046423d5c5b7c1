"""The style of all figures in one place: sizes, colours, and the parts that every figure has.

Figures are built without pyplot, so nothing is shown twice and no state is shared. Text is at least 7 pt at
the printed size (3.3 in, one column, or 6.8 in, the page). The colours are Okabe and Ito's, told apart by the
colour-blind and, being of different lightness, in grey, and two more where there are ten; series differ in marker
and line as well, groups of points in marker.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.3
PAGE = 6.8
# Letters of a title on an inch.
_LETTERS = 15
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
PINK = "#CC79A7"
SKY = "#56B4E9"
GREY = "#6B6B6B"
BLACK = "#1A1A1A"

# Groups of points, such as digits: of neighbours one is dark and one light.
GROUPS = (BLUE, ORANGE, BLACK, SKY, GREEN, "#F0E442", "#882255", PINK, "#5E35B1", "#D55E00")
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
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


def new_figure(title: str, width: float, height: float) -> Figure:
    """A figure of so many inches, with its title above."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(broken(title, width))
    return figure


def broken(title: str, width: float) -> str:
    """A title in as many lines as it needs on a figure of so many inches."""
    return "\n".join(textwrap.wrap(title, round(_LETTERS * width), break_long_words=False, break_on_hyphens=False))


def grid(ax: Axes) -> None:
    """Horizontal lines behind what is drawn."""
    ax.grid(axis="y", color="#E3E3E3", linewidth=0.5)
    ax.set_axisbelow(True)


def hollow(color: str) -> dict[str, str]:
    """The look of the markers of the reader's own runs."""
    return {"color": color, "fillstyle": "none"}

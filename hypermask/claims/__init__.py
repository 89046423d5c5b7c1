"""What the paper states of each figure and table, and whether our records support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hypermask.claims import figures, tables
from hypermask.claims.verdict import CANNOT_SAY, NOT_SUPPORTED, SUPPORTED, Verdict

if TYPE_CHECKING:
    from hypermask.results import Runs

OURS_NOTE = "The paper names no thresholds for this: those in these sentences are ours."

_STATED: dict[str, Callable[[Mapping[str, Runs]], list[Verdict]]] = {
    "fig02": figures.figure_2,
    "fig03": figures.figure_3,
    "fig04": figures.figure_4,
    "fig05": figures.figure_5,
    "fig06": figures.figure_6,
    "fig07": figures.figure_7,
    "fig08": figures.figure_8,
    "fig09": figures.figure_9,
    "fig10": figures.figure_10,
    "fig11": figures.figure_11,
    "fig12": figures.figure_12,
    "fig13": figures.figure_13,
    "fig14": figures.figure_14,
    "fig15": figures.figure_15,
    "table01": tables.table_1,
    "table02": tables.table_2,
    "table03": tables.table_3,
    "table04": tables.table_4,
    "table05": tables.weight_distance(layer=1),
    "table06": tables.weight_distance(layer=2),
    "table07": tables.weight_distance(layer=3),
    "table08": tables.table_8,
    "table09": tables.table_9,
    "table10": tables.table_10,
    "table11": tables.table_11,
    "table12": tables.table_12,
}


def verdicts(item: str, runs: Mapping[str, Runs]) -> list[Verdict]:
    """One verdict for each statement of the paper on an item (`fig06`, `table04`), by the item's runs as
    `results.gather` gives them; none for figure 1, which shows no result.
    """
    return _STATED[item](runs) if item in _STATED else []


def sentences(items: str | Sequence[str], runs: Mapping[str, Runs]) -> str:
    """The verdicts as lines of text: of an item, or of several that show the same runs, what they share said last."""
    of = [items] if isinstance(items, str) else items
    found = [verdict for item in of for verdict in verdicts(item, runs)]
    found = [verdict for place, verdict in enumerate(found) if verdict not in found[place + 1 :]]
    note = [OURS_NOTE] if any(verdict.ours for verdict in found) else []
    return "\n".join([*map(str, found), *note])


def tally(found: list[Verdict]) -> str:
    """How many statements are supported, not supported and open, in words: `3 of 4 supported, 1 open`; `so far` where
    runs behind a supported one are missing.
    """
    if not found:
        return ""
    counts = Counter(verdict.answer for verdict in found)
    partly = any(verdict.answer == SUPPORTED and not verdict.whole for verdict in found)
    words = [f"{counts[SUPPORTED]} of {len(found)} supported{' so far' if partly else ''}"]
    if counts[NOT_SUPPORTED]:
        words.append(f"{counts[NOT_SUPPORTED]} not")
    if counts[CANNOT_SAY]:
        words.append(f"{counts[CANNOT_SAY]} open")
    return ", ".join(words)

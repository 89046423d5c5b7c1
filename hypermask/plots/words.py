"""Figures in words, as alternative text and caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypermask.plots.panel import Panel


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
        f"the paper's ± is taken to be the population standard deviation{but}."
    )
    if intervals and any(panel.runs > 2 for panel in panels):
        lines.append("Bars: 95 % t intervals of a task's mean over the runs.")
    if intervals and any(panel.runs == 2 for panel in panels):
        lines.append("Dots: the two runs, whose interval would be too wide to say anything.")
    return "\n".join(lines)


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
        f"{drawn} The numbers are means after all tasks, percent; ours ± sample standard deviation, the paper's "
        "± taken to be the population standard deviation."
    )
    return "\n".join(lines)

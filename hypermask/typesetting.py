"""A table in the forms it is written in: numbers (CSV), Markdown, booktabs LaTeX, plain text; and numbers as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

BLANK = "–"
# A LaTeX table of longer rows, in characters, is shrunk to the width of the page.
WIDE = 110
# Of plain text, in characters, where the table itself is narrower.
NOTE_WIDTH = 120
_NO_BREAK = "\N{NO-BREAK SPACE}"
_LATEX = {"%": r"\%", "_": r"\_", "±": r"$\pm$", BLANK: "--", "&": r"\&", "†": r"$\dagger$", "‡": r"$\ddagger$"}


@dataclass(frozen=True)
class Table:
    """A finished table.

    frame: the numbers; head, body: text; rules: body rows with a line above; notes: below the table.
    """

    title: str
    label: str
    frame: pd.DataFrame
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    rules: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    mark: str = ""
    text_columns: int = 1

    def marked(self, mark: str) -> Table:
        """The table with a mark in its first line and title, for outputs that are not the paper's."""
        return replace(self, mark=mark)

    def markdown(self) -> str:
        """GitHub Markdown, with the title above and the notes below."""
        width = len(self.head)
        align = ["---" if column < self.text_columns else "---:" for column in range(width)]
        lines = [
            f"**{self._title()}**",
            "",
            _pipes(self.head),
            _pipes(align),
            *(_pipes(row) for row in self.body),
        ]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]).rstrip() + "\n"

    def latex(self) -> str:
        """A table environment with booktabs rules; LaTeX numbers it, so its caption has the title without number."""
        columns = "l" * self.text_columns + "r" * (len(self.head) - self.text_columns)
        longest = (max(map(len, cells)) for cells in zip(self.head, *self.body, strict=True))
        wide = sum(longest) > WIDE
        title = re.sub(r"^Table \d+\. ", "", self._title())
        body = []
        for number, row in enumerate(self.body):
            if number in self.rules:
                body.append(r"\midrule")
            body.append(" & ".join(map(_latex, row)) + r" \\")
        lines = [
            *([f"% {self.mark}"] if self.mark else []),
            "% needs the packages booktabs and graphicx" if wide else "% needs the package booktabs",
            r"\begin{table}",
            # A table that would not fit on a page in the usual size is set smaller.
            r"\centering\scriptsize" if len(self.body) > 60 else r"\centering\footnotesize",
            rf"\caption{{{_latex(' '.join([title + '.', *self.notes]))}}}",
            rf"\label{{tab:{self.label}}}",
            (r"\resizebox{\textwidth}{!}{" if wide else "") + rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            r"\toprule",
            " & ".join(map(_latex, self.head)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}" + ("}" if wide else ""),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """Plain text in columns, for a notebook's output: title, head, rows and notes; columns without content are left
        out.
        """
        filled = [c for c in range(len(self.head)) if any(row[c] not in ("", BLANK) for row in self.body)]
        rows = [[row[column] for column in filled] for row in (self.head, *self.body)]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [
                cell.ljust(width) if column < self.text_columns else cell.rjust(width)
                for column, cell, width in zip(filled, row, widths, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        line = "-" * max(map(len, lines))
        body = [part for i, text in enumerate(lines[1:]) for part in ([line, text] if i in self.rules else [text])]
        width = max(NOTE_WIDTH, len(line))
        # A number and its percent sign stay on one line.
        wrapped = (part for note in self.notes for part in textwrap.wrap(note.replace(" %", f"{_NO_BREAK}%"), width))
        notes = [part.replace(_NO_BREAK, " ") for part in wrapped]
        return "\n".join([self._title(), line, lines[0], line, *body, *([""] if notes else []), *notes])

    def _title(self) -> str:
        return f"{self.title} ({self.mark})" if self.mark else self.title


def number(value: float | None) -> float:
    """The value for a numeric column, NaN (an empty cell of the CSV) where there is none."""
    return np.nan if value is None else value


def fixed(value: float, digits: int, sign: str = "") -> str:
    """The value to so many digits; a zero has no sign.  sign: `+` where positive values have theirs."""
    rounded = round(value, digits)
    return f"{rounded:{sign}.{digits}f}" if rounded else f"{0:.{digits}f}"


def rounded(value: float | None, digits: int) -> str:
    """The value as text, blank where there is none."""
    return BLANK if value is None else fixed(value, digits)


def plus_minus(mean: float, spread: float | None, digits: int, spread_digits: int | None = None) -> str:
    """`mean ± spread` as text; the mean alone where there is no spread."""
    if spread is None:
        return fixed(mean, digits)
    return f"{fixed(mean, digits)} ± {fixed(spread, digits if spread_digits is None else spread_digits)}"


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex(text: str) -> str:
    # Before a number, or between two terms; hyphens within words stay.
    text = re.sub(r"(?<![\w.])-(?=\d)|(?<=\s)-(?=\s)", "$-$", text)
    for plain, escaped in _LATEX.items():
        text = text.replace(plain, escaped)
    return text

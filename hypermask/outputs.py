"""Where a notebook's figures and tables go, and how they are written so that the same records give the same
bytes.

PDFs carry no creation date, PNGs no software name, hashes a fixed salt, and a file is rewritten only when its
bytes change. The manifest that `Outputs.close` writes names every file with its checksum and every record it
was drawn from, from which `hypermask status` tells whether the files are those of today's records.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hypermask import files, paths
from hypermask.errors import HyperMaskError
from hypermask.results import PROFILES, Runs, shows_own_runs

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Image
    from matplotlib.figure import Figure

    from hypermask.typesetting import Table

SMOKE = "smoke profile"
SMOKE_MEANING = f"{SMOKE}: tiny stand-ins, not the paper's benchmarks"
PNG_DPI = 200
SCREEN_DPI = 100


def render(figure: Figure, kind: str, dpi: int = PNG_DPI) -> bytes:
    """The figure as `pdf` or `png` bytes, equal for equal figures: no dates, no software names."""
    from hypermask.plots.styling import style

    buffer = io.BytesIO()
    metadata = {"pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")), "png": {"Software": None}}[kind]
    with style():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def show(figure: Figure, alt: str) -> Image:
    """The figure as an image for the notebook, at its printed size, with its alternative text."""
    from IPython.display import Image

    width = round(figure.get_figwidth() * SCREEN_DPI)
    return Image(data=render(figure, "png"), format="png", width=width, alt=alt)


def base(profile: str, own_runs: bool = False, changes: str = "") -> Path:
    """The folder below which figures/ and paper_tables/ are written: that of the committed ones for these alone."""
    if profile == "smoke":
        return paths.build() / "smoke"
    return paths.build() / "own" if shows_own_runs(profile, own_runs, changes) else paths.root()


class Outputs:
    """The files of one notebook.

    notebook: its stem, the default stem of its files.  profile: `recorded`, `paper` or `smoke`.  own_runs:
    whether the reader's own runs are shown; then, and in the profiles other than `recorded`, nothing is
    written beside the committed files: `smoke` writes below build/smoke/, shown own runs below build/own/.  changes:
    the values changed in the reader's own runs (see `results.gather`), which titles then tell.
    """

    def __init__(self, notebook: str, profile: str = "recorded", own_runs: bool = False, changes: str = "") -> None:
        if profile not in PROFILES:
            raise HyperMaskError(f"unknown profile {profile!r}; expected {', '.join(PROFILES)}.")
        self.notebook = notebook
        self.profile = profile
        self.base = base(profile, own_runs, changes)
        self._changes = " ".join(changes.split())
        self._written: dict[str, str] = {}

    def figure(self, figure: Figure, data: pd.DataFrame, alt: str, stem: str | None = None) -> Image:
        """Write figures/STEM.pdf, .png (200 dpi) and .csv (the plotted data, after a line that says what is not the
        paper's, if anything is); returns the image for the notebook.
        """
        folder = Path("figures")
        stem = stem or self.notebook
        self._write(folder / f"{stem}.pdf", render(figure, "pdf"))
        self._write(folder / f"{stem}.png", render(figure, "png"))
        self._write(folder / f"{stem}.csv", self._csv(data))
        return show(figure, alt)

    def table(self, table: Table, stem: str | None = None) -> Table:
        """Write paper_tables/STEM.csv, .md and .tex (booktabs); returns the table as it was written, for the
        notebook.
        """
        folder = Path("paper_tables")
        stem = stem or self.notebook
        marked = self.mark(table)
        self._write(folder / f"{stem}.csv", self._csv(table.frame))
        self._write(folder / f"{stem}.md", marked.markdown().encode())
        self._write(folder / f"{stem}.tex", marked.latex().encode())
        return marked

    def mark(self, table: Table) -> Table:
        """The table as a table of this profile: smoke tables say what they are, and those with changed own runs what
        is changed."""
        said = self._said(SMOKE_MEANING)
        return table.marked(said) if said else table

    def title(self, text: str) -> str:
        """`text` as a title of this profile: smoke outputs say what they are, and changed own runs what is changed."""
        said = self._said(SMOKE)
        return f"{text} ({said})" if said else text

    def close(self, runs: Iterable[Runs]) -> None:
        """Write figures/manifests/NOTEBOOK.json: the files written, and the records shown, each with its
        checksum.
        """
        shown = {
            record.path.relative_to(paths.root()).as_posix(): record.content_sha256
            for group in runs
            for record in (*group.records, *group.unfinished, *group.own, *group.own_unfinished)
        }
        manifest = {
            "notebook": self.notebook,
            "profile": self.profile,
            "files": self._written,
            "records": shown,
        }
        path = self.base / "figures" / "manifests" / f"{self.notebook}.json"
        files.write_if_changed(path, files.pretty_json(manifest))

    def _said(self, smoke: str) -> str:
        said = [smoke] if self.profile == "smoke" else []
        if self._changes:
            said.append(f"your own runs with {self._changes}")
        return ", ".join(said)

    def _csv(self, frame: pd.DataFrame) -> bytes:
        text = frame.to_csv(index=False, lineterminator="\n", float_format="%.4f")
        said = self._said(SMOKE_MEANING)
        return (f"# {said}\n{text}" if said else text).encode()

    def _write(self, relative: Path, data: bytes) -> None:
        path = self.base / relative
        files.write_if_changed(path, data)
        self._written[relative.as_posix()] = files.sha256(data)

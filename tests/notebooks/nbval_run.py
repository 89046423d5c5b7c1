"""nbval over the committed notebooks, as a reader would call it, with results that a test can count."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

import hypermask

IGNORED = "nbval-ignore-output"
PROJECT = Path(hypermask.__file__).resolve().parent.parent
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))


@dataclass
class Result:
    """Cells per notebook stem that nbval passed and failed, and what it printed."""

    status: int
    output: str
    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


def nbval(notebooks: list[Path], root: Path) -> Result:
    """Run every cell and compare its text outputs; records are read, and outputs written, below `root`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "-v",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--nbval-sanitize-with", str(PROJECT / "tests/notebooks/sanitize.cfg")]
    environment = os.environ | {"HYPERMASK_ROOT": str(root), "PYTHONPATH": str(PROJECT), "COLUMNS": "200"}
    done = subprocess.run(
        [*command, *map(str, notebooks)], cwd=PROJECT, env=environment, capture_output=True, text=True
    )
    result = Result(done.returncode, done.stdout + done.stderr)
    for stem, outcome in re.findall(r"(\w+)::ipynb::Cell \d+ (PASSED|FAILED|XFAIL|SKIPPED)", done.stdout):
        (result.passed if outcome == "PASSED" else result.failed)[stem] += 1
    return result


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def is_compared(cell: nbformat.NotebookNode) -> bool:
    """Whether nbval compares something of the cell: it has stored text, and its output is not ignored."""
    has_text = any(output.output_type == "stream" for output in cell.outputs)
    return has_text and IGNORED not in cell.metadata.get("tags", [])

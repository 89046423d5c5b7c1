"""The benches that `hypermask bench --save` leaves: where they lie, and how they are read."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

from hypermask import paths

SCHEMA = 1
FOLDER = "bench"
LOOPS = ("reference", "eager", "fused")


def folder() -> Path:
    """Where saved benches lie: BENCHMARK/DEVICE.json below it."""
    return paths.records() / FOLDER


def read() -> list[dict[str, Any]]:
    """All, by benchmark and device.

    A file that cannot be read, or is of a newer version, is left out with a warning.
    """
    found = [read_one(path) for path in sorted(folder().glob("*/*.json"))]
    return [bench for bench in found if bench is not None]


def read_one(path: Path) -> dict[str, Any] | None:
    """A saved bench; None, with a warning, of what is none."""
    try:
        bench = json.loads(path.read_text(encoding="utf-8"))
        readable = isinstance(bench, dict) and bench.get("schema") == SCHEMA
    except (OSError, ValueError):
        readable = False
    if not readable:
        warnings.warn(
            f"{path.parent.name}/{path.name} is left out: it is no bench of this version; measure it again with "
            "hypermask bench.",
            stacklevel=3,
        )
    return bench if readable else None

"""Where everything lies: the project's root and the folders below it."""

from __future__ import annotations

import os
from pathlib import Path

from hypermask.errors import HyperMaskError

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The project's root folder.

    The environment variable HYPERMASK_ROOT if it is set; else the nearest folder at or above the working
    directory that holds this project; else the folder of the checkout that the package was imported from;
    else the working directory.
    """
    if chosen := os.environ.get("HYPERMASK_ROOT"):
        try:
            return Path(chosen).expanduser().resolve()
        except RuntimeError:
            raise HyperMaskError(
                f"HYPERMASK_ROOT is {chosen}, in a home folder which is not known here; name another one."
            ) from None
    here = Path.cwd()
    for folder in (here, *here.parents, _PACKAGE.parent):
        if (folder / "pyproject.toml").is_file() and (folder / "hypermask").is_dir():
            return folder
    return here


def settle() -> None:
    """Make the folders that the environment names absolute: processes started from here run in other ones."""
    for name in ("HYPERMASK_ROOT", "HYPERMASK_DATA"):
        chosen = os.environ.get(name)
        if chosen and not chosen.startswith("~"):
            os.environ[name] = str(Path(chosen).resolve())


def records() -> Path:
    """Committed results of full-protocol runs."""
    return root() / "records"


def runs() -> Path:
    """The reader's own runs, ignored by git."""
    return root() / "runs"


def figures() -> Path:
    """Figures that the notebooks write."""
    return root() / "figures"


def tables() -> Path:
    """Tables that the notebooks write."""
    return root() / "paper_tables"


def build() -> Path:
    """Everything that can be made again, ignored by git."""
    return root() / "build"


def notebooks() -> Path:
    """The notebooks: below the root, or next to the package when the root holds only results."""
    below = root() / "notebooks"
    return below if below.is_dir() else _PACKAGE.parent / "notebooks"


def shown(path: Path) -> str:
    """The path as a person knows it: below the root if it lies there."""
    return path.relative_to(root()).as_posix() if path.is_relative_to(root()) else str(path)

"""Which revision of the code runs here, for the records: by git, or in a copy without `.git` by a note made before."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from hypermask.errors import HyperMaskError
from hypermask.files import sha256, write_atomic

PACKAGE = Path(__file__).resolve().parent
# In the checkout, ignored by git: a revision, and a digest of the package that tells whether it is still that.
NOTE = "REVISION.json"


def state(checkout: Path = PACKAGE.parent) -> tuple[str | None, bool | None]:
    """The checkout's revision, and whether its package has changes; (None, None) where nothing tells.

    Records, benches and archives that runs leave in a checkout are no changes of what runs.
    """
    if not (checkout / ".git").exists():
        return _noted(checkout)
    try:
        changes = _git(checkout, "status", "--porcelain", "--", PACKAGE.name)
        return _git(checkout, "rev-parse", "HEAD"), bool(changes)
    except (OSError, subprocess.CalledProcessError):
        return None, None


def note(checkout: Path = PACKAGE.parent) -> Path:
    """Write down the revision of a clean checkout, for copies of it that go without `.git`; returns the file."""
    revision, dirty = state(checkout)
    if revision is None or not (checkout / ".git").exists():
        raise HyperMaskError(
            f"{checkout} is no checkout that git can read; note the revision where `git status` works."
        )
    if dirty:
        raise HyperMaskError(f"{PACKAGE.name}/ has changes that no revision tells; commit them, then note it again.")
    path = checkout / NOTE
    write_atomic(path, json.dumps({"revision": revision, "package_sha256": _digest(checkout)}).encode())
    return path


def _noted(checkout: Path) -> tuple[str | None, bool | None]:
    try:
        noted = json.loads((checkout / NOTE).read_bytes())
        return noted["revision"], noted["package_sha256"] != _digest(checkout)
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def _digest(checkout: Path) -> str:
    """SHA-256 over names and contents of the package's files."""
    files = sorted(
        path
        for path in (checkout / PACKAGE.name).rglob("*")
        # Nothing that copies may leave out or add: caches, and what a file browser keeps.
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    )
    return sha256("".join(f"{path.relative_to(checkout).as_posix()} {sha256(path)}\n" for path in files).encode())


def _git(checkout: Path, *command: str) -> str:
    # A checkout that belongs to another user is as good: its code runs here already.
    asked = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), *command]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

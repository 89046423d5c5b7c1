"""Files that are there whole or not at all, locks on them, and the bytes of JSON and of arrays."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def write_atomic(path: Path, data: bytes) -> None:
    """Write all of `data` to `path`, or leave what was there, even when the process is killed.

    The bytes go to a hidden temporary file in the same folder, reach the disk, and take the name in one step.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_if_changed(path: Path, data: bytes) -> bool:
    """Write `data` unless the file holds these bytes already; returns whether it was written."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomic(path, data)
    return True


@contextmanager
def locked(path: Path, taken: Callable[[], object] = lambda: None) -> Iterator[None]:
    """One process at a time: hold the lock of the file `path`, which is made if it is not there.

    taken: called where another process holds it, before waiting for it; what it raises is raised instead.
    """
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    # A file and no folder, open for writing: network file systems lock nothing else.
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            taken()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256(source: Path | bytes) -> str:
    """SHA-256, 64 hex digits, of bytes or of a file's content."""
    data = source if isinstance(source, bytes) else source.read_bytes()
    return hashlib.sha256(data).hexdigest()


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Named arrays as an .npz file whose bytes depend on nothing but the arrays and their order."""
    import numpy as np

    buffer = io.BytesIO()
    # Stored, not deflated: compressed bytes depend on the version of zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.external_attr = 0o644 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(member, content.getvalue())
    return buffer.getvalue()


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, ASCII; NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def pretty_json(value: Any) -> bytes:
    """Indented JSON for files that people read: keys in their order, lists of plain values on one line."""
    return (_pretty(value, "") + "\n").encode()


def _pretty(value: Any, indent: str) -> str:
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        inner = [f"{deeper}{json.dumps(key)}: {_pretty(item, deeper)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) for item in value):
        inner = [deeper + _pretty(item, deeper) for item in value]
        return "[\n" + ",\n".join(inner) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _sync_folder(folder: Path) -> None:
    # The new name itself is only safe once the folder that lists it is on disk. Some file systems cannot be asked for
    # that; the file is in its place all the same, so it is no failure.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

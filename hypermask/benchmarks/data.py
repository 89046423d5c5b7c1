"""Where the data is, what of it is there, and reading the two data sets that come along.

MNIST is part of this package and the digits are part of scikit-learn, so nothing is downloaded for them. The
larger data sets are looked for under the data root, and fetched there when a benchmark needs them.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hypermask.benchmarks import cifar100_files, tiny_imagenet_files
from hypermask.benchmarks.arrays import Arrays
from hypermask.benchmarks.download import CIFAR100, TINY_IMAGENET, Archive
from hypermask.errors import HyperMaskError

# Mean and standard deviation of MNIST's training pixels in [0, 1].
MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
BUNDLED_MNIST = Path(__file__).parent / "mnist"
REINSTALL = "restore it from the repository or install hypermask again"

# SHA-256 of what is inside the .gz: the published IDX files, however they are compressed.
MNIST_FILES = {
    "train-images-idx3-ubyte": (
        (60000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    "train-labels-idx1-ubyte": (
        (60000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    "t10k-images-idx3-ubyte": (
        (10000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "t10k-labels-idx1-ubyte": (
        (10000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
}

# SHA-256 of the 1797 images and then their labels, one byte a value.
DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


@dataclass(frozen=True)
class DataStatus:
    """One data set as found.

    state: bundled, found, missing or damaged.  how_to_get: a command, empty where nothing is needed.
    """

    name: str
    state: str
    path: str
    detail: str
    how_to_get: str = ""


def data_root(argument: str | Path | None = None) -> Path:
    """The folder of data sets not bundled: `argument`, else HYPERMASK_DATA, else ~/.cache/hypermask."""
    chosen = Path(argument or os.environ.get("HYPERMASK_DATA") or "~/.cache/hypermask")
    try:
        root = chosen.expanduser()
    except RuntimeError:
        raise HyperMaskError(
            f"the data root {chosen} lies in a home folder, which is not known here; name another one with "
            "--data-root or HYPERMASK_DATA."
        ) from None
    if root.exists() and not root.is_dir():
        raise HyperMaskError(f"the data root {root} is a file; expected a folder, so name another one.")
    return root


@cache
def load_mnist(folder: Path = BUNDLED_MNIST) -> tuple[Arrays, Arrays, dict[str, str]]:
    """Training images, test images, and the SHA-256 of each file; read once per process.

    Raises HyperMaskError for a file that is missing, truncated or not the published one.
    """
    arrays = {name: read_idx(folder / f"{name}.gz", shape, sha256) for name, (shape, sha256) in MNIST_FILES.items()}
    train, test = (
        Arrays(arrays[f"{part}-images-idx3-ubyte"][:, None], arrays[f"{part}-labels-idx1-ubyte"].astype(np.int64))
        for part in ("train", "t10k")
    )
    return train, test, {name: sha256 for name, (_, sha256) in MNIST_FILES.items()}


@cache
def load_digits() -> tuple[Arrays, dict[str, str]]:
    """scikit-learn's 1797 digits, uint8 0..16 [1797, 1, 8, 8], and their SHA-256; read once per process.

    Raises HyperMaskError where scikit-learn is not installed or holds other digits.
    """
    try:
        from sklearn import datasets
    except ImportError:
        raise HyperMaskError(
            "the digits come with scikit-learn, which is not installed; run: pip install scikit-learn"
        ) from None
    digits = datasets.load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    found = hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()
    if found != DIGITS_SHA256:
        raise HyperMaskError(
            f"scikit-learn's digits: expected SHA-256 {DIGITS_SHA256}, found {found}; install scikit-learn again."
        )
    return Arrays(images[:, None], labels.astype(np.int64)), {"digits": found}


def read_idx(path: Path, shape: tuple[int, ...], sha256: str) -> np.ndarray:
    """A gzipped IDX file of unsigned bytes, of exactly this shape and content, as a read-only array.

    Raises HyperMaskError, one sentence with the file, what was expected and what was found.
    """
    content = _gunzip(path, expected=4 + 4 * len(shape) + math.prod(shape))
    # IDX: two zero bytes, 8 for unsigned bytes, the number of dimensions, then each as a big-endian uint32.
    magic = bytes((0, 0, 8, len(shape)))
    if content[:4] != magic:
        raise _unexpected(path, f"an IDX file with magic number {magic.hex()}", f"{content[:4].hex() or 'nothing'}")
    body = 4 + 4 * len(shape)
    found_shape = tuple(int(n) for n in np.frombuffer(content[4:body], dtype=">u4"))
    if found_shape != shape:
        raise _unexpected(path, f"the shape {_times(shape)}", _times(found_shape))
    if len(content) != body + math.prod(shape):
        raise _unexpected(path, f"{body + math.prod(shape)} bytes inside", f"{len(content)}")
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise _unexpected(path, f"SHA-256 {sha256} of what is inside", found)
    return np.frombuffer(content, dtype=np.uint8, offset=body).reshape(shape)


def report(root: str | Path | None = None) -> list[DataStatus]:
    """Every data set's state: MNIST, the digits and CIFAR-100 by their content, Tiny ImageNet by its list of files.

    root: as in `data_root`.
    """
    root = data_root(root)
    return [
        _mnist_status(),
        _digits_status(),
        _archive_status(CIFAR100, root, _cifar100),
        _archive_status(TINY_IMAGENET, root, _tiny_imagenet),
    ]


def render(statuses: list[DataStatus]) -> str:
    """The report as text: a line for each data set, and under it the command that gets what is not there."""
    width = max(len(status.name) for status in statuses)
    lines = []
    for status in statuses:
        lines.append(f"{status.name:<{width}}  {status.state:<8} {status.path}")
        lines.append(f"{'':<{width}}           {status.detail}")
        if status.how_to_get:
            lines.append(f"{'':<{width}}           get it: {status.how_to_get}")
    return "\n".join(lines)


def _mnist_status() -> DataStatus:
    try:
        load_mnist(BUNDLED_MNIST)
    except HyperMaskError as error:
        command = f"git -C {shlex.quote(str(BUNDLED_MNIST))} checkout -- ."
        return DataStatus("mnist", "damaged", str(BUNDLED_MNIST), str(error), command)
    return DataStatus("mnist", "bundled", str(BUNDLED_MNIST), "60000 + 10000 images, checksums right")


def _digits_status() -> DataStatus:
    try:
        load_digits()
    except HyperMaskError as error:
        return DataStatus("digits", "missing", "scikit-learn", str(error), "pip install scikit-learn")
    return DataStatus("digits", "bundled", "scikit-learn", "1797 images, checksum right")


def _cifar100(folder: Path) -> str:
    return cifar100_files.read(folder).remark or "50000 + 10000 images, checksums right"


def _tiny_imagenet(folder: Path) -> str:
    listing = tiny_imagenet_files.list_images(folder)
    return listing.remark or f"{len(listing.train)} + {len(listing.val)} images of {len(listing.wnids)} classes"


def _archive_status(archive: Archive, root: Path, describe: Callable[[Path], str]) -> DataStatus:
    folder, packed = root / archive.folder, root / archive.name
    if folder.exists():
        try:
            return DataStatus(archive.folder, "found", str(folder), describe(folder))
        except HyperMaskError as error:
            return DataStatus(archive.folder, "damaged", str(folder), str(error), archive.command(root))
    if packed.exists():
        detail, size = "unpacked when it is first needed", packed.stat().st_size
        # It may be packed anew, which is accepted, or broken off, which unpacking tells.
        if size != archive.size:
            detail += f"; it has {size} bytes and the published archive {archive.size}"
        return DataStatus(archive.folder, "found", str(packed), detail)
    return DataStatus(archive.folder, "missing", str(folder), "no such folder", archive.command(root))


def _gunzip(path: Path, expected: int) -> bytes:
    try:
        compressed = path.read_bytes()
    except OSError as error:
        raise _unexpected(path, "a readable file", (error.strerror or "none").lower()) from None
    if compressed[:2] != b"\x1f\x8b":
        raise _unexpected(path, "a gzip file", f"one that starts with {compressed[:2].hex() or 'nothing'}")
    stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(compressed)
    except zlib.error:
        raise _unexpected(path, f"{expected} bytes of intact gzip data inside", "damaged data") from None
    if not stream.eof:
        raise _unexpected(path, f"{expected} bytes inside", f"a file that breaks off after {len(content)} of its bytes")
    return content


def _unexpected(path: Path, expected: str, found: str) -> HyperMaskError:
    return HyperMaskError(f"{path}: expected {expected}, found {found}; {REINSTALL}.")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(n) for n in shape)

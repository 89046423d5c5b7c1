"""Reading CIFAR-100's original files, `cifar-100-python/{train,test,meta}`.

They are pickles, which can name any function to be called on loading. The reader here builds arrays, lists,
dictionaries, text and numbers, and refuses whatever names anything else.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from hypermask.benchmarks.arrays import Arrays, ImageSet
from hypermask.benchmarks.download import CIFAR100
from hypermask.errors import HyperMaskError

CLASSES = 100
SHAPE = (3, 32, 32)
PER_CLASS = {"train": 500, "test": 100}
PUBLISHED_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def read(folder: Path) -> ImageSet:
    """All images, in the order of the files; classes are numbered as there, alphabetically by name.

    Files that are not the published ones are accepted if they are complete, with a remark. Raises HyperMaskError for
    one that is missing, damaged, incomplete or no CIFAR-100 file.
    """
    files = {name: _bytes(folder / name) for name in CIFAR100.files}
    contents = {name: _load(folder / name, data) for name, data in files.items()}
    foreign = [name for name, data in files.items() if _md5(data) != PUBLISHED_MD5[name]]
    return ImageSet(
        train=_images(folder / "train", contents["train"], PER_CLASS["train"]),
        test=_images(folder / "test", contents["test"], PER_CLASS["test"]),
        class_names=_names(folder / "meta", contents["meta"]),
        checksums={f"{folder.name}/{name}": hashlib.sha256(data).hexdigest() for name, data in files.items()},
        remark=_remark(folder, foreign),
    )


def _remark(folder: Path, foreign: list[str]) -> str:
    if not foreign:
        return ""
    return (
        f"{' and '.join(foreign)} in {folder} are not the published files by their MD5, yet complete "
        f"({PER_CLASS['train']} + {PER_CLASS['test']} images of each of {CLASSES} classes); they are used, and the "
        "record names their checksums."
    )


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refusal(path, "a readable file", (error.strerror or "none").lower()) from None


def _load(path: Path, data: bytes) -> dict[str, Any]:
    try:
        # latin1: the published files were written by Python 2, whose text is bytes.
        content = _PlainUnpickler(io.BytesIO(data), encoding="latin1").load()
    except _ForeignNameError as error:
        raise _refusal(path, "arrays, lists, text and numbers alone", f"a pickle that names {error}") from None
    except Exception as error:
        # Damaged pickles fail in every way there is.
        raise _refusal(path, "an intact pickle", f"{len(data)} bytes that break off or are damaged ({error})") from None
    if not isinstance(content, dict):
        raise _refusal(path, "a dictionary", f"a {type(content).__name__}")
    return content


def _images(path: Path, content: dict[str, Any], per_class: int) -> Arrays:
    images, labels = content.get("data"), content.get("fine_labels")
    expected = (per_class * CLASSES, int(np.prod(SHAPE)))
    if not (isinstance(images, np.ndarray) and images.dtype == np.uint8 and images.shape == expected):
        found = f"{images.dtype} {list(images.shape)}" if isinstance(images, np.ndarray) else type(images).__name__
        raise _refusal(path, f"images as uint8 {list(expected)} under 'data'", found)
    if not (isinstance(labels, list) and all(type(label) is int and 0 <= label < CLASSES for label in labels)):
        raise _refusal(path, f"a list of classes from 0 to {CLASSES - 1} under 'fine_labels'", "something else")
    counts = np.bincount(labels, minlength=CLASSES)
    if (counts != per_class).any():
        raise _refusal(path, f"{per_class} images of each class", f"{counts.min()} to {counts.max()}")
    return Arrays(images.reshape(-1, *SHAPE), np.asarray(labels, dtype=np.int64))


def _names(path: Path, content: dict[str, Any]) -> tuple[str, ...]:
    names = content.get("fine_label_names")
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == CLASSES):
        raise _refusal(path, f"the names of {CLASSES} classes under 'fine_label_names'", "something else")
    return tuple(names)


def _refusal(path: Path, expected: str, found: str) -> HyperMaskError:
    return HyperMaskError(
        f"{path}: expected {expected}, found {found}; delete the folder, and the published {CIFAR100.name} is unpacked "
        "or downloaded again."
    )


class _ForeignNameError(pickle.UnpicklingError):
    """A pickle names something that CIFAR-100's files do not need."""


def _empty_array(*_: object) -> np.ndarray:
    return np.ndarray(0, np.uint8)


def _from_buffer(buffer: bytes, dtype: np.dtype, shape: tuple[int, ...], order: str) -> np.ndarray:
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise _ForeignNameError(f"the encoding {encoding}")
    return text.encode(encoding)


class _PlainUnpickler(pickle.Unpickler):
    """Resolves the names that arrays and bytes are pickled with, by any version of numpy, to functions of our own."""

    _ADMITTED = {  # noqa: RUF012
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): _encode,
        **{(f"numpy.{core}.multiarray", "_reconstruct"): _empty_array for core in ("core", "_core")},
        **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ADMITTED:
            raise _ForeignNameError(f"{module}.{name}")
        return self._ADMITTED[module, name]

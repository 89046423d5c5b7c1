"""Reading Tiny ImageNet's folder, `tiny-imagenet-200/`, as it is published or with class folders in `val` too.

The JPEG files are read and decoded once. The pixels go to one array file beside the folder, named after the content of
all JPEG files, and are memory-mapped from there; the checksum of that content is kept beside it until a file changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypermask import files
from hypermask.benchmarks.arrays import Arrays, ImageSet
from hypermask.benchmarks.download import TINY_IMAGENET
from hypermask.errors import HyperMaskError
from hypermask.progress import say

SHAPE = (3, 64, 64)
CLASSES = 200
PER_CLASS = {"train": 500, "val": 50}
SUFFIXES = (".jpeg", ".jpg")
ANNOTATIONS = "val_annotations.txt"
PORTION = 1000


@dataclass(frozen=True)
class Listing:
    """The images of a folder.

    wnids: WordNet identifiers of the classes there, ascending; class i is the i-th.  train, val: the files, class by
    class, in the order of their numbers.
    """

    folder: Path
    wnids: tuple[str, ...]
    train: list[Path]
    val: list[Path]

    @property
    def images(self) -> list[Path]:
        """All files, those for training first."""
        return [*self.train, *self.val]

    @property
    def remark(self) -> str:
        """One sentence if classes of the published data set are not there."""
        if len(self.wnids) == CLASSES:
            return ""
        return (
            f"{self.folder} holds {len(self.wnids)} of the {CLASSES} classes, each complete; class i is the i-th of "
            "those, and the record names the checksum of their images."
        )


def read(listing: Listing) -> ImageSet:
    """All images of the classes that are there, class by class; the validation images are for testing.

    Raises HyperMaskError for a damaged image, and where the decoded images cannot be written.
    """
    folder, checksum = listing.folder, _checksum(listing)
    images = _decoded(folder.parent / f"{folder.name}-decoded-{checksum[:16]}.npy", listing)
    counts = {part: np.arange(len(listing.wnids)).repeat(PER_CLASS[part]) for part in PER_CLASS}
    border = len(listing.train)
    return ImageSet(
        train=Arrays(images[:border], counts["train"]),
        test=Arrays(images[border:], counts["val"]),
        class_names=_names(listing),
        checksums={folder.name: checksum},
        remark=listing.remark,
    )


def list_images(folder: Path) -> Listing:
    """Where each image is; raises HyperMaskError unless every class is complete and its validation images known."""
    classes = folder / "wnids.txt"
    if classes.is_file():
        wnids = sorted(set(classes.read_text().split()))
    else:
        wnids = sorted(path.name for path in _entries(folder / "train") if path.is_dir())
    if not wnids:
        raise _refusal(folder / "train", "a folder for each class", "none")
    validation = _validation_images(folder / "val", wnids)
    train, val = [], []
    for wnid in wnids:
        for part, images, found in (
            ("train", train, _images_below(folder / "train" / wnid)),
            ("val", val, validation[wnid]),
        ):
            if len(found) != PER_CLASS[part]:
                raise _refusal(folder / part, f"{PER_CLASS[part]} images of class {wnid}", f"{len(found)}")
            # By number: the names of a class have one pattern, with numbers of different lengths.
            images += sorted(found, key=lambda path: (len(path.name), path.name))
    return Listing(folder, tuple(wnids), train, val)


def _validation_images(val: Path, wnids: list[str]) -> dict[str, list[Path]]:
    """The validation images of each class, from the annotations or from class folders."""
    together = _images_in(val / "images")
    if not together:
        return {wnid: _images_below(val / wnid) for wnid in wnids}
    annotations = val / ANNOTATIONS
    try:
        lines = annotations.read_text().splitlines()
    except OSError as error:
        found = (error.strerror or "none").lower()
        raise _refusal(annotations, "the file with the validation images' classes", found) from None
    of_image = dict(line.split("\t")[:2] for line in lines if line.count("\t"))
    by_class: dict[str, list[Path]] = {wnid: [] for wnid in wnids}
    for path in together:
        if path.name not in of_image:
            raise _refusal(annotations, f"a line for every image in {path.parent}", f"none for {path.name}")
        # A folder cut down to fewer classes may still have all validation images.
        if of_image[path.name] in by_class:
            by_class[of_image[path.name]].append(path)
    return by_class


def _images_below(folder: Path) -> list[Path]:
    """The images of a class folder, which are in `images` as published, or in the folder itself."""
    return _images_in(folder / "images") or _images_in(folder)


def _images_in(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix.lower() in SUFFIXES]


def _entries(folder: Path) -> list[Path]:
    return [folder / name for name in os.listdir(folder)] if folder.is_dir() else []


def _names(listing: Listing) -> tuple[str, ...]:
    """Class names from words.txt; the identifier where there is none."""
    words = listing.folder / "words.txt"
    lines = words.read_text().splitlines() if words.is_file() else []
    names = dict(line.split("\t", 1) for line in lines if "\t" in line)
    return tuple(names.get(wnid, wnid) for wnid in listing.wnids)


def _checksum(listing: Listing) -> str:
    """The content's checksum, read from the files only if one of them has changed since it was last formed."""
    kept = listing.folder.with_name(f"{listing.folder.name}-checksum.json")
    state = _state(listing)
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(kept.read_bytes())
        if known["state"] == state:
            return known["sha256"]
    say(f"reading the {len(listing.images)} images in {listing.folder} for their checksum")
    checksum = _checksum_of_bytes(listing)
    # Where it cannot be written it is formed each time.
    with suppress(OSError):
        files.write_atomic(kept, files.pretty_json({"state": state, "sha256": checksum}))
    return checksum


def _state(listing: Listing) -> str:
    """SHA-256 over the classes and each file's name, size and time of change."""
    digest = hashlib.sha256(" ".join(listing.wnids).encode())
    for path in listing.images:
        found = path.stat()
        digest.update(f"\n{path.relative_to(listing.folder)} {found.st_size} {found.st_mtime_ns}".encode())
    return digest.hexdigest()


def _checksum_of_bytes(listing: Listing) -> str:
    """SHA-256 over the classes and the bytes of all files in order; equal for both layouts of the same images."""
    digest = hashlib.sha256(" ".join(listing.wnids).encode())
    for path in listing.images:
        data = path.read_bytes()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def _decoded(path: Path, listing: Listing) -> np.ndarray:
    """uint8 [N, 3, 64, 64], the training images and then the others, memory-mapped from `path`."""
    shape = (len(listing.images), *SHAPE)
    cached = _memory_map(path, shape)
    if cached is None:
        say(f"decoding the {len(listing.images)} images in {listing.folder} into {path.name}, once")
        _write(path, shape, _decode(listing.images))
        cached = _memory_map(path, shape)
    return cached


def _memory_map(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        images = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return images if images.shape == shape and images.dtype == np.uint8 else None


def _write(path: Path, shape: tuple[int, ...], images: Iterable[np.ndarray]) -> None:
    """An .npy file of the images, there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for image in images:
                file.write(image.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise HyperMaskError(
            f"{path} cannot be written ({(error.strerror or 'no reason given').lower()}); the decoded images need "
            f"{np.prod(shape) / 1e6:.0f} MB there, so make room or choose another data root."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _decode(paths: list[Path]) -> Iterator[np.ndarray]:
    from tqdm import tqdm

    silent = True if os.environ.get("HYPERMASK_PROGRESS") == "off" else None
    # Threads suffice: decoding holds no lock.  By portions, so that no more than one waits in memory to be written.
    with ThreadPoolExecutor(os.cpu_count()) as pool, tqdm(total=len(paths), unit="images", disable=silent) as bar:
        for start in range(0, len(paths), PORTION):
            portion = paths[start : start + PORTION]
            yield from pool.map(_decode_one, portion)
            bar.update(len(portion))


def _decode_one(path: Path) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except (UnidentifiedImageError, OSError, SyntaxError):
        raise _refusal(path, "an intact JPEG image", f"{path.stat().st_size} bytes that are none") from None
    if pixels.shape != SHAPE:
        raise _refusal(path, f"{SHAPE[2]} x {SHAPE[1]} pixels", f"{pixels.shape[2]} x {pixels.shape[1]}")
    return pixels


def _refusal(path: Path, expected: str, found: str) -> HyperMaskError:
    return HyperMaskError(
        f"{path}: expected {expected}, found {found}; delete the folder {TINY_IMAGENET.folder}, and the published "
        f"{TINY_IMAGENET.name} is unpacked or downloaded again."
    )

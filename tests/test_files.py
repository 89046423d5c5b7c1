import errno
import hashlib
import os
import signal
import stat
import subprocess
import sys

import pytest

from hypermask import files


def test_write_leaves_the_bytes_and_nothing_else(tmp_path):
    target = tmp_path / "new" / "folder" / "a.json"
    files.write_atomic(target, b"one")
    files.write_atomic(target, b"two")
    assert target.read_bytes() == b"two"
    assert os.listdir(target.parent) == ["a.json"]


def test_a_failed_write_keeps_the_old_file_and_no_temporary_one(tmp_path):
    target = tmp_path / "a.json"
    target.mkdir()
    with pytest.raises(OSError):
        files.write_atomic(target, b"new")
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_process_killed_while_writing_leaves_the_old_bytes(tmp_path):
    target = tmp_path / "a.json"
    target.write_bytes(b"old")
    program = (
        "import os, signal, sys, pathlib\n"
        "from hypermask import files\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_atomic(pathlib.Path(sys.argv[1]), b'new' * 1000)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(target)])
    assert ended.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"


def test_a_file_system_that_cannot_sync_folders_is_no_failure(tmp_path, monkeypatch):
    sync = os.fsync

    def refuses_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuses_folders)
    files.write_atomic(tmp_path / "a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["a"]


def test_write_if_changed_writes_once(tmp_path):
    target = tmp_path / "a"
    assert files.write_if_changed(target, b"x") is True
    before = target.stat().st_mtime_ns
    assert files.write_if_changed(target, b"x") is False
    assert target.stat().st_mtime_ns == before
    assert files.write_if_changed(target, b"y") is True


def test_sha256_of_bytes_and_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert files.sha256(b"abc") == files.sha256(tmp_path / "a") == expected


def test_canonical_json_is_one_text_per_value():
    assert files.canonical_json({"b": [1, 2.5, None], "a": "é"}) == b'{"a":"\\u00e9","b":[1,2.5,null]}'
    with pytest.raises(ValueError):
        files.canonical_json([float("nan")])


def test_pretty_json_keeps_plain_lists_on_one_line():
    text = files.pretty_json({"a": [[1, None], [2, 3.5]], "b": {}, "c": {"d": []}}).decode()
    assert text == '{\n  "a": [\n    [1, null],\n    [2, 3.5]\n  ],\n  "b": {},\n  "c": {\n    "d": []\n  }\n}\n'


def test_a_lock_lets_one_in_at_a_time_and_says_that_it_is_taken(tmp_path):
    path = tmp_path / "new" / "lock"

    def refuse():
        raise ValueError("taken")

    with files.locked(path), pytest.raises(ValueError, match="taken"), files.locked(path, refuse):
        pytest.fail("two hold the lock")
    with files.locked(path, refuse):
        assert path.is_file()

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from payloads import logits, payload

from hypermask import experiments, files, paths, records
from hypermask.records import RecordError

NAME = "split_mnist/hypermask-t"


@pytest.fixture(autouse=True)
def _own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path / "root"))


def test_round_trip(tmp_path):
    path = records.write(payload(seed=3), logits(), tmp_path)
    assert path == tmp_path / NAME / experiments.get(NAME).config.hash[:12] / "seed3.json"
    record = records.read(path)
    assert (record.experiment, record.seed, record.tasks, record.finished) == (NAME, 3, 5, True)
    assert record.accuracy.shape == (5, 5)
    assert record.accuracy[-1].tolist() == [99.0, 99.1, 99.2, 99.3, 99.4]
    assert np.isnan(record.accuracy[np.triu_indices(5, 1)]).all()
    assert record.target_distance["layer1"][0, 4] == 400.0
    assert record.seconds == 302.5
    assert record.payload["logits"]["per_task"] == 4
    arrays = record.arrays()
    assert sorted(arrays) == ["labels", "masked", "unmasked"]
    np.testing.assert_array_equal(arrays["masked"], logits()["masked"])
    assert arrays["masked"].dtype == np.float32


def test_the_content_hash_is_the_sha256_of_the_canonical_rest():
    sealed = records.seal({"b": (1, 2), "a": "x", "content_sha256": "old"})
    expected = hashlib.sha256(b'{"a":"x","b":[1,2]}').hexdigest()
    assert sealed == {"b": [1, 2], "a": "x", "content_sha256": expected}
    assert records.seal(sealed) == sealed


def test_same_run_same_bytes(tmp_path):
    first = records.write(payload(), logits(), tmp_path / "a")
    second = records.write(payload(), logits(), tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
    assert first.with_suffix(".npz").read_bytes() == second.with_suffix(".npz").read_bytes()
    pinned = "4417ee2039c78bc675ab4d1910bcf49b4d7a4822e57c8831d87d0dc2487348e6"
    assert files.sha256(first.with_suffix(".npz")) == pinned


def test_never_overwritten_silently(tmp_path):
    path = records.write(payload(), None, tmp_path)
    before = path.read_bytes()
    with pytest.raises(RecordError, match="is there already"):
        records.write(payload(engine="fused"), None, tmp_path)
    assert path.read_bytes() == before
    records.write(payload(engine="fused"), None, tmp_path, overwrite=True)
    assert records.read(path).payload["engine"] == "fused"


def test_a_killed_write_leaves_no_record(tmp_path):
    program = (
        "import os, signal, sys, pathlib\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from payloads import logits, payload\n"
        "from hypermask import records\n"
        "replace = os.replace\n"
        "def killed(source, target):\n"
        "    if str(target).endswith('.json'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    replace(source, target)\n"
        "os.replace = killed\n"
        "records.write(payload(), logits(), pathlib.Path(sys.argv[1]))\n"
    )
    here = str(Path(__file__).parent)
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path), here])
    assert ended.returncode == -signal.SIGKILL
    assert not list(tmp_path.rglob("seed1.json"))
    assert records.find(NAME, experiments.get(NAME).config.hash, tmp_path) == []
    path = records.write(payload(), logits(), tmp_path)
    assert records.read(path).arrays()["labels"].shape == (5, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accuracy": [[90.0, None], [float("nan"), 90.0]]}, "null instead of NaN"),
        ({"accuracy": [[90.0, None]]}, "expected tasks x tasks"),
        ({"accuracy": [[90.0, 91.0], [90.0, 90.0]]}, "null above the diagonal"),
        ({"accuracy": [[90.0, None], [None, 90.0]]}, "percentages of all tasks seen by then"),
        ({"accuracy": [[90.0, None], [101.0, 90.0]]}, "percentages of all tasks seen by then"),
        ({"status": "done"}, "expected finished or diverged"),
        ({"task_seconds": [1.0]}, "one entry for each of the 5 tasks"),
        ({"config_hash": "abc"}, "expected 64 hex digits"),
        ({"seed": -1}, "0 or more"),
        ({"logits": {"per_task": 4, "file": "../seed1.npz", "sha256": "0" * 64}}, "expected seed1.npz"),
        ({"target_distance": {"layer1": [[0.0]]}}, "target_distance of layer1"),
    ],
)
def test_a_wrong_structure_is_not_written(tmp_path, changes, message):
    with pytest.raises(RecordError, match=message):
        records.write(payload(**changes), None, tmp_path)
    assert not list(tmp_path.rglob("seed*"))


def test_a_name_that_leaves_the_folder_is_refused(tmp_path):
    with pytest.raises(RecordError, match="expected BENCHMARK/METHOD"):
        records.write(payload() | {"experiment": "../../etc"}, None, tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_missing_key_is_named(tmp_path):
    incomplete = payload()
    del incomplete["engine"]
    with pytest.raises(RecordError, match="lacks engine"):
        records.write(incomplete, None, tmp_path)


def test_wrong_logits_are_not_written(tmp_path):
    with pytest.raises(RecordError, match=r"found \[5, 4, 2\], \[5, 4, 2\] and \[5, 3\]"):
        records.write(payload(), logits() | {"labels": np.zeros((5, 3), np.int64)}, tmp_path)
    with pytest.raises(RecordError, match="found masked, unmasked"):
        records.write(payload(), {"masked": logits()["masked"], "unmasked": logits()["unmasked"]}, tmp_path)


def test_tasks_that_share_no_network_have_no_unmasked_logits(tmp_path):
    kept = {name: logits()[name] for name in ("masked", "labels")}
    arrays = records.read(records.write(payload(), kept, tmp_path)).arrays()
    assert sorted(arrays) == ["labels", "masked"]


def test_an_unfinished_run_may_have_unmeasured_rows(tmp_path):
    rows = [[90.0, None, None], [None] * 3, [None] * 3]
    unfinished = payload(
        status="diverged",
        accuracy=rows,
        task_seconds=[1.0],
        evaluation_seconds=[1.0],
        peak_memory_mb=[None],
        validation=[],
        target_distance=None,
    )
    record = records.read(records.write(unfinished, None, tmp_path))
    assert not record.finished
    assert np.isnan(record.accuracy[1:]).all()


def test_a_changed_record_is_refused_and_left_out(tmp_path):
    path = records.write(payload(), None, tmp_path)
    path.write_text(path.read_text().replace("99.4", "99.9"))
    with pytest.raises(RecordError, match="changed after it was written"):
        records.read(path)
    with pytest.warns(UserWarning, match="left out as not there: .*changed after it was written"):
        assert records.find(NAME, experiments.get(NAME).config.hash, tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"schema": 1, "accuracy": [NaN]}', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1, 2]", "not a record of this project"),
        (b'{"epochs": 3}', "not a record of this project"),
        (b'{"schema": true}', "not a record of this project"),
        (b'{"schema": 0}', "not a record of this project"),
        (b'{"schema": 2}', "newer than 1"),
    ],
)
def test_unreadable_foreign_and_newer_files_are_not_there(tmp_path, content, message):
    good = records.write(payload(seed=2), None, tmp_path)
    bad = good.with_name("seed1.json")
    bad.write_bytes(content)
    with pytest.raises(RecordError, match=message):
        records.read(bad)
    with pytest.warns(UserWarning, match=message):
        found = records.find(NAME, experiments.get(NAME).config.hash, tmp_path)
    assert [record.seed for record in found] == [2]
    with pytest.warns(UserWarning, match=message):
        assert list(records.to_frame([tmp_path])["seed"]) == [2]


def test_a_record_in_the_wrong_place_is_not_there(tmp_path):
    path = records.write(payload(), None, tmp_path)
    path.rename(path.with_name("seed7.json"))
    with pytest.warns(UserWarning, match=r"/seed7\.json is left out: its place is .*/seed1\.json\."):
        assert records.find(NAME, experiments.get(NAME).config.hash, tmp_path) == []


def test_a_record_in_another_configurations_folder_is_in_none_of_its_means(tmp_path):
    path = records.write(payload(), None, tmp_path)
    other = experiments.get(NAME).override(["p=70"])
    place = records.location(tmp_path, NAME, other.config.hash, 1)
    place.parent.mkdir(parents=True)
    place.write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match=r"/seed1\.json is left out: its place is .*/02d0e9695504/seed1\.json\."):
        assert records.find(NAME, other.config.hash, tmp_path) == []
    path.with_name("seed7.json").write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="is left out: its place is ") as told:
        assert [record.path for _, record in records.everything([tmp_path])] == [path]
    assert len(told) == 2


def test_damaged_logits_are_refused(tmp_path):
    path = records.write(payload(), logits(), tmp_path)
    beside = path.with_suffix(".npz")
    beside.write_bytes(beside.read_bytes()[:-1] + b"x")
    with pytest.raises(RecordError, match="SHA-256 differs"):
        records.read(path).arrays()
    beside.unlink()
    with pytest.raises(RecordError, match="cannot be read"):
        records.read(path).arrays()


def test_find_and_load_sort_and_select_seeds():
    for seed in (10, 2, 1):
        records.write(payload(seed=seed), None, paths.records())
    records.write(payload(seed=4), None, paths.runs())
    assert [record.seed for record in records.load(NAME)] == [1, 2, 10]
    assert [record.seed for record in records.load(NAME, seeds=[10, 1])] == [1, 10]
    assert [record.seed for record in records.load(NAME, own=True)] == [4]
    assert records.load("split_mnist/hypermask-f") == []


def test_to_frame_has_one_row_per_run():
    records.write(payload(seed=1), None, paths.records())
    records.write(payload("split_mnist/hypermask-f", status="diverged"), None, paths.runs())
    frame = records.to_frame()
    assert list(frame["folder"]) == ["records", "runs"]
    assert list(frame["experiment"]) == [NAME, "split_mnist/hypermask-f"]
    assert frame["mean_accuracy"][0] == pytest.approx(99.2)
    assert np.isnan(frame["mean_accuracy"][1])
    assert frame["backward_transfer"][0] == pytest.approx(np.mean([9.0, 8.1, 7.2, 6.3]))
    # Column i of the matrix is 90 + i, ..., 93 and then the last row, 99.0, 99.1, ...
    assert frame["diagonal_mean"][0] == pytest.approx(np.mean([90, 91, 92, 93, 99.4]))
    assert frame["forgetting"][0] == pytest.approx(np.mean([93 - 99.0, 93 - 99.1, 93 - 99.2, 93 - 99.3]))
    assert frame["training_seconds"][0] == 300.0
    assert frame["device_name"][0] == "Test CPU"
    assert frame["method.beta"][0] == 1e-3
    assert frame["method.hypernetwork_hidden"][0] == "25,25"
    assert records.to_frame([paths.build()]).empty


def test_a_place_for_a_record_is_made_before_the_run(tmp_path):
    path = records.prepare(tmp_path, NAME, "0" * 64, 1)
    assert path == records.location(tmp_path, NAME, "0" * 64, 1)
    assert list(path.parent.iterdir()) == []
    with pytest.raises(RecordError, match=r"expected BENCHMARK/METHOD"):
        records.prepare(tmp_path, "mine", "0" * 64, 1)
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match=r"cannot be written \(.*\); make room or name another folder"):
        records.prepare(tmp_path / "file", NAME, "0" * 64, 1)
    path.touch()
    with pytest.raises(RecordError, match=r"seed1\.json is there already; move it away"):
        records.prepare(tmp_path, NAME, "0" * 64, 1)
    assert records.prepare(tmp_path, NAME, "0" * 64, 1, overwrite=True) == path


def test_reading_records_imports_neither_torch_nor_pandas():
    program = (
        "import sys, hypermask.records\n"
        "print([n for n in ('torch', 'pandas', 'scipy', 'matplotlib') if n in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    assert ended.stdout.strip() == "[]"

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from payloads import logits, payload

from hypermask import admission, experiments, files, paths, records, saved_benches
from hypermask.errors import HyperMaskError
from hypermask.records import RecordError
from hypermask.results import gather, report

NAME = "split_mnist/hypermask-t"


@pytest.fixture(autouse=True)
def _own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path / "root"))


def resealed(path: Path, **changes) -> None:
    """Change a record on disk as someone would who also mends its content hash."""
    path.write_bytes(files.pretty_json(records.seal(json.loads(path.read_bytes()) | changes)))


def archive(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_add_copies_runs_with_their_logits():
    source = records.write(payload(), logits(), paths.runs())
    (added,) = admission.add([source])
    assert added == records.location(paths.records(), NAME, experiments.get(NAME).config.hash, 1)
    assert added.read_bytes() == source.read_bytes()
    np.testing.assert_array_equal(records.read(added).arrays()["masked"], logits()["masked"])
    assert admission.add([source]) == []


def test_add_takes_folders_and_archives(tmp_path):
    for seed in (1, 2):
        records.write(payload(seed=seed), logits(), paths.runs())
    with tarfile.open(tmp_path / "runs.tar", "w") as tar:
        tar.add(paths.runs(), "results/runs")
        (tmp_path / "log.txt").write_text("not a record")
        tar.add(tmp_path / "log.txt", "results/log.txt")
    assert [path.name for path in admission.add([tmp_path / "runs.tar"])] == ["seed1.json", "seed2.json"]
    records.write(payload(seed=3), None, paths.runs())
    assert [path.name for path in admission.add([paths.runs()])] == ["seed3.json"]
    assert records.load(NAME, seeds=[1])[0].arrays()["labels"].shape == (5, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overrides": ["beta=0.01"]}, "another configuration than its name has now"),
        ({"config_hash": "0" * 64}, "another configuration than its name has now"),
        ({"experiment": "split_mnist/hypermask-x"}, "unknown experiment"),
    ],
)
def test_add_refuses_unfit_runs_whatever_the_reason(changes, message):
    source = records.write(payload() | changes, None, paths.runs())
    with pytest.raises(HyperMaskError, match=message):
        admission.add([source], force_reason="please")
    assert not paths.records().exists()


def test_add_refuses_files_that_are_too_large_for_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr(admission, "_LARGEST_FILE", 10)
    member = f"runs/{NAME}/{'0' * 12}/seed1.json"
    large = archive(tmp_path / "large.tar", (member, b"x" * 11))
    with pytest.raises(RecordError, match=rf"holds '{member}' of 11 bytes, too large for a record\.$"):
        admission.add([large])
    assert not paths.records().exists()


def changed(*assignments):
    experiment = experiments.get(NAME).override(list(assignments))
    return {
        "overrides": list(experiment.overrides),
        "config": experiment.config.to_dict(),
        "config_hash": experiment.config.hash,
    }


def test_add_takes_the_ablations_of_the_paper_alone():
    ablation = records.write(payload() | changed("p=70"), None, paths.runs())
    assert [path.name for path in admission.add([ablation])] == ["seed1.json"]
    another = records.write(payload() | changed("p=71"), None, paths.runs())
    with pytest.raises(RecordError, match="was run with --set p=71, which no figure or table needs"):
        admission.add([another])


def test_add_completes_a_record_by_its_inference_alone():
    admission.add([records.write(payload(), None, paths.runs())])
    inference = {"ent": {}, "environment": {"dirty": False}}
    completed = records.write(payload(inference=inference), None, paths.runs(), overwrite=True)
    assert len(admission.add([completed])) == 1
    assert records.load(NAME)[0].payload["inference"] == inference
    more = records.write(payload(inference=inference | {"fecam": {}}), None, paths.runs(), overwrite=True)
    assert len(admission.add([more])) == 1
    for other in ({"fecam": {}}, {"ent": {"shuffled": {}}, "fecam": {}, "other": {}}):
        source = records.write(payload(inference=other), None, paths.runs(), overwrite=True)
        with pytest.raises(RecordError, match="seed 1 is there already"):
            admission.add([source])


def test_add_refuses_damaged_logits():
    source = records.write(payload(), logits(), paths.runs())
    source.with_suffix(".npz").write_bytes(b"damaged")
    with pytest.raises(RecordError, match=r"seed1\.npz"):
        admission.add([source])
    assert not paths.records().exists()


def test_add_refuses_a_run_of_fewer_tasks_than_its_configuration_has():
    named = experiments.get(NAME).config
    fewer = payload(overrides=["tasks=4"]) | {"config": named.to_dict(), "config_hash": named.hash, "overrides": []}
    source = records.write(fewer, None, paths.runs())
    with pytest.raises(RecordError, match="has 4 tasks; expected the configuration's 5"):
        admission.add([source], force_reason="please")


@pytest.mark.parametrize("dirty", [True, None])
def test_add_refuses_an_inference_from_an_unclean_tree(dirty):
    source = records.write(payload(inference={"environment": {"dirty": dirty}}), None, paths.runs())
    with pytest.raises(RecordError, match="not come from a clean tree"):
        admission.add([source])


def test_add_refuses_all_if_one_is_unfit():
    good = records.write(payload(seed=1), None, paths.runs())
    bad = records.write(payload(seed=2) | {"overrides": ["beta=0.01"]}, None, paths.runs())
    with pytest.raises(RecordError, match="seed 2 was run with another configuration"):
        admission.add([good, bad])
    assert not paths.records().exists()


def test_add_takes_diverged_runs_so_that_notebooks_name_them():
    records.write(payload(seed=1), None, paths.runs())
    records.write(payload(seed=2, status="diverged"), None, paths.runs())
    assert [path.name for path in admission.add([paths.runs()])] == ["seed1.json", "seed2.json"]
    assert "  seed 2 is left out: diverged" in report(gather("fig10").values()).splitlines()


@pytest.mark.parametrize("dirty", [True, None])
def test_an_unclean_tree_needs_a_reason_which_is_stored(dirty):
    environment = payload()["environment"] | {"dirty": dirty}
    source = records.write(payload(environment=environment), None, paths.runs())
    with pytest.raises(RecordError, match="not come from a clean tree"):
        admission.add([source])
    (added,) = admission.add([source], force_reason="only a comment differed")
    record = records.read(added)
    assert record.payload["added_by_force"] == "only a comment differed"
    assert admission.add([source]) == []
    added.unlink()
    assert len(admission.add([source, source], force_reason="only a comment differed")) == 1


def test_another_record_of_the_same_run_needs_a_reason(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    records.write(payload(), None, paths.records())
    source = records.write(payload(engine="fused"), None, paths.runs())
    with pytest.raises(RecordError, match="another record of split_mnist/hypermask-t seed 1 is there already"):
        admission.add([source])
    records.write(payload(seed=2), None, paths.runs())
    assert [path.name for path in admission.add([paths.runs()])] == ["seed2.json"], "the others of a folder are added"
    assert capsys.readouterr().err == (
        "split_mnist/hypermask-t seed 1 is left out: another record of split_mnist/hypermask-t seed 1 is there already "
        "(--force REASON replaces it)\n"
    )
    (added,) = admission.add([source], force_reason="trained with the faster engine")
    assert records.read(added).payload["engine"] == "fused"


def test_runs_of_ones_own_in_a_folder_are_passed_over(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    own = records.write(payload(overrides=["p=70", "beta=0.01"]), None, paths.runs())
    records.write(payload() | {"experiment": "split_mnist/fine-tuning"}, None, paths.runs())
    records.write(payload(seed=2), None, paths.runs())
    assert [path.name for path in admission.add([paths.runs()])] == ["seed2.json"]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("split_mnist/fine-tuning seed 1 is left out: unknown experiment")
    assert told[1].startswith("split_mnist/hypermask-t seed 1 is left out: ")
    with pytest.raises(RecordError, match="which no figure or table needs"):
        admission.add([own])


def test_damaged_runs_of_a_folder_are_passed_over(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    torn = records.write(payload(seed=1), None, paths.runs())
    torn.write_bytes(torn.read_bytes()[:700])
    changed = records.write(payload(seed=2), logits(), paths.runs())
    changed.with_suffix(".npz").write_bytes(b"PK")
    records.write(payload(seed=3), None, paths.runs())
    assert [path.name for path in admission.add([paths.runs()])] == ["seed3.json"]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("left out: ") and "seed1.json is not valid JSON" in told[0]
    assert "seed2.npz is not the file its record names" in told[1]
    for path, message in ((torn, "not valid JSON"), (changed, "SHA-256 differs")):
        with pytest.raises(RecordError, match=message):
            admission.add([path])


def saved_bench(root, device: str = "a-gpu", **changes) -> Path:
    path = root / "bench" / "permuted_mnist" / f"{device}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": saved_benches.SCHEMA, "rows": []} | changes))
    return path


def test_benches_come_home_with_the_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    bench = saved_bench(tmp_path)
    source = archive(tmp_path / "gpu.tar", ("records/bench/permuted_mnist/a-gpu.json", bench.read_bytes()))
    (added,) = admission.add([source])
    assert added == paths.records() / "bench" / "permuted_mnist" / "a-gpu.json"
    assert saved_benches.read() == [json.loads(bench.read_text())]
    assert admission.add([source]) == []
    saved_bench(tmp_path, rows=[1])
    assert admission.add([tmp_path / "bench"]) == []
    assert "bench permuted_mnist/a-gpu.json is left out: another one is there" in capsys.readouterr().err
    assert admission.add([tmp_path / "bench"], force_reason="measured again") == [added]
    with pytest.warns(UserWarning, match="it is no bench of this version"):
        assert admission.add([saved_bench(tmp_path, "old", schema=0)]) == []


def test_an_archive_of_the_records_folder_is_taken(tmp_path):
    source = records.write(payload("permuted_mnist_10/hypermask-t"), logits(10), tmp_path / "records")
    inside = source.relative_to(tmp_path).as_posix()
    embedding = inside.replace("records/", "records/tsne/").replace(".json", ".npz")
    found = archive(
        tmp_path / "records.tar",
        (inside, source.read_bytes()),
        (inside.replace(".json", ".npz"), source.with_suffix(".npz").read_bytes()),
        (embedding, b"points"),
    )
    (added,) = admission.add([found])
    assert added.with_suffix(".npz").read_bytes() == source.with_suffix(".npz").read_bytes()


def test_a_reason_that_was_not_needed_is_not_stored():
    source = records.write(payload(), None, paths.runs())
    (added,) = admission.add([source], force_reason="just in case")
    assert "added_by_force" not in records.read(added).payload


def test_add_refuses_a_run_given_twice_differently(tmp_path):
    first = records.write(payload(), None, paths.runs())
    second = records.write(payload(engine="fused"), None, tmp_path / "other")
    with pytest.raises(RecordError, match="given twice, differently"):
        admission.add([first, second])
    assert len(admission.add([first, first])) == 1


def test_add_refuses_a_changed_run():
    source = records.write(payload(), None, paths.runs())
    source.write_text(source.read_text().replace("99.4", "99.9"))
    with pytest.raises(RecordError, match="changed after it was written"):
        admission.add([source])
    resealed(source, accuracy=[[99.0]], task_seconds=[1.0], evaluation_seconds=[1.0])
    with pytest.raises(RecordError, match="one entry for each of the 1 tasks"):
        admission.add([source])


@pytest.mark.parametrize(
    "name",
    [
        "../../split_mnist/hypermask-t/0123456789ab/seed1.json",
        "/etc/seed1.json",
        "a/../../../seed1.json",
        "a\\seed1.json",
    ],
)
def test_an_archive_that_points_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(RecordError, match=re.escape("path out of the archive; nothing was added")):
        admission.add([archive(tmp_path / "evil.tar", (name, b"{}"))])
    assert not paths.records().exists()


def test_an_archive_with_links_is_refused(tmp_path):
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        with tarfile.open(tmp_path / "links.tar", "w") as tar:
            info = tarfile.TarInfo("split_mnist/hypermask-t/0123456789ab/seed1.json")
            info.type = kind
            info.linkname = "/etc/passwd"
            tar.addfile(info)
        with pytest.raises(RecordError, match="a link, device or path out of the archive"):
            admission.add([tmp_path / "links.tar"])


def test_sources_without_runs_are_named(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        admission.add([tmp_path / "nowhere"])
    with pytest.raises(RecordError, match="holds no run"):
        admission.add([archive(tmp_path / "empty.tar", ("readme.txt", b"hello"))])
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(RecordError, match=r"not a readable \.tar archive"):
        admission.add([tmp_path / "text.tar"])
    twice = "split_mnist/hypermask-t/0123456789ab/seed1.json"
    with pytest.raises(RecordError, match="twice"):
        admission.add([archive(tmp_path / "twice.tar", (f"a/{twice}", b"{}"), (f"b/{twice}", b"{}"))])

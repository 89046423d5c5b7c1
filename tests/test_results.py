import pytest
from payloads import write_record

from hypermask import experiments, items, results
from hypermask.errors import HyperMaskError
from hypermask.results import gather, report, verdict

NAME = "split_mnist/hypermask-t"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    write_record(tmp_path / "records", NAME, 1)
    write_record(tmp_path / "records", NAME, 2, status="diverged")
    write_record(tmp_path / "runs", NAME, 3)
    return tmp_path


def seeds(records) -> list[int]:
    return [record.seed for record in records]


def test_recorded_reads_the_committed_records_alone(root):
    runs = gather("fig10")[NAME]
    assert (seeds(runs.records), seeds(runs.own), seeds(runs.unfinished)) == ([1], [], [2])
    assert runs.missing_seeds == (2, 3, 4, 5)
    assert runs.command == f"hypermask run {NAME} --seed 2 3 4 5"


def test_own_runs_come_on_request_and_apart(root):
    runs = gather("fig10", own_runs=True)[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([1], [3])


def test_an_experiment_of_a_later_version_is_not_run_and_offers_no_command(root, monkeypatch):
    monkeypatch.delitem(experiments.EXPERIMENTS, "split_mnist/hnet")
    runs = gather("fig06")["split_mnist/hnet"]
    assert (runs.available, runs.records, runs.command) == (False, (), "")
    assert report([runs]) == "split_mnist/hnet: not run; this version has no such experiment yet"


def test_report_names_what_is_there_left_out_and_missing(root):
    assert report(gather("fig06", own_runs=True).values()).splitlines() == [
        f"{NAME}: 1 of 5 needed runs (seeds shown: 1)",
        "  seed 2 is left out: diverged",
        "  your own runs: seeds 3",
        f"  missing; to make them: hypermask run {NAME} --seed 2 3 4 5",
        "split_mnist/hnet: 0 of 5 needed runs (seeds shown: none)",
        "  missing; to make them: hypermask run split_mnist/hnet --seed 1 2 3 4 5",
    ]


def test_verdict(root):
    runs = gather("fig06")
    ours, hnet = runs[NAME], runs["split_mnist/hnet"]
    assert verdict("A", [ours], lambda records: len(records) == 1) == f"A: supported by our records ({NAME}, n = 1)."
    assert verdict("B", [ours], lambda records: False).startswith("B: not supported by our records")
    assert verdict("C", [ours, hnet], lambda *_: True) == "C: cannot say, split_mnist/hnet not run."


def test_unknown_profile_or_item_is_one_sentence(root):
    with pytest.raises(HyperMaskError, match="unknown profile 'full'; expected recorded, paper, smoke"):
        gather("fig10", "full")
    with pytest.raises(HyperMaskError, match="unknown item 'fig99'"):
        gather("fig99")


def test_smoke_trains_the_stand_in_once_and_reads_it_again(root):
    runs = gather("fig10", "smoke")[NAME]
    assert seeds(runs.records) == [1, 2]
    assert runs.missing_seeds == ()
    assert {record.config_hash for record in runs.records} == {experiments.smoke(NAME).config.hash}
    assert all(record.path.is_relative_to(root / "build/smoke/runs") for record in runs.records)
    again = gather("fig10", "smoke")[NAME]
    assert [r.content_sha256 for r in again.records] == [r.content_sha256 for r in runs.records]


def test_paper_trains_what_neither_records_nor_runs_hold(root, monkeypatch):
    # The stand-in takes the full experiment's place: the way of the data is the same, the minutes are not.
    stand_in = experiments.smoke(NAME)
    monkeypatch.setitem(experiments.EXPERIMENTS, NAME, stand_in)
    needed = items.Item("fig10", "title", "notebook", (items.Need(NAME, (1, 2)),), None, "fig10_stem")
    monkeypatch.setattr(results.items, "get", lambda item: needed)
    write_record_of(stand_in, root / "records", 1)
    runs = gather("fig10", "paper")[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([1], [2])
    assert runs.own[0].path.is_relative_to(root / "runs")


def write_record_of(experiment, root, seed):
    from hypermask.training import run_experiment

    run_experiment(experiment, seed, device="cpu", root=root)

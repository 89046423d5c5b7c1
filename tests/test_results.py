import threading

import pytest
from payloads import logits, payload, write_record

from hypermask import experiments, items, records, results, training
from hypermask.errors import HyperMaskError
from hypermask.files import locked
from hypermask.results import gather, report, report_settings

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
    # Seed 2 diverged, and would again.
    assert runs.command == f"hypermask run {NAME} --infer ent fecam --seed 3 4 5"


def test_own_runs_come_on_request_and_apart(root):
    runs = gather("fig10", own_runs=True)[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([1], [3])


def test_report_names_what_is_there_left_out_and_missing(root):
    write_record(root / "runs", NAME, 4, status="diverged")
    assert report(gather("fig06", own_runs=True).values()).splitlines() == [
        f"{NAME}: 1 of 5 needed runs (seeds there: 1)",
        "  seed 2 is left out: diverged",
        "  your own runs: seeds 3",
        "  your own seed 4 is left out: diverged",
        f"  missing; to make them: hypermask run {NAME} --infer ent fecam --seed 3 4 5",
        "split_mnist/hnet: 0 of 5 needed runs (seeds there: none)",
        "  your own runs: none",
        "  missing; to make them: hypermask run split_mnist/hnet --infer ent --seed 1 2 3 4 5",
    ]


def test_a_number_of_runs_in_words(root):
    assert [results.counted(n) for n in (1, 2)] == ["one run", "n = 2"]
    for seed in (3, 9):
        write_record(root / "records", NAME, seed)
    assert gather("fig10")[NAME].count == "3 of 6 runs"
    for seed in (1, 2, 3, 4, 5):
        write_record(root / "records", "split_mnist/hnet", seed)
    assert gather("fig06")["split_mnist/hnet"].count == "n = 5"


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
    needed = items.Item("fig10", "title", "claim", "notebook", (items.Need(NAME, (1, 2)),), None, "fig10_stem")
    monkeypatch.setattr(results.items, "get", lambda item: needed)
    write_record_of(stand_in, root / "records", 1)
    runs = gather("fig10", "paper")[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([1], [2])
    assert runs.own[0].path.is_relative_to(root / "runs")


def test_ones_own_runs_with_changed_values_are_shown_beside_ours(root):
    write_record(root / "runs", NAME, 1, 98.0, overrides=["p=70"])
    write_record(root / "runs", NAME, 4, 98.0, overrides=["p=70"])
    runs = gather("fig06", changes="p=70")
    ours = runs[NAME]
    assert (seeds(ours.records), seeds(ours.own)) == ([1], [1, 4])
    assert all(record.payload["overrides"] == ["p=70"] for record in ours.own)
    assert "  your own runs [p=70]: seeds 1, 4" in report([ours]).splitlines()
    assert runs["split_mnist/hnet"].changed is None, "HNET has no such value"
    assert seeds(gather("fig06", changes="p=70", seeds=[4])[NAME].own) == [4]
    assert seeds(gather("fig06", own_runs=True)[NAME].own) == [3]


def test_changed_runs_that_are_not_there_have_their_command(root):
    missing = report([gather("fig06", changes="p=70 beta=0.01", seeds=[1])[NAME]]).splitlines()
    assert (
        f"  your own runs [p=70 beta=0.01]: none; to make them: hypermask run {NAME} --set beta=0.01 p=70 --seed 1"
        in (missing)
    )


def test_own_runs_that_are_asked_for_and_not_there_are_said_to_be_none(root):
    asked = report(gather("fig06", own_runs=True, seeds=[9]).values()).splitlines()
    assert asked.count("  your own runs: none") == 2
    assert "none" not in report([gather("fig10")[NAME]])


def test_seeds_alone_show_nothing_and_are_refused(root):
    with pytest.raises(HyperMaskError, match=r"^seeds = \[7\] chooses among your own runs, which are not shown;"):
        gather("fig10", seeds=[7])


def test_a_change_that_one_experiment_cannot_have_names_it(root):
    with pytest.raises(HyperMaskError, match=r"^changes do not suit split_cifar100/hypermask-f: target_hidden is"):
        gather("table01", changes="target_hidden=100,100")


def test_changes_leave_the_settings_that_an_item_compares(root):
    runs = gather("fig15", changes="batch_size=32")
    assert [label for label, group in runs.items() if group.changed] == [NAME]
    with pytest.raises(HyperMaskError, match="table10 shows settings of its own alone, so 'p=5' has nothing to change"):
        gather("table10", changes="p=5")
    with pytest.raises(HyperMaskError, match="unknown key 'q' in 'q=5'"):
        gather("fig10", changes="q=5")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seeds": 1}, "seeds is 1; expected a list of different whole numbers such as [1, 2]."),
        ({"seeds": "1 2"}, "seeds is '1 2'; expected a list of different whole numbers such as [1, 2]."),
        ({"seeds": [-1]}, "seeds is [-1]; expected a list of different whole numbers such as [1, 2]."),
        ({"seeds": [1, 1]}, "seeds is [1, 1]; expected a list of different whole numbers such as [1, 2]."),
        ({"seeds": [1.0]}, "seeds is [1.0]; expected a list of different whole numbers such as [1, 2]."),
        ({"changes": ["p=70"]}, "changes is ['p=70']; expected text such as \"p=70 beta=0.01\"."),
        (
            {"changes": "p=70 tasks=3"},
            "a figure or table shows runs of equally many tasks; use `hypermask run --set tasks=...`.",
        ),
    ],
)
def test_parameters_of_another_kind_are_one_sentence(root, wrong, sentence):
    with pytest.raises(HyperMaskError) as caught:
        gather("fig10", **wrong)
    assert str(caught.value) == sentence


def test_the_named_value_is_no_change(root):
    assert gather("fig10", changes="p=30")[NAME].changed is None


def test_paper_trains_the_changed_runs_in_place_of_the_named_ones(root, monkeypatch):
    stand_in = experiments.smoke(NAME)
    monkeypatch.setitem(experiments.EXPERIMENTS, NAME, stand_in)
    runs = gather("fig10", "paper", changes="p=70", seeds=[2])[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([], [2])
    assert runs.own[0].config_hash == stand_in.override(["p=70"]).config.hash


def test_paper_trains_a_changed_run_of_a_seed_that_is_shipped_unchanged_and_leaves_a_diverged_one(root, monkeypatch):
    asked = []
    monkeypatch.setattr(
        training, "run_experiment", lambda experiment, seed, **_: asked.append((experiment.overrides, seed))
    )
    write_record(root / "runs", NAME, 4, status="diverged", overrides=["p=70"])
    gather("fig10", "paper", changes="p=70", seeds=[1, 4])
    assert asked == [(("p=70",), 1)]


def test_smoke_trains_a_stand_in_of_changed_runs_as_well(root):
    runs = gather("fig10", "smoke", changes="p=70", seeds=[7])[NAME]
    assert (seeds(runs.records), seeds(runs.own)) == ([1, 2], [7])
    assert runs.own[0].config["method"]["p"] == 70
    with pytest.raises(HyperMaskError, match=r"seeds = \[7\] chooses among your own runs, and in the smoke profile"):
        gather("fig10", "smoke", seeds=[7])


def test_smoke_trains_the_seeds_of_an_item_that_shows_single_runs(root, monkeypatch):
    trained = []
    monkeypatch.setattr(training, "run_experiment", lambda experiment, seed, **_: trained.append(seed))
    gather("fig04", "smoke")
    assert trained == [5, 5]
    gather("fig04", "smoke", changes="p=50", seeds=[5])
    assert trained[2:] == [5, 5] * 2


def write_record_of(experiment, root, seed):
    from hypermask.training import run_experiment

    run_experiment(experiment, seed, device="cpu", root=root)


def test_changed_settings_are_groups_of_their_own_with_their_command(root):
    write_record(root / "records", NAME, 2, overrides=["beta=0.01"])
    runs = gather("fig15")
    assert list(runs)[:2] == [NAME, f"{NAME} [embedding_size=24]"]
    changed = runs[f"{NAME} [beta=0.01]"]
    assert (changed.name, changed.label, seeds(changed.records)) == (NAME, f"{NAME} [beta=0.01]", [2])
    assert changed.command == f"hypermask run {NAME} --set beta=0.01 --seed 1"
    # Of the named one seed 2 diverged.
    assert runs[NAME].command == ""
    assert report([changed]).splitlines()[0] == f"{NAME} [beta=0.01]: 1 of 2 needed runs (seeds there: 2)"


def test_compared_settings_are_shown_with_the_needed_seeds_alone(root):
    for seed in (3, 4):
        write_record(root / "records", NAME, seed)
    assert seeds(gather("fig10")[NAME].records) == [1, 3, 4]
    assert seeds(gather("fig15")[NAME].records) == [1]
    assert seeds(gather("fig10")[NAME].only([4]).records) == [4]


def test_a_record_without_the_needed_part_is_missing_and_its_command_asks_for_it(root):
    inferred = {"ent": {"released-code": {"class_accuracy": [60.0], "task_accuracy": [61.0], "confusion": [[1]]}}}
    write_record(root / "records", NAME, 3, inference=inferred)
    runs = gather("table02")[NAME]
    assert (seeds(runs.records), seeds(runs.unfinished)) == ([3], [2])
    assert runs.command == f"hypermask run {NAME} --infer ent fecam --seed 1 3 4 5"
    write_record(root / "records", NAME, 4, inference=inferred | {"fecam": inferred["ent"]})
    assert gather("table02")[NAME].missing_seeds == (1, 2, 3, 5)
    hnet = gather("table02")["split_mnist/hnet"]
    assert hnet.command == "hypermask run split_mnist/hnet --infer ent --seed 1 2 3 4 5"


def test_a_record_whose_logits_are_damaged_is_missing_where_they_are_needed(root):
    path = records.write(payload(NAME, 1), logits(), root / "runs")
    assert seeds(gather("fig14", own_runs=True)[NAME].own) == [1]
    path.with_suffix(".npz").write_bytes(b"PK")
    with pytest.warns(
        UserWarning, match=r"seed1\.npz is not the file its record names \(SHA-256 differs\); restore it, or"
    ):
        assert seeds(gather("fig14", own_runs=True)[NAME].own) == []
    assert seeds(gather("fig10", own_runs=True)[NAME].own) == [1, 3]


def test_smoke_trains_one_changed_setting_of_an_experiment_and_names_the_others(root):
    runs = gather("fig15", "smoke")
    trained = {label: seeds(group.records) for label, group in runs.items() if group.records}
    assert trained == {NAME: [1], f"{NAME} [embedding_size=24]": [1]}
    changed = runs[f"{NAME} [embedding_size=24]"].records[0]
    assert changed.config["method"]["embedding_size"] == 24
    assert changed.config_hash == experiments.smoke(NAME).override(["embedding_size=24"]).config.hash
    assert report([runs[f"{NAME} [p=70]"]]) == f"{NAME} [p=70]: not run in this profile"


def test_smoke_infers_where_it_is_needed_also_in_a_run_that_is_there(root):
    without = gather("fig10", "smoke")[NAME].records[0]
    assert without.payload["inference"] is None
    need = items.Need(NAME, (1,), part="inference")
    item = items.Item("table02", "title", "claim", "notebook", (need,), None, "stem")
    found = results._smoke(item, need, need, (), "cpu").records[0]
    assert set(found.payload["inference"]) == {"ent", "fecam"}
    assert found.path == without.path
    assert (found.accuracy[-1] == without.accuracy[-1]).all()


def test_what_one_item_trains_has_what_the_others_need(root, monkeypatch):
    asked = []

    def run(experiment, seed, *, root, infer, **_):
        asked.append((experiment.name, seed))
        values = {"class_accuracy": [60.0] * 5, "task_accuracy": [61.0] * 5, "confusion": []}
        inference = {name: {"released-code": values} for name in infer}
        written = payload(experiment.name, seed, inference=inference, overrides=list(experiment.overrides))
        records.write(written, None, root, overwrite=True)

    monkeypatch.setattr(training, "run_experiment", run)
    gather("fig10", "paper")
    assert asked == [(NAME, 4), (NAME, 5)]
    gather("table02", "paper")
    # Seeds 1 and 3 were there before, without what table 2 reads.
    assert [seed for name, seed in asked if name == NAME] == [4, 5, 1, 3]
    asked.clear()
    gather("fig06", "paper")
    assert asked == []


def test_figures_of_single_runs_refuse_seeds_that_they_do_not_show(root):
    for item, seeds, shown in (("fig04", [1], "5"), ("fig11", [6], "1, 2, 3, 4, 5")):
        with pytest.raises(HyperMaskError) as caught:
            gather(item, "paper", seeds=seeds)
        assert str(caught.value) == (
            f"{item} shows single runs, of seed {shown}; others, as of seeds = {seeds}, have no place in it: leave "
            "seeds empty or choose among those."
        )
    assert gather("fig11", own_runs=True, seeds=[2])["tiny_imagenet/hypermask-t"].records == ()


@pytest.mark.parametrize("changes", ["target_hidden=1000", "trainable_target=false"])
def test_changes_that_leave_no_distances_are_refused_before_the_training(root, changes):
    with pytest.raises(HyperMaskError, match=rf"^changes = '{changes}' leave no distances to show: expected a train"):
        gather("table06", "paper", changes=changes)


def test_report_names_what_a_run_was_not_asked_to_infer(root):
    readings = {"class_accuracy": [90.0] * 10, "task_accuracy": [90.0] * 10, "confusion": []}
    for seed, procedures in ((1, ["ent"]), (2, ["ent", "fecam"]), (9, ["ent"])):
        inferred = {name: {"released-code": readings} for name in procedures}
        write_record(root / "records", "permuted_mnist_10/hypermask-t", seed, inference=inferred)
    lines = report([gather("table02")["permuted_mnist_10/hypermask-t"]]).splitlines()
    assert lines == [
        "permuted_mnist_10/hypermask-t: 1 of 5 needed runs (seeds there: 1, 2)",
        "  seed 1 is there without fecam",
        "  missing; to make them: hypermask run permuted_mnist_10/hypermask-t --infer ent fecam --seed 1 3 4 5",
    ]


def test_report_of_many_settings(root):
    write_record(root / "records", NAME, 1, overrides=["p=70"])
    write_record(root / "runs", NAME, 1, overrides=["p=0"])
    assert report_settings("fig15", gather("fig15", own_runs=True).values()).splitlines() == [
        f"{NAME}: 2 of 12 settings run",
        f"  {NAME} seed 2 is left out: diverged",
        "  settings with your own runs: 1",
        f"  missing; to make the first: hypermask run {NAME} --set embedding_size=24 --seed 1 2",
        "  to list them all: hypermask sweep fig15 --dry-run",
    ]


def test_notebooks_side_by_side_train_one_after_the_other_and_say_so(root, capsys, monkeypatch):
    stand_in = experiments.smoke(NAME)
    monkeypatch.setitem(experiments.EXPERIMENTS, NAME, stand_in)
    needed = items.Item("fig10", "title", "claim", "notebook", (items.Need(NAME, (1,)),), None, "fig10_stem")
    monkeypatch.setattr(results.items, "get", lambda item: needed)
    monkeypatch.setenv("HYPERMASK_PROGRESS", "on")
    seen = []
    waiting = threading.Thread(target=lambda: seen.append(gather("fig10", "paper")))
    with locked(root / "runs" / ".split_mnist-hypermask-t.lock"):
        waiting.start()
        printed = ""
        while waiting.is_alive() and not printed:
            waiting.join(0.1)
            printed = capsys.readouterr().err
        assert printed == f"waits for another process, which trains {NAME}\n"
        # What the other process has trained by then is not trained again.
        write_record_of(stand_in, root / "runs", 1)
        written = (root / "runs").rglob("seed1.json")
        before = [path.stat().st_mtime_ns for path in written]
    waiting.join(30)
    assert seeds(seen[0][NAME].own) == [1]
    assert [path.stat().st_mtime_ns for path in (root / "runs").rglob("seed1.json")] == before

"""Methods beside each other: which runs belong together, what is averaged, what is subtracted."""

import numpy as np
import pytest
from payloads import payload

from hypermask import comparison, files, paths, records
from hypermask.errors import HyperMaskError
from hypermask.printed_and_ours import BATCH_NOTE

T, F = "split_mnist/hypermask-t", "split_mnist/hypermask-f"
MINE = "split_mnist/mine"
# The 97.5 % quantile of Student's t with one degree of freedom.
T_OF_TWO = 12.7062


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    return tmp_path


def ours(experiment: str, seed: int, last: float, **changes) -> None:
    records.write(payload(experiment, seed, final=[last] * 5, **changes), None, paths.records())


def mine(seed: int, last: float, name: str = MINE, version: str = "a", **changes) -> str:
    """A run as `train` writes it, below runs/; returns the hash of its configuration."""
    tasks = changes.pop("tasks", 5)
    benchmark = changes.pop("benchmark", "split_mnist")
    made_up = payload(seed=seed, final=[last] * 5)
    config = {
        "benchmark": {"name": benchmark, "tasks": tasks, "data": "3" * 64, **changes.pop("prepared", {})},
        "method": {"name": "Mine", "version": version},
        "training": made_up["config"]["training"] | {"iterations": 500},
    }
    digest = files.sha256(files.canonical_json(config))
    cut = {key: made_up[key][:tasks] for key in ("task_seconds", "evaluation_seconds", "peak_memory_mb", "validation")}
    whole = {
        **{"experiment": name, "config": config, "config_hash": digest, "target_distance": None},
        **{"accuracy": [row[:tasks] for row in made_up["accuracy"][:tasks]]},
    }
    if tasks < 5:
        whole["accuracy"][-1] = [last] * tasks
    records.write(made_up | cut | whole | changes, None, paths.runs())
    return digest[:12]


def row(table, experiment: str, **values):
    """The one row of the numbers with this experiment and these values."""
    frame = table.frame[table.frame["experiment"] == experiment]
    for column, value in values.items():
        frame = frame[frame[column] == value]
    (found,) = frame.to_dict("records")
    return found


def test_means_intervals_and_differences_over_shared_seeds():
    for seed, last in ((1, 99.0), (2, 97.0), (3, 50.0)):
        ours(T, seed, last)
    for seed, last in ((1, 96.0), (2, 95.0), (7, 10.0)):
        mine(seed, last)
    table = comparison.methods("split_mnist")
    found = row(table, MINE)
    assert (found["whose"], found["runs"], found["pairs"]) == ("yours", 3, 2)
    assert found["accuracy_mean"] == pytest.approx(67.0)
    # Seeds 1 and 2: -3 and -2, whose standard error is 0.5; seeds 3 and 7 have no partner.
    assert found["difference_mean"] == pytest.approx(-2.5)
    assert found["difference_t95"] == pytest.approx(T_OF_TWO * 0.5, rel=1e-5)
    assert found["bwt_mean"] == pytest.approx(67.0 - np.mean([90, 91, 92, 93]))
    assert found["validation_mean"] == pytest.approx(99.0)
    assert found["minutes_mean"] == pytest.approx(5 * 60.5 / 60)
    assert found["training"] == "500 x 128"
    assert found["devices"] == "Test CPU, 2 threads"
    base = row(table, T)
    assert (base["whose"], base["pairs"], base["paper_mean"]) == ("ours", 0, 99.64)
    assert np.isnan(base["difference_mean"])
    assert base["paper_source"] == "run by the authors"
    cells = table.body[list(table.frame["experiment"]).index(MINE)]
    assert cells[:5] == ("mine", "–", "yours", "500 x 128", "3")
    assert cells[6:8] == ("67.00 ± 122.63", "-2.50 ± 6.35 (2)")


def test_pairs_whose_draws_were_others_are_compared_and_told_of():
    ours(T, 1, 99.0, data={"train": "0" * 64, "permutations": ["1" * 64]})
    ours(T, 2, 99.0, data={"train": "0" * 64, "permutations": ["2" * 64]})
    for seed in (1, 2):
        mine(seed, 97.0, data={"train": "0" * 64, "permutations": ["1" * 64]})
    table = comparison.methods("split_mnist")
    assert (row(table, MINE)["difference_mean"], row(table, MINE)["pairs"]) == (pytest.approx(-2.0), 2)
    assert [note for note in table.notes if "permutations" in note] == [
        f"{MINE} (yours) had other permutations than {T} with the same seed: 2."
    ]


def test_what_the_paper_quotes_is_marked():
    ours(T, 1, 99.0)
    ours("split_mnist/hnet", 1, 99.0)
    table = comparison.methods("split_mnist")
    assert [cells[5] for cells in table.body] == ["99.79 ± 0.01, quoted", "99.64 ± 0.07"]
    assert row(table, "split_mnist/hnet")["paper_source"] == "quoted"


def test_rows_are_in_the_order_of_their_names_whatever_they_reach():
    ours(T, 1, 99.0)
    ours(T, 1, 99.9, overrides=["p=70"])
    ours(F, 1, 98.0)
    mine(1, 99.5)
    assert [cells[:3] for cells in comparison.methods("split_mnist").body] == [
        ("hypermask-f", "–", "ours"),
        ("hypermask-t", "–", "ours"),
        ("hypermask-t", "p=70", "ours"),
        ("mine", "–", "yours"),
    ]


def test_a_setting_is_what_differs_from_the_name_today_whatever_the_record_calls_it():
    stem = payload("split_cifar100/hypermask-t", overrides=["target_stem=conv3-pool"])
    for made_up in (stem | {"overrides": []}, payload("split_cifar100/hypermask-t", seed=2)):
        records.write(made_up, None, paths.records())
    table = comparison.methods("split_cifar100")
    assert [cells[:2] for cells in table.body] == [("hypermask-t", "–"), ("hypermask-t", "target_stem=conv3-pool")]
    assert BATCH_NOTE in table.notes
    ours(T, 1, 99.0)
    assert BATCH_NOTE not in comparison.methods("split_mnist").notes


def test_own_runs_of_an_experiment_stand_apart_from_ours():
    ours(T, 1, 99.0)
    records.write(payload(T, 1, final=[95.0] * 5), None, paths.runs())
    table = comparison.methods("split_mnist")
    assert row(table, T, whose="ours")["accuracy_mean"] == pytest.approx(99.0)
    yours = row(table, T, whose="yours")
    assert (yours["accuracy_mean"], yours["difference_mean"]) == (pytest.approx(95.0), pytest.approx(-4.0))


def test_two_versions_of_a_method_are_two_rows_told_apart_by_their_hash():
    first, second = mine(1, 90.0), mine(2, 80.0, version="b")
    table = comparison.methods("split_mnist")
    assert sorted(cells[1] for cells in table.body) == sorted([first, second])
    assert list(table.frame["runs"]) == [1, 1]


def test_another_configuration_under_a_papers_name_has_no_printed_value_and_is_not_what_others_are_compared_with():
    ours(T, 1, 99.0)
    mine(1, 50.0, name=T)
    table = comparison.methods("split_mnist")
    assert np.isnan(row(table, T, whose="yours")["paper_mean"])
    assert row(table, T, whose="yours")["difference_mean"] == pytest.approx(-49.0)
    assert row(table, T, whose="ours")["paper_mean"] == 99.64


def test_runs_under_another_name_on_the_same_tasks_are_found():
    ours(T, 1, 99.0)
    mine(1, 97.0, name="digits/other")
    table = comparison.methods("split_mnist")
    assert row(table, "digits/other")["difference_mean"] == pytest.approx(-2.0)
    assert [cells[0] for cells in table.body] == ["digits/other", "hypermask-t"]


@pytest.mark.parametrize(
    "other", [{"tasks": 2}, {"benchmark": "split_digits"}, {"data": {"train": "4" * 64}}], ids=lambda other: str(other)
)
def test_other_tasks_or_data_are_left_out_and_named(other):
    ours(T, 1, 99.0)
    mine(1, 97.0, **other)
    table = comparison.methods("split_mnist")
    assert list(table.frame["experiment"]) == [T]
    tasks = other.get("tasks", 5)
    assert table.notes[-1] == f"Left out, as their tasks or their data are others: {MINE} ({tasks} tasks)."


def test_one_task_has_no_backward_transfer():
    mine(1, 97.0, tasks=1)
    found = row(comparison.methods("split_mnist"), MINE)
    assert found["accuracy_mean"] == pytest.approx(97.0)
    assert np.isnan(found["bwt_mean"])


def test_diverged_runs_are_named_and_in_no_mean():
    ours(T, 1, 99.0)
    mine(1, 97.0)
    mine(2, 10.0, status="diverged")
    mine(4, 1.0, name="split_mnist/bad", status="diverged")
    table = comparison.methods("split_mnist")
    found = row(table, MINE)
    assert (found["runs"], found["diverged"], found["accuracy_mean"]) == (1, 1, pytest.approx(97.0))
    bad = table.body[list(table.frame["experiment"]).index("split_mnist/bad")]
    assert bad[4:] == ("0", *["–"] * 7)
    assert f"{MINE} (yours): diverged, and in no mean: seed 2." in table.notes
    assert "split_mnist/bad (yours): diverged, and in no mean: seed 4." in table.notes


def test_runs_from_an_unclean_tree_are_named():
    environment = payload()["environment"]
    mine(1, 97.0, environment=environment | {"dirty": True})
    mine(2, 97.0, environment=environment | {"dirty": None})
    mine(3, 97.0)
    notes = comparison.methods("split_mnist").notes
    assert notes[-1] == f"{MINE} (yours): from an unclean tree or an unknown revision: seed 1, 2."


def test_a_measure_that_one_run_lacks_is_none_of_the_row():
    ours(T, 1, 99.0)
    ours(T, 2, 99.0, validation=[{"iteration": [], "loss": [], "accuracy": []}] * 5)
    assert np.isnan(row(comparison.methods("split_mnist"), T)["validation_mean"])


def test_images_that_were_prepared_otherwise_are_told():
    ours(T, 1, 99.0)
    mine(1, 97.0)
    assert comparison.methods("split_mnist").notes[-1].startswith("Minutes")
    mine(1, 97.0, name="split_mnist/plain", prepared={"augment": False, "validation": 1000, "normalise": False})
    notes = comparison.methods("split_mnist").notes
    # Records from before there was a choice do not tell that images were normalised.
    assert notes[-1] == (
        f"split_mnist/plain (yours) had other images than {T}: augment False instead of True, "
        "normalise False instead of True."
    )


def test_a_class_of_ones_own_under_the_benchmarks_name_is_told():
    ours(T, 1, 99.0)
    mine(1, 97.0, prepared={"class": "Noisy"})
    notes = comparison.methods("split_mnist").notes
    assert notes[-1] == f"{MINE} (yours) had other images than {T}: made by Noisy."


def test_devices_get_letters_where_there_are_several():
    ours(T, 1, 99.0)
    assert "(on Test CPU, 2 threads)" in comparison.methods("split_mnist").notes[-1]
    mine(1, 97.0, environment=payload()["environment"] | {"device_name": "Another CPU", "threads": 1})
    table = comparison.methods("split_mnist")
    assert [cells[-1] for cells in table.body] == ["5.0 b", "5.0 a"]
    assert "(a: Another CPU, 1 thread; b: Test CPU, 2 threads)" in table.notes[-1]


def test_the_inferred_task_is_read_where_no_batch_gives_it_away():
    def inference(value: float) -> dict:
        readings = {"shuffled": value, "released-code": 99.0}
        shown = {name: {"class_accuracy": [100.0, given], "task_accuracy": []} for name, given in readings.items()}
        return {"ent": shown, "environment": {"dirty": False}}

    ours(T, 1, 99.0, inference=inference(50.0))
    ours(T, 2, 99.0, inference=inference(60.0))
    assert comparison.methods("split_mnist").body[0][10] == "ent 55.00"
    ours(T, 3, 99.0)
    assert comparison.methods("split_mnist").body[0][10] == "ent 55.00 (n = 2)"


def test_against_another_experiment_or_one_of_its_configurations():
    ours(T, 1, 99.0)
    first = mine(1, 97.0)
    table = comparison.methods("split_mnist", against=MINE)
    assert row(table, T)["difference_mean"] == pytest.approx(2.0)
    second = mine(1, 90.0, version="b")
    both = ", ".join(f"{MINE}/{digest}" for digest in sorted([first, second]))
    with pytest.raises(HyperMaskError) as caught:
        comparison.methods("split_mnist", against=MINE)
    assert str(caught.value) == f"{MINE} has several configurations; name one of them: {both}."
    table = comparison.methods("split_mnist", against=f"{MINE}/{second}")
    assert row(table, T)["difference_mean"] == pytest.approx(9.0)


def test_what_cannot_be_compared_is_one_sentence():
    def refusal(*arguments) -> str:
        with pytest.raises(HyperMaskError) as caught:
            comparison.methods(*arguments)
        return str(caught.value)

    assert refusal("split_mnist") == "no method has run on 'split_mnist' yet; there are runs on: none."
    ours(T, 1, 99.0)
    assert refusal("mnist") == "no method has run on 'mnist' yet; there are runs on: split_mnist."
    assert refusal("split_mnist", F) == f"{F} has no finished run on split_mnist; there are: {T}."


def test_without_runs_of_the_default_there_are_no_differences():
    mine(1, 97.0)
    table = comparison.methods("split_mnist")
    assert table.frame["pairs"].sum() == 0
    assert not any(note.startswith("Difference") for note in table.notes)


def test_the_committed_runs_are_all_there(project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    table = comparison.methods("split_mnist", roots=[paths.records()])
    assert table.frame["runs"].sum() == len(list(paths.records().glob("split_mnist/*/*/seed*.json")))
    assert set(table.frame["whose"]) == {"ours"}
    printed = table.frame.dropna(subset="paper_mean")
    assert list(printed["experiment"]) == ["split_mnist/hnet", F, T]
    assert list(printed["setting"]) == [""] * 3

import pytest
from payloads import write_record

from hypermask import paper, unknown_task
from hypermask.results import gather

CIFAR = "split_cifar100_5x20/hypermask-f"
OVERALL = "mean overall accuracy"
NAMES = ("ENT", "FeCAM")


def reading(class_accuracy, task_accuracy):
    return {"class_accuracy": class_accuracy, "task_accuracy": task_accuracy, "confusion": [[1] * 5] * 5}


def inferred(last, mixed):
    """ENT and FeCAM alike: Acc_5 is `last` in batches of one task, `mixed` in mixed ones; the task 10 points above."""
    readings = {
        "after-task": reading([92.0, 82.0, 72.0, 67.0, last], [95.0, 90.0, 80.0, 75.0, last + 10]),
        "released-code": reading([90.0, 80.0, 70.0, 65.0, last], [95.0, 90.0, 80.0, 75.0, last + 10]),
        "shuffled": reading([80.0, 60.0, 50.0, 45.0, mixed], [85.0, 70.0, 60.0, 55.0, mixed + 10]),
    }
    return {"ent": readings, "fecam": readings, "environment": {"device": "cpu"}}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    for seed, last in ((1, 55.0), (2, 56.0)):
        write_record(tmp_path / "records", CIFAR, seed, 65, inference=inferred(last, 40.0))
    write_record(tmp_path / "records", CIFAR, 1, 65, inference=inferred(43.0, 43.0), overrides=["batch_stats=task"])
    write_record(tmp_path / "records", CIFAR, 3, 65)
    return gather("table02")


def row(table, **wanted):
    frame = table.frame
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_every_printed_value_is_there_and_what_has_no_run_says_so(runs):
    table = unknown_task.table(runs)
    assert table.frame.paper_mean.notna().sum() == len(paper.unknown_task_rows())
    assert row(table, method="HyperMask+FeCAM", benchmark="split_mnist").status == "not run"
    assert row(table, method="DGR", benchmark="split_mnist").status == ""
    assert set(table.frame[table.frame.method == "FeTrIL"].status) == {"not run"}


def test_readings_stand_side_by_side(runs):
    table = unknown_task.table(runs)
    last = row(table, method="HyperMask+FeCAM", target="fixed", aggregate="5 runs", metric="last task accuracy")
    assert (last.released_code_mean, last.after_task_mean, last.shuffled_mean) == (55.5, 55.5, 40.0)
    assert (last.task_statistics_mean, last.runs) == (43.0, 2)
    assert last.difference == pytest.approx(55.5 - 55.6)
    assert last.status == "within spread"
    average = row(table, method="HyperMask+FeCAM", target="fixed", aggregate="5 runs", metric="average task accuracy")
    assert average.released_code_mean == pytest.approx((90 + 80 + 70 + 65 + 55.5) / 5)
    # Task statistics: of the final networks too.
    assert average.task_statistics_mean == pytest.approx((90 + 80 + 70 + 65 + 43) / 5)
    assert average.after_task_mean == pytest.approx((92 + 82 + 72 + 67 + 55.5) / 5)


def test_the_best_run_stands_beside_the_printed_best(runs):
    table = unknown_task.table(runs)
    best = row(table, method="HyperMask+ENT", target="fixed", aggregate="max", metric="last task accuracy")
    assert (best.released_code_mean, best.runs, best.status) == (56.0, 2, "no spread")


def test_a_quoted_value_is_compared_with_the_networks_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    found = {"fetril": inferred(46.0, 46.0)["ent"]}
    write_record(tmp_path / "records", "split_cifar100_5x20/fetril", 1, 65, inference=found)
    average = row(unknown_task.table(gather("table02")), method="FeTrIL", metric="average task accuracy")
    assert average.after_task_mean == pytest.approx((92 + 82 + 72 + 67 + 46) / 5)
    assert average.difference == pytest.approx(average.after_task_mean - 61.3)


def test_task_accuracy_is_apart_from_class_accuracy(runs):
    table = unknown_task.table(runs)
    identity = row(table, method="HyperMask+ENT", metric="last task identity")
    assert (identity.released_code_mean, identity.shuffled_mean, identity.status) == (65.5, 50.0, "not printed")
    assert identity[["paper_mean", "difference"]].isna().all()
    assert not table.frame[table.frame.benchmark == "split_mnist"].metric.str.contains("identity").any()


def test_what_batches_of_one_task_are_worth_in_words(runs):
    lines = unknown_task.task_given_away(runs).splitlines()
    assert lines[0] == "HyperMask+ENT, T, Permuted MNIST, 10 tasks: cannot say, permuted_mnist_10/hypermask-t not run."
    assert lines[4] == (
        "HyperMask+ENT, F, Split CIFAR-100, 5 x 20: 55.50 % in batches of one task, 40.00 % in mixed batches, so 15.50 "
        "points come from batches that give the task away (task right: 65.50 % and 50.00 %; n = 2)."
    )


def test_a_record_with_one_procedure_shows_it_and_leaves_the_other_as_not_run(runs, tmp_path):
    entropy = {"ent": inferred(42.0, 30.0)["ent"], "environment": {"device": "cpu"}}
    write_record(tmp_path / "records", "permuted_mnist_10/hypermask-t", 1, 97, inference=entropy)
    found = gather("table02")
    table = unknown_task.table(found)
    ent, fecam = (
        row(table, method=f"HyperMask+{name}", benchmark="permuted_mnist_10", metric=OVERALL) for name in NAMES
    )
    assert (ent.released_code_mean, ent.runs, ent.status) == (42.0, 1, "one run, outside spread")
    assert (fecam.runs, fecam.status) == (0, "not run")
    identity = table.frame[(table.frame.benchmark == "permuted_mnist_10") & (table.frame.metric == "task identity")]
    assert identity.method.tolist() == ["HyperMask+ENT"]
    lines = unknown_task.task_given_away(found).splitlines()
    assert lines[0].startswith("HyperMask+ENT, T, Permuted MNIST, 10 tasks: 42.00 % in batches of one task, 30.00 %")
    assert lines[0].endswith("; one run).")
    assert lines[1] == (
        "HyperMask+FeCAM, T, Permuted MNIST, 10 tasks: cannot say, permuted_mnist_10/hypermask-t not run with fecam."
    )
    group = found["permuted_mnist_10/hypermask-t"]
    assert unknown_task.class_accuracies(group.records, "ent", "shuffled", "last task accuracy") == {1: 30.0}
    assert unknown_task.class_accuracies(group.records, "fecam", "shuffled", "last task accuracy") == {}
    assert len(unknown_task.inferred(group, "ent").records) == 1
    assert unknown_task.inferred(group, "fecam").records == ()


def test_the_interval_stands_beside_and_a_sign_tells_where_the_printed_mean_is_outside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    for seed, last in enumerate((66.29, 62.33, 66.88, 54.0, 62.75), 1):
        found = {"ent": inferred(last, last)["ent"]}
        write_record(tmp_path / "records", "split_mnist/hnet", seed, inference=found)
    table = unknown_task.table(gather("table02"))
    hnet = next(cells for cells in table.body if cells[:4:3] == ("HNET+ENT", "quoted") and "Split MNIST" in cells)
    ours = row(table, method="HNET+ENT", benchmark="split_mnist", metric=OVERALL)
    named = dict(zip(table.head, hnet, strict=True))
    assert (named["Paper"], named["95 %"], named["Status"]) == (
        "69.48 ± 0.80",
        f"{ours.after_task_t95:.2f}",
        "within spread †",
    )
    assert ours.difference < -ours.after_task_t95
    assert ours.status == "within spread"
    assert any("†: although within spread, the printed mean lies outside" in note for note in table.notes)


def test_every_run_is_listed_by_its_seed(runs):
    lines = unknown_task.per_run(runs).splitlines()
    ours = [line.split() for line in lines if line.startswith(f"{CIFAR} ") and "batch_stats" not in line]
    assert [cells[:3] for cells in ours] == [[CIFAR, s, p] for s in ("1", "2") for p in ("ent", "fecam")]
    assert ours[0][3:] == ["55.000", "55.000", "40.000", "65.000", "65.000", "50.000"]
    assert any(line.split() == ["split_mnist/hnet", "not", "run"] for line in lines)


def test_the_three_forms(runs):
    table = unknown_task.table(runs)
    assert (
        "| HyperMask+ENT, fixed target | Split CIFAR-100, 5 x 20 | last task accuracy, best run |" in table.markdown()
    )
    assert r"\toprule" in table.latex()
    assert table.text().splitlines()[0] == "Table 2. Accuracy with unknown task identity, percent"


def test_own_runs_stay_apart(runs, tmp_path):
    write_record(tmp_path / "runs", CIFAR, 5, 65, inference=inferred(30.0, 20.0))
    beside = gather("table02", own_runs=True)
    wanted = {"method": "HyperMask+FeCAM", "target": "fixed", "aggregate": "5 runs", "metric": "last task accuracy"}
    found = row(unknown_task.table(beside), **wanted)
    assert (found.released_code_mean, found.runs) == (55.5, 2)
    assert (found.yours_mean, found.yours_runs) == (30.0, 1)
    assert "yours_mean" not in unknown_task.table(runs).frame
    lines = unknown_task.per_run(beside).splitlines()
    own = [line.split()[:4] for line in lines if "(yours)" in line]
    assert own == [[CIFAR, "(yours)", "5", "ent"], [CIFAR, "(yours)", "5", "fecam"]]

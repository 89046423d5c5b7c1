import numpy as np
import pytest
from payloads import write_record

from hypermask import ablations, paper
from hypermask.results import gather

PERMUTED = "permuted_mnist_10/hypermask-t"


def test_loss_components_pair_each_printed_row_with_its_setting(root):
    for seed in (1, 2):
        write_record(root / "records", PERMUTED, seed, 80.0, overrides=["beta=0.1", "lam=0"])
    table = ablations.loss_components(gather("table08"))
    assert table.head == ("beta", "lambda", "Paper", "Ours", "n", "Pop. sd", "95 %", "Difference", "Status")
    assert table.frame.beta.tolist() == [0.01, 0.1, 1, 0, 0, 0]
    assert table.frame["lambda"].tolist() == [0, 0, 0, 0.01, 0.1, 1]
    assert table.frame.status.tolist() == ["not run", "within spread", "not run", "not run", "not run", "not run"]
    assert table.body[1][:3] == ("0.1", "0", "80.31 ± 1.11")
    assert table.body[1][4] == "2"


def test_sparsity_has_the_main_setting_in_its_first_row_with_three_seeds(root):
    for seed in (1, 2, 3, 4, 5):
        write_record(root / "records", PERMUTED, seed, 97.5)
    table = ablations.sparsity(gather("table09"))
    assert table.frame.p.tolist() == [0, 15, 30, 50, 70]
    assert table.frame.runs.tolist() == [3, 0, 0, 0, 0]
    assert table.body[0][:2] == ("0", "97.551 ± 0.12")
    assert "97.66 ± 0.04 over five runs" in " ".join(table.notes)


def test_a_setting_printed_twice_is_one_row_with_both_values(root):
    setting = ["embedding_size=256", "hypernetwork_hidden=200,200", "beta=10", "p=30", "lam=0.1"]
    write_record(root / "records", "tiny_imagenet/hypermask-t", 1, 75.0, overrides=setting)
    runs = gather("table11")
    table = ablations.tiny_imagenet(runs, "trainable")
    assert (len(table.frame), len(paper.tiny_imagenet_ablation("trainable"))) == (52, 58)
    assert table.frame.paper_again_mean.notna().sum() == 6
    row = table.frame[table.frame.runs == 1].iloc[0]
    last = next(group.records[0] for group in runs.values() if group.records).accuracy[-1]
    assert (row.paper_mean, row.paper_again_mean) == (75.02, 74.33)
    assert row.ours_mean == pytest.approx(last.mean())
    assert row.ours_sd_over_tasks == pytest.approx(np.std(last))
    assert row.difference == pytest.approx(last.mean() - 75.02)
    assert row.difference_again == pytest.approx(last.mean() - 74.33)
    assert (row["lambda"], row.status) == (0.1, "no spread")
    body = next(cells for cells in table.body if cells[7] == "1")
    assert body[:6] == ("256", "200-200", "10", "30", "0.1", "75.02 ± 7.66 / 74.33 ± 8.06")
    assert ablations.TWICE_NOTE in table.notes


def test_the_main_setting_of_table_10_is_the_named_configuration(root):
    write_record(root / "records", "tiny_imagenet/hypermask-f", 1, 76.0)
    table = ablations.tiny_imagenet(gather("table10"), "fixed")
    assert (len(table.frame), table.frame.runs.sum()) == (68, 1)
    row = table.frame[table.frame.runs == 1].iloc[0]
    assert (row.embedding_size, row.hypernetwork_hidden, row.beta, row.p) == (256, "200-200", 1, 70)
    assert not {"lambda", "paper_again_mean"} & set(table.frame)
    assert r"\scriptsize" in table.latex()


@pytest.mark.parametrize(
    ("table", "target", "setting"),
    [
        ("table10", "fixed", ("256*", "200-200", "1", "70")),
        ("table11", "trainable", ("256*", "200-200", "10", "15", "0.1")),
    ],
)
def test_the_setting_of_the_main_experiments_is_marked(root, table, target, setting):
    found = ablations.tiny_imagenet(gather(table), target)
    assert [row[: len(setting)] for row in found.body if row[0].endswith("*")] == [setting]
    assert any(note.startswith("*: the setting of the main experiments") for note in found.notes)


def test_the_best_of_each_sparsity(root):
    write_record(root / "records", "tiny_imagenet/hypermask-f", 1, 76.0)
    lines = ablations.by_sparsity(gather("table10"), "fixed").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["0", "14", "75.51"],
        ["30", "18", "75.82"],
        ["50", "17", "75.94"],
        ["70", "12", "76.04"],
        ["90", "7", "73.06"],
    ]
    assert lines[4].split()[3] == "1"
    assert lines[1].endswith("not run")


def test_own_runs_stay_in_a_column_of_their_own(root):
    write_record(root / "runs", "tiny_imagenet/hypermask-f", 1, 70.0)
    assert "yours_mean" not in ablations.tiny_imagenet(gather("table10"), "fixed").frame
    table = ablations.tiny_imagenet(gather("table10", own_runs=True), "fixed")
    assert table.head[-1] == "Yours"
    assert (table.frame.yours_runs.sum(), table.frame.runs.sum()) == (1, 0)

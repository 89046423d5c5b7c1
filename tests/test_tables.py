import pytest
from payloads import write_record

from hypermask import experiments, metrics, paper, tables
from hypermask.printed_and_ours import INTERVAL_NOTE, Comparison
from hypermask.results import gather

PRINTED = paper.Printed(69.48, 0.8, paper.QUOTED, "table 2")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    for seed, level in ((1, 99.5), (2, 99.6), (3, 99.7)):
        write_record(tmp_path / "records", "split_mnist/hypermask-t", seed, level)
    write_record(tmp_path / "records", "split_mnist/hypermask-f", 1, 99.3)
    for seed in (1, 2):
        write_record(tmp_path / "records", "permuted_mnist_10/hypermask-t", seed, 97.6)
    return tmp_path


def row(table, **wanted):
    frame = table.frame
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def test_known_task_identity_sets_ours_beside_the_printed_value(root):
    runs = gather("table01")
    ours = row(tables.known_task_identity(runs, 1), method="HyperMask-T", benchmark="split_mnist")
    summary = metrics.summary(
        [metrics.mean_accuracy(record.accuracy) for record in runs["split_mnist/hypermask-t"].records]
    )
    assert (ours.paper_mean, ours.paper_sd) == (99.64, 0.07)
    assert ours.ours_mean == pytest.approx(summary.mean)
    assert ours.ours_sample_sd == pytest.approx(summary.sd)
    assert ours.ours_t95 == pytest.approx(summary.t95)
    assert ours.runs == 3
    assert ours.difference == pytest.approx(summary.mean - 99.64)
    assert ours.status == paper.compare(paper.printed_accuracy("HyperMask-T", "split_mnist"), summary)


def test_every_printed_entry_stands_in_its_table_with_its_source(root):
    runs = gather("table01")
    first, third = (tables.known_task_identity(runs, number) for number in (1, 3))
    printed = [entry for entry in paper.known_task_rows() if entry.place.startswith("table")]
    assert len(third.frame) == len(printed)
    assert len(first.frame) == sum("1" in entry.place for entry in printed)
    assert set(first.frame.source) == {"quoted", "run by the authors"}
    assert row(third, method="WSN, c=50%", network="ResNet-18", benchmark="tiny_imagenet").status == "not run"
    assert row(third, method="HAT", benchmark="permuted_mnist_10").status == ""


def test_each_row_of_wsn_is_repeated_by_runs_with_its_own_share(root):
    write_record(root / "records", "permuted_mnist_10/wsn", 1)
    write_record(root / "records", "permuted_mnist_10/wsn", 2, overrides=["c=50"])
    third = tables.known_task_identity(gather("table03"), 3)
    wsn = third.frame[third.frame.method.str.startswith("WSN") & (third.frame.benchmark == "permuted_mnist_10")]
    status = dict(zip(wsn.method, wsn.runs, strict=True))
    assert status == {f"WSN, c={c}%": int(c in (30, 50)) for c in (3, 5, 10, 30, 50, 70)}
    alexnet = row(third, method="WSN, c=50%", network="AlexNet", benchmark="split_cifar100")
    assert (alexnet.status, alexnet.runs) == ("", 0)


@pytest.mark.parametrize("number", [1, 3])
def test_a_table_needs_the_runs_that_stand_in_it(root, number):
    runs = gather(f"table0{number}")
    for group in runs.values():
        write_record(root / "records", group.name, 5, overrides=list(group.need.overrides))
    runs = gather(f"table0{number}")
    frame = tables.known_task_identity(runs, number).frame
    assert (frame.runs > 0).sum() == len(runs)


def test_backward_transfer_has_every_printed_value(root):
    table = tables.backward_transfer(gather("table04"))
    assert len(table.frame) == len(paper.table4())
    ours = row(table, method="HyperMask-T", benchmark="split_mnist")
    assert ours.ours_mean == pytest.approx(-0.025)
    assert row(table, method="HNET+ENT", benchmark="split_mnist").source == "run by the authors"
    assert row(table, method="WSN, c=30%", benchmark="tiny_imagenet").source == "by construction"


def test_weight_distance_pairs_the_printed_matrix_with_ours(root):
    runs = gather("table05")["permuted_mnist_10/hypermask-t"]
    table = tables.weight_distance(runs, 1)
    pair = row(table, after_task_i=1, after_task_j=10)
    assert (pair.paper_mean, pair.ours_mean, pair.runs) == (843.01, 900.0, 2)
    assert pair.difference == pytest.approx(900 - 843.01)
    assert len(table.frame) == 45
    assert table.body[0][:3] == ("1", "paper", "148.01")
    assert table.body[1][:3] == ("1", "ours", "100.00")
    growth = tables.weight_distance_growth(runs)
    assert growth.frame.paper_mean.round(2).tolist() == [695.0, 302.75, 12.22]
    assert growth.frame.ours_mean.tolist() == [800.0, 800.0, 800.0]


def test_weight_distance_without_runs_estimates_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    table = tables.weight_distance(gather("table05")["permuted_mnist_10/hypermask-t"], 2)
    assert table.frame.ours_mean.isna().all()
    assert set(table.frame.status) == {"not run"}
    assert "Ours: not run." in table.notes[1]


def test_table_4_says_what_its_row_of_wsn_is_beside(root):
    for name in ("split_cifar100/wsn", "tiny_imagenet/wsn"):
        assert experiments.get(name).config.method.c == 50
    notes = " ".join(tables.backward_transfer(gather("table04")).notes)
    assert "our runs on Split CIFAR-100 and Tiny ImageNet keep 50 % of the weights" in notes


def test_a_difference_of_zero_has_no_sign():
    printed = paper.Printed(99.35, 0.04, paper.RUN_BY_AUTHORS, "table 1")
    row = Comparison("m", "split_mnist", "", printed, metrics.summary([99.347, 99.348]))
    assert tables.comparisons([row], "title").body[0][9] == "0.00"


def test_what_the_sign_of_an_interval_means_is_told_where_it_stands():
    marked, plain = (
        Comparison("m", "split_mnist", "", PRINTED, metrics.summary(values))
        for values in ([66.0, 66.5, 67.0, 65.5, 70.0], [66.0, 75.0])
    )
    table = tables.comparisons([marked], "title")
    assert (table.body[0][-1], table.frame.status[0]) == ("within spread †", "within spread")
    assert r"within spread $\dagger$" in table.latex()
    assert INTERVAL_NOTE in table.notes[-1]
    assert tables.comparisons([plain], "title").body[0][-1] == "within spread"
    # Two runs have a wide interval, and may have a small spread.
    wide = Comparison("m", "split_mnist", "", PRINTED, metrics.summary([71.0, 72.0]))
    table = tables.comparisons([wide], "title")
    assert (table.body[0][-1], table.frame.status[0]) == ("differs ‡", "differs")
    assert r"differs $\ddagger$" in table.latex()


def test_one_run_is_called_one_run(root):
    assert tables.mean_matrix(gather("table01")["split_mnist/hypermask-f"]).startswith(
        "split_mnist/hypermask-f, one run\n"
    )
    assert tables.per_task(gather("table01")["split_mnist/hypermask-f"]).startswith(
        "split_mnist/hypermask-f, one run\n"
    )
    assert ", mean of n = 3\n" in tables.mean_matrix(gather("fig10")["split_mnist/hypermask-t"])
    runs = gather("table05")["permuted_mnist_10/hypermask-t"]
    assert "Ours: mean of n = 2." in tables.weight_distance(runs, 1).notes[1]
    assert "Ours: one run." in tables.weight_distance(runs.only([1]), 1).notes[1]


def test_tables_of_distances_name_those_that_differ(root):
    runs = gather("table05")["permuted_mnist_10/hypermask-t"]
    # All runs agree to the last digit, and 100 (j - i) is none of the printed values.
    note = tables.weight_distance(runs, 1).notes[2]
    assert note.startswith("By the spread over our runs 45 of the 45 distances differ: D(1,2), D(1,3), ")
    wider = {name: (3 * matrix).tolist() for name, matrix in runs.records[0].target_distance.items()}
    runs.records[0].payload["target_distance"] = wider
    assert tables.weight_distance(runs, 1).notes[2] == "By the spread over our runs 0 of the 45 distances differ."
    assert len(tables.weight_distance(runs.only([1]), 1).notes) == 2


def test_own_runs_stay_in_a_column_of_their_own(root):
    write_record(root / "runs", "split_mnist/hypermask-t", 9, 90.0)
    shipped = tables.accuracy_comparison(gather("fig10")["split_mnist/hypermask-t"])
    beside = tables.accuracy_comparison(gather("fig10", own_runs=True)["split_mnist/hypermask-t"])
    assert beside.ours == shipped.ours
    table = tables.comparisons([beside], "title")
    assert table.head[-1] == "Yours"
    assert table.frame.yours_mean[0] == pytest.approx(90.0, abs=0.5)
    assert "yours_mean" not in tables.comparisons([shipped], "title").frame


def test_own_runs_are_in_no_other_mean_of_a_whole_table(root):
    write_record(root / "runs", "split_mnist/hypermask-t", 5, 90.0)
    for make, item in (
        (lambda runs: tables.known_task_identity(runs, 1), "table01"),
        (tables.backward_transfer, "table04"),
    ):
        shipped, beside = make(gather(item)), make(gather(item, own_runs=True))
        wanted = {"method": "HyperMask-T", "benchmark": "split_mnist"}
        found = row(beside, **wanted)
        assert found.ours_mean == row(shipped, **wanted).ours_mean != found.yours_mean
        assert (found.runs, found.yours_runs) == (3, 1)
        assert "yours_mean" not in shipped.frame
    text = tables.per_run(gather("fig10", own_runs=True)).splitlines()
    assert [line.split()[:3] for line in text[3:]] == [
        ["split_mnist/hypermask-t", "3", "99.570"],
        ["split_mnist/hypermask-t", "(yours)", "5"],
    ]


def test_own_runs_stay_apart_among_the_distances(root):
    twice = {f"layer{layer}": [[200.0 * abs(i - j) for j in range(10)] for i in range(10)] for layer in (1, 2, 3)}
    write_record(root / "runs", "permuted_mnist_10/hypermask-t", 9, target_distance=twice)
    runs = gather("table05", own_runs=True)["permuted_mnist_10/hypermask-t"]
    table = tables.weight_distance(runs, 1)
    pair = row(table, after_task_i=1, after_task_j=10)
    assert (pair.ours_mean, pair.yours_mean, pair.runs, pair.yours_runs) == (900.0, 1800.0, 2, 1)
    assert table.body[2][:3] == ("1", "yours", "200.00")
    growth = tables.weight_distance_growth(runs).frame
    assert (growth.ours_mean.tolist(), growth.yours_mean.tolist()) == ([800.0] * 3, [1600.0] * 3)


def test_the_three_forms(root):
    table = tables.backward_transfer(gather("table04"))
    markdown, latex, text = table.markdown(), table.latex(), table.text()
    assert markdown.startswith("**Table 4. Mean backward transfer, points of percent**\n\n| Method |")
    assert "| HyperMask-T | Split MNIST | – | run by the authors | -0.009 ± 0.04 | -0.025 ± 0.000 | 3 |" in markdown
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert rule in latex
    assert r"$-$0.009 $\pm$ 0.04" in latex and "HyperMask-T" in latex
    assert "%" not in latex.replace(r"\%", "").replace("% needs the packages booktabs and graphicx", "")
    assert text.splitlines()[0] == "Table 4. Mean backward transfer, points of percent"
    assert "Network" not in text


def test_latex_numbers_the_table_and_shrinks_a_wide_one(root):
    wide = tables.backward_transfer(gather("table04")).latex()
    assert r"\caption{Mean backward transfer, points of percent. BWT = " in wide
    assert r"\resizebox{\textwidth}{!}{\begin{tabular}" in wide and "\\end{tabular}}\n" in wide
    narrow = tables.weight_distance(gather("table05")["permuted_mnist_10/hypermask-t"], 1).latex()
    assert "resizebox" not in narrow and narrow.startswith("% needs the package booktabs\n")
    assert wide.count("{") == wide.count("}")


def test_a_marked_table_says_so_in_its_first_line(root):
    table = tables.backward_transfer(gather("table04")).marked("smoke profile")
    for form in (table.markdown(), table.latex(), table.text()):
        assert "smoke profile" in form.splitlines()[0]


def test_per_run_lists_every_seed(root):
    write_record(root / "records", "split_mnist/hypermask-t", 4, status="diverged")
    runs = gather("fig06")
    lines = tables.per_run(runs).splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["split_mnist/hypermask-t", str(s)] for s in (1, 2, 3)]
    assert lines[4].split() == ["split_mnist/hnet", "not", "run"]


def test_per_task_shows_every_tenth_of_many(root):
    for seed in (1, 2):
        write_record(root / "records", "permuted_mnist_100/hypermask-t", seed, 96)
    runs = gather("fig02")
    assert len(tables.per_task(runs["permuted_mnist_10/hypermask-t"]).splitlines()) == 12
    tasks = [line.split()[0] for line in tables.per_task(runs["permuted_mnist_100/hypermask-t"]).splitlines()[2:]]
    assert tasks == ["1", *map(str, range(10, 101, 10))]


def test_own_runs_have_their_numbers_as_text_too(root):
    write_record(root / "runs", "split_mnist/hypermask-t", 1)
    runs = gather("fig10", own_runs=True)["split_mnist/hypermask-t"]
    for text in (tables.mean_matrix(runs), tables.per_task(runs)):
        ours, yours = text.split("\n\n")
        assert ours.startswith("split_mnist/hypermask-t, ")
        assert yours.startswith("split_mnist/hypermask-t, your own runs, ")
        assert len(ours.splitlines()) == len(yours.splitlines())


def test_mean_matrix(root):
    runs = gather("fig06")["split_mnist/hypermask-t"]
    mean = tables.mean_of(runs.records)
    text = tables.mean_matrix(runs)
    assert "after training task | evaluated on task" in text
    assert text.splitlines()[-1].split("|")[1].split() == [f"{value:.2f}" for value in mean[-1]]


def test_a_changed_setting_is_named_and_compared_with_nothing_printed(root):
    write_record(root / "records", "split_mnist/hypermask-t", 1, 99.0, overrides=["hypernetwork_hidden=10,10"])
    runs = gather("fig15")
    main, changed = (
        tables.accuracy_comparison(runs[f"split_mnist/hypermask-t{change}"])
        for change in ("", " [hypernetwork_hidden=10,10]")
    )
    assert (main.method, main.ours.n, main.printed.mean) == ("HyperMask-T", 2, 99.64)
    assert changed.method == "HyperMask-T, hypernetwork 10-10"
    assert (changed.printed, changed.status) == (None, "not printed")
    _, *numbers = [line for line in tables.per_run(runs).splitlines() if "not run" not in line]
    assert len({len(line) for line in numbers}) == 1
    assert all(line.endswith("  Test CPU") for line in numbers)


def test_first_task_of_figure_3(root):
    write_record(root / "records", "split_cifar100/hypermask-t", 1, 80.0)
    runs = gather("fig03")["split_cifar100/hypermask-t"]
    just_after, after_all = tables.first_task(runs)
    matrix = runs.records[0].accuracy
    assert (just_after.printed.mean, after_all.printed.mean) == (81.0, 75.7)
    assert (just_after.ours.mean, after_all.ours.mean) == (matrix[0, 0], matrix[-1, 0])


def test_models_of_figure_11_pair_seeds_with_models(root):
    write_record(root / "records", "tiny_imagenet/hypermask-f", 2, 74.0)
    runs = gather("fig11")["tiny_imagenet/hypermask-f"]
    rows = tables.models(runs, range(1, 6))
    assert [row.printed.mean for row in rows] == [74.30, 73.70, 75.13, 75.31, 76.04]
    assert [row.status for row in rows] == ["not run", "no spread", "not run", "not run", "not run"]
    assert rows[1].ours.mean == pytest.approx(tables.final_mean(runs.records))

import json

import pytest
from payloads import logits, payload

from hypermask import cli, differences, experiments, files, items, paper, paths, records, settings, status
from hypermask.errors import HyperMaskError

FIG10 = "fig10_split_mnist_mean_accuracy"


@pytest.fixture(autouse=True)
def _own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    (tmp_path / "notebooks").mkdir()


def of(id: str) -> dict:
    return next(item for item in status.status()["items"] if item["id"] == id)


def make(notebook: str) -> None:
    """Leave what a notebook leaves that shows all of today's Split MNIST T records."""
    written = {}
    for item in items.of_notebook(notebook):
        for name in item.files:
            files.write_atomic(paths.root() / name, name.encode())
            written[name] = files.sha256(name.encode())
    shown = {
        record.path.relative_to(paths.root()).as_posix(): record.content_sha256
        for record in records.load("split_mnist/hypermask-t")
    }
    manifest = {"notebook": notebook, "profile": "recorded", "files": written, "records": shown}
    files.write_atomic(paths.figures() / "manifests" / f"{notebook}.json", files.pretty_json(manifest))


def test_an_empty_project():
    found = json.loads(json.dumps(status.status(), allow_nan=False))
    assert len(found["items"]) == 27
    for item in found["items"]:
        keys = ["id", "title", "notebook", "made", "state", "runs_present", "runs_needed", "missing"]
        assert list(item) == keys
        assert item["made"] is False
        assert item["runs_present"] == 0
        assert item["runs_needed"] == len(item["missing"])
        assert item["state"] == ("empty" if item["missing"] else "complete")


def test_the_command_for_what_is_missing():
    assert of("fig10")["missing"][1] == {
        "experiment": "split_mnist/hypermask-t",
        "seed": 2,
        "command": "hypermask run split_mnist/hypermask-t --infer ent fecam --seed 2",
    }
    commands = [run["command"] for run in of("table08")["missing"]]
    assert commands[0] == "hypermask run permuted_mnist_10/hypermask-t --set beta=0.01 lam=0 --seed 1"


def test_states():
    for seed in (1, 2, 3, 4):
        records.write(payload(seed=seed), None, paths.records())
    records.write(payload(seed=5, status="diverged"), None, paths.records())
    assert (of("fig10")["state"], of("fig10")["runs_present"]) == ("partial", 4)
    assert [run["seed"] for run in of("fig10")["missing"]] == [5]
    records.write(payload(seed=5), None, paths.records(), overwrite=True)
    assert (of("fig10")["state"], of("fig10")["missing"]) == ("complete", [])
    assert of("fig06")["state"] == "partial"
    assert (of("table01")["runs_present"], of("table01")["runs_needed"]) == (5, 65)


def test_own_runs_are_not_counted():
    records.write(payload(), None, paths.runs())
    assert of("fig10")["runs_present"] == 0


def test_a_record_without_the_part_an_item_shows_is_missing():
    records.write(payload(), None, paths.records())
    assert of("fig14")["state"] == "empty"
    records.write(payload(), logits(), paths.records(), overwrite=True)
    assert of("fig14")["state"] == "complete"
    assert of("table02")["runs_present"] == 0


def test_runs_of_another_configuration_count_where_it_is_asked_for():
    changed = experiments.get("split_mnist/hypermask-t").override(["beta=0.01"])
    other = {
        "config": changed.config.to_dict(),
        "config_hash": changed.config.hash,
        "overrides": ["beta=0.01"],
    }
    records.write(payload() | other, None, paths.records())
    assert of("fig10")["runs_present"] == 0
    assert of("fig15")["runs_present"] == 1


def test_made_means_these_files_from_todays_records():
    records.write(payload(seed=1), None, paths.records())
    make(FIG10)
    assert of("fig10")["made"] is True
    records.write(payload(seed=2), None, paths.records())
    assert of("fig10")["made"] is False
    make(FIG10)
    assert of("fig10")["made"] is True
    records.write(payload(seed=2, engine="fused"), None, paths.records(), overwrite=True)
    assert of("fig10")["made"] is False


def test_a_new_run_of_a_changed_setting_unmakes_the_picture_of_settings():
    make("fig15_split_mnist_stability")
    assert of("fig15")["made"] is True
    # Seed 5 is not among those that are compared.
    records.write(payload(seed=5), None, paths.records())
    assert of("fig15")["made"] is True
    records.write(payload(seed=1, overrides=["p=70"]), None, paths.records())
    assert of("fig15")["made"] is False


def test_a_changed_missing_or_damaged_file_is_not_made():
    make(FIG10)
    png = paths.figures() / f"{FIG10}.png"
    assert of("fig10")["made"] is True
    png.write_bytes(b"touched up")
    assert of("fig10")["made"] is False
    png.unlink()
    assert of("fig10")["made"] is False
    make(FIG10)
    (paths.figures() / "manifests" / f"{FIG10}.json").write_text("{}")
    assert of("fig10")["made"] is False


def test_a_removed_record_unmakes_the_picture():
    path = records.write(payload(seed=1), None, paths.records())
    make(FIG10)
    assert of("fig10")["made"] is True
    path.unlink()
    assert of("fig10")["made"] is False


def test_a_picture_of_what_is_another_configuration_today_is_not_made():
    # As when the values of a named configuration change: the records that the picture was made of still lie there.
    path = records.write(payload(seed=1, overrides=["p=70"]), None, paths.records())
    make(FIG10)
    assert of("fig10")["made"] is True
    note = paths.figures() / "manifests" / f"{FIG10}.json"
    manifest = json.loads(note.read_bytes())
    manifest["records"][path.relative_to(paths.root()).as_posix()] = records.read(path).content_sha256
    note.write_bytes(files.pretty_json(manifest))
    assert of("fig10")["made"] is False


def test_items_of_one_notebook_are_made_together():
    make("table05_07_target_weight_distance")
    assert [of(id)["made"] for id in ("table05", "table06", "table07", "table04")] == [
        True,
        True,
        True,
        False,
    ]


def test_without_records_it_says_where_they_would_be():
    assert status.render(status.status()).splitlines()[-1] == (
        f"There are no records at all: {paths.records()} is not there. Copy ours to it to see them."
    )
    paths.records().mkdir()
    assert "There are no records at all" not in status.render(status.status())


def test_render():
    records.write(payload(), None, paths.records())
    lines = status.render(status.status()).splitlines()
    assert lines[0].split() == ["item", "title", "made", "state", "runs", "missing"]
    fig10 = next(line for line in lines if line.startswith("fig10"))
    assert fig10.split()[-5:] == ["no", "partial", "1/5", "split_mnist/hypermask-t", "(4)"]
    assert any(line.startswith("  split_mnist/hypermask-t: GPU memory about 241 MB; ") for line in lines)
    assert any(
        line.startswith("  split_cifar100/hypermask-f: GPU memory about 1253 MB; time at least 2.2 ") for line in lines
    )
    assert any(line.startswith("  split_cifar100_5x20/ncm: GPU memory unknown; time not known: ") for line in lines)
    needed = lines[lines.index("What one seed of a missing experiment needs:") + 1 :]
    assert all(": GPU memory " in line and "; time " in line for line in needed)


def row(page: str, name: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith((f"| {name} |", f"| [{name}]("))]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_results_page():
    for seed, last in ((1, 99.5), (2, 99.7)):
        records.write(payload(seed=seed, final=[last] * 5), None, paths.records())
    records.write(payload(seed=3, final=[50.0] * 5), None, paths.runs())
    (paths.notebooks() / f"{FIG10}.ipynb").touch()
    page = status.markdown()
    assert page == status.markdown()
    assert len([line for line in page.splitlines() if line.startswith("| ")]) == 27 + 2
    # t(1, 0.975) = 12.706 times 0.1414 / sqrt(2)
    minutes = round(sum(record.seconds for record in records.load("split_mnist/hypermask-t")) / 60)
    device = records.load("split_mnist/hypermask-t")[0].environment["device_name"].split(",")[0]
    assert row(page, "figure 10") == [
        f"[figure 10](notebooks/{FIG10}.ipynb)",
        items.get("fig10").claim,
        "1 of 1 supported so far",
        "accuracy, split_mnist/hypermask-t: 99.64 ± 0.07",
        "99.60 ± 1.27 (n = 2)",
        "within spread so far",
        "2/5",
        f"{minutes} min, {device}",
    ]
    assert row(page, "figure 8")[2:] == [
        "0 of 4 supported, 4 open",
        "accuracy, permuted_mnist_10/hypermask-t: 97.66 ± 0.04",
        "–",
        "not run",
        "0/10",
        "–",
    ]
    assert row(page, "figure 1")[2:] == ["–", "–", "–", "see the figure", "0/0", "–"]
    assert row(page, "table 9")[3:6] == ["5 settings", "0 of 5 settings", "not run: 5"]
    assert row(page, "item")[5] == "headline number"


def test_two_runs_that_differ_and_have_a_wide_interval():
    for seed, last in ((1, 99.1), (2, 99.2)):
        records.write(payload(seed=seed, final=[last] * 5), None, paths.records())
    assert row(status.markdown(), "figure 10")[4:6] == ["99.15 ± 0.64 (n = 2)", "differs ‡"]
    assert "‡: although it differs, inside." in status.markdown()


def test_a_single_run_on_the_results_page():
    records.write(payload(final=[99.6] * 5), None, paths.records())
    assert row(status.markdown(), "figure 10")[4:6] == ["99.60 (one run)", "one run, within spread"]


def test_an_item_without_a_number_says_whether_it_is_complete():
    assert row(status.markdown(), "figure 15")[5] == "not run"
    missing = [(seed, list(need.overrides)) for need in items.get("fig15").runs for seed in need.seeds]
    for part, words in ((missing[:-1], "incomplete, see the figure"), (missing[-1:], "see the figure")):
        for seed, overrides in part:
            records.write(payload(seed=seed, overrides=overrides), None, paths.records())
        assert row(status.markdown(), "figure 15")[5] == words
    assert row(status.markdown(), "table 12")[5] == "incomplete, see the table"


def test_the_headline_is_of_the_runs_that_the_item_shows():
    for seed, last in ((1, 99.5), (2, 99.7), (6, 50.0)):
        records.write(payload(seed=seed, final=[last] * 5), None, paths.records())
        records.write(payload(seed=seed, final=[last] * 5), None, paths.runs())
    # Table 1 compares settings, and shows the five needed seeds of each; figure 10 shows all there are.
    assert row(status.markdown(), "table 1")[4] == "99.60 ± 1.27 (n = 2)"
    assert row(status.markdown(), "figure 10")[4].endswith("(n = 3)")
    (paths.notebooks() / "table01_known_task_identity.ipynb").touch()
    assert status.closing_table().splitlines()[2].count("99.60 ± 0.14 (2)") == 2


def test_device_time_is_shared_by_the_runs_that_ran_at_once():
    environment = payload()["environment"]
    for seed in (1, 2):
        shared = environment | {"seeds_at_once": 2}
        records.write(payload(seed=seed, environment=shared, task_seconds=[600.0] * 5), None, paths.records())
    assert row(status.markdown(), "figure 10")[7] == "50 min, Test CPU"


def test_the_results_page_counts_the_settings_of_a_table():
    name = "permuted_mnist_10/hypermask-t"
    near, far, pair, apart, _ = paper.sparsity()
    for printed, shift, seeds in ((near, 0, 1), (far, -20, 1), (pair, 0, 2), (apart, -20, 2)):
        changed = experiments.get(name).override([f"p={printed.p:g}"])
        other = {"config": changed.config.to_dict(), "config_hash": changed.config.hash}
        for seed in range(1, seeds + 1):
            final = [printed.mean + shift] * 10
            records.write(payload(name, seed=seed, final=final) | other, None, paths.records())
    assert row(status.markdown(), "table 9")[3:6] == [
        "5 settings",
        "4 of 5 settings",
        "within spread: 1; differs: 1; one run, within spread: 1; one run, outside spread: 1; not run: 1",
    ]


def test_the_results_page_is_put_between_its_lines(tmp_path):
    page = tmp_path / "PAGE.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- /results -->\nafter\n")
    assert cli.main(["status", "--markdown", str(page)]) == 0
    assert page.read_text() == f"before\n<!-- results -->\n\n{status.markdown()}\n\n<!-- /results -->\nafter\n"
    assert status.write_markdown(page) is False
    page.write_text("nothing here\n")
    with pytest.raises(HyperMaskError, match=r"PAGE\.md has no section from <!-- results --> to <!-- /results --> or"):
        status.write_markdown(page)


def test_the_readme_shows_todays_results(project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    text = (project_root / "README.md").read_text(encoding="utf-8")
    section = text.partition("<!-- results -->")[2].partition("<!-- /results -->")[0]
    assert section.strip() == status.markdown(), "write it anew: hypermask status --markdown README.md"


@pytest.mark.parametrize("name", ["differences", "settings"])
def test_the_page_on_reproducibility_shows_todays(name, project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    text = (project_root / "REPRODUCIBILITY.md").read_text(encoding="utf-8")
    section = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    assert section.strip() == {"differences": differences, "settings": settings}[name].markdown(), (
        "write it anew: hypermask status --markdown REPRODUCIBILITY.md"
    )


def test_numbers_that_lie_apart_are_listed_the_furthest_first():
    for seed in (1, 2):
        # Printed: 99.64 and 99.35; BWT -0.009.
        records.write(payload(seed=seed, final=[99.0 + 0.02 * seed] * 5), None, paths.records())
        near = payload("split_mnist/hypermask-f", seed, final=[99.352 + 0.001 * seed] * 5)
        records.write(near, None, paths.records())
    records.write(payload("split_mnist/hnet", 1, final=[90.0] * 5), None, paths.records())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in differences.markdown().splitlines()[2:]]
    assert [row[1] for row in rows if row[0] == "3, accuracy"] == ["HNET+ENT", "HyperMask-T"]
    assert rows[0][2:] == ["Split MNIST", "99.79", "90.00", "1", "-9.79", "one run, outside spread"]
    assert rows[1][2:] == ["Split MNIST", "99.64", "99.03", "2", "-0.61", "differs"]
    assert {row[0] for row in rows[2:]} == {"4, BWT"}
    records.write(
        payload("permuted_mnist_10/hypermask-t", 1, final=[90.0] * 10, overrides=["p=70"]), None, paths.records()
    )
    assert "| 9, accuracy | HyperMask-T, p 70 | Permuted MNIST, 10 tasks |" in differences.markdown()


def test_settings_have_their_places():
    page = settings.markdown()
    assert page.count("<details>") == len(experiments.EXPERIMENTS)
    of_split = page.partition("<code>split_mnist/hypermask-t</code>")[2].partition("</details>")[0]
    assert "| `beta` | 0.001 | appendix, Architecture details, Split MNIST |" in of_split
    assert "`lr_floor`" not in of_split and "`epochs`" not in of_split
    of_fixed = page.partition("<code>split_mnist/hypermask-f</code>")[2].partition("</details>")[0]
    assert "`lam`" in of_split and "`lam`" not in of_fixed
    assert "REPRODUCIBILITY.md" not in page


def test_closing_table():
    for seed, last in ((1, 99.5), (2, 99.7)):
        records.write(payload(seed=seed, final=[last] * 5), None, paths.records())
    records.write(payload(final=[99.0] * 5), None, paths.runs())
    for notebook in (FIG10, "table05_07_target_weight_distance", "table04_backward_transfer"):
        (paths.notebooks() / f"{notebook}.ipynb").touch()
    make(FIG10)
    head, _, fig10, table04, table05, *_ = status.closing_table().splitlines()
    assert head.split() == ["item", "quantity", "printed", "shipped", "yours", "files"]
    assert "99.64 ± 0.07   99.60 ± 0.14 (2)   99.00 (1)" in fig10
    assert fig10.endswith("figures/fig10_split_mnist_mean_accuracy.{pdf,png,csv}")
    assert "BWT, split_mnist/hypermask-t" in table04
    assert "-0.009 ± 0.04" in table04
    assert table05.split()[-5:] == ["695.00", "not", "run", "none", "yet"]
    # What lies there is not what a call that wrote elsewhere has made.
    own = paths.build() / "own"
    (own / "figures").mkdir(parents=True)
    (own / "figures" / f"{FIG10}.png").touch()
    _, _, fig10, table04, *_ = status.closing_table(own).splitlines()
    assert fig10.endswith(f" build/own/figures/{FIG10}.{{png}}")
    assert table04.endswith("none yet")

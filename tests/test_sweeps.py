"""Sweeps list what items lack, and nothing else."""

import shutil
from dataclasses import replace

import pytest

from hypermask import cli, experiments, paths, side_by_side, sweeps
from hypermask.errors import HyperMaskError
from hypermask.training import run_experiment


def test_figure_15_changes_one_value_at_a_time(root):
    jobs = sweeps.jobs(["fig15"])
    base = experiments.get("split_mnist/hypermask-t").config
    assert [job.experiment.overrides for job in jobs] == [
        (),
        ("embedding_size=24",),
        ("embedding_size=72",),
        ("embedding_size=96",),
        ("hypernetwork_hidden=10,10",),
        ("hypernetwork_hidden=50,50",),
        ("l1=plain",),
        ("batch_size=64",),
        ("beta=0.01",),
        ("p=0",),
        ("p=70",),
        ("lam=0.0001",),
    ]
    assert all(job.seeds == (1, 2) and job.missing == (1, 2) for job in jobs)
    assert [job.experiment.config == base for job in jobs] == [True] + [False] * 11
    assert jobs[1].command == "hypermask run split_mnist/hypermask-t --set embedding_size=24 --seed 1 2"


def test_runs_that_are_there_are_not_missing(root):
    tiny = experiments.smoke("split_mnist/hypermask-t").override(["tasks=2", "iterations=2"])
    record = run_experiment(tiny, 1, root=root / "runs")
    job = sweeps._job(tiny, (1, 2))
    assert (job.own, job.shipped, job.missing) == ((1,), (), (2,))
    shutil.copytree(root / "runs", paths.records())
    assert sweeps._job(tiny, (1, 2)).shipped == (record.seed,)


def test_a_run_that_diverged_is_not_made_again(root):
    tiny = experiments.smoke("split_mnist/hypermask-t").override(["tasks=2", "iterations=20", "lr=1e30"])
    assert run_experiment(tiny, 1, root=root / "runs").status == "diverged"
    assert sweeps._job(tiny, (1, 2)).missing == (2,)


def test_a_configuration_that_several_items_need_is_one_job(root):
    jobs = sweeps.jobs(["fig06", "fig10", "table04"])
    hashes = [job.experiment.config.hash for job in jobs]
    assert len(hashes) == len(set(hashes))
    split = next(job for job in jobs if job.experiment.name == "split_mnist/hypermask-t")
    assert split.seeds == (1, 2, 3, 4, 5)


def test_dry_run_lists_and_trains_nothing(root, capsys):
    assert cli.main(["sweep", "fig15", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "12 configurations, 24 runs missing" in shown
    assert "hypermask run split_mnist/hypermask-t --set p=70 --seed 1 2" in shown
    assert not paths.runs().exists()


def test_a_sweep_trains_what_it_can_and_ends_with_2_if_something_failed(root, capsys, monkeypatch):
    tiny = experiments.smoke("split_mnist/hypermask-t").override(["tasks=2", "iterations=2"])
    another = tiny.override(["beta=0.5"])
    too_few_images = tiny.override(["validation=100000"])
    listed = [sweeps.Job(experiment, (1,), (), ()) for experiment in (tiny, too_few_images, another)]
    monkeypatch.setattr(sweeps, "jobs", lambda names: listed)
    assert cli.main(["sweep", "fig03", "--device", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert out.count("is written") == 2
    assert err.count("hypermask: ") == err.count("\n") == 1
    assert "100000" in err
    assert len(list(paths.runs().rglob("seed1.json"))) == 2
    listed.pop(1)
    assert cli.main(["sweep", "fig03", "--device", "cpu", "--engine", "eager"]) == 0


def test_what_another_process_finished_meanwhile_is_not_trained_again(root, capsys, monkeypatch):
    tiny = experiments.smoke("split_mnist/hypermask-t").override(["tasks=2", "iterations=2"])
    other = tiny.override(["beta=0.5"])
    listed = [sweeps.Job(experiment, (1,), (), ()) for experiment in (tiny, other)]
    monkeypatch.setattr(sweeps, "jobs", lambda names: listed)
    run_seeds = side_by_side.run_seeds

    def while_another_trains(experiment, seeds, **options):
        if experiment is tiny:
            list(run_seeds(other, seeds, **options))
        return run_seeds(experiment, seeds, **options)

    monkeypatch.setattr(side_by_side, "run_seeds", while_another_trains)
    assert cli.main(["sweep", "fig03", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.count("is written") == 1
    assert len(list(paths.runs().rglob("seed1.json"))) == 2


def test_unknown_items_and_items_without_runs_are_refused(root):
    with pytest.raises(HyperMaskError, match="unknown item 'fig99'"):
        sweeps.jobs(["fig99"])
    with pytest.raises(HyperMaskError, match="fig01 needs no runs; see hypermask status"):
        sweeps.jobs(["fig01"])


def test_seeds_that_are_not_shipped_form_groups(root):
    job = sweeps.single("split_mnist/hypermask-t", ["p=70"])
    assert (job.seeds, job.groups(2)) == ((1, 2, 3, 4, 5), [(1, 2), (3, 4), (5,)])
    assert sweeps.single("split_mnist/hypermask-t", ["p=70"], [3, 1]).groups(5) == [(1, 3)]
    with pytest.raises(HyperMaskError, match="0 seeds per job cannot be; expected at least 1"):
        job.groups(0)

    tiny = ["tasks=2", "iterations=2", "target_hidden=8", "hypernetwork_hidden=2", "augment=false"]
    job = sweeps.single("split_mnist/hypermask-t", tiny, [1, 2])
    assert not job.ended([1])
    run_experiment(job.experiment, 1, root=paths.runs())
    assert (job.ended([1]), job.ended([1, 2])) == (True, False)
    assert not replace(job, infer=("ent",)).ended([1])
    # Own runs do not regroup the others, shipped ones do.
    assert sweeps.single("split_mnist/hypermask-t", tiny, [1, 2]).groups(5) == [(1, 2)]
    shutil.copytree(paths.runs(), paths.records())
    assert sweeps.single("split_mnist/hypermask-t", tiny, [1, 2]).groups(5) == [(2,)]


def test_items_that_show_a_configuration(root):
    assert sweeps.showing(sweeps.single("split_mnist/hypermask-t", ["p=70"])) == ["fig15"]
    assert "fig06" in sweeps.showing(sweeps.single("split_mnist/hypermask-t"))
    assert sweeps.showing(sweeps.single("split_mnist/hypermask-t", ["p=71"])) == []


def test_what_an_item_infers_is_part_of_its_jobs(root):
    split = next(job for job in sweeps.jobs(["table02", "fig10"]) if job.experiment.name == "split_mnist/hypermask-t")
    assert split.infer == ("ent", "fecam")
    assert split.command == "hypermask run split_mnist/hypermask-t --infer ent fecam --seed 1 2 3 4 5"

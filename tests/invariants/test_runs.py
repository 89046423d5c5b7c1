"""What must never change the numbers of a run, and what must always change its name."""

import numpy as np
import pytest

from hypermask import experiments, metrics
from hypermask.training import run_experiment

# What may differ between two runs of one seed: when they were made and how long they took.
TIMES = ("task_seconds", "evaluation_seconds", "created", "content_sha256")


def small(name: str = "split_mnist/hypermask-t") -> experiments.Experiment:
    return experiments.smoke(name).override(["tasks=3"])


def numbers(record, without: tuple[str, ...] = ()) -> dict:
    return {key: value for key, value in record.payload.items() if key not in (*TIMES, *without)}


@pytest.mark.parametrize("engine", ["eager", "fused"])
@pytest.mark.parametrize("name", ["split_mnist/hypermask-t", "split_mnist/hypermask-f"])
def test_two_runs_of_a_seed_are_identical(tmp_path, name, engine):
    first, second = (
        run_experiment(small(name), 1, root=tmp_path / str(i), device="cpu", engine=engine) for i in range(2)
    )
    assert numbers(first) == numbers(second)
    for key, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[key])


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_evaluating_more_often_changes_no_number(tmp_path, engine):
    often, rarely = (
        run_experiment(small(), 1, root=tmp_path / str(n), device="cpu", engine=engine, evaluate_every=n)
        for n in (10, 1000)
    )
    assert [len(curve["iteration"]) for curve in often.payload["validation"]] == [6, 6, 6]
    assert [len(curve["iteration"]) for curve in rarely.payload["validation"]] == [1, 1, 1]
    differing = ("validation", "evaluation_interval")
    assert numbers(often, differing) == numbers(rarely, differing)


def test_evaluating_more_often_changes_no_augmentation(tmp_path):
    experiment = experiments.get("split_mnist/hypermask-t").override(
        ["tasks=1", "iterations=20", "validation=50", "target_hidden=8", "embedding_size=4", "hypernetwork_hidden=4"]
    )
    assert experiment.config.benchmark.augment
    often, rarely = (
        run_experiment(experiment, 1, root=tmp_path / str(n), device="cpu", evaluate_every=n) for n in (3, 1000)
    )
    differing = ("validation", "evaluation_interval")
    assert numbers(often, differing) == numbers(rarely, differing)


def test_keeping_weights_or_more_logits_changes_no_number(tmp_path):
    plain, kept = (
        run_experiment(small(), 1, root=tmp_path / str(kept), device="cpu", keep_weights=kept, logits_per_task=count)
        for kept, count in ((False, 5), (True, 50))
    )
    assert numbers(plain, ("logits",)) == numbers(kept, ("logits",))
    few, many = plain.arrays(), kept.arrays()
    np.testing.assert_array_equal(few["labels"], many["labels"][:, :5])
    # A larger batch is summed in another order.
    np.testing.assert_allclose(few["masked"], many["masked"][:, :5], rtol=1e-5, atol=1e-6)


def test_another_seed_is_another_run_of_the_same_configuration(tmp_path):
    first, second = (run_experiment(small(), seed, root=tmp_path, device="cpu") for seed in (1, 2))
    assert first.config_hash == second.config_hash
    assert first.payload["accuracy"] != second.payload["accuracy"]
    assert (first.arrays()["masked"] != second.arrays()["masked"]).any()


@pytest.mark.parametrize(
    "assignment",
    ["beta=0.01", "lam=0.01", "p=10", "lr=0.01", "iterations=61", "batch_size=33", "l1=plain", "embedding_size=9"],
)
def test_changing_any_value_changes_the_hash(assignment):
    named = small()
    assert named.override([assignment]).config.hash != named.config.hash


def test_eager_and_fused_end_close_to_each_other(tmp_path):
    for name in ("split_mnist/hypermask-t", "split_mnist/hypermask-f"):
        eager, fused = (
            run_experiment(small(name), 1, root=tmp_path / engine, device="cpu", engine=engine)
            for engine in ("eager", "fused")
        )
        assert (eager.payload["engine"], fused.payload["engine"]) == ("eager", "fused")
        assert np.abs(eager.accuracy[-1] - fused.accuracy[-1]).max() < 3.0
        assert abs(metrics.mean_accuracy(eager.accuracy) - metrics.mean_accuracy(fused.accuracy)) < 1.5

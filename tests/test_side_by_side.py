"""Several seeds at a time give the records that each gives alone."""

import threading
from unittest.mock import Mock

import pytest
import torch

from hypermask import experiments
from hypermask.progress import Progress
from hypermask.side_by_side import _Stoppable, at_once, run_seeds
from hypermask.training import run_experiment

NAME = "split_mnist/hypermask-t"
CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def experiment():
    return experiments.smoke(NAME).override(["tasks=2", "iterations=20"])


def test_only_small_output_layers_share_a_gpu():
    small, large = experiments.get(NAME), experiments.get("permuted_mnist_10/hypermask-t")
    assert at_once(small, [1, 2, 3], GPU) == 3
    assert at_once(small, range(1, 9), GPU) == 5
    assert at_once(large, [1, 2, 3], GPU) == 1
    assert at_once(small, [1, 2, 3], CPU) == 1


def test_seeds_together_equal_seeds_alone(tmp_path, experiment):
    together = list(run_seeds(experiment, [1, 2, 3], root=tmp_path / "together", device="cpu", workers=3))
    assert sorted(record.seed for record in together) == [1, 2, 3]
    for record in together:
        alone = run_experiment(experiment, record.seed, root=tmp_path / "alone", device="cpu")
        assert record.payload["accuracy"] == alone.payload["accuracy"]
        assert record.payload["target_distance"] == alone.payload["target_distance"]
        assert record.environment["seeds_at_once"] == 3
        assert alone.environment["seeds_at_once"] == 1


def test_one_after_another_gives_records_in_order(tmp_path, experiment):
    found = list(run_seeds(experiment, [2, 1], root=tmp_path, device="cpu"))
    assert [record.seed for record in found] == [2, 1]


class FirstFails(Progress):
    """Of two seeds side by side: the first fails once both train; counts the iterations of the other."""

    def __init__(self):
        self.others, self._other_trains, self._seed = 0, threading.Event(), threading.local()

    def begin(self, title, iterations, done=0):
        self._seed.first = title.endswith("seed 1")

    def iteration(self, task, iteration, loss):
        if self._seed.first:
            assert self._other_trains.wait(60)
            raise RuntimeError("the first fails")
        self.others += 1
        self._other_trains.set()


def test_a_seed_that_fails_stops_the_others(tmp_path, experiment):
    slow, watched = experiment.override(["iterations=10000"]), FirstFails()
    with pytest.raises(RuntimeError, match="the first fails"):
        list(run_seeds(slow, [1, 2], root=tmp_path, device="cpu", workers=2, progress=watched))
    assert 0 < watched.others < 10000
    assert not list(tmp_path.rglob("seed*.json"))


def test_every_report_of_a_seed_is_passed_on():
    shown = Mock(spec=Progress)
    passes = _Stoppable(shown, threading.Event())
    for report in (name for name in vars(Progress) if not name.startswith("_")):
        getattr(passes, report)(0, 1, None)
        getattr(shown, report).assert_called_once_with(0, 1, None)

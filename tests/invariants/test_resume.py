"""A run that was stopped goes on from its last finished task and ends equal, bit for bit, to an uninterrupted one."""

import json

import pytest
import torch

from hypermask import experiments, inference
from hypermask.checkpoints import load_tensors, weights_path
from hypermask.errors import HyperMaskError
from hypermask.training import run_experiment

NAME = "split_mnist/hypermask-t"
MEASURED = ("accuracy", "validation", "target_distance", "logits", "engine")


@pytest.fixture
def experiment():
    return experiments.smoke(NAME).override(["tasks=4", "iterations=25", "p=40"])


def stop_after(task):
    def after_task(finished):
        if finished == task:
            raise KeyboardInterrupt

    return after_task


def interrupted(experiment, root, task):
    """A run that is stopped after `task` was evaluated, before its checkpoint is written."""
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=root, evaluate_every=10, after_task=stop_after(task))


def partial(root):
    """The folder of the one identity that has left checkpoints."""
    (folder,) = (path for path in root.rglob("seed1.partial/*") if path.is_dir())
    return folder


def equal_runs(one, other):
    for key in MEASURED:
        assert one.payload[key] == other.payload[key], key
    for task in range(one.tasks):
        first, second = (load_tensors(weights_path(record.path, task))[0] for record in (one, other))
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", [NAME, "split_mnist/hypermask-f"])
def test_resumed_equals_uninterrupted(tmp_path, name):
    experiment = experiments.smoke(name).override(["tasks=4", "iterations=25", "p=40"])
    settings = {"evaluate_every": 10, "keep_weights": True}
    whole = run_experiment(experiment, 1, root=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=tmp_path / "parts", after_task=stop_after(2), **settings)
    assert not list((tmp_path / "parts").rglob("seed1.json"))
    assert sorted(path.name for path in partial(tmp_path / "parts").glob("state*")) == [
        "state1.safetensors",
        "state2.safetensors",
    ]
    resumed = run_experiment(experiment, 1, root=tmp_path / "parts", **settings)
    equal_runs(whole, resumed)
    assert not list((tmp_path / "parts").rglob("*.partial")), "checkpoints go once the record is written"


def test_weights_that_were_not_kept_are_trained_again(tmp_path, experiment):
    interrupted(experiment, tmp_path, task=2)
    learned = []
    with pytest.warns(UserWarning, match="is left aside: its tasks were trained without keeping weights"):
        record = run_experiment(
            experiment, 1, root=tmp_path, evaluate_every=10, keep_weights=True, after_task=learned.append
        )
    assert learned == [0, 1, 2, 3]
    assert all(weights_path(record.path, task).exists() for task in range(4))


def test_a_damaged_checkpoint_leaves_the_one_before(tmp_path, experiment):
    whole = run_experiment(experiment, 1, root=tmp_path / "whole", evaluate_every=10)
    interrupted(experiment, tmp_path / "parts", task=2)
    newest = partial(tmp_path / "parts") / "state2.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    resumed = run_experiment(experiment, 1, root=tmp_path / "parts", evaluate_every=10)
    assert resumed.payload["accuracy"] == whole.payload["accuracy"]


def test_a_checkpoint_of_other_settings_is_left_aside(tmp_path, experiment):
    interrupted(experiment, tmp_path, task=2)
    with pytest.warns(UserWarning, match="is left aside: it was made by other code, settings"):
        record = run_experiment(experiment, 1, root=tmp_path, evaluate_every=5)
    assert [len(curve["iteration"]) for curve in record.payload["validation"]] == [5] * 4


def test_a_checkpoint_of_other_settings_is_neither_used_nor_overwritten(tmp_path, experiment):
    """Back at the first settings the run goes on where it was, whatever was tried in between."""
    whole = run_experiment(experiment, 1, root=tmp_path / "whole", evaluate_every=10)
    parts = tmp_path / "parts"
    interrupted(experiment, parts, task=2)
    with pytest.warns(UserWarning, match="left aside"), pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=parts, evaluate_every=5, after_task=stop_after(1))
    learned = []
    resumed = run_experiment(experiment, 1, root=parts, evaluate_every=10, after_task=learned.append)
    assert learned == [2, 3]
    for key in MEASURED:
        assert resumed.payload[key] == whole.payload[key], key
    assert not list(parts.rglob("*.partial"))


def test_a_run_that_is_stopped_while_it_infers_has_its_last_task_already(tmp_path, experiment, monkeypatch):
    whole = run_experiment(experiment, 1, root=tmp_path / "whole", infer=("ent", "fecam"))
    measure, learned = inference.measure, []

    def stop_in_the_last(found, procedure, method, benchmark, task, seed):
        if (procedure, task) == ("fecam", 3):
            raise KeyboardInterrupt
        measure(found, procedure, method, benchmark, task, seed)

    monkeypatch.setattr(inference, "measure", stop_in_the_last)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=tmp_path / "parts", infer=("ent", "fecam"))
    monkeypatch.undo()
    resumed = run_experiment(experiment, 1, root=tmp_path / "parts", infer=("ent", "fecam"), after_task=learned.append)
    assert learned == []
    assert resumed.payload["inference"] == whole.payload["inference"]
    assert resumed.payload["logits"] == whole.payload["logits"]


def test_one_process_trains_a_run_at_a_time(tmp_path, experiment):
    def another(task):
        run_experiment(experiment, 1, root=tmp_path)

    with pytest.raises(HyperMaskError, match=r"another process is training seed1 of split_mnist/hypermask-t; wait"):
        run_experiment(experiment, 1, root=tmp_path, after_task=another)


def test_a_checkpoint_is_json_and_tensors_only(tmp_path, experiment):
    interrupted(experiment, tmp_path, task=1)
    tensors, facts = load_tensors(partial(tmp_path) / "state1.safetensors")
    assert facts["finished"] == 1
    assert len(facts["history"]["accuracy"]) == 1
    assert json.loads(json.dumps(facts)) == facts
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())

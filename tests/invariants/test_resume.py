"""A run that was stopped goes on from its last finished task and ends equal, bit for bit, to an uninterrupted one."""

import pytest
import torch
from small_methods import Counter, Linear
from torch import nn

from hypermask import HyperMask, TrainingConfig, benchmarks, experiments, inference, methods, split_digits, train
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


def test_a_checkpoint_tells_what_was_learned(tmp_path, experiment):
    interrupted(experiment, tmp_path, task=1)
    tensors, facts = load_tensors(partial(tmp_path) / "state1.safetensors")
    assert facts["finished"] == 1
    assert len(facts["history"]["accuracy"]) == 1
    benchmark = benchmarks.build(experiment.config.benchmark, 1, "cpu")
    assert set(tensors) == set(methods.build(experiment.config.method, benchmark, 1).weights())


# -- one's own methods and networks
# -------------------------------------------------------------------------------------------------------


class Stepwise(Linear):
    """Keeps all it knows in parameters and buffers: with each task its steps become smaller."""

    def __init__(self, start: int = 1, seed: int = 0) -> None:
        torch.manual_seed(start)
        super().__init__(tasks=4, inputs=64, dropout=0.1)
        self.seed = seed
        self.register_buffer("learned", torch.zeros(()))

    def loss(self, inputs, labels, task, iteration, iterations):
        return super().loss(inputs, labels, task, iteration, iterations) / (1 + self.learned)

    def end_task(self, task):
        self.learned += 1


class Rehearsal(Stepwise):
    """Its memory of the last batch of each task is a list, which no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[tuple[torch.Tensor, torch.Tensor]] = []

    def loss(self, inputs, labels, task, iteration, iterations):
        self.last = inputs, labels
        losses = [super(Rehearsal, self).loss(*batch, task, 1, 1) for batch in [self.last, *self.memory]]
        return sum(losses)

    def end_task(self, task):
        super().end_task(task)
        self.memory.append(self.last)
        del self.last


class Weighted(HyperMask):
    """HyperMask with a loss of one's own, on a network of one's own."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))
        super().__init__(network, tasks=4, embedding_size=4, hypernetwork_hidden=(4,))

    def loss(self, inputs, labels, task, iteration, iterations):
        return 2 * super().loss(inputs, labels, task, iteration, iterations)


def own(method, root, **settings):
    return train(method, split_digits(tasks=4), TrainingConfig(iterations=20, batch_size=16), root=root, **settings)


@pytest.mark.parametrize("kind", [Stepwise, Weighted])
def test_ones_own_method_goes_on_from_its_last_task(tmp_path, kind):
    whole = own(kind(), tmp_path / "whole", keep_weights=True)
    with pytest.raises(KeyboardInterrupt):
        own(kind(), tmp_path / "parts", keep_weights=True, after_task=stop_after(2))
    learned = []
    resumed = own(kind(), tmp_path / "parts", keep_weights=True, after_task=learned.append)
    assert learned == [2, 3]
    equal_runs(whole, resumed)
    assert not list((tmp_path / "parts").rglob("*.partial"))


def test_a_method_that_keeps_more_than_its_weights_starts_anew_and_says_why(tmp_path):
    with pytest.warns(UserWarning, match=r"no checkpoint from task 1 on: Rehearsal keeps more .* \(memory\)") as told:
        whole = own(Rehearsal(), tmp_path / "whole")
    assert len(told) == 1
    learned = []
    with pytest.warns(UserWarning), pytest.raises(KeyboardInterrupt):
        own(Rehearsal(), tmp_path / "parts", after_task=stop_after(2))
    assert not list((tmp_path / "parts").rglob("*.partial"))
    with pytest.warns(UserWarning):
        again = own(Rehearsal(), tmp_path / "parts", after_task=learned.append)
    assert learned == [0, 1, 2, 3]
    assert again.payload["accuracy"] == whole.payload["accuracy"]


def test_what_comes_to_be_kept_later_leaves_the_checkpoints_before(tmp_path):
    class Late(Stepwise):
        def end_task(self, task):
            super().end_task(task)
            if task == 1:
                self.layer.bias.requires_grad_(False)

    whole_told = pytest.warns(UserWarning, match=r"no checkpoint from task 2 on: Late .* \(which parameters train\)")
    with whole_told:
        whole = own(Late(), tmp_path / "whole")
    with pytest.warns(UserWarning), pytest.raises(KeyboardInterrupt):
        own(Late(), tmp_path / "parts", after_task=stop_after(3))
    learned = []
    with pytest.warns(UserWarning):
        resumed = own(Late(), tmp_path / "parts", after_task=learned.append)
    assert learned == [1, 2, 3]
    assert resumed.payload["accuracy"] == whole.payload["accuracy"]


@pytest.mark.parametrize("other", [{"start": 2}, {"seed": 1}], ids=["initial weights", "seed"])
def test_the_checkpoint_of_another_method_is_left_aside(tmp_path, other):
    with pytest.raises(KeyboardInterrupt):
        own(Stepwise(), tmp_path, after_task=stop_after(2))
    learned = []
    with pytest.warns(UserWarning, match="is left aside: it was made by other code, settings, initial weights"):
        own(Stepwise(**other), tmp_path, after_task=learned.append)
    assert learned == [0, 1, 2, 3]


def test_without_a_root_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(Counter(2), split_digits(tasks=2), TrainingConfig(iterations=3, batch_size=4))
    assert not list(tmp_path.iterdir())

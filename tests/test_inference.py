import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from hypermask import cli, evaluation, experiments, inference, kept_runs, methods, records
from hypermask.benchmarks import Benchmark, Split, Task, split_digits
from hypermask.errors import HyperMaskError
from hypermask.inference import READINGS, Classes, check, entropy, measure
from hypermask.methods import Method
from hypermask.model import HyperMask
from hypermask.seeds import generator
from hypermask.targets import MLP
from hypermask.training import run_experiment

LN2 = math.log(2)


class Pairs(Benchmark):
    """Images of two pixels (u, v), in tasks of two classes; training and test images are the same."""

    name = "pairs"
    classes_per_task = 2
    image_shape = (1, 1, 2)
    input_shape = (2,)
    device = torch.device("cpu")

    def __init__(self, pixels: list[list[tuple[int, int]]], labels: list[list[int]], classes: list[tuple]) -> None:
        self.tasks, self.checksums = len(classes), {}
        self.class_names = tuple(str(label) for group in classes for label in group)
        splits = [
            Split(torch.tensor(images, dtype=torch.uint8).view(-1, 1, 1, 2), torch.tensor(own))
            for images, own in zip(pixels, labels, strict=True)
        ]
        self._tasks = [Task(i, classes[i], split, split, split) for i, split in enumerate(splits)]

    def _task(self, index: int) -> Task:
        return self._tasks[index]

    def _prepare(self, images: torch.Tensor, task: int, augmentation: torch.Generator | None) -> torch.Tensor:
        return images.flatten(1).float()


class OnePixelEach(Method):
    """Task 1 scores (u, 0), task 2 scores (0, v): the larger pixel has the lower entropy."""

    tasks = 2

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        return inputs * torch.tensor([[1.0, 0.0], [0.0, 1.0]])[task]


PIXELS = [[(5, 1), (1, 5), (0, 0), (2, 0)], [(1, 5), (5, 1), (0, 4), (3, 3)]]
LABELS = [[0, 1, 0, 1], [1, 0, 0, 1]]


def pairs(classes: tuple = ((0, 1), (2, 3))) -> Pairs:
    return Pairs(PIXELS, LABELS, list(classes))


def measured(method: Method, benchmark: Benchmark, *procedures: str, seed: int = 1) -> dict:
    found: dict = {}
    for task in range(benchmark.tasks):
        for procedure in procedures:
            measure(found, procedure, method, benchmark, task, seed)
    return found


# --- entropy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([0.0, 0.0], LN2),
        ([0.0, math.log(3)], 2 * LN2 - 0.75 * math.log(3)),
        ([7.0, 7.0, 7.0, 7.0], 2 * LN2),
        ([1000.0, 0.0, -1000.0], 0.0),
        ([1e30, -1e30], 0.0),
        ([3.4e38, -3.4e38], 0.0),
        ([0.0, 0.0, -math.inf], LN2),
        ([5.0], 0.0),
    ],
)
def test_entropy_in_nats(logits, expected):
    result = entropy(torch.tensor([logits]))
    assert result.dtype == torch.float64
    assert result.tolist() == pytest.approx([expected], abs=1e-15, rel=1e-7)


def test_entropy_tells_saturated_scores_apart():
    # In float32 both second probabilities would be 0.
    low, high = entropy(torch.tensor([[400.0, 0.0], [300.0, 0.0]])).tolist()
    assert 0 < low < high < 1e-100


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_without_entropy_are_refused(bad):
    with pytest.raises(HyperMaskError, match="some class scores are infinite or not a number"):
        entropy(torch.tensor([[0.0, 1.0], [bad, 0.0]]))


# --- Algorithm 2, computed by hand ----------------------------------------------------------------


def test_ent_by_hand():
    reading = measured(OnePixelEach(), pairs(), "ent")["ent"]["released-code"]
    # Task 1's images go to tasks 1 2 1 1, task 2's to 2 1 2 1: (0, 0) and (3, 3) are ties, which the lowest task gets.
    assert reading == {
        "class_accuracy": [50.0, 37.5],
        "task_accuracy": [100.0, 62.5],
        "confusion": [[3, 1], [2, 2]],
    }


def test_a_wrong_task_is_a_wrong_class_unless_the_tasks_share_their_classes():
    apart = measured(OnePixelEach(), pairs(((0, 1), (2, 3))), "ent")["ent"]["released-code"]
    shared = measured(OnePixelEach(), pairs(((0, 1), (0, 1))), "ent")["ent"]["released-code"]
    # Labels 0 1 0 0 and 1 0 1 0 are predicted, of 0 1 0 1 and 1 0 0 1.
    assert (apart["class_accuracy"][-1], shared["class_accuracy"][-1]) == (37.5, 62.5)
    assert apart["confusion"] == shared["confusion"]


def test_the_readings_of_a_fixed_network_agree():
    found = measured(OnePixelEach(), pairs(), "ent")["ent"]
    assert list(found) == list(READINGS)
    assert found["after-task"] == found["released-code"] == found["shuffled"]


def test_scores_beyond_a_tasks_classes_are_left_out():
    class Wide(OnePixelEach):
        def logits(self, inputs, task):
            return torch.cat([super().logits(inputs, task), torch.full((len(inputs), 3), 9.0)], dim=1)

    assert measured(Wide(), pairs(), "ent") == measured(OnePixelEach(), pairs(), "ent")


def test_positions_count_the_classes_task_by_task():
    classes = Classes([(7, 9), (1, 4, 5)], torch.device("cpu"))
    assert classes.absolute.tolist() == [7, 9, 1, 4, 5]
    assert classes.task.tolist() == [0, 0, 1, 1, 1]
    assert classes.first.tolist() == [0, 2]
    assert classes.of_first(1).absolute.tolist() == [7, 9]


class Tied(Method):
    """Every network gives the same scores and the same features."""

    tasks = 2

    def logits(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        return torch.zeros(len(inputs), 2)

    def features(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        return torch.ones(len(inputs), 3)


def test_ties_go_to_the_lowest_task_and_class():
    found = measured(Tied(), pairs(), "ent", "fecam")
    for procedure in ("ent", "fecam"):
        for reading in READINGS:
            assert found[procedure][reading]["confusion"] == [[4, 0], [4, 0]]
            assert found[procedure][reading]["class_accuracy"] == [50.0, 25.0]


class Nearer(Method):
    """FeCAM's distances, chosen so that a later network ties with an earlier class: the lowest class must win."""

    tasks = 2

    def features(self, inputs: torch.Tensor, task: int) -> torch.Tensor:
        return torch.zeros(len(inputs), 1)


def test_a_tie_found_later_still_goes_to_the_lowest_class():
    class Candidates:
        def learn(self, method, known):
            pass

        def candidates(self, networks, inputs, best):
            # Class 3 (task 2) first, in the network of task 1; class 0 (task 1) as near, in that of task 2.
            one = torch.ones(len(inputs))
            for network, task, value, label in [(0, 0, 2.0, 0), (0, 1, 1.0, 1), (1, 0, 1.0, 0), (1, 1, 1.0, 1)]:
                yield network, task, value * one.double(), label * one.long()

    classes = Classes([(0, 1), (2, 3)], torch.device("cpu"))
    batches = [torch.zeros(3, 2)]
    predicted = inference.predict(Candidates(), Nearer(), classes, batches, 3, every=True)
    assert predicted.tolist() == [[0] * 3, [0] * 3]
    assert inference.predict(Candidates(), Nearer(), classes, batches, 3).tolist() == [[0] * 3]


@pytest.mark.parametrize("every", [True, False])
def test_a_procedure_is_told_the_best_values_so_far(every):
    told = []

    class Candidates:
        def learn(self, method, known):
            pass

        def candidates(self, networks, inputs, best):
            for network, task, value in [(0, 0, 4.0), (0, 2, 3.0), (1, 1, 2.0), (2, 0, 1.0)]:
                told.append(best[:, 0].tolist())
                yield network, task, torch.full((len(inputs),), value).double(), torch.zeros(len(inputs)).long()

    classes = Classes([(0, 1), (2, 3), (4, 5)], torch.device("cpu"))
    predicted = inference.predict(Candidates(), Nearer(), classes, [torch.zeros(2, 2)], 2, every)
    inf = float("inf")
    if every:
        # Row l: of the first l + 1 tasks' networks and classes.
        assert told == [[inf] * 3, [4.0] * 3, [4.0, 4.0, 3.0], [4.0, 2.0, 2.0]]
        assert predicted.tolist() == [[0, 0], [2, 2], [0, 0]]
    else:
        assert told == [[inf] * 3, [4.0] * 3, [3.0] * 3, [2.0] * 3]
        assert predicted.tolist() == [[0, 0]]


# --- on digits, against loops ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> Benchmark:
    return split_digits(tasks=3)


@pytest.fixture(scope="module")
def untrained(digits) -> HyperMask:
    return methods.build(experiments.smoke("split_mnist/hypermask-t").config.method, digits, seed=1)


def test_ent_equals_a_loop_over_images_and_networks(digits, untrained):
    found = measured(untrained, digits, "ent")["ent"]
    predicted, true, labels = [], [], []
    for task in range(3):
        test = digits.task(task).test
        with torch.no_grad():
            logits = [untrained.logits(digits.prepare(test.images, task), i).double().numpy() for i in range(3)]
        for image, label in enumerate(test.labels.tolist()):
            entropies = []
            for scores in logits:
                probabilities = np.exp(scores[image] - scores[image].max())
                probabilities /= probabilities.sum()
                entropies.append(-sum(p * np.log(p) for p in probabilities if p > 0))
            predicted.append([int(np.argmin(entropies[:known])) for known in (1, 2, 3)])
            labels.append(label == [int(np.argmax(logits[i][image])) for i in predicted[-1]][-1])
            true.append(task)
    predicted, true, labels = np.array(predicted), np.array(true), np.array(labels)
    reading = found["released-code"]
    for known in (1, 2, 3):
        seen = true < known
        right = predicted[seen, known - 1] == true[seen]
        assert reading["task_accuracy"][known - 1] == pytest.approx(100 * right.mean())
    assert reading["class_accuracy"][-1] == pytest.approx(100 * (labels & (predicted[:, 2] == true)).mean())
    assert reading["confusion"] == [
        [int(((true == i) & (predicted[:, 2] == j)).sum()) for j in range(3)] for i in range(3)
    ]


def test_without_batch_norm_released_code_and_shuffled_coincide(digits, untrained):
    found = measured(untrained, digits, "ent", "fecam")
    for procedure in ("ent", "fecam"):
        assert found[procedure]["released-code"] == found[procedure]["shuffled"]


class OfWholeNumbers(HyperMask):
    """Takes inputs that are no floats, as networks with embeddings do."""

    def _apply_masks(self, masks, inputs, statistics_of=None):
        assert inputs.dtype == torch.int64
        return super()._apply_masks(masks, inputs / 16, statistics_of)


def test_inputs_keep_their_kind_in_mixed_batches(digits, monkeypatch):
    def method(kind):
        torch.manual_seed(3)
        return kind(MLP(64, (20,), 2), tasks=3, embedding_size=8, hypernetwork_hidden=(10,), seed=2)

    expected = measured(method(HyperMask), digits, "ent")
    monkeypatch.setattr(type(digits), "_prepare", lambda self, images, task, augmentation: images.flatten(1).long())
    assert measured(method(OfWholeNumbers), digits, "ent") == expected


def with_batch_norm() -> HyperMask:
    torch.manual_seed(3)
    target = nn.Sequential(nn.Linear(64, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 2))
    return HyperMask(target, tasks=3, embedding_size=8, hypernetwork_hidden=(10,), seed=2)


def test_with_batch_norm_the_batch_matters(digits):
    found = measured(with_batch_norm(), digits, "ent", "fecam")
    for procedure in ("ent", "fecam"):
        released, shuffled = found[procedure]["released-code"], found[procedure]["shuffled"]
        # One task alone is one batch in both readings.
        assert released["class_accuracy"][0] == shuffled["class_accuracy"][0]
        assert released["confusion"] != shuffled["confusion"]


@pytest.mark.parametrize("size", [1, 37])
def test_results_do_not_depend_on_the_size_of_batches(size, untrained, monkeypatch):
    two_tasks = split_digits(tasks=2)
    whole = measured(untrained, two_tasks, "ent", "fecam")
    for module in (evaluation, inference):
        monkeypatch.setattr(module, "BATCH", size)
    assert measured(untrained, two_tasks, "ent", "fecam") == whole


@pytest.mark.parametrize("seed", [1, 2])
def test_shuffled_batches_are_of_all_tasks_in_an_order_of_the_seed(seed, monkeypatch):
    asked = []

    class Listening(inference.ENT):
        def candidates(self, networks, inputs, best):
            asked.append(inputs.tolist())
            return super().candidates(networks, inputs, best)

    for module in (evaluation, inference):
        monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setitem(inference.PROCEDURES, "ent", Listening)
    measure({}, "ent", OnePixelEach(), pairs(), 1, seed)
    # First the two tasks in their order, for the other readings.
    images = [list(map(float, pixels)) for task in PIXELS for pixels in task]
    expected = [images[0:3], images[3:4], images[4:7], images[7:8]]
    for j, size in enumerate((4, 8)):
        order = torch.randperm(size, generator=generator(seed, "inference order", j))
        expected += [[images[place] for place in chosen] for chosen in order.split(3)]
    assert asked == expected


def test_the_same_again_and_no_generator_or_mode_touched(digits, untrained):
    untrained.train()
    state = torch.random.get_rng_state()
    weights = {name: tensor.clone() for name, tensor in untrained.weights().items()}
    first = measured(untrained, digits, "ent", "fecam")
    assert measured(untrained, digits, "ent", "fecam") == first
    assert torch.equal(torch.random.get_rng_state(), state)
    assert untrained.training
    assert all(torch.equal(tensor, weights[name]) for name, tensor in untrained.weights().items())


def test_every_image_is_counted_once(digits, untrained):
    found = measured(untrained, digits, "ent", "fecam")
    sizes = [len(digits.task(task).test) for task in range(3)]
    for readings in found.values():
        for reading in readings.values():
            assert [sum(row) for row in reading["confusion"]] == sizes
            assert [len(reading[key]) for key in ("class_accuracy", "task_accuracy")] == [3, 3]


# --- refusals -------------------------------------------------------------------------------------


def test_unknown_procedures_unequal_heads_and_missing_features_are_refused():
    with pytest.raises(HyperMaskError, match="unknown procedure 'entropy' to infer the task; expected ent or fecam"):
        check(["entropy"], OnePixelEach(), pairs())
    uneven = Pairs(PIXELS, LABELS, [(0, 1), (2, 3, 4)])
    with pytest.raises(HyperMaskError, match=r"pairs has tasks of 2 and 3 classes; ent compares .* so use fecam"):
        check(["ent"], OnePixelEach(), uneven)
    check(["fecam"], Tied(), uneven)
    with pytest.raises(HyperMaskError, match="OnePixelEach gives no features, which fecam compares"):
        check(["fecam"], OnePixelEach(), pairs())


# --- in a run, and later from kept weights --------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, records.Record]:
    """The same run without inference, its weights kept, and with it."""
    experiment = experiments.smoke("split_mnist/hypermask-t").override(["iterations=20"])
    folder = tmp_path_factory.mktemp("project")
    return {
        "plain": run_experiment(experiment, 1, root=folder / "runs", keep_weights=True),
        "inferred": run_experiment(experiment, 1, root=folder / "other", infer=("ent", "fecam")),
    }


@pytest.fixture
def project(runs, tmp_path, monkeypatch) -> Path:
    """A project with a copy of the run that kept its weights; returns the record's file."""
    kept = runs["plain"].path
    below = kept.relative_to(kept.parents[3])
    shutil.copytree(kept.parents[3], tmp_path / "runs")
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    return tmp_path / "runs" / below


def without(payload: dict, *keys: str) -> dict:
    return {key: value for key, value in payload.items() if key not in keys}


def test_inference_changes_no_training_number(runs):
    times = ("task_seconds", "evaluation_seconds", "created", "content_sha256", "inference")
    assert runs["plain"].payload["inference"] is None
    assert list(runs["inferred"].payload["inference"]) == ["ent", "fecam"]
    assert without(runs["plain"].payload, *times) == without(runs["inferred"].payload, *times)
    assert all(np.array_equal(array, runs["inferred"].arrays()[name]) for name, array in runs["plain"].arrays().items())


def test_after_task_ends_as_released_code(runs):
    for readings in runs["inferred"].payload["inference"].values():
        after, released = readings["after-task"], readings["released-code"]
        assert after["class_accuracy"][-1] == released["class_accuracy"][-1]
        assert after["confusion"] == released["confusion"]
        assert after["class_accuracy"] != released["class_accuracy"]


def test_kept_weights_give_the_same_and_the_record_is_otherwise_as_it_was(runs, project):
    before = {path.name: path.read_bytes() for path in project.parent.iterdir()}
    record = kept_runs.infer(project)
    found = record.payload["inference"]
    assert without(found, "environment") == runs["inferred"].payload["inference"]
    assert found["environment"]["device"] == "cpu"
    changed = ("inference", "content_sha256")
    assert without(record.payload, *changed) == without(runs["plain"].payload, *changed)
    assert list(record.payload) == list(runs["plain"].payload)
    assert record.content_sha256 != runs["plain"].content_sha256
    after = {path.name: path.read_bytes() for path in project.parent.iterdir()}
    assert [name for name in before if before[name] != after[name]] == [project.name]
    assert after.keys() == before.keys()
    assert records.read(project).arrays().keys() == runs["plain"].arrays().keys()


def test_the_command_names_every_reading(project, capsys):
    assert cli.main(["infer", str(project), "--procedures", "ent", "--device", "cpu"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("split_mnist/hypermask-t seed 1: mean accuracy ")
    assert [line.split(":")[0] for line in lines] == [f"  ent, {reading}" for reading in READINGS]
    reading = records.read(project).payload["inference"]["ent"]["after-task"]
    assert lines[0] == (
        f"  ent, after-task: class {reading['class_accuracy'][-1]:.2f} % after the last task, "
        f"{np.mean(reading['class_accuracy']):.2f} % on average; task {reading['task_accuracy'][-1]:.2f} %"
    )


def refused(capsys, *arguments: str) -> str:
    assert cli.main(["infer", *arguments]) == 2
    return capsys.readouterr().err


def test_bad_runs_are_refused_in_one_sentence(project, capsys, tmp_path):
    elsewhere = tmp_path / "records" / "seed1.json"
    elsewhere.parent.mkdir()
    shutil.copy(project, elsewhere)
    before = elsewhere.read_bytes()
    assert refused(capsys, str(elsewhere)) == (
        "hypermask: seed1.json is not in its place in runs/, and other records are never changed; give a run of your "
        "own.\n"
    )
    assert elsewhere.read_bytes() == before
    assert "unknown procedure 'enty' to infer the task" in refused(capsys, str(project), "--procedures", "enty")
    (project.parent / "seed1-task3.safetensors").unlink()
    assert (
        "seed1-task3.safetensors is not beside the record; weights exist for runs made with --keep-weights"
        in refused(capsys, str(project))
    )
    assert records.read(project).payload["inference"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "diverged"}, "seed1.json is diverged; only finished runs have all networks"),
        ({"data": {"digits": "0" * 64}}, "the data here is not what seed1.json was trained on"),
        (
            {"experiment": "split_mnist/mine"},
            "is a run of split_mnist/mine, no named experiment whose data could be made",
        ),
    ],
)
def test_unfinished_runs_and_other_data_are_refused(changes, message, project, capsys, tmp_path):
    payload = records.read(project).payload | changes
    written = records.write(payload, None, tmp_path / "runs", overwrite=True)
    assert message in refused(capsys, str(written))


def test_weights_of_other_methods_are_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    tiny = experiments.smoke("split_mnist/hnet").override(["iterations=2", "tasks=2"])
    run = run_experiment(tiny, 1, root=tmp_path / "runs", keep_weights=True).path
    assert "seed1.json is a run of hnet; weights are read for hypermask alone, so infer while it" in refused(
        capsys, str(run), "--procedures", "ent"
    )
    with pytest.raises(HyperMaskError, match=r"^seed1.json is a run of hnet, and this makes HyperMask alone; make the"):
        HyperMask.load(run, 0)


def test_a_stopped_run_goes_on_with_what_it_had_inferred(runs, tmp_path):
    experiment = experiments.smoke("split_mnist/hypermask-t").override(["iterations=20"])

    def stop(task: int) -> None:
        if task == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, 1, root=tmp_path, infer=("ent", "fecam"), after_task=stop)
    learned = []
    record = run_experiment(experiment, 1, root=tmp_path, infer=("ent", "fecam"), after_task=learned.append)
    assert learned == [2, 3, 4]
    assert record.payload["inference"] == runs["inferred"].payload["inference"]


def test_any_method_can_be_read_while_it_runs(tmp_path):
    experiment = experiments.smoke("split_mnist/hnet").override(["iterations=2"])
    with pytest.raises(HyperMaskError, match="HNET gives no features, which fecam compares"):
        run_experiment(experiment, 1, root=tmp_path, infer=("fecam",))
    found = run_experiment(experiment, 1, root=tmp_path, infer=("ent",)).payload["inference"]
    assert list(found) == ["ent"]
    assert [len(reading["class_accuracy"]) for reading in found["ent"].values()] == [5, 5, 5]

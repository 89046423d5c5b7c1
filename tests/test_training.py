import copy
import hashlib
import json
import linecache
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from payloads import payload
from small_methods import Counter, Linear
from torch import nn

import hypermask
from hypermask import (
    HyperMask,
    TrainingConfig,
    checkpoints,
    experiments,
    files,
    identity,
    methods,
    metrics,
    records,
    split_digits,
    stopwatch,
    train,
    training,
)
from hypermask.benchmarks import permuted_mnist, split_mnist
from hypermask.benchmarks.arrays import Arrays, ImageSet
from hypermask.benchmarks.class_incremental import ClassIncremental, flip_and_crop
from hypermask.benchmarks.split_digits import SplitDigits
from hypermask.device import environment
from hypermask.errors import HyperMaskError
from hypermask.progress import Progress
from hypermask.schedule import Schedule, batch_order
from hypermask.seeds import generator
from hypermask.targets import MLP
from hypermask.training import run_experiment

TINY = TrainingConfig(iterations=20, batch_size=16)


def tiny(*assignments: str) -> experiments.Experiment:
    small = ["tasks=2", "iterations=20", "target_hidden=8", "embedding_size=4", "hypernetwork_hidden=4"]
    given = {assignment.partition("=")[0] for assignment in assignments}
    kept = [assignment for assignment in small if assignment.partition("=")[0] not in given]
    return experiments.smoke("split_mnist/hypermask-t").override([*kept, *assignments])


def hypermask_on_digits(tasks: int = 2, **values) -> HyperMask:
    torch.manual_seed(1)
    return HyperMask(MLP(64, (8,), 2), tasks=tasks, embedding_size=4, hypernetwork_hidden=(4,), **values)


# -- end to end ---------------------------------------------------------------------------------------------


class MyNet(nn.Module):
    """A network of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.out = nn.Linear(4 * 16, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(F.relu(self.conv(x.view(-1, 1, 8, 8))).flatten(1))


def test_ones_own_network_learns_split_digits():
    torch.manual_seed(0)
    model = HyperMask(MyNet(), tasks=2, embedding_size=8, hypernetwork_hidden=(10, 10))
    record = train(model, split_digits(tasks=2))
    assert record.finished
    assert record.accuracy.shape == (2, 2)
    assert np.nanmin(record.accuracy) > 90
    assert record.config["training"]["iterations"] == 500
    assert record.experiment == "split_digits/own"
    assert record.config["method"]["target"] == "MyNet"


def test_the_readmes_example_runs_as_it_stands(project_root, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "train(" in block]
    assert "HyperMask(MyNet()" in example
    code = [line for line in example.splitlines() if line.strip()]
    assert len(code) <= 15
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["record"].finished
    assert metrics.mean_accuracy(names["record"].accuracy) > 90


@pytest.mark.parametrize("name", ["split_mnist/hypermask-t", "split_mnist/hypermask-f"])
def test_a_smoke_run_learns_and_its_record_is_whole(tmp_path, name):
    experiment = experiments.smoke(name)
    record = run_experiment(experiment, 1, root=tmp_path, device="cpu")
    assert metrics.mean_accuracy(record.accuracy) > 75
    assert record.path == records.location(tmp_path, name, experiment.config.hash, 1)
    assert set(record.payload) == {*records.KEYS, "content_sha256"}
    assert record.payload["config"] == experiment.config.to_dict()
    assert (record.payload["overrides"], record.seed, record.tasks) == ([], 1, 5)
    assert [len(record.payload[key]) for key in ("task_seconds", "evaluation_seconds", "validation")] == [5, 5, 5]
    assert record.payload["peak_memory_mb"] == [None] * 5
    assert record.payload["data"] == split_digits().checksums
    assert (record.target_distance is None) == (name[-1] == "f")
    arrays = record.arrays()
    assert arrays["masked"].shape == arrays["unmasked"].shape == (5, 71, 2)
    assert [set(row) for row in arrays["labels"].tolist()] == [{2 * task, 2 * task + 1} for task in range(5)]
    assert record.payload["logits"]["per_task"] == 71


def test_a_made_up_record_has_the_keys_of_a_real_one():
    """Other tests stand on made-up records: they have to look like trained ones."""
    record = train(hypermask_on_digits(), split_digits(tasks=2), TINY)
    made_up = payload()
    assert set(made_up) == set(record.payload) - {"content_sha256"}
    assert set(made_up["environment"]) == set(record.environment)


class Doubled(MyNet):
    """The same modules, and another forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Sloped(MyNet):
    """Differs in a value that no module shows."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(super().forward(x), self.slope)


class Seeded(MyNet):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed


def test_other_networks_and_other_data_are_other_configurations():
    def hash_of(target, benchmark=None, **values):
        torch.manual_seed(0)
        method = HyperMask(target(), tasks=2, embedding_size=4, hypernetwork_hidden=(4,), **values)
        return train(method, benchmark or split_digits(tasks=2), TrainingConfig(iterations=1, batch_size=8)).config_hash

    hashes = [
        hash_of(MyNet),
        hash_of(lambda: MLP(64, (8,), 2)),
        hash_of(lambda: MLP(64, (9,), 2)),
        hash_of(lambda: MLP(64, (8,), 2, activation="elu")),
        hash_of(MyNet, split_digits(tasks=2, validation=60)),
        hash_of(MyNet, output_bias=None),
        hash_of(Doubled),
        hash_of(lambda: Sloped(0.0)),
        hash_of(lambda: Sloped(0.5)),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hash_of(MyNet) == hashes[0]
    assert hash_of(lambda: Seeded(1)) == hash_of(lambda: Seeded(2))


class Strong(Linear):
    def __init__(self, strength: float, seed: int) -> None:
        super().__init__(2, 64)
        self.strength, self.seed = strength, seed


def test_what_ones_own_method_was_made_with_is_part_of_its_configuration_without_describe():
    training = TrainingConfig(iterations=1, batch_size=8)
    made = [train(Strong(*values), split_digits(tasks=2), training) for values in ((0.0, 1), (10.0, 1), (0.0, 2))]
    assert made[0].config_hash == made[2].config_hash != made[1].config_hash


TYPED = """
import torch
from torch import nn

class Typed(nn.Module):
    factor = 2

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 2)

    @property
    def half(self):
        return 0.5

    @staticmethod
    def shift(x):
        return x + 1

    def forward(self, x):
        return sum(self.factor * self.half * part for part in [self.layer(self.shift(x))])
"""


@pytest.mark.parametrize("kept", [True, False], ids=["as a notebook keeps it", "source not kept"])
def test_versions_of_a_class_without_a_file_are_other_configurations(kept):
    def hash_of(source: str, copied: bool = False) -> str:
        names = {"__name__": "__main__"}
        # Of a name of its own: what one case keeps is not to be found by the other.
        cell = f"<cell {kept} {files.sha256(source.encode())}>"
        if kept:
            linecache.cache[cell] = (len(source), None, source.splitlines(keepends=True), cell)
        exec(compile(source, cell, "exec"), names)
        torch.manual_seed(0)
        method = HyperMask(names["Typed"](), tasks=2, embedding_size=4, hypernetwork_hidden=(4,))
        if copied:
            # Copying leaves a note of Python's in the class, which makes it no other version.
            copy.deepcopy(method)
        return train(method, split_digits(tasks=2), TrainingConfig(iterations=1, batch_size=8)).config_hash

    changes = {"factor = 2": "factor = 3", "0.5": "0.25", "x + 1": "x - 1", "self.factor * self.half": "self.half"}
    hashes = [hash_of(TYPED), *(hash_of(TYPED.replace(*change)) for change in changes.items())]
    assert hash_of(TYPED, copied=True) == hashes[0]
    assert len(set(hashes)) == len(hashes)


def test_benchmarks_that_prepare_images_otherwise_are_other_configurations():
    class Brighter(SplitDigits):
        def _prepare(self, images, task, augmentation):
            return 2 * super()._prepare(images, task, augmentation)

    def hash_of(benchmark) -> str:
        torch.manual_seed(0)
        method = Linear(2, math.prod(benchmark.input_shape))
        return train(method, benchmark, TrainingConfig(iterations=1, batch_size=8)).config_hash

    hashes = [
        hash_of(split_mnist(tasks=2)),
        hash_of(split_mnist(tasks=2, augment=False)),
        hash_of(split_mnist(tasks=2, normalise=False)),
        hash_of(split_digits(tasks=2)),
        hash_of(Brighter(2, 40, "cpu")),
    ]
    assert len(set(hashes)) == len(hashes)


def small_method(inputs: int, classes: int) -> HyperMask:
    torch.manual_seed(0)
    return HyperMask(MLP(inputs, (2,), classes), tasks=2, embedding_size=2, hypernetwork_hidden=(2,))


def test_benchmarks_that_augment_otherwise_are_other_configurations():
    def shifted(by: int):
        return lambda images, generator: images.roll(by, dims=-1)

    def hash_of(augmentation) -> str:
        draw = np.random.default_rng(1)
        arrays = {
            part: Arrays(draw.integers(0, 256, (24, 3, 4, 4), dtype=np.uint8), np.arange(24) % 4)
            for part in ("train", "test")
        }
        images = ImageSet(**arrays, class_names=tuple("abcd"), checksums={"made up": "0"})
        benchmark = ClassIncremental(
            *("shapes", images, [[0, 1], [2, 3]]),
            **{"validation": 2, "augmentation": augmentation, "statistics": "imagenet", "device": "cpu"},
        )
        return train(small_method(48, 2), benchmark, TrainingConfig(iterations=1, batch_size=4)).config_hash

    hashes = [hash_of(made) for made in (None, flip_and_crop(1), flip_and_crop(2), shifted(1), shifted(2))]
    assert len(set(hashes)) == len(hashes)
    assert hash_of(shifted(2)) == hashes[-1]


def test_seeds_of_one_configuration_may_draw_the_benchmark_anew():
    """Their runs are to have one mean, though each has permutations of its own."""
    runs = [
        train(small_method(1024, 10), permuted_mnist(tasks=2, seed=seed), TrainingConfig(iterations=1), seed=seed)
        for seed in (1, 2)
    ]
    assert runs[0].payload["data"]["permutations"] != runs[1].payload["data"]["permutations"]
    assert runs[0].config_hash == runs[1].config_hash


def test_tensors_that_share_memory_are_kept_as_they_are(tmp_path):
    whole = torch.arange(6.0)
    tensors = {"whole": whole, "view": whole.view(2, 3), "part": whole[2:], "alone": torch.ones(2)}
    checkpoints.save_tensors(tmp_path / "weights.safetensors", tensors, {})
    found, _ = checkpoints.load_tensors(tmp_path / "weights.safetensors")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def test_weight_decay_would_change_wsns_finished_networks():
    experiment = experiments.get("permuted_mnist_10/wsn")
    with pytest.raises(HyperMaskError, match="WSN keeps the weights of finished tasks as they are, and weight_decay"):
        experiment.override(["optimizer=sgd", "weight_decay=0.0005"])
    benchmark = split_digits(tasks=2)
    method = methods.build(experiment.config.method, benchmark, 1)
    with pytest.raises(HyperMaskError, match="WSN keeps the weights of finished tasks"):
        train(method, benchmark, TrainingConfig(iterations=1, optimizer="sgd", weight_decay=0.0005))


class Least(hypermask.Method):
    """What a method has to have."""

    tasks = 2

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 2)

    def loss(self, inputs, labels, task, iteration, iterations):
        return F.cross_entropy(self.layer(inputs), labels)

    def logits(self, inputs, task):
        return self.layer(inputs)


def test_a_method_needs_tasks_loss_and_logits_alone(tmp_path):
    torch.manual_seed(0)
    record = train(Least(), split_digits(tasks=2), TrainingConfig(iterations=50), root=tmp_path)
    assert record.accuracy[0, 0] > 90
    assert record.config["method"]["name"] == "Least"
    assert records.to_frame([tmp_path])["method.name"].tolist() == ["Least"]


def test_weights_are_kept_for_ones_own_network(tmp_path):
    torch.manual_seed(0)
    model = HyperMask(MyNet(), tasks=2, embedding_size=4, hypernetwork_hidden=(4,), output_bias="conv.bias")
    record = train(model, split_digits(tasks=2), TINY, root=tmp_path, keep_weights=True)
    loaded = HyperMask.load(record.path, 1, target=MyNet())
    assert loaded.output_bias == "conv.bias"
    assert all(torch.equal(tensor, loaded.weights()[name]) for name, tensor in model.weights().items())
    with pytest.raises(HyperMaskError, match=r"^weights are kept beside a record, and there will be none; name its"):
        train(Counter(2), split_digits(tasks=2), TINY, keep_weights=True)


def test_without_a_root_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    record = train(hypermask_on_digits(), split_digits(tasks=2), TINY)
    assert record.path is None
    assert record.payload["logits"] is None
    assert list(tmp_path.iterdir()) == []


def test_with_a_root_the_record_is_written_and_read_back(tmp_path):
    record = train(hypermask_on_digits(), split_digits(tasks=2), TINY, seed=3, name="digits/mine", root=tmp_path)
    assert record.path == tmp_path / "digits/mine" / record.config_hash[:12] / "seed3.json"
    assert records.read(record.path).payload == record.payload
    assert record.config_hash == files.sha256(files.canonical_json(record.config))
    assert record.arrays()["masked"].shape[0] == 2


def test_a_record_that_is_there_is_found_before_the_training(tmp_path, monkeypatch):
    """And a folder may be given as text."""
    train(Counter(2), split_digits(tasks=2), TINY, engine="eager", root=str(tmp_path))
    begun = []
    monkeypatch.setattr(Counter, "begin_task", lambda self, task: begun.append(task))
    with pytest.raises(HyperMaskError, match=r"seed1\.json is there already.*overwrite=True"):
        train(Counter(2), split_digits(tasks=2), TINY, engine="eager", root=tmp_path)
    with pytest.raises(HyperMaskError, match=r"experiment is 'mine'; expected BENCHMARK/METHOD"):
        train(Counter(2), split_digits(tasks=2), TINY, engine="eager", root=tmp_path, name="mine")
    assert begun == []
    monkeypatch.undo()
    again = train(Counter(2), split_digits(tasks=2), TINY, engine="eager", root=tmp_path, overwrite=True)
    assert again.finished


def test_a_record_names_the_code_that_was_there_when_the_run_began(monkeypatch):
    """A commit or an edit while it trains is not what it was trained with."""
    revisions = iter(["first", "second"])
    monkeypatch.setattr(training, "environment", lambda device: environment(device) | {"revision": next(revisions)})
    digests = iter("ab")
    monkeypatch.setattr(identity, "method_digest", lambda method: next(digests) * 64)
    record = train(hypermask_on_digits(), split_digits(tasks=2), TINY, after_task=lambda task: None)
    assert record.environment["revision"] == "first"
    assert record.payload["method_digest"] == "a" * 64


def test_the_digest_of_a_method_is_over_the_files_that_define_it():
    method = hypermask_on_digits()
    sources = [(Path(hypermask.__file__).parent / name).read_bytes() for name in method.sources]
    assert len(sources) > 1
    assert identity.method_digest(method) == hashlib.sha256(b"".join(sources)).hexdigest()
    assert identity.method_digest(method) != identity.method_digest(Counter(1))


def test_a_method_without_an_unmasked_network_is_recorded_too(tmp_path):
    record = train(Counter(2), split_digits(tasks=2), TINY, root=tmp_path, engine="eager")
    assert record.finished
    assert sorted(record.arrays()) == ["labels", "masked"]


def test_the_names_of_the_package():
    for name in hypermask.__all__:
        assert getattr(hypermask, name) is not None
    assert dir(hypermask) == sorted(hypermask.__all__)
    with pytest.raises(AttributeError, match="module 'hypermask' has no attribute 'training_loop'"):
        _ = hypermask.training_loop


# -- what is measured ---------------------------------------------------------------------------------------


def test_every_entry_of_the_accuracy_matrix_is_measured():
    """A method whose answer for old tasks turns over in the middle: row 0 is not copied down."""
    benchmark = split_digits(tasks=3)
    share = [(benchmark.task(j).test.labels == 1).float().mean().item() * 100 for j in range(3)]
    assert all(abs(value - 50) > 0.1 for value in share[:2])
    # 20 steps of 0.01 a task: the weight is 0.2, 0.4 and 0.6 at their ends.
    record = train(Counter(3, turning=0.3), benchmark, TrainingConfig(iterations=20, lr=0.01), engine="eager")
    expected = [[100 - share[0]], [share[0], share[1]], [share[0], share[1], share[2]]]
    for i, row in enumerate(expected):
        assert record.accuracy[i, : i + 1].tolist() == pytest.approx(row, abs=1e-4)
    assert all(math.isnan(record.accuracy[i, j]) for i in range(3) for j in range(i + 1, 3))


def test_target_distances_are_those_of_the_weights_after_each_task():
    model = hypermask_on_digits(3)
    layers: list[dict[str, torch.Tensor]] = []
    record = train(
        model,
        split_digits(tasks=3),
        TINY,
        after_task=lambda task: layers.append({name: t.clone() for name, t in model.shared_layers().items()}),
    )
    assert list(record.target_distance) == ["hidden.0", "output"]
    for name, distance in record.target_distance.items():
        for i in range(3):
            for j in range(3):
                by_hand = (layers[i][name] - layers[j][name]).double().abs().sum().item()
                assert distance[i, j] == pytest.approx(by_hand, rel=1e-6)
        assert distance[0, 2] > 0


class Diary(Progress):
    def __init__(self) -> None:
        self.lines: list[tuple] = []

    def begin(self, title, iterations, done=0):
        self.lines.append(("begin", title, iterations, done))

    def iteration(self, task, iteration, loss):
        self.lines.append(("iteration", task, iteration))

    def finished_task(self, task, accuracy, mean_accuracy, seconds):
        self.lines.append(("finished", task, accuracy, mean_accuracy))

    def reading(self, task, procedure):
        self.lines.append(("reading", task, procedure))

    def end(self):
        self.lines.append(("end",))


def test_what_is_reported_and_in_which_order():
    diary = Diary()
    method = Counter(2)
    training = TrainingConfig(iterations=3, lr=0.01)
    record = train(
        method,
        split_digits(tasks=2),
        training,
        seed=4,
        engine="eager",
        progress=diary,
        after_task=lambda task: diary.lines.append(("after", task)),
        infer=("ent",),
    )
    accuracy = record.accuracy
    assert diary.lines == [
        ("begin", "split_digits/own, seed 4", [3, 3], 0),
        *[("iteration", 0, i) for i in (1, 2, 3)],
        ("finished", 0, accuracy[0, 0], accuracy[0, 0]),
        ("after", 0),
        ("reading", 0, "ent"),
        *[("iteration", 1, i) for i in (1, 2, 3)],
        ("finished", 1, accuracy[1, 1], (accuracy[1, 0] + accuracy[1, 1]) / 2),
        ("after", 1),
        ("reading", 1, "ent"),
        ("end",),
    ]
    assert method.asked == [("begin", 0), ("end", 0, 0.03), ("begin", 1), ("end", 1, 0.06)]


def test_the_validation_curve_has_a_point_at_each_interval_and_at_the_end():
    record = train(Counter(2), split_digits(tasks=2), TINY, engine="eager", evaluate_every=8)
    for curve in record.payload["validation"]:
        assert curve["iteration"] == [8, 16, 20]
        assert len(curve["loss"]) == len(curve["accuracy"]) == 3
    assert record.payload["evaluation_interval"] == 8


# -- batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("images", "batch_size", "iterations"), [(100, 10, 25), (10, 7, 23), (5, 16, 4), (7, 7, 3)])
def test_every_image_comes_once_in_each_permutation_and_batches_are_equal(images, batch_size, iterations):
    order = batch_order(images, batch_size, iterations, seed=1, task=0)
    assert order.shape == (iterations, batch_size)
    assert order.dtype == torch.int64
    stream = order.flatten().tolist()
    whole, rest = divmod(len(stream), images)
    for permutation in range(whole):
        assert sorted(stream[permutation * images : (permutation + 1) * images]) == list(range(images))
    assert len(set(stream[whole * images :])) == rest


def test_permutations_differ_within_a_task_between_tasks_and_between_seeds():
    order = batch_order(50, 50, 2, seed=1, task=0)
    assert not torch.equal(order[0], order[1])
    assert not torch.equal(order, batch_order(50, 50, 2, seed=1, task=1))
    assert not torch.equal(order, batch_order(50, 50, 2, seed=2, task=0))
    assert torch.equal(order, batch_order(50, 50, 2, seed=1, task=0))


def test_a_longer_training_starts_with_the_same_batches():
    short, long = (batch_order(30, 8, n, seed=1, task=0) for n in (5, 50))
    assert torch.equal(long[:5], short)


class Recorder(Linear):
    """Keeps what it is shown."""

    def __init__(self, tasks: int, inputs: int) -> None:
        super().__init__(tasks, inputs)
        self.shown: list[tuple] = []

    def loss(self, inputs, labels, task, iteration, iterations):
        self.shown.append((inputs, labels, task, iteration, iterations))
        return super().loss(inputs, labels, task, iteration, iterations)


def test_the_method_is_shown_the_tasks_images_in_batch_order():
    benchmark = split_digits(tasks=2)
    method = Recorder(2, 64)
    train(method, benchmark, TrainingConfig(iterations=5, batch_size=16), seed=9, engine="eager")
    assert [(task, i, n) for *_, task, i, n in method.shown] == [(t, i, 5) for t in (0, 1) for i in range(1, 6)]
    for task in (0, 1):
        data = benchmark.task(task).train
        order = batch_order(len(data), 16, 5, seed=9, task=task)
        for i, (inputs, labels, *_) in enumerate(method.shown[5 * task : 5 * task + 5]):
            assert torch.equal(inputs, benchmark.prepare(data.images[order[i]], task))
            assert torch.equal(labels, data.labels[order[i]])


def test_augmentation_has_a_stream_of_its_own_in_every_task():
    benchmark = split_mnist(tasks=2)
    method = Recorder(2, 784)
    train(method, benchmark, TrainingConfig(iterations=3, batch_size=16), seed=5, engine="eager")
    for task in (0, 1):
        data, draw = benchmark.task(task).train, generator(5, "augmentation", task)
        order = batch_order(len(data), 16, 3, seed=5, task=task)
        for i, (inputs, *_) in enumerate(method.shown[3 * task : 3 * task + 3]):
            assert torch.equal(inputs, benchmark.prepare(data.images[order[i]], task, draw))


def test_training_images_are_augmented_and_test_images_are_not():
    method = Recorder(1, 784)
    benchmark = split_mnist(tasks=1)
    data = benchmark.task(0).train
    train(method, benchmark, TrainingConfig(iterations=2, batch_size=16), engine="eager")
    plain = benchmark.prepare(data.images[batch_order(len(data), 16, 2, seed=1, task=0)[0]], 0)
    assert method.shown[0][0].shape == plain.shape
    assert not torch.equal(method.shown[0][0], plain)
    unaugmented = Recorder(1, 784)
    train(unaugmented, split_mnist(tasks=1, augment=False), TrainingConfig(iterations=1, batch_size=16), engine="eager")
    assert torch.equal(unaugmented.shown[0][0], plain)


def test_an_epoch_is_every_batch_the_images_fill_the_last_one_completed():
    benchmark = split_digits(tasks=1)
    images = len(benchmark.task(0).train)
    method = Recorder(1, 64)
    train(method, benchmark, TrainingConfig(epochs=2, batch_size=100), engine="eager")
    assert images % 100 != 0
    assert len(method.shown) == 2 * math.ceil(images / 100)
    assert {len(labels) for _, labels, *_ in method.shown} == {100}


# -- learning rate, optimizer, choice of the model ----------------------------------------------------------

LOSSES = [
    *(1.0, 0.9, 0.9, 0.95, 0.91, 0.9, 0.9, 0.9, 0.9, 0.8999, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9),
    *(float("nan"), 0.5, float("inf"), float("nan"), *[0.5] * 40, 0.4, *[0.4] * 60),
]


@pytest.mark.parametrize("lr", [1e-3, 1e-4, 2e-6, 1e-7])
def test_the_schedule_is_torchs_reduce_on_plateau(lr):
    training = TrainingConfig(epochs=1, scheduler="plateau", lr=lr)
    ours = Schedule(training, epochs=1)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=5, threshold=0, min_lr=1e-6)
    rates = []
    for loss in LOSSES:
        theirs.step(loss)
        rates.append(ours.after_epoch(loss))
        assert rates[-1] == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert rates[-1] == pytest.approx(min(lr, 1e-6))


def test_the_rate_halves_at_the_sixth_epoch_in_a_row_without_a_lower_loss():
    schedule = Schedule(TrainingConfig(epochs=1, scheduler="plateau", lr=0.8), epochs=1)
    assert [schedule.after_epoch(loss) for loss in [1.0] + [1.0] * 6] == [0.8] * 6 + [0.4]


def test_the_cosine_schedule_is_torchs():
    ours = Schedule(TrainingConfig(epochs=7, scheduler="cosine", lr=0.1), epochs=7)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    for _ in range(7):
        optimizer.step()
        theirs.step()
        assert ours.after_epoch(1.0) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)


def test_without_a_scheduler_the_rate_stays():
    schedule = Schedule(TrainingConfig(epochs=1, lr=0.3), epochs=1)
    assert [schedule.after_epoch(1.0) for _ in range(20)] == [0.3] * 20


def test_the_schedule_reaches_the_optimizer_and_starts_anew_with_each_task():
    """The weight only moves away from the lowest validation loss, so the rate halves after epochs 2 and 3."""
    benchmark = split_digits(tasks=2)
    # An epoch is one batch.
    size = max(len(benchmark.task(task).train) for task in (0, 1))
    training = TrainingConfig(epochs=4, batch_size=size, scheduler="plateau", lr=0.4, lr_patience=0)
    method = Counter(2, turning=-1.0)
    train(method, benchmark, training, engine="eager")
    # Rates 0.4 (the first loss is the lowest so far), 0.4 (the second is higher: halve), 0.2, 0.1.
    ends = [entry[2] for entry in method.asked if entry[0] == "end"]
    assert ends == pytest.approx([1.1, 2.2], abs=1e-3)


def test_the_cosine_ends_with_the_last_epoch():
    """Four epochs of two steps at the rates 0.4, 0.34, 0.2 and 0.06, which the weight moves by."""
    benchmark = split_digits(tasks=1)
    size = math.ceil(len(benchmark.task(0).train) / 2)
    method = Counter(1)
    train(method, benchmark, TrainingConfig(epochs=4, batch_size=size, scheduler="cosine", lr=0.4), engine="eager")
    rates = [0.2 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    assert method.asked[-1] == ("end", 0, pytest.approx(2 * sum(rates), abs=1e-3))


def test_each_task_has_a_new_adam():
    """The gradient is 1 in the first task and 1e-6 in the second: an Adam that remembered would hardly move."""
    method = Counter(2, scales=(1.0, 1e-6))
    train(method, split_digits(tasks=2), TrainingConfig(iterations=10, lr=0.01), engine="eager")
    ends = [entry[2] for entry in method.asked if entry[0] == "end"]
    assert ends[0] == pytest.approx(0.1, rel=1e-3)
    assert ends[1] == pytest.approx(0.2, rel=2e-2)


@pytest.mark.parametrize(("choice", "end"), [("last", 0.4), ("lowest-validation-loss", 0.2)])
def test_the_model_that_is_kept(choice, end):
    """The validation loss is lowest at 0.2, the end of epoch 2 of 4."""
    benchmark = split_digits(tasks=1)
    size = len(benchmark.task(0).train)
    method = Counter(1, turning=0.21)
    training = TrainingConfig(epochs=4, batch_size=size, lr=0.1, model_choice=choice)
    record = train(method, benchmark, training, engine="eager")
    assert method.asked[-1] == ("end", 0, pytest.approx(end, abs=1e-3))
    if choice == "lowest-validation-loss":
        assert record.payload["validation"][0]["iteration"] == [1, 2, 3, 4]
        losses = record.payload["validation"][0]["loss"]
        assert losses.index(min(losses)) == 1


@pytest.mark.parametrize(
    "length", [{"epochs": 3, "model_choice": "lowest-validation-loss", "scheduler": "plateau"}, {"iterations": 3}]
)
def test_choices_and_curves_are_of_the_validation_images(length, monkeypatch):
    """As the weight grows, the loss falls on images of class 1, the validation's, and rises on those of class 0."""
    benchmark = split_digits(tasks=1)
    task = benchmark.task(0)
    ones, zeros = (
        replace(part, labels=torch.full_like(part.labels, label))
        for part, label in ((task.validation, 1), (task.test, 0))
    )
    monkeypatch.setattr(benchmark, "task", lambda index: replace(task, validation=ones, test=zeros))
    training = TrainingConfig(**length, batch_size=len(task.train), lr=0.1, lr_patience=0)
    method = Counter(1)
    record = train(method, benchmark, training, engine="eager", evaluate_every=1)
    assert method.asked[-1] == ("end", 0, pytest.approx(0.3, abs=1e-3))
    curve = record.payload["validation"][0]
    assert curve["loss"] == pytest.approx([math.log1p(math.exp(-weight)) for weight in (0.1, 0.2, 0.3)], abs=1e-3)
    assert (curve["accuracy"], record.payload["accuracy"]) == ([100.0] * 3, [[0.0]])


@pytest.mark.parametrize("values", [{"model_choice": "lowest-validation-loss"}, {"scheduler": "plateau"}])
def test_where_epochs_decide_their_ends_are_the_points_of_the_curve(values):
    """Any other point would be one of a model that was never a choice."""
    benchmark = split_digits(tasks=1)
    size = math.ceil(len(benchmark.task(0).train) / 4)
    settings = TrainingConfig(epochs=3, batch_size=size, lr=0.01, **values)
    record = train(Counter(1), benchmark, settings, engine="eager", evaluate_every=3)
    assert record.payload["validation"][0]["iteration"] == [4, 8, 12]


def test_a_first_validation_loss_that_is_no_number_is_replaced_by_a_later_one():
    class Late(Counter):
        def logits(self, inputs, task):
            scores = super().logits(inputs, task)
            return scores * math.nan if float(self.weight) < 0.15 else scores

    method = Late(1)
    settings = TrainingConfig(epochs=3, batch_size=1000, lr=0.1, model_choice="lowest-validation-loss")
    record = train(method, split_digits(tasks=1), settings, engine="eager")
    assert record.payload["validation"][0]["loss"][0] is None
    assert method.asked[-1][2] > 0.15


def test_of_equal_validation_losses_the_first_is_kept():
    class Flat(Counter):
        def logits(self, inputs, task):
            return torch.zeros(len(inputs), 2)

    method = Flat(1)
    training = TrainingConfig(epochs=3, batch_size=1000, lr=0.1, model_choice="lowest-validation-loss")
    train(method, split_digits(tasks=1), training, engine="eager")
    assert method.asked[-1] == ("end", 0, pytest.approx(0.1, abs=1e-3))


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_the_chosen_model_of_hypermask_is_the_one_of_its_epoch(engine):
    """Trained to the best epoch alone, the weights are those that the choice brings back."""
    benchmark = split_digits(tasks=1)
    # A rate so large that it gets worse from the first epoch on.
    training = TrainingConfig(epochs=4, batch_size=64, lr=3.0, model_choice="lowest-validation-loss")
    chosen = hypermask_on_digits(1)
    losses = train(chosen, benchmark, training, engine=engine).payload["validation"][0]["loss"]
    best = losses.index(min(losses)) + 1
    assert best < 4
    per_epoch = math.ceil(len(benchmark.task(0).train) / 64)
    # The sparsity schedule depends on the length, so the shorter training keeps p = 0.
    alone = hypermask_on_digits(1)
    train(alone, benchmark, TrainingConfig(iterations=best * per_epoch, batch_size=64, lr=3.0), engine=engine)
    weights = alone.weights()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in chosen.weights().items())


def test_layers_that_draw_are_reproducible_and_evaluated_without_drawing():
    records_ = []
    for _ in range(2):
        torch.manual_seed(0)
        method = Linear(2, 64, dropout=0.5)
        torch.rand(len(records_))
        records_.append(train(method, split_digits(tasks=2), TINY, engine="eager"))
    assert records_[0].payload["accuracy"] == records_[1].payload["accuracy"]


# -- runs that fail -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["eager", "fused"])
def test_a_diverged_run_says_so_and_holds_no_nan(tmp_path, engine):
    experiment = tiny("lr=1e30")
    record = run_experiment(experiment, 1, root=tmp_path, device="cpu", engine=engine, evaluate_every=5)
    assert (record.status, record.finished) == ("diverged", False)
    assert record.payload["accuracy"] == [[None, None], [None, None]]
    assert (record.payload["target_distance"], record.payload["logits"]) == (None, None)
    text = record.path.read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert None in record.payload["validation"][0]["loss"]
    assert json.loads(text)["overrides"] == list(experiment.overrides)
    assert not record.path.with_suffix(".npz").exists()


class Causal(Linear):
    """Has a buffer that is infinite for good."""

    def __init__(self) -> None:
        super().__init__(2, 64)
        self.register_buffer("mask", torch.full((3, 3), -math.inf).triu(1))


def test_infinite_buffers_are_no_divergence():
    assert train(Causal(), split_digits(tasks=2), TINY).finished


class Exploding(Counter):
    """Blows up in a task, the second as a rule; what follows a task's steps cannot take what is not finite."""

    blows_up = 1

    def loss(self, inputs, labels, task, iteration, iterations):
        scale = math.nan if task == self.blows_up else 1.0
        return super().loss(inputs, labels, task, iteration, iterations) * scale

    def end_task(self, task):
        super().end_task(task)
        assert self.weight.isfinite()

    def collect_statistics(self, task, inputs, labels):
        assert self.weight.isfinite()


def test_a_run_that_diverges_later_keeps_the_tasks_before(tmp_path):
    diary = Diary()
    record = train(Exploding(3), split_digits(tasks=3), TINY, root=tmp_path, engine="eager", progress=diary)
    assert record.status == "diverged"
    rows = record.payload["accuracy"]
    assert rows[0][0] is not None
    assert rows[1:] == [[None] * 3] * 2
    assert diary.lines[-1] == ("end",)
    assert [line[1] for line in diary.lines if line[0] == "finished"] == [0]


class Overflowing(Counter):
    """Its weights stay finite, and from its second task on the scores of its first are not."""

    def logits(self, inputs, task):
        scores = super().logits(inputs, task)
        return scores + math.inf if task == 0 and sum(what == "end" for what, *_ in self.asked) > 1 else scores


def test_scores_without_softmax_are_divergence_and_no_accuracy(tmp_path):
    record = train(Overflowing(3), split_digits(tasks=3), TINY, root=tmp_path, engine="eager", infer=("ent",))
    assert (record.status, record.payload["inference"]) == ("diverged", None)
    rows = record.payload["accuracy"]
    assert rows[0][0] is not None
    assert rows[1:] == [[None] * 3] * 2


def test_frozen_features_that_diverge_are_recorded_as_that(tmp_path):
    experiment = experiments.smoke("split_cifar100_5x20/ncm").override(["lr=1e12"])
    record = run_experiment(experiment, 1, root=tmp_path, device="cpu")
    assert record.status == "diverged"


def test_what_is_asked_of_a_run_is_named_where_there_is_no_such_thing():
    benchmark = split_digits(tasks=2)
    with pytest.raises(HyperMaskError, match=r"^training is {'iterations': 3}; expected a TrainingConfig, say Train"):
        train(Counter(2), benchmark, {"iterations": 3})
    with pytest.raises(
        HyperMaskError, match=r"^epochs is no setting of a run; expected engine, evaluate_every, .*infer"
    ):
        train(Counter(2), benchmark, epochs=3)
    for values, words in (
        ({"lr": "0.1"}, "lr is '0.1'; expected a number"),
        ({"epochs": 1.5}, "epochs is 1.5; expected"),
    ):
        with pytest.raises(HyperMaskError, match=f"^{re.escape(words)}"):
            TrainingConfig(**{"epochs": 1} | values)
    record = train(hypermask_on_digits(tasks=np.int64(2)), benchmark, TINY, infer="ent")
    assert set(record.payload["inference"]) == {"ent"}


def test_afterwards_layers_that_draw_are_off():
    torch.manual_seed(1)
    method, benchmark = Linear(2, 64, dropout=0.5), split_digits(tasks=2)
    train(method, benchmark, TINY)
    inputs = benchmark.prepare(benchmark.task(0).test.images, 0)
    assert torch.equal(method.logits(inputs, 0), method.logits(inputs, 0))


def test_a_run_leaves_the_callers_generator_as_it_was():
    """Networks that are made between runs are to differ."""
    torch.manual_seed(7)
    expected = [torch.rand(1).item() for _ in range(3)]
    torch.manual_seed(7)
    drawn = []
    for _ in range(3):
        drawn.append(torch.rand(1).item())
        train(Counter(2), split_digits(tasks=2), TrainingConfig(iterations=2))
    assert drawn == expected


class Noisy(SplitDigits):
    """Differs in a number that only an attribute tells."""

    def __init__(self, noise: float) -> None:
        super().__init__(2, 40, "cpu")
        self.noise, self.seed = noise, round(noise)


def test_plain_values_of_ones_own_benchmark_are_part_of_the_configuration():
    hashes = [
        train(Counter(2), Noisy(noise), TrainingConfig(iterations=1)).config_hash for noise in (0.1, 0.2, 0.2, 100.0)
    ]
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3
    assert train(Counter(2), Noisy(0.1), TrainingConfig(iterations=1)).config["benchmark"]["class"] == "Noisy"
    assert "class" not in train(Counter(2), split_digits(tasks=2), TINY).config["benchmark"]


def test_a_task_shorter_than_an_epoch_has_its_last_model_as_a_choice():
    """Images are 213 a task; where no epoch ends there would be nothing to choose from, and no curve."""
    training = TrainingConfig(iterations=3, batch_size=8, scheduler="plateau", model_choice="lowest-validation-loss")
    record = train(hypermask_on_digits(), split_digits(tasks=2), training)
    assert [curve["iteration"] for curve in record.payload["validation"]] == [[3], [3]]
    assert record.validation_accuracy is not None


class Wide(Linear):
    """Its tasks share a layer of which each has two outputs."""

    def __init__(self) -> None:
        super().__init__(2, 64)
        self.layer = nn.Linear(64, 4)

    def logits(self, inputs, task):
        return self.layer(inputs)[:, 2 * task : 2 * task + 2]

    def unmasked_logits(self, inputs):
        return self.layer(inputs)


def test_a_shared_network_with_more_outputs_leaves_its_logits_out(tmp_path):
    torch.manual_seed(1)
    record = train(Wide(), split_digits(tasks=2), TINY, root=tmp_path)
    assert set(record.arrays()) == {"masked", "labels"}


def test_a_method_and_a_benchmark_of_different_length_are_one_sentence():
    with pytest.raises(HyperMaskError) as caught:
        train(hypermask_on_digits(3), split_digits(tasks=2), TINY)
    assert str(caught.value) == "the method has 3 tasks and split_digits has 2; make them equal."


def test_bad_arguments_are_one_sentence(tmp_path):
    with pytest.raises(HyperMaskError, match=r"^evaluate_every is 0; expected 1 or more\.$"):
        train(Counter(2), split_digits(tasks=2), TINY, evaluate_every=0)
    with pytest.raises(HyperMaskError, match=r"^logits_per_task is -5; expected 1 or more\.$"):
        train(Counter(2), split_digits(tasks=2), TINY, logits_per_task=-5)
    with pytest.raises(HyperMaskError, match=r"^seed is -1; expected 0 or more\.$"):
        run_experiment(tiny(), -1, root=tmp_path)
    with pytest.raises(HyperMaskError, match=r"^device 'tpu' is not known"):
        run_experiment(tiny(), 1, root=tmp_path, device="tpu")
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_there_is_replaced_only_when_told_to(tmp_path):
    record = run_experiment(tiny(), 1, root=tmp_path, device="cpu")
    # By its time: two runs as short as these may be equal byte for byte.
    written = record.path.stat().st_mtime_ns
    with pytest.raises(HyperMaskError, match=r"seed1\.json is there already; move it away, or say that it may"):
        run_experiment(tiny(), 1, root=tmp_path, device="cpu")
    assert record.path.stat().st_mtime_ns == written
    again = run_experiment(tiny(), 1, root=tmp_path, device="cpu", overwrite=True)
    assert again.payload["accuracy"] == record.payload["accuracy"]
    assert again.path.stat().st_mtime_ns > written


def test_weights_that_were_kept_are_made_anew_with_their_record(tmp_path):
    """A run is made again for what it lacks to be inferred: its weights, which took as long, are not to be lost."""
    first = run_experiment(tiny(), 1, root=tmp_path, device="cpu", keep_weights=True)
    assert checkpoints.has_weights(first.path, 2)
    written = checkpoints.weights_path(first.path, 1).stat().st_mtime_ns
    again = run_experiment(tiny(), 1, root=tmp_path, device="cpu", overwrite=True, infer="ent")
    assert set(again.payload["inference"]) == {"ent"}
    assert checkpoints.weights_path(again.path, 1).stat().st_mtime_ns > written
    HyperMask.load(again.path, 1)
    plain = run_experiment(tiny(), 2, root=tmp_path, device="cpu")
    assert not checkpoints.has_weights(plain.path, 2)


def test_weights_of_an_earlier_run_do_not_stay_beside_the_record_of_one_that_ended_before(tmp_path, monkeypatch):
    given = {"root": tmp_path, "engine": "eager", "keep_weights": True, "overwrite": True, "name": "split_digits/mine"}
    with monkeypatch.context() as patch:
        patch.setattr(Exploding, "blows_up", None)
        kept = train(Exploding(3), split_digits(tasks=3), TINY, **given)
    diverged = train(Exploding(3), split_digits(tasks=3), TINY, **given)
    assert (kept.status, diverged.status) == ("finished", "diverged")
    assert kept.path == diverged.path
    left = [checkpoints.weights_path(kept.path, task).exists() for task in range(3)]
    assert left == [True, False, False]


def test_weights_of_another_run_are_not_read(tmp_path):
    """As when a run that replaces another is stopped."""
    kept = run_experiment(tiny(), 1, root=tmp_path, device="cpu", keep_weights=True)

    def stop(task):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other = tiny()
        run_experiment(other, 1, root=tmp_path / "other", device="cpu", keep_weights=True, after_task=stop)
    weights, facts = checkpoints.load_tensors(next((tmp_path / "other").rglob("seed1-task1.safetensors")))
    assert HyperMask.load(kept.path, 0).weights().keys() == weights.keys(), "equal runs have equal weights"
    facts["accuracy"] = [12.5]
    checkpoints.save_tensors(checkpoints.weights_path(kept.path, 0), weights, facts)
    with pytest.raises(HyperMaskError, match=r"^seed1-task1\.safetensors is of another run than the record beside it"):
        HyperMask.load(kept.path, 0)


def test_an_interrupted_run_leaves_no_record(tmp_path):
    class Interrupted(Diary):
        def finished_task(self, *details):
            raise KeyboardInterrupt

    progress = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny(), 1, root=tmp_path, device="cpu", progress=progress)
    assert progress.lines[-1] == ("end",)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_training_says_nothing_it_need_not(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(hypermask_on_digits(), split_digits(tasks=2), TINY)
    assert capfd.readouterr() == ("", "")


# -- times, and what a checkpoint is of ---------------------------------------------------------------------


def test_a_stopwatch_stands_still_while_it_is_paused(monkeypatch):
    now = iter([10.0, 13.0, 20.0, 22.0, 23.0, 30.0])
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(now))
    watch = stopwatch.Stopwatch(torch.device("cpu"))
    for _ in range(2):
        with watch.paused():
            pass
    assert watch.seconds() == 20.0 - 7.0 - 1.0


def resumable(settings=(), seed=1, data="a", weight=0.0):
    benchmark = split_digits(tasks=2)
    benchmark.checksums = {"pixels": data}
    method = Counter(2)
    method.set_weights({"weight": torch.tensor(weight)})
    return identity.resumable({"config_hash": "0" * 64, "seed": seed}, settings, benchmark, method)


@pytest.mark.parametrize(
    "other",
    [
        {"settings": ["eager"]},
        {"seed": 2},
        {"data": "b"},
        {"weight": 1.0},
    ],
    ids=str,
)
def test_a_run_of_anything_else_does_not_go_on_from_a_checkpoint(other):
    assert resumable() == resumable()
    assert resumable(**other) != resumable()


@pytest.mark.parametrize("fact", ["torch", "device_name", "threads", "version"])
def test_nor_does_one_of_other_libraries_devices_or_threads(fact, monkeypatch):
    before, facts = resumable(), environment(torch.device("cpu"))
    monkeypatch.setattr(identity, "environment", lambda device: facts | {fact: "another"})
    assert resumable() != before


@pytest.mark.parametrize("other", [{"engine": "eager"}, {"evaluate_every": 7}, {"infer": ("ent",)}], ids=str)
def test_nor_does_one_with_settings_that_decide_numbers(other, tmp_path, monkeypatch):
    asked = []
    plain = identity.resumable
    monkeypatch.setattr(
        identity, "resumable", lambda run, given, *rest: asked.append(given) or plain(run, given, *rest)
    )
    for given in ({}, {"logits_per_task": 7}, other):
        run_experiment(tiny("iterations=2"), 1, root=tmp_path, device="cpu", overwrite=True, **given)
    assert asked[0] == asked[1] != asked[2]


def test_nor_does_one_of_other_code(tmp_path, monkeypatch):
    for name in ("a.py", "b.c"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(identity, "PACKAGE", tmp_path)
    found = [resumable()]
    for name in ("a.py", "b.c"):
        (tmp_path / name).write_text("2")
        found.append(resumable())
    assert found[0] != found[1] != found[2]


def test_of_more_than_nine_states_the_latest_is_the_one_with_the_highest_number(tmp_path):
    with checkpoints.Checkpoints(tmp_path / "seed1.json", {"config": "a"}) as saved:
        for finished in range(1, 12):
            layers = [{"hidden": torch.tensor([float(task)])} for task in range(finished)]
            saved.save(checkpoints.State(finished, {"weight": torch.zeros(1)}, {}, layers))
        assert saved.latest().finished == 11
        # The one before stays in case the last is damaged.
        assert {path.name for path in tmp_path.rglob("state*")} == {"state10.safetensors", "state11.safetensors"}
        saved.remove()

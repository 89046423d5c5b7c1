import math

import pytest
import torch
from torch import nn

from hypermask import HyperMask, TrainingConfig, experiments, made_shapes, train
from hypermask.benchmarks import build
from hypermask.config import BenchmarkConfig
from hypermask.errors import HyperMaskError
from hypermask.targets import ResNet18
from hypermask.training import run_experiment

TASKS = 3
NO_LABELS = torch.empty(0, dtype=torch.int64)


def images(count, seed=0):
    return 0.7 + 2 * torch.randn(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def model(batch_stats="task", target=None):
    torch.manual_seed(4)
    made = HyperMask(
        target or ResNet18(3, (4, 4, 6, 8, 8), 2),
        tasks=TASKS,
        embedding_size=4,
        hypernetwork_hidden=(6,),
        p=15,
        batch_stats=batch_stats,
    )
    with torch.no_grad():
        for layer in made.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.weight.uniform_(0.5, 1.5)
                layer.bias.uniform_(-0.5, 0.5)
    return made


@pytest.fixture
def learned():
    """A network with the statistics of tasks 0 and 1, kept over images of different brightness."""
    made = model()
    for task in (0, 1):
        made.collect_statistics(task, lambda task=task: images(60, seed=task) * (1 + task), NO_LABELS)
    return made


@torch.no_grad()
@pytest.mark.parametrize("task", [0, 1])
def test_a_prediction_does_not_depend_on_its_batch(learned, task):
    learned.eval()
    inputs = images(120, seed=7)
    together = learned.logits(inputs, task)
    for size in (1, 37):
        parts = torch.cat([learned.logits(part, task) for part in inputs.split(size)])
        torch.testing.assert_close(parts, together, rtol=1e-4, atol=1e-5)
        assert torch.equal(parts.argmax(1), together.argmax(1))
    shuffled = torch.randperm(120, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(learned.logits(inputs[shuffled], task), together[shuffled], rtol=1e-4, atol=1e-5)
    batch = model("batch").eval()
    assert not torch.allclose(batch.logits(inputs[:37], task), batch.logits(inputs, task)[:37], rtol=1e-2, atol=1e-2)


@torch.no_grad()
def test_the_mode_of_the_network_makes_no_difference(learned):
    inputs = images(20, seed=7)
    evaluating = learned.eval().logits(inputs, 0)
    assert torch.equal(learned.train().logits(inputs, 0), evaluating)
    assert all(layer.training and layer.running_mean is None for layer in learned.task_statistics._layers)


@torch.no_grad()
def test_network_and_features_use_them_too(learned):
    inputs = images(20, seed=7)
    network = learned.task_network(1)
    torch.testing.assert_close(network.logits(inputs), learned.logits(inputs, 1))
    alone = torch.cat([network.features(part) for part in inputs.split(1)])
    torch.testing.assert_close(alone, learned.features(inputs, 1), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_on_the_training_images_they_are_the_batchs(learned):
    batch = model("batch").eval()
    for task in (0, 1):
        training = images(60, seed=task) * (1 + task)
        torch.testing.assert_close(learned.logits(training, task), batch.logits(training, task), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_every_task_has_its_own_and_an_unlearned_one_uses_the_batchs(learned):
    inputs = images(30, seed=7)
    assert learned.task_statistics.known.tolist() == [True, True, False]
    assert torch.equal(learned.eval().logits(inputs, 2), model("batch").eval().logits(inputs, 2))
    assert not torch.allclose(learned.task_statistics.mean0[0], learned.task_statistics.mean0[1])


def test_training_uses_the_batchs(learned):
    inputs, labels = images(16, seed=7), torch.arange(16) % 2
    assert torch.equal(learned.loss(inputs, labels, 0, 5, 10), model("batch").loss(inputs, labels, 0, 5, 10))


def test_mean_and_biased_variance_of_what_enters_the_first_layer():
    made = model()
    inputs = images(50)
    made.collect_statistics(1, lambda: inputs, NO_LABELS)
    with torch.no_grad():
        weight = made.target.stem[0].weight * made.masks(1)["stem.0.weight"]
        maps = nn.functional.conv2d(inputs, weight, padding=1).transpose(0, 1).flatten(1).double()
    kept = made.task_statistics
    torch.testing.assert_close(kept.mean0[1].double(), maps.mean(1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(kept.variance0[1].double(), maps.var(1, correction=0), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_they_travel_with_the_weights(learned):
    other = model()
    other.set_weights({name: tensor.clone() for name, tensor in learned.weights().items()})
    inputs = images(11, seed=3)
    assert all(torch.equal(other.logits(inputs, task), learned.logits(inputs, task)) for task in range(TASKS))


def test_the_batchs_statistics_keep_nothing():
    made = model("batch")
    made.collect_statistics(0, lambda: pytest.fail("the images are not asked for"), NO_LABELS)
    assert [name for name, _ in made.named_buffers()] == []
    assert "batch_stats" not in made.describe()


def test_a_network_without_batch_norm():
    torch.manual_seed(0)
    made = HyperMask(
        nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), tasks=1, hypernetwork_hidden=(3,), batch_stats="task"
    )
    made.collect_statistics(0, lambda: torch.ones(4, 12), NO_LABELS)
    assert made.logits(torch.ones(3, 12), 0).shape == (3, 2)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, inputs):
        return self.norm(self.layer(self.norm(inputs)))


def test_a_layer_that_is_called_twice_is_refused():
    made = HyperMask(Twice(), tasks=1, hypernetwork_hidden=(3,), batch_stats="task")
    with pytest.raises(HyperMaskError) as error:
        made.collect_statistics(0, lambda: torch.randn(5, 4), NO_LABELS)
    assert str(error.value) == (
        "batch-norm layer 1 of the network is called 2 times for one batch; statistics per task need layers that are "
        "called once, so set batch_stats=batch."
    )
    assert not made.task_statistics.known.any()


@pytest.mark.parametrize("kind", ["t", "f"])
def test_a_run_keeps_them_and_loading_brings_them_back(tmp_path, kind):
    small = experiments.smoke(f"split_cifar100/hypermask-{kind}").override(["batch_stats=task", "tasks=2", "epochs=2"])
    record = run_experiment(small, 1, root=tmp_path, device="cpu", keep_weights=True)
    assert record.finished
    assert record.config["method"]["batch_stats"] == "task"
    loaded = HyperMask.load(record.path, task=1)
    assert loaded.task_statistics.known.tolist() == [True, True]
    benchmark = build(BenchmarkConfig(**record.config["benchmark"]), 1, "cpu")
    for task in (0, 1):
        test = benchmark.task(task).test
        with torch.no_grad():
            logits = [loaded.logits(benchmark.prepare(part, task), task) for part in test.images.split(7)]
        accuracy = 100 * (torch.cat(logits).argmax(1) == test.labels).float().mean().item()
        assert accuracy == pytest.approx(record.accuracy[1, task], abs=1e-3)
    kept = loaded.task_statistics.mean3[1].clone()
    loaded.collect_statistics(1, lambda: benchmark.prepare(benchmark.task(1).train.images, 1), NO_LABELS)
    torch.testing.assert_close(loaded.task_statistics.mean3[1], kept)


def test_predicting_with_them_changes_nothing_in_training():
    benchmark = made_shapes(tasks=2)
    histories = []
    for batch_stats in ("batch", "task"):
        torch.manual_seed(1)
        made = HyperMask(
            ResNet18(3, (4, 4, 4, 4, 4), 2),
            tasks=2,
            hypernetwork_hidden=(5,),
            embedding_size=4,
            batch_stats=batch_stats,
        )
        train(made, benchmark, TrainingConfig(epochs=1, batch_size=25), engine="eager")
        histories.append({name: tensor for name, tensor in made.weights().items() if "statistics" not in name})
    assert histories[0].keys() == histories[1].keys()
    assert all(torch.equal(histories[0][name], histories[1][name]) for name in histories[0])
    assert all(math.isfinite(tensor.sum()) for tensor in histories[0].values())

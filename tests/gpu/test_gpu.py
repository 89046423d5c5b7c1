"""What only a CUDA device can show. Without one these tests are listed as not run at the end of the session."""

import gc

import numpy as np
import pytest
import torch

from hypermask import bench, benchmarks, experiments, methods
from hypermask import engine as engines
from hypermask.device import resolve
from hypermask.inference import READINGS, measure
from hypermask.mask import kept_rank, sparsify_all
from hypermask.records import location, read
from hypermask.seeds import generator
from hypermask.side_by_side import run_seeds
from hypermask.training import batch_order, run_experiment

SMALL = ["iterations=40", "tasks=3", "target_hidden=64,64"]


@pytest.fixture
def experiment():
    return experiments.get("split_mnist/hypermask-t").override(SMALL)


def begun(config, choice, task, steps, batch_size=128):
    """A method and the engine that is about to train a task of it, which follows untrained ones."""
    gc.collect()
    benchmark = benchmarks.build(config.benchmark, 1, "cuda")
    method = methods.build(config.method, benchmark, 1).to("cuda")
    method.begin_task(task)
    data = benchmark.task(task)
    order = batch_order(len(data.train), batch_size, steps, 1, task).to("cuda")
    batches = engines.Batches(benchmark, data, order, generator(1, "augmentation", task, "cuda"))
    return method, engines.make(choice, method, task, config.training, steps, batches)


def losses(config, choice, task, steps, batch_size=128):
    """Losses of the first steps of a task that follows untrained ones, and the weights after them."""
    method, engine = begun(config, choice, task, steps, batch_size)
    values = [engine.step(iteration).item() for iteration in range(steps)]
    assert choice != "fused" or engine._captured._graph is not None, "no step came from a graph"
    engine.synchronise()
    return np.array(values), {name: value.cpu() for name, value in method.weights().items()}


# In the first task sparsity rises from 0, and rounding soon decides which values are kept.
@pytest.mark.parametrize(("task", "steps", "tolerance"), [(0, 8, 1e-3), (2, 20, 1e-4)])
def test_fused_equals_eager_within_rounding(experiment, task, steps, tolerance):
    eager, _ = losses(experiment.config, "eager", task, steps)
    fused, _ = losses(experiment.config, "fused", task, steps)
    assert np.max(np.abs(fused / eager - 1)) < tolerance


def test_fused_is_reproducible_bit_for_bit(experiment):
    first, weights = losses(experiment.config, "fused", 2, 50)
    second, again = losses(experiment.config, "fused", 2, 50)
    assert np.array_equal(first, second)
    assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_fused_equals_eager_with_convolutions():
    small = experiments.smoke("split_cifar100/hypermask-t").config
    eager, _ = losses(small, "eager", 1, 12, batch_size=16)
    fused, _ = losses(small, "fused", 1, 12, batch_size=16)
    # Convolutions are in TF32, which makes more of a rounding.
    assert np.max(np.abs(fused / eager - 1)) < 2e-2


@pytest.mark.parametrize("name", ["split_mnist/hypermask-t", "split_mnist/hnet", "split_cifar100_5x20/ncm"])
def test_a_new_learning_rate_reaches_the_captured_step(name):
    method, engine = begun(experiments.smoke(name).config, "fused", 0, 12, batch_size=16)
    for iteration in range(6):
        engine.step(iteration)
    assert engine._captured._graph is not None

    def trained():
        return {name: parameter.detach().clone() for name, parameter in method.named_parameters()}

    before = trained()
    engine.set_learning_rate(0.0)
    engine.step(6)
    assert all(torch.equal(value, before[name]) for name, value in trained().items())
    engine.set_learning_rate(0.1)
    engine.step(7)
    assert any(not torch.equal(value, before[name]) for name, value in trained().items())


@pytest.mark.parametrize(("width", "previous"), [(25, 4), (100, 0), (100, 9), (100, 40), (100, 99), (200, 39)])
def test_the_kernel_equals_float64_at_the_papers_widths(width, previous):
    from hypermask.engine.output_layer_cuda import OutputLayer

    torch.manual_seed(0)
    rows, kappa = 50_001, 0.3
    weight = torch.nn.Parameter(torch.randn(rows, width, device="cuda") / width**0.5)
    bias = torch.nn.Parameter(torch.randn(rows, device="cuda"))
    start = torch.randn(previous, width, device="cuda")
    layer = OutputLayer(weight, bias, start, learning_rate=1e-3)
    w_start = torch.cat([weight, bias[:, None]], 1).detach().double()
    with torch.no_grad():
        weight += 1e-3 * torch.randn_like(weight)
    w = torch.cat([weight, bias[:, None]], 1).detach().double().requires_grad_()
    hidden = torch.cat([start + 1e-3 * torch.randn_like(start), torch.randn(1, width, device="cuda")])
    gradient = torch.randn(rows, device="cuda")

    def with_one(u):
        return torch.cat([u.double(), u.new_ones(len(u), 1, dtype=torch.float64)], 1)

    u = with_one(hidden).requires_grad_()
    difference = w @ u[:-1].T - w_start @ with_one(start).T
    loss = kappa * difference.square().sum() + (gradient.double() * (w @ u[-1])).sum()
    loss.backward()
    squares, hidden_gradient = layer.update(gradient, hidden, kappa)
    assert squares.item() == pytest.approx(difference.square().sum().item(), rel=1e-4, abs=1e-3)
    scale = u.grad[:, :-1].abs().max()
    assert (hidden_gradient - u.grad[:, :-1]).abs().max() < 1e-4 * scale
    # The first moment is a tenth of the gradient.
    found = 10 * torch.cat([layer._moments[0], layer._moments[2][:, None]], 1).double()
    assert (found - w.grad).norm() < 1e-4 * w.grad.norm()


def test_thresholds_equal_sorting():
    values = torch.rand(300_000, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    sizes, p = (200_000, 99_000, 1000), 30.0
    parts = sparsify_all(values, sizes, [p, p, p])
    for part, original in zip(parts, values.split(sizes), strict=True):
        lowest_kept = original.sort().values[kept_rank(len(original), p)]
        assert torch.equal(part, torch.where(original >= lowest_kept, original, 0.0))


def test_hnet_and_wsn_run_captured(tmp_path):
    for name in ("split_mnist/hnet", "permuted_mnist_10/wsn"):
        experiment = experiments.smoke(name)
        on_gpu = run_experiment(experiment, 1, root=tmp_path / "gpu", device="cuda")
        on_cpu = run_experiment(experiment, 1, root=tmp_path / "cpu", device="cpu")
        assert on_gpu.payload["engine"] == "fused"
        # Rounding, and draws where images are augmented, send short runs different ways: both have to learn, no more.
        assert abs(on_gpu.accuracy[-1] - on_cpu.accuracy[-1]).max() < 25


@pytest.mark.parametrize("procedure", ["ent", "fecam"])
def test_the_task_is_inferred_as_on_the_cpu(experiment, procedure):
    readings = {}
    for device in ("cuda", "cpu"):
        benchmark = benchmarks.build(experiment.config.benchmark, 1, device)
        method = methods.build(experiment.config.method, benchmark, 1).to(device)
        found = {}
        measure(found, procedure, method, benchmark, 2, seed=1)
        readings[device] = found[procedure]
    for reading in READINGS:
        for kind in ("class_accuracy", "task_accuracy"):
            on_gpu, on_cpu = (readings[device][reading][kind] for device in ("cuda", "cpu"))
            # Rounding decides between candidates that are as good as equal.
            assert on_gpu == pytest.approx(on_cpu, abs=0.1)


def test_seeds_side_by_side_equal_those_alone(experiment, tmp_path):
    together = list(run_seeds(experiment, [1, 2, 3], root=tmp_path / "together", device="cuda", workers=3))
    assert sorted(record.seed for record in together) == [1, 2, 3]
    for seed in (1, 2, 3):
        run_experiment(experiment, seed, root=tmp_path / "alone", device="cuda")
        place = [
            location(tmp_path / name, experiment.name, experiment.config.hash, seed) for name in ("together", "alone")
        ]
        assert np.array_equal(read(place[0]).accuracy, read(place[1]).accuracy, equal_nan=True)


def test_memory_is_flat_after_the_second_task(tmp_path):
    experiment = experiments.get("split_mnist/hypermask-t").override(["iterations=10"])
    record = run_experiment(experiment, 1, root=tmp_path, device="cuda")
    peaks = record.payload["peak_memory_mb"]
    assert max(peaks[2:]) <= 1.05 * peaks[1]


def test_the_bench_measures_memory_and_tf32():
    config = experiments.smoke("split_mnist/hypermask-t").config
    found = bench.measure("split_mnist", config, [1, 3], resolve("cuda"), iterations=6)
    assert all(megabytes > 0 for row in found["rows"] for megabytes in row["peak_memory_mb"].values())
    assert found["residual"][0]["tf32_error"] is not None

import numpy as np
import pytest
import torch

from hypermask import benchmarks, experiments, methods
from hypermask.methods.hnet import HNET
from hypermask.methods.wsn import WSN
from hypermask.model import HyperMask
from hypermask.training import run_experiment

KINDS = {"split_mnist/hypermask-t": HyperMask, "split_mnist/hnet": HNET, "split_cifar100/wsn": WSN}


def small(name: str) -> experiments.Experiment:
    return experiments.smoke(name).override(["tasks=3", "iterations=12"])


@pytest.mark.parametrize("name", KINDS)
def test_a_configuration_makes_its_method(name):
    config = small(name).config
    method = methods.build(config.method, benchmarks.build(config.benchmark, 1, "cpu"), seed=1)
    assert type(method) is KINDS[name]
    assert method.tasks == 3
    assert method.describe() == config.to_dict()["method"]


@pytest.mark.parametrize("name", ["split_mnist/hnet", "split_cifar100/wsn"])
def test_a_stopped_baseline_goes_on_as_if_it_had_not_been(name, tmp_path):
    whole = run_experiment(small(name), 1, device="cpu", root=tmp_path / "whole")

    def stop(task: int) -> None:
        if task == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(small(name), 1, device="cpu", root=tmp_path / "stopped", after_task=stop)
    gone_on = run_experiment(small(name), 1, device="cpu", root=tmp_path / "stopped")
    assert np.array_equal(gone_on.accuracy, whole.accuracy, equal_nan=True)
    assert np.array_equal(gone_on.arrays()["masked"], whole.arrays()["masked"])


@pytest.mark.parametrize("name", ["split_mnist/hnet", "split_cifar100/wsn"])
def test_a_step_asks_the_device_for_no_value(name):
    config = small(name).config
    benchmark = benchmarks.build(config.benchmark, 1, "cpu")
    # Tensors on the meta device have no values: .item(), a boolean index or any other look at one would raise.
    method = methods.build(config.method, benchmark, seed=1).to("meta")
    method.begin_task(2)
    optimizer = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], lr=torch.tensor(1e-3))
    inputs = torch.empty(8, *benchmark.input_shape, device="meta")
    labels = torch.empty(8, dtype=torch.int64, device="meta")
    loss = method.backward(inputs, labels, 2, torch.ones(1, device="meta"), 12, optimizer)
    assert (loss.shape, loss.device.type) == ((), "meta")


@pytest.mark.parametrize(("choice", "trains"), [("with-target", False), ("always", True)])
def test_batch_norm_of_a_fixed_target_trains_where_the_configuration_says_so(choice, trains):
    config = experiments.smoke("split_cifar100/hypermask-f").override([f"norm_parameters={choice}"]).config
    method = methods.build(config.method, benchmarks.build(config.benchmark, 1, "cpu"), seed=1)
    target = dict(method.target.named_parameters())
    norm = {
        f"{name}.{kind}"
        for name, part in method.target.named_modules()
        if isinstance(part, torch.nn.BatchNorm2d)
        for kind in ("weight", "bias")
    }
    assert norm
    assert {name for name, parameter in target.items() if parameter.requires_grad} == (norm if trains else set())


def test_hnet_starts_from_the_initialisation_that_the_configuration_names():
    def weights(choice: str) -> list[torch.Tensor]:
        config = small("split_mnist/hnet").override([f"initialisation={choice}"]).config
        method = methods.build(config.method, benchmarks.build(config.benchmark, 1, "cpu"), seed=1)
        return [*method.hypernetwork.layer_weight_tensors, *method.hypernetwork.layer_bias_vectors]

    xavier, hypnettorch = weights("xavier"), weights("hypnettorch")
    assert not any(torch.equal(mine, theirs) for mine, theirs in zip(xavier, hypnettorch, strict=True))
    for weight in xavier:
        # Biases are zero, weights uniform within sqrt(6 / (fan in + fan out)).
        bound = (6 / sum(weight.shape)) ** 0.5 if weight.ndim == 2 else 0.0
        assert 0.9 * bound <= weight.abs().max().item() <= bound

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

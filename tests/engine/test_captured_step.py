"""A step as a GPU captures it, without one: tensors that have no values, so that any look at one would raise."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode

from hypermask import benchmarks, experiments, mask, methods
from hypermask.engine import fused, optimizers, output_layer_cuda
from hypermask.engine.errors import UnavailableError


class NoKernel:
    """In place of the Triton kernel, which takes no such tensors."""

    def __getitem__(self, grid):
        return lambda *arguments, **constants: None


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(mask, "TOGETHER", ("cpu",))
    # Nothing of these tensors may be kept for later tests.
    monkeypatch.setattr(mask, "_segments", mask._segments.__wrapped__)
    monkeypatch.setattr(fused, "_kind_of_layer", lambda weight: output_layer_cuda.OutputLayer)
    monkeypatch.setattr(output_layer_cuda, "_update", NoKernel())
    made = optimizers.make

    def with_rate_on_the_device(*arguments, **options):
        optimizer = made(*arguments, **options)
        for group in optimizer.param_groups:
            group["lr"] = torch.empty(())
        return optimizer

    monkeypatch.setattr(optimizers, "make", with_rate_on_the_device)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("split_mnist/hypermask-t", 0),
        ("split_mnist/hypermask-t", 2),
        ("split_cifar100/hypermask-t", 0),
        ("split_cifar100/hypermask-f", 2),
        ("split_mnist/hnet", 2),
        ("permuted_mnist_10/wsn", 1),
        ("split_cifar100_5x20/ncm", 0),
    ],
)
@pytest.mark.usefixtures("as_on_a_gpu")
def test_it_asks_the_host_for_no_value(name, task):
    config = experiments.smoke(name).config
    benchmark = benchmarks.build(config.benchmark, 1, "cpu")
    method = methods.build(config.method, benchmark, 1)
    kind = fused._OutputLayerStep if isinstance(method, fused.OutputLayerMethod) else fused._AutogradStep
    mode = FakeTensorMode()
    with FakeCopyMode(mode):
        method = copy.deepcopy(method)
    with mode:
        method.begin_task(task)
        step = kind(method, task, config.training, 50)
        inputs = torch.empty(32, *benchmark.input_shape)
        labels = torch.empty(32, dtype=torch.int64)
        for _ in range(2):
            loss = step(inputs, labels, torch.empty(1, dtype=torch.int64))
    assert loss.shape == ()
    assert fused._capturable(method)


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (RuntimeError("there is no gcc.\nmore"), UnavailableError, "Triton does not start here (there is no gcc)"),
        (RuntimeError(), UnavailableError, "Triton does not start here (RuntimeError)"),
        (torch.OutOfMemoryError("full"), torch.OutOfMemoryError, "full"),
    ],
)
def test_a_kernel_that_does_not_start_is_told_before_the_training(monkeypatch, error, expected, words):
    class Broken:
        def __getitem__(self, grid):
            def launch(*arguments, **constants):
                raise error

            return launch

    monkeypatch.setattr(output_layer_cuda, "_update", Broken())
    weight, bias = torch.nn.Parameter(torch.zeros(4, 3)), torch.nn.Parameter(torch.zeros(4))
    with pytest.raises(expected) as caught:
        output_layer_cuda.OutputLayer(weight, bias, torch.empty(0, 3), learning_rate=1e-3)
    assert str(caught.value) == words

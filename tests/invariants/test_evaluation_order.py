"""A prediction of a multilayer perceptron does not depend on the images that share its batch."""

import pytest
import torch

from hypermask import experiments, methods
from hypermask.benchmarks import split_digits
from hypermask.training import train


@pytest.fixture(scope="module")
def learned():
    experiment = experiments.smoke("split_mnist/hypermask-t")
    benchmark = split_digits(tasks=2)
    method = methods.build(experiment.config.method, benchmark, 1)
    record = train(method, benchmark, experiment.config.training)
    return method, benchmark, record


@pytest.mark.parametrize("task", [0, 1])
@pytest.mark.parametrize("size", [1, 37, 1000])
@pytest.mark.parametrize("shuffled", [False, True])
@torch.no_grad()
def test_batch_size_and_order_change_no_prediction(learned, task, size, shuffled):
    method, benchmark, record = learned
    test = benchmark.task(task).test
    images = benchmark.prepare(test.images, task)
    whole = method.logits(images, task)
    order = torch.arange(len(test))
    if shuffled:
        order = torch.randperm(len(test), generator=torch.Generator().manual_seed(1))
    parts = torch.cat([method.logits(images[chosen], task) for chosen in order.split(size)])
    torch.testing.assert_close(parts, whole[order], rtol=1e-5, atol=1e-5)
    correct = (parts.argmax(dim=1) == test.labels[order]).sum().item()
    assert 100.0 * correct / len(test) == record.accuracy[1, task]

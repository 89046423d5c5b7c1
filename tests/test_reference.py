"""The reference loop computes what the engines compute."""

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from hypermask import benchmarks, engine, experiments, methods
from hypermask.benchmarks.augment import crop
from hypermask.benchmarks.split_mnist import CROP_PADDING
from hypermask.engine import Batches
from hypermask.mask import scheduled_sparsity
from hypermask.reference import ReferenceLoop
from hypermask.seeds import generator
from hypermask.training import batch_order

SEED = 3


def digits(p=30.0, l1="masked", trainable=True, output_regularizer="paper"):
    """Small networks on the digits, with loss terms large enough to be seen in the sum."""
    config = experiments.smoke("split_mnist/hypermask-t").config
    method = replace(
        config.method,
        p=p,
        l1=l1,
        beta=0.5,
        lam=0.1,
        trainable_target=trainable,
        output_regularizer=output_regularizer,
    )
    return replace(config, method=method)


class DoubleLoop(ReferenceLoop):
    def batch(self, iteration):
        inputs, labels = super().batch(iteration)
        return inputs.double(), labels


class DoubleBatches(Batches):
    def at(self, iteration):
        inputs, labels = super().at(iteration)
        return inputs.double(), labels


def loop_and_method(config, task, kind=ReferenceLoop):
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu")
    method = methods.build(config.method, benchmark, SEED)
    if kind is DoubleLoop:
        method.double()
    method.begin_task(task)
    return kind(method, benchmark, task, config.training, SEED, io.StringIO()), method


def move(method):
    """Change every trainable weight, so that both regularisers are at work."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype))


@pytest.mark.parametrize("task", [0, 1, 3])
@pytest.mark.parametrize(
    "changes",
    [{}, {"p": 0.0}, {"l1": "plain"}, {"trainable": False}, {"output_regularizer": "released-code"}],
    ids=str,
)
def test_its_loss_and_gradient_are_those_of_the_method(task, changes):
    config = digits(**changes)
    loop, method = loop_and_method(config, task, DoubleLoop)
    inputs, labels = loop.batch(0)
    # Keeps the outputs that are held.
    method.loss(inputs, labels, task, 1, config.training.iterations)
    move(method)
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    mine, logits = loop.loss(inputs, labels, iteration=20)
    ours = method.loss(inputs, labels, task, 20, config.training.iterations)
    assert mine.item() == pytest.approx(ours.item(), rel=1e-12)
    p = scheduled_sparsity(config.method.p, task, 20, config.training.iterations)
    torch.testing.assert_close(logits, method.logits(inputs, task, p))
    for a, b in zip(
        torch.autograd.grad(mine, parameters, allow_unused=True),
        torch.autograd.grad(ours, parameters, allow_unused=True),
        strict=True,
    ):
        # An embedding of a later task has no part in either loss.
        a, b = (torch.zeros(1, dtype=torch.float64) if g is None else g for g in (a, b))
        torch.testing.assert_close(*torch.broadcast_tensors(a, b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [0.0, 15.0, 70.0])
def test_its_masks_keep_the_same_entries(p):
    loop, method = loop_and_method(digits(), 2)
    mine, ours = loop.masks(p), method.masks(2, p)
    assert list(mine) == list(ours)
    for name, mask in mine.items():
        assert torch.equal(mask > 0, ours[name] > 0)
        torch.testing.assert_close(mask, ours[name])


@pytest.mark.parametrize("task", [0, 2])
def test_its_steps_are_those_of_the_eager_engine(task):
    # In float64: at its first step, Adam makes full steps of a gradient that is nothing but float32's rounding.
    config = digits()
    loop, method = loop_and_method(config, task, DoubleLoop)
    twin = copy.deepcopy(method)
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu")
    data = benchmark.task(task)
    order = batch_order(len(data.train), config.training.batch_size, config.training.iterations, SEED, task)
    batches = DoubleBatches(benchmark, data, order, generator(SEED, "augmentation", task))
    eager = engine.make("eager", twin, task, config.training, config.training.iterations, batches)
    mine = [loop.step(iteration) for iteration in range(20)]
    ours = [eager.step(iteration).item() for iteration in range(20)]
    assert mine == pytest.approx(ours, rel=1e-6)


def test_a_line_of_csv_at_every_iteration():
    config = digits()
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu")
    log = io.StringIO()
    loop = ReferenceLoop(methods.build(config.method, benchmark, SEED), benchmark, 0, config.training, SEED, log)
    losses = [loop.step(iteration) for iteration in range(3)]
    lines = [line.split(",") for line in log.getvalue().splitlines()]
    assert [line[:2] for line in lines] == [["1", "1"], ["1", "2"], ["1", "3"]]
    assert [float(line[2]) for line in lines] == losses
    assert all(0 <= float(line[3]) <= 100 for line in lines)


def test_split_mnist_is_cropped_image_by_image_and_normalised():
    config = experiments.get("split_mnist/hypermask-t").config
    config = replace(config, method=digits().method, training=replace(config.training, batch_size=6, iterations=1))
    loop, _ = loop_and_method(config, 1)
    inputs, labels = loop.batch(0)
    assert (inputs.shape, inputs.dtype, labels.dtype) == ((6, 784), torch.float32, torch.int64)
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu")
    train = benchmark.task(1).train
    chosen = batch_order(len(train), 6, 1, SEED, 1)[0]
    assert torch.equal(labels, train.labels[chosen])
    size = 2 * CROP_PADDING + 1
    offsets = torch.cartesian_prod(torch.arange(size), torch.arange(size)).T
    found = []
    for mine, image in zip(inputs, train.images[chosen], strict=True):
        crops = benchmark.prepare(crop(image.expand(size**2, -1, -1, -1), offsets, CROP_PADDING), 1)
        found.append(int((crops - mine).abs().amax(dim=1).argmin()))
        torch.testing.assert_close(mine, crops[found[-1]], atol=1e-5, rtol=0)
    assert len(set(found)) > 1


def test_permuted_mnist_is_permuted():
    config = experiments.smoke("permuted_mnist_10/hypermask-t").config
    loop, _ = loop_and_method(config, 1)
    inputs, _ = loop.batch(0)
    benchmark = benchmarks.build(config.benchmark, SEED, "cpu")
    train = benchmark.task(1).train
    chosen = batch_order(len(train), config.training.batch_size, config.training.iterations, SEED, 1)[0]
    np.testing.assert_allclose(inputs.numpy(), benchmark.prepare(train.images[chosen], 1).numpy(), atol=1e-7)

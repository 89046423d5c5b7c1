import math

import numpy as np
import pytest
import torch
from small_methods import Counter, Linear

from hypermask.benchmarks import permuted_mnist, split_digits
from hypermask.benchmarks.base import Split
from hypermask.evaluation import evaluate, sample_logits
from hypermask.seeds import generator


class Sums(Linear):
    """Logits that tell the image apart: its pixel sum and the task it was asked for."""

    def logits(self, inputs, task):
        assert not self.training
        assert not torch.is_grad_enabled()
        return torch.stack([inputs.sum(dim=1), torch.full((len(inputs),), float(task))], dim=1)

    def unmasked_logits(self, inputs):
        return -self.logits(inputs, 0)


@pytest.fixture(scope="module")
def digits():
    return split_digits(tasks=3)


def test_accuracy_and_loss_by_hand(digits):
    images = digits.task(0).test.images[:4]
    split = Split(images, torch.tensor([1, 1, 1, 0]))
    method = Counter(3, turning=-math.log(3))
    accuracy, loss = evaluate(method, digits, 0, split)
    # Logits (0, log 3): probabilities 1/4 and 3/4, class 1 for every image.
    assert accuracy == 75.0
    assert loss == pytest.approx((3 * math.log(4 / 3) + math.log(4)) / 4, rel=1e-6)


def test_outputs_that_a_task_does_not_have_do_not_count():
    """Tasks of several sizes share an output layer for the largest."""

    class Last(Counter):
        def logits(self, inputs, task):
            return torch.tensor([[0.0, 1.0, 9.0]]).expand(len(inputs), 3)

    digits = split_digits(tasks=2)
    split = Split(digits.task(0).test.images[:2], torch.tensor([1, 1]))
    accuracy, loss = evaluate(Last(2), digits, 0, split)
    assert accuracy == 100.0
    assert loss == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)


def test_evaluating_leaves_the_method_training_and_its_weights_alone(digits):
    method = Sums(3, 64)
    before = {name: tensor.clone() for name, tensor in method.weights().items()}
    method.train()
    evaluate(method, digits, 1, digits.task(1).test)
    sample_logits(method, digits, 1, 5)
    assert method.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.weights().items())


def test_the_whole_split_is_one_batch(digits):
    seen = []

    class Watching(Counter):
        def logits(self, inputs, task):
            seen.append((len(inputs), task))
            return super().logits(inputs, task)

    evaluate(Watching(3), digits, 2, digits.task(2).test)
    assert seen == [(len(digits.task(2).test), 2)]


def test_the_sample_is_of_each_tasks_own_test_images_with_absolute_labels(digits):
    arrays = sample_logits(Sums(3, 64), digits, 7, 10)
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == {
        "masked": ((3, 10, 2), np.float32),
        "unmasked": ((3, 10, 2), np.float32),
        "labels": ((3, 10), np.int64),
    }
    for task in range(3):
        test = digits.task(task).test
        chosen = torch.randperm(len(test), generator=generator(7, "logits sample", task))[:10]
        sums = digits.prepare(test.images[chosen], task).sum(dim=1).numpy()
        np.testing.assert_array_equal(arrays["masked"][task, :, 0], sums)
        np.testing.assert_array_equal(arrays["masked"][task, :, 1], task)
        np.testing.assert_array_equal(arrays["unmasked"][task], np.stack([-sums, 0 * sums], axis=1))
        np.testing.assert_array_equal(arrays["labels"][task], test.labels[chosen].numpy() + 2 * task)
        assert len(set(chosen.tolist())) == 10


def test_the_sample_depends_on_the_seed_alone(digits):
    first, again, other = (sample_logits(Sums(3, 64), digits, seed, 20)["labels"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_sample_is_no_larger_than_the_smallest_test_set(digits):
    smallest = min(len(digits.task(task).test) for task in range(3))
    arrays = sample_logits(Sums(3, 64), digits, 1, 10_000)
    assert arrays["masked"].shape == (3, smallest, 2)
    assert [sorted(set(row)) for row in arrays["labels"].tolist()] == [[0, 1], [2, 3], [4, 5]]


def test_a_method_without_a_shared_network_has_no_unmasked_logits(digits):
    assert sorted(sample_logits(Counter(3), digits, 1, 5)) == ["labels", "masked"]


class SeveralHeads(Linear):
    """A head for each task, of another size."""

    def logits(self, inputs, task):
        return super().logits(inputs, task).repeat(1, 1 + task)


def test_logits_of_different_widths_are_not_sampled(digits):
    assert sample_logits(SeveralHeads(digits.tasks, 64), digits, seed=1, per_task=4) == {}


def test_a_digit_of_another_permutation_is_another_class():
    benchmark = permuted_mnist(tasks=2)
    arrays = sample_logits(Sums(2, 1024), benchmark, 1, 30)
    assert arrays["labels"][0].max() < 10 <= arrays["labels"][1].min()
    assert arrays["labels"][1].max() < 20

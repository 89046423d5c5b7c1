"""What is wrong with a benchmark or a method is told before the training, in one sentence."""

import dataclasses

import numpy as np
import pytest
import torch
from small_methods import Counter, Linear
from torch import nn

from hypermask import HyperMask, Method, TrainingConfig, split_digits, train
from hypermask.benchmarks.base import Split
from hypermask.errors import HyperMaskError
from hypermask.targets import MLP

TINY = TrainingConfig(iterations=3, batch_size=8)


class Untrained(Counter):
    """Fails the test if it comes to a training step."""

    def loss(self, inputs, labels, task, iteration, iterations):
        pytest.fail("a step was trained")


def refusal(method, benchmark, **options) -> str:
    with pytest.raises(HyperMaskError) as caught:
        train(method, benchmark, TINY, **options)
    return str(caught.value)


def with_task(benchmark, index: int, **parts):
    """The benchmark with other parts of one task."""
    benchmark._tasks[index] = dataclasses.replace(benchmark._tasks[index], **parts)
    return benchmark


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("device", "cpu", "device of SplitDigits is 'cpu'; expected a torch.device."),
        (
            "checksums",
            {"pixels": np.int64(3)},
            "checksums of SplitDigits cannot be written as JSON (Object of type int64 is not JSON serializable); use "
            "plain values.",
        ),
        ("checksums", ["a"], "checksums of SplitDigits is ['a']; expected a dictionary."),
        ("tasks", np.int64(2), "tasks of SplitDigits is np.int64(2); expected an int of at least 1."),
        ("classes_per_task", 0, "classes_per_task of SplitDigits is 0; expected an int of at least 1."),
        ("input_shape", 64, "input_shape of SplitDigits is 64; expected a tuple of ints, such as (784,)."),
        (
            "image_shape",
            (1, 8.0, 8),
            "image_shape of SplitDigits is (1, 8.0, 8); expected a tuple of ints, such as (784,).",
        ),
        (
            "input_shape",
            (8, 8),
            "split_digits prepares inputs of shape [64] and says that they have [8, 8] (input_shape); make them equal.",
        ),
    ],
)
def test_a_benchmark_that_does_not_tell_what_it_has_to(name, value, sentence):
    benchmark = split_digits(tasks=2)
    setattr(benchmark, name, value)
    assert refusal(Untrained(2), benchmark) == sentence


def test_a_benchmark_without_an_attribute():
    benchmark = split_digits(tasks=2)
    del benchmark.checksums, benchmark.class_names
    assert refusal(Untrained(2), benchmark) == (
        "SplitDigits has no class_names and no checksums; give it what hypermask.benchmarks.Benchmark has."
    )


def test_labels_that_are_not_counted_within_the_task():
    benchmark = split_digits(tasks=2)
    train_part = benchmark.task(1).train
    wrong = with_task(benchmark, 1, train=Split(train_part.images, train_part.labels + 2))
    assert refusal(Untrained(2), wrong) == (
        "labels of the train images of task 2 of split_digits go from 2 to 3; expected 0 to 1, counted within the task."
    )


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_part_without_images(part):
    benchmark = split_digits(tasks=2)
    wrong = with_task(benchmark, 1, **{part: getattr(benchmark.task(1), part)[:0]})
    assert refusal(Untrained(2), wrong) == (
        f"there are 0 {part} images of task 2 of split_digits and 0 labels; expected as many, at least one."
    )


def test_more_images_than_labels():
    benchmark = split_digits(tasks=2)
    given = benchmark.task(1).test
    wrong = with_task(benchmark, 1, test=Split(given.images[:9], given.labels[:8]))
    assert refusal(Untrained(2), wrong) == (
        "there are 9 test images of task 2 of split_digits and 8 labels; expected as many, at least one."
    )


def test_labels_below_0():
    benchmark = split_digits(tasks=2)
    given = benchmark.task(0).train
    wrong = with_task(benchmark, 0, train=Split(given.images, given.labels - 1))
    assert "go from -1 to 0; expected 0 to 1" in refusal(Untrained(2), wrong)


def test_a_method_without_shapes_yet():
    method = Untrained(2)
    method.layer = nn.LazyLinear(2)
    assert refusal(method, split_digits(tasks=2)) == (
        "layer.weight of Untrained has no shape yet; give the method one batch before its run."
    )


class Describes(Untrained):
    def __init__(self, words):
        super().__init__(2)
        self.words = words

    def describe(self):
        return self.words


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("mine", "what describe() of Describes returns is 'mine'; expected a dictionary."),
        (
            {"rate": float("nan")},
            "what describe() of Describes returns cannot be written as JSON (Out of range float values are not JSON "
            "compliant: nan); use plain values.",
        ),
    ],
)
def test_a_description_that_no_record_can_hold(words, sentence):
    assert refusal(Describes(words), split_digits(tasks=2)).replace("compliant)", "compliant: nan)") == sentence
    benchmark = split_digits(tasks=2)
    benchmark.describe = lambda: words
    of_benchmark = sentence.replace("Describes", "SplitDigits")
    assert refusal(Untrained(2), benchmark).replace("compliant)", "compliant: nan)") == of_benchmark


def test_tasks_stand_where_their_index_says():
    benchmark = split_digits(tasks=2)
    benchmark._tasks.reverse()
    assert refusal(Untrained(2), benchmark) == (
        "task(0) of split_digits is a task of index 1; give it the index 0, by which its network and its images are "
        "found."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda part: Split(part.images, part.labels.int()),
            "the labels of the test images of task 2 of split_digits are torch.int32 of 1 dimensions on cpu; expected "
            "torch.int64 of 1 dimensions on cpu.",
        ),
        (
            lambda part: Split(part.images, part.labels[:, None]),
            "the labels of the test images of task 2 of split_digits are torch.int64 of 2 dimensions on cpu; expected "
            "torch.int64 of 1 dimensions on cpu.",
        ),
        (
            lambda part: Split(part.images, part.labels.numpy()),
            "the labels of the test images of task 2 of split_digits are ndarray; expected torch.int64 of 1 dimensions "
            "on cpu.",
        ),
        (
            lambda part: Split(part.images / 255, part.labels),
            "the test images of task 2 of split_digits are torch.float32 of 4 dimensions on cpu; expected torch.uint8 "
            "of 4 dimensions on cpu.",
        ),
    ],
)
def test_images_and_labels_are_tensors_of_their_kind(change, sentence):
    benchmark = split_digits(tasks=2)
    with_task(benchmark, 1, test=change(benchmark.task(1).test))
    assert refusal(Untrained(2), benchmark) == sentence


def test_features_are_asked_for_before_the_training():
    class Pooled(nn.Module):
        """Ends with a convolution, so that it has no last linear layer."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(1, 2, 3)

        def forward(self, x):
            return self.layer(x.view(-1, 1, 8, 8)).mean(dim=(2, 3))

    method = HyperMask(Pooled(), tasks=2, embedding_size=2, hypernetwork_hidden=(3,))
    watched = []
    method.task_loss = lambda *_: watched.append("a step was trained")
    sentence = refusal(method, split_digits(tasks=2), infer=("fecam",))
    assert sentence.startswith("Pooled calls no linear layer, whose input would be its features; end it with")
    assert watched == []


class Scores(Untrained):
    """Gives scores of a shape of its own."""

    def __init__(self, scores):
        super().__init__(2)
        self.scores = scores

    def logits(self, inputs, task):
        return self.scores(inputs)


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        (lambda inputs: inputs[:, 0], "[2]"),
        (lambda inputs: inputs[:, :1], "[2, 1]"),
        (lambda inputs: inputs.view(2, 8, 8), "[2, 8, 8]"),
        (lambda inputs: inputs[:1], "[1, 64]"),
        (lambda inputs: (inputs, inputs), "tuple"),
    ],
)
def test_scores_that_cannot_tell_a_tasks_classes_apart(scores, found):
    assert refusal(Scores(scores), split_digits(tasks=2)) == (
        f"for 2 images of task 1 of split_digits, which has 2 classes, the network gives {found}; expected scores of "
        "shape [2, 2]."
    )


def test_a_shared_output_layer_has_to_be_enough_for_all_tasks():
    benchmark = split_digits(tasks=2)
    part = Split(benchmark.task(1).train.images, benchmark.task(1).train.labels)
    benchmark = with_task(benchmark, 1, classes=(2, 3, 4), train=part)
    method = HyperMask(MLP(64, (4,), 2), tasks=2, embedding_size=2, hypernetwork_hidden=(3,))
    assert refusal(method, benchmark) == (
        "for 2 images of task 2 of split_digits, which has 3 classes, the network gives [2, 2]; expected scores of "
        "shape [2, 3]."
    )


@pytest.mark.parametrize("seed", [1.0, "1", None])
def test_a_seed_that_is_no_whole_number(seed):
    assert refusal(Untrained(2), split_digits(tasks=2), seed=seed) == (f"seed is {seed!r}; expected a whole number.")


def test_a_seed_of_numpy_is_a_number(tmp_path):
    assert train(Counter(2), split_digits(tasks=2), TINY, seed=np.int64(7), root=tmp_path).seed == 7


def test_iterations_that_are_no_whole_number():
    with pytest.raises(HyperMaskError, match=r"^iterations is 20\.0; expected a whole number\.$"):
        train(Untrained(2), split_digits(tasks=2), TrainingConfig(iterations=20.0))


# -- the same weights twice ---------------------------------------------------------------------------------


def test_a_method_is_trained_once():
    method = Linear(2, 64)
    train(method, split_digits(tasks=2), TINY)
    assert refusal(method, split_digits(tasks=2), seed=2) == (
        "this Linear has been in a run before, and may go on from that one's weights; make a new method, with new "
        "networks, for each run."
    )


def on_digits(target: nn.Module, **values) -> HyperMask:
    return HyperMask(target, tasks=2, embedding_size=2, hypernetwork_hidden=(3,), **values)


def test_a_network_is_trained_by_one_method():
    target = MLP(64, (4,), 2)
    train(on_digits(target), split_digits(tasks=2), TINY)
    assert refusal(on_digits(target), split_digits(tasks=2)).startswith("this Linear has been in a run before, and")


def test_a_constant_network_may_serve_several_methods():
    target = MLP(64, (4,), 2)
    for beta in (0.0, 1.0):
        assert train(on_digits(target, trainable_target=False, beta=beta), split_digits(tasks=2), TINY).finished
    with pytest.raises(
        HyperMaskError, match=r"^no parameter of MLP requires a gradient, so it cannot train; make a new"
    ):
        on_digits(target)


class OnFrozen(Linear):
    """A layer that learns, on features of a network that does not."""

    def __init__(self, features: nn.Module) -> None:
        super().__init__(2, 64)
        self.features_of = features.requires_grad_(False)

    def logits(self, inputs, task):
        return super().logits(self.features_of(inputs), task)


def test_a_frozen_part_whose_statistics_move_serves_one_run():
    shared = nn.BatchNorm1d(64)
    train(OnFrozen(shared), split_digits(tasks=2), TINY)
    assert refusal(OnFrozen(shared), split_digits(tasks=2)) == (
        "a BatchNorm1d of this OnFrozen was part of another run, which changed its buffers, such as running "
        "statistics; make it anew for each run, or hold them fixed."
    )


def test_a_frozen_part_that_stays_as_it_is_serves_many():
    class Fixed(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    shared = Fixed(64)
    for seed in (1, 2):
        assert train(OnFrozen(shared), split_digits(tasks=2), TINY, seed=seed).finished


class WithoutLogits(Method):
    tasks = 2

    def loss(self, inputs, labels, task, iteration, iterations):
        pytest.fail("a step was trained")


class WithoutLoss(Method):
    tasks = 2

    def __init__(self, trains=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()), requires_grad=trains)

    def logits(self, inputs, task):
        return inputs[:, :2]


class WithoutTasks(Counter):
    def __init__(self):
        super().__init__(2)
        self.tasks = "2"


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (WithoutLogits(), "WithoutLogits has no logits(inputs, task), the class scores of a task's network; add it."),
        (
            WithoutLoss(),
            "WithoutLoss has no loss(inputs, labels, task, iteration, iterations) to minimise; add it, or let no "
            "parameter require a gradient.",
        ),
        (WithoutTasks(), "tasks of WithoutTasks is '2'; expected a whole number, how many it learns."),
        (
            nn.Linear(64, 2),
            "the method is a Linear; expected an object of a subclass of hypermask.Method, or a network under "
            "HyperMask: HyperMask(network, tasks=...).",
        ),
        (
            Counter,
            "the method is Counter; expected an object of a subclass of hypermask.Method, or a network under "
            "HyperMask: HyperMask(network, tasks=...).",
        ),
    ],
)
def test_what_is_no_method_or_lacks_a_part(method, sentence):
    assert refusal(method, split_digits(tasks=2)) == sentence


class Listed(Method):
    """Networks where torch does not find them."""

    tasks = 2

    def __init__(self):
        super().__init__()
        self.networks = [nn.Linear(64, 2) for _ in range(2)]

    def loss(self, inputs, labels, task, iteration, iterations):
        return nn.functional.cross_entropy(self.logits(inputs, task), labels)

    def logits(self, inputs, task):
        return self.networks[task](inputs)


def test_a_method_with_a_loss_and_nothing_to_train():
    assert refusal(Listed(), split_digits(tasks=2)) == (
        "Listed has a loss and no parameters that it could train; keep networks as attributes or in a "
        "torch.nn.ModuleList, not in a Python list or dict."
    )


def test_a_method_that_trains_nothing_needs_no_loss():
    assert train(WithoutLoss(trains=False), split_digits(tasks=2), TINY).finished


@pytest.mark.parametrize(
    ("given", "described"),
    [
        (lambda loss: None, "a NoneType"),
        (lambda loss: loss.item(), "a float"),
        (lambda loss: loss.detach(), "a tensor of shape [] without gradient"),
        (lambda loss: loss.expand(3), "a tensor of shape [3]"),
    ],
)
def test_a_loss_that_cannot_be_minimised(given, described):
    class Odd(Counter):
        def loss(self, *arguments):
            return given(super().loss(*arguments))

    sentence = refusal(Odd(2), split_digits(tasks=2), engine="eager")
    assert sentence == (
        f"loss of Odd gives {described}; expected a tensor of one number that depends on what is trained."
    )


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_of_another_type_than_the_inputs(kind):
    method = HyperMask(MLP(64, (4,), 2).to(kind), tasks=2, embedding_size=4, hypernetwork_hidden=(4,))
    assert refusal(method, split_digits(tasks=2)).startswith(
        f"a network with weights of {kind} cannot take the inputs, which are torch.float32 ("
    )


def test_an_error_of_a_network_that_is_not_of_types_stays_as_it_is():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.factor = nn.Linear(63, 2), nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, inputs):
            return self.layer(inputs) * self.factor

    method = HyperMask(Odd(), tasks=2, embedding_size=4, hypernetwork_hidden=(4,))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        train(method, split_digits(tasks=2), TINY)


def test_a_target_that_is_no_network():
    with pytest.raises(HyperMaskError, match=r"^the target is a function; expected a torch.nn.Module, a network"):
        HyperMask(lambda inputs: inputs, tasks=2)

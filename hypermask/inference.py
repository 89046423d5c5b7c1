"""Classification without the task's identity: HyperMask+ENT (Algorithm 2), and how it and FeCAM are read.

A procedure gives candidates, each with a value of which the smallest wins: ENT one for every known task, FeCAM
(`hypermask.fecam`) one for every known task and network. Both are evaluated on the test images of tasks 1..j with tasks
1..j known, for j = 1..T, which gives Acc_j. Its final value is the last task accuracy, its mean over j the average task
accuracy. There are three readings, which differ in one thing at a time:

- `released-code`: the final networks, and batches of 2000 images of one task in order, as in the released code. Where
  batch norm uses the statistics of the batch, the batch tells the task.
- `after-task`: the networks as they were after task j, and the batches of `released-code`.
- `shuffled`: the final networks, and batches of 2000 images of tasks 1..j mixed.

Where a prediction does not depend on the other images of its batch, as in networks without batch norm,
`released-code` and `shuffled` are equal but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch

from hypermask.benchmarks.base import Benchmark
from hypermask.errors import HyperMaskError
from hypermask.evaluation import BATCH, in_batches, predicting
from hypermask.fecam import FeCAM
from hypermask.methods.base import Method, Network
from hypermask.seeds import generator

READINGS = ("after-task", "released-code", "shuffled")

Candidates = Iterator[tuple[int, int, torch.Tensor, torch.Tensor]]


class Procedure(Protocol):
    """A way to infer task and class."""

    def __init__(self, benchmark: Benchmark) -> None: ...

    def learn(self, method: Method, known: int) -> None:
        """Prepare for the first `known` tasks with the networks as they are now."""

    def candidates(self, networks: Sequence[Network], inputs: torch.Tensor, best: torch.Tensor) -> Candidates:
        """Candidates that the known tasks' networks give for inputs [B, ...]: (network, task, values, local labels),
        the network's task, the candidate itself, and [B] of each.

        best: the smallest values so far, float64 [known, B], row max(network, task) for a candidate; where its value
        exceeds that, it cannot win, and infinity will do. Rows change as candidates are given.
        """


class ENT:
    """Algorithm 2: the task whose network's class probabilities have the lowest entropy, and its likeliest class."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._sizes = _head_sizes(benchmark)

    def learn(self, method: Method, known: int) -> None:
        """Nothing to prepare."""

    def candidates(self, networks: Sequence[Network], inputs: torch.Tensor, best: torch.Tensor) -> Candidates:
        """Each network's own task. Scores beyond its classes, where a network has more, are left out."""
        for task, network in enumerate(networks):
            logits = network.logits(inputs)[:, : self._sizes[task]]
            yield task, task, entropy(logits), logits.argmax(dim=1)


class BestScore:
    """The class of the highest score, whichever task's network gives it: of a method whose tasks' scores compare."""

    def __init__(self, benchmark: Benchmark) -> None:
        self._sizes = _head_sizes(benchmark)

    def learn(self, method: Method, known: int) -> None:
        """Nothing to prepare."""

    def candidates(self, networks: Sequence[Network], inputs: torch.Tensor, best: torch.Tensor) -> Candidates:
        """Each network's own task, with minus its highest score."""
        for task, network in enumerate(networks):
            scores, labels = network.logits(inputs)[:, : self._sizes[task]].max(dim=1)
            yield task, task, -scores.double(), labels


def entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of softmax(logits) in nats, float64 [B] for logits [B, C]; a probability of 0 contributes 0."""
    logarithms = logits.double().log_softmax(dim=1)
    probabilities = logarithms.exp()
    entropies = -torch.where(probabilities == 0, 0.0, probabilities * logarithms).sum(dim=1)
    if not entropies.isfinite().all():
        raise HyperMaskError(
            "some class scores are infinite or not a number, so their entropy has no value; train again."
        )
    return entropies


PROCEDURES: dict[str, type[Procedure]] = {"ent": ENT, "fecam": FeCAM}


def check(procedures: Sequence[str], method: Method, benchmark: Benchmark) -> None:
    """Refuse unknown procedures, ENT between heads of different size, and FeCAM on a method without features."""
    known = _known(method)
    for name in procedures:
        if name not in known:
            raise HyperMaskError(f"unknown procedure {name!r} to infer the task; expected {' or '.join(known)}.")
    sizes = sorted(set(_head_sizes(benchmark)))
    if "ent" in procedures and len(sizes) > 1:
        raise HyperMaskError(
            f"{benchmark.name} has tasks of {' and '.join(map(str, sizes))} classes; ent compares entropies of equally "
            "many probabilities, so use fecam."
        )
    if "fecam" in procedures and type(method).features is Method.features:
        raise HyperMaskError(
            f"{type(method).__name__} gives no features, which fecam compares; use ent, or implement "
            "features(inputs, task)."
        )


def _known(method: Method) -> dict[str, type]:
    """The procedures by which a method can be read: those of all methods, and its own."""
    return PROCEDURES | method.procedures()


@torch.no_grad()
def measure(
    found: dict[str, dict[str, Any]],
    procedure: str,
    method: Method,
    benchmark: Benchmark,
    task: int,
    seed: int,
) -> None:
    """Read a procedure after task `task` (0-based) and write it to `found`; after the last task, all its readings.

    found: what earlier calls wrote, {} at first: procedure -> reading -> `class_accuracy` and `task_accuracy` (percent,
    one value for each j) and `confusion` (counts of the last j, row = true task, column = inferred task); JSON-plain.
    A prediction is right if its absolute class is: in Permuted MNIST a digit of another task is another class.
    seed: mixes the batches of `shuffled`.  The method is left as it was.
    """
    with predicting(method):
        _measure(found, procedure, method, benchmark, task, seed)


def _measure(
    found: dict[str, dict[str, Any]], procedure: str, method: Method, benchmark: Benchmark, task: int, seed: int
) -> None:
    classes = Classes([benchmark.task(index).classes for index in range(task + 1)], benchmark.device)
    tests = [benchmark.task(index).test for index in range(task + 1)]
    truth = torch.cat([classes.first[index] + test.labels for index, test in enumerate(tests)])

    readings = found.setdefault(procedure, {reading: new_reading() for reading in READINGS})
    by = _known(method)[procedure](benchmark)
    by.learn(method, task + 1)
    last = task + 1 == benchmark.tasks
    ordered = (inputs for index, test in enumerate(tests) for inputs in in_batches(benchmark, index, test))
    predicted = predict(by, method, classes, ordered, len(truth), every=last)
    add(readings["after-task"], predicted[-1], truth, classes)
    if last:
        for j in range(1, benchmark.tasks + 1):
            size = sum(len(test) for test in tests[:j])
            add(readings["released-code"], predicted[j - 1, :size], truth[:size], classes)
            order = torch.randperm(size, generator=generator(seed, "inference order", j - 1)).to(benchmark.device)
            mixed = predict(by, method, classes.of_first(j), _mixed(benchmark, order), size)
            add(readings["shuffled"], mixed[-1], truth[order], classes)


class Classes:
    """The classes of some tasks in a row, task by task; a class's `position` is its place in that row.

    absolute, task: the absolute class and the task (0-based) at each position, int64 [C].  first: the position of each
    task's first class, int64 [T].
    """

    def __init__(self, classes: Sequence[Sequence[int]], device: torch.device) -> None:
        self._classes, self._device = classes, device
        sizes = torch.tensor([len(group) for group in classes], device=device)
        self.absolute = torch.tensor([label for group in classes for label in group], device=device)
        self.task = torch.arange(len(classes), device=device).repeat_interleave(sizes)
        self.first = sizes.cumsum(dim=0) - sizes

    def of_first(self, tasks: int) -> Classes:
        """The classes of the first tasks alone."""
        return Classes(self._classes[:tasks], self._device)


def predict(
    procedure: Procedure,
    method: Method,
    classes: Classes,
    batches: Iterable[torch.Tensor],
    size: int,
    every: bool = False,
) -> torch.Tensor:
    """Predicted positions for `size` images, int64 [1, size]; with `every` [T, size], row j with the first j + 1 tasks
    known.

    classes: of all T known tasks.  batches: the images' inputs. Of equal values the lowest task and class wins.
    """
    known, device = len(classes.first), classes.first.device
    rows = known if every else 1
    values = torch.full((rows, size), torch.inf, dtype=torch.float64, device=device)
    positions = torch.full((rows, size), len(classes.absolute), device=device)
    networks = [method.task_network(task) for task in range(known)]
    start = 0
    for inputs in batches:
        part = slice(start, start + len(inputs))
        start = part.stop
        best = values[:, part].expand(known, -1)
        for network, task, value, label in procedure.candidates(networks, inputs, best):
            # A candidate counts from when both its network and its classes are known.
            counts = slice(max(network, task) if every else 0, None)
            _keep_best(values[counts, part], positions[counts, part], value, classes.first[task] + label)
    return positions


def new_reading() -> dict[str, list]:
    """A reading before any j."""
    return {"class_accuracy": [], "task_accuracy": [], "confusion": []}


def add(reading: dict[str, list], predicted: torch.Tensor, true: torch.Tensor, classes: Classes) -> None:
    """Add one j to a reading; predicted, true: positions [N]."""
    tasks = len(classes.first)
    true_task, predicted_task = classes.task[true], classes.task[predicted]
    right = classes.absolute[predicted] == classes.absolute[true]
    reading["class_accuracy"].append(100.0 * right.sum().item() / len(true))
    reading["task_accuracy"].append(100.0 * (predicted_task == true_task).sum().item() / len(true))
    pairs = (true_task * tasks + predicted_task).cpu()
    reading["confusion"] = torch.bincount(pairs, minlength=tasks * tasks).view(tasks, tasks).tolist()


def _keep_best(
    values: torch.Tensor, positions: torch.Tensor, other_values: torch.Tensor, other_positions: torch.Tensor
) -> None:
    """Put the smaller value, or the lower position of equal values, in place: values [R, B], other values [B]."""
    better = (other_values < values) | ((other_values == values) & (other_positions < positions))
    values.copy_(torch.where(better, other_values, values))
    positions.copy_(torch.where(better, other_positions, positions))


def _mixed(benchmark: Benchmark, order: torch.Tensor) -> Iterator[torch.Tensor]:
    """Inputs of the test images of the first tasks, counted through in task order, in the given order [N]."""
    ends = torch.tensor([len(benchmark.task(index).test) for index in range(benchmark.tasks)]).cumsum(dim=0)
    ends = ends.to(order.device)
    for chosen in order.split(BATCH):
        owners = torch.bucketize(chosen, ends, right=True)
        places, parts = [], []
        for index in owners.unique().tolist():
            test = benchmark.task(index).test
            places.append((owners == index).nonzero().squeeze(1))
            parts.append(benchmark.prepare(test.images[chosen[places[-1]] - (ends[index] - len(test))], index))
        yield torch.cat(parts)[torch.cat(places).argsort()]


def _head_sizes(benchmark: Benchmark) -> list[int]:
    return [len(benchmark.task(index).classes) for index in range(benchmark.tasks)]

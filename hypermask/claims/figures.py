"""What the paper states of its figures, judged by our records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypermask import tables, tsne
from hypermask.claims.criteria import (
    accuracy,
    all_within,
    forgets_little,
    last_is_worst,
    mean_transfer,
    points,
    some_task_gains,
    transfer,
)
from hypermask.claims.verdict import Verdict, by_interval, each, judged, paired

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

# Points that a task may lose while its accuracy counts as kept; ours.
_KEPT = 1.0


def figure_2(runs: Mapping[str, Runs]) -> list[Verdict]:
    """The first task's accuracy, after 10 and after 100 tasks."""
    hundred = runs["permuted_mnist_100/hypermask-t"]
    verdicts = []
    for group in (runs["permuted_mnist_10/hypermask-t"], hundred):
        tasks = group.need.configured.config.benchmark.tasks
        verdicts.append(
            judged(
                f"With {tasks} tasks, task 1 loses less than {points(_KEPT)} in every run",
                [group],
                lambda ours: all(_lost_on_task_1(record) < _KEPT for record in ours),
                lambda ours: [f"lost, points: {', '.join(f'{_lost_on_task_1(record):.2f}' for record in ours)}"],
                ours=True,
            )
        )
    verdicts.append(
        judged(
            "With 100 tasks, task 1 ends more accurate than half of the others in every run",
            [hundred],
            lambda ours: all(record.accuracy[-1, 0] > np.median(record.accuracy[-1, 1:]) for record in ours),
            ours=True,
        )
    )
    return verdicts


def figure_3(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split CIFAR-100: forgetting with a fixed and a trainable target."""
    return [forgets_little(runs["split_cifar100/hypermask-f"]), *figure_7(runs)]


def figure_4(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Tiny ImageNet: forgetting of one run each, and tasks that gain."""
    verdicts = []
    for group in runs.values():
        shown = group.only(group.seeds)
        verdicts += [forgets_little(shown), some_task_gains(shown)]
    return verdicts


def figure_5(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split CIFAR-100: settings of beta, by their means; one run of each with a fixed target, two with a trainable."""
    fixed = [runs[f"split_cifar100/hypermask-f{change}"] for change in ("", " [beta=1]", " [beta=10]")]
    trainable = [runs[f"split_cifar100/hypermask-t [{change}]"] for change in ("p=0", "p=0 beta=1", "p=0 beta=10")]
    others = [group for group in runs.values() if group.name == "split_cifar100/hypermask-f" and group not in fixed]
    return [
        judged("With a fixed target beta = 10 is the worst of all settings", [*others, *fixed], last_is_worst),
        judged(
            "With a trainable target beta = 0.1 is the best on each of the first six tasks",
            trainable,
            _first_is_best_on_six_tasks,
        ),
        judged("The trainable target forgets more, with each beta", [*trainable, *fixed], _first_half_forgets_more),
    ]


def figure_6(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split MNIST: forgetting and the hardest tasks, of HyperMask and HNET."""
    groups = [runs["split_mnist/hypermask-t"], runs["split_mnist/hnet"]]
    return [
        *(forgets_little(group) for group in groups),
        *(
            by_interval(
                f"The two lowest accuracies of {group.label} are on tasks 2 and 5", [group], each(_margin_of_2_and_last)
            )
            for group in groups
        ),
    ]


def figure_7(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split CIFAR-100: a fixed against a trainable target, over shared seeds."""
    both = [runs["split_cifar100/hypermask-f"], runs["split_cifar100/hypermask-t"]]
    return [
        by_interval("The fixed target ends with the higher mean accuracy", both, paired(accuracy)),
        by_interval("The fixed target forgets less", both, paired(transfer)),
    ]


def figure_8(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Permuted MNIST: forgetting, and where HyperMask and HNET lead, over the seeds that both have."""
    both = [runs["permuted_mnist_10/hypermask-t"], runs["permuted_mnist_10/hnet"]]
    return [
        *(forgets_little(group) for group in both),
        by_interval("HyperMask leads on the second half of the tasks", both, paired(_second_half)),
        by_interval("HNET leads on the first half of the tasks", both, paired(_first_half), below=True),
    ]


def figure_9(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Permuted MNIST: differences between settings."""
    return [all_within("Every setting ends within 1 point of the main one", list(runs.values()), 1.0)]


def figure_10(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split MNIST: forgetting."""
    return [forgets_little(runs["split_mnist/hypermask-t"])]


def figure_11(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Tiny ImageNet: a fixed against a trainable target on the same tasks, and what both keep of earlier ones."""
    both = [runs["tiny_imagenet/hypermask-f"], runs["tiny_imagenet/hypermask-t"]]
    return [
        by_interval("With the same tasks the fixed target is better", both, paired(accuracy)),
        *map(forgets_little, both),
        *map(some_task_gains, both),
    ]


def figure_12(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Permuted MNIST: neighbourhoods of digits among the logits, with and without masks."""
    group = [runs["permuted_mnist_10/hypermask-t"]]

    def separated(ours: Sequence[Record]) -> bool:
        return all((tsne.group_purity(record, "masked", "digit", over="digit") > 90).all() for record in ours)

    def only_in_task_1(ours: Sequence[Record]) -> bool:
        by_task = [tsne.group_purity(record, "unmasked", "digit", over="task") for record in ours]
        return all(first > 50 > max(others) for first, *others in by_task)

    return [
        judged(
            "With masks, over 90 % of every digit's neighbours are of that digit, in every run",
            group,
            separated,
            ours=True,
        ),
        judged(
            "Without, most neighbours are of the same digit in task 1 and in no other task, in every run",
            group,
            only_in_task_1,
            ours=True,
        ),
    ]


def figure_13(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Permuted MNIST: neighbourhoods of tasks among the logits without masks."""
    group = [runs["permuted_mnist_10/hypermask-t"]]

    def first_by_itself(ours: Sequence[Record]) -> bool:
        return all(first > 50 and first > max(others) for first, *others in map(_own_task, ours))

    def only_the_first(ours: Sequence[Record]) -> bool:
        return all(first > 50 > max(others) for first, *others in map(_own_task, ours))

    def shares(ours: Sequence[Record]) -> list[str]:
        return [
            f"seed {record.seed}, own among the nearest, percent, task by task: "
            + "  ".join(f"{share:.1f}" for share in _own_task(record))
            for record in ours
        ]

    return [
        judged(
            "Without masks, most neighbours of task 1 are its own, more than of any other task, in every run",
            group,
            first_by_itself,
            ours=True,
        ),
        judged(
            "Without masks, that most neighbours are its own holds for task 1 alone, in every run",
            group,
            only_the_first,
            shares,
            ours=True,
        ),
    ]


def figure_14(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split MNIST: neighbourhoods of digits and tasks among the logits, with and without masks."""
    group = [runs["split_mnist/hypermask-t"]]

    def pairs_apart(ours: Sequence[Record]) -> bool:
        return all((tsne.group_purity(record, "masked", "output unit", over="digit") > 90).all() for record in ours)

    def own_clusters(ours: Sequence[Record]) -> bool:
        return all((tsne.group_purity(record, "masked", "digit", over="digit") > 50).all() for record in ours)

    def only_0_and_1(ours: Sequence[Record]) -> bool:
        by_digit = [tsne.group_purity(record, "unmasked", "digit", over="digit") for record in ours]
        return all(min(zero, one) > 50 > max(others) for zero, one, *others in by_digit)

    def first_task_apart(ours: Sequence[Record]) -> bool:
        return all(first > 50 > max(others) for first, *others in map(_own_task, ours))

    return [
        judged(
            "With masks, over 90 % of every digit's neighbours share its output unit, in every run",
            group,
            pairs_apart,
            ours=True,
        ),
        judged(
            "With masks, most of every digit's neighbours are of that digit, in every run",
            group,
            own_clusters,
            ours=True,
        ),
        judged("Without, that holds for 0 and 1 alone, in every run", group, only_0_and_1, ours=True),
        judged(
            "Without, most neighbours of task 1, and of no other, are its own, in every run",
            group,
            first_task_apart,
            ours=True,
        ),
    ]


def figure_15(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Split MNIST: which tasks are best and weakest, and differences between settings."""
    everything = list(runs.values())

    def mostly_best_on_task_1(*settings: Sequence[Record]) -> bool:
        best = [tables.mean_of(records)[-1].argmax() for records in settings]
        return best.count(0) > len(best) / 2

    def mostly_weakest_on_task_2(*settings: Sequence[Record]) -> bool:
        worst = [tables.mean_of(records)[-1].argmin() for records in settings]
        return worst.count(1) > len(worst) / 2

    return [
        judged("Most settings are best on task 1", everything, mostly_best_on_task_1),
        judged("Most settings are weakest on task 2", everything, mostly_weakest_on_task_2),
        all_within("Most settings end within 0.5 points of the main one", everything, 0.5, share=0.5),
    ]


def _lost_on_task_1(record: Record) -> float:
    return float(record.accuracy[0, 0] - record.accuracy[-1, 0])


def _first_is_best_on_six_tasks(*settings: Sequence[Record]) -> bool:
    first, *others = (tables.mean_of(records)[-1, :6] for records in settings)
    return all((first >= other).all() for other in others)


def _first_half_forgets_more(*settings: Sequence[Record]) -> bool:
    found = [mean_transfer(records) for records in settings]
    half = len(found) // 2
    return all(trained < fixed for trained, fixed in zip(found[:half], found[half:], strict=True))


def _margin_of_2_and_last(record: Record) -> float:
    """How far the second and the last task lie below all others after the last, points; negative if one does not."""
    last = record.accuracy[-1]
    return float(np.delete(last, [1, -1]).min() - max(last[1], last[-1]))


def _first_half(record: Record) -> float:
    return float(record.accuracy[-1, : len(record.accuracy) // 2].mean())


def _second_half(record: Record) -> float:
    return float(record.accuracy[-1, len(record.accuracy) // 2 :].mean())


def _own_task(record: Record) -> np.ndarray:
    """Of each task's points without masks, the share of the nearest that are of that task, percent."""
    return tsne.group_purity(record, "unmasked", "task", over="task")

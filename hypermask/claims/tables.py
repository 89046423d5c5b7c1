"""What the paper states of its tables, judged by our records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hypermask import paper, tables, times, unknown_task
from hypermask.claims.criteria import accuracy, all_within, forgets_little, last_is_worst, transfer
from hypermask.claims.verdict import Verdict, by_rank, by_sign, each, judged, paired

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

# Points of percent below which an earlier task is forgotten, or a setting far below the main one; ours.
_FORGOTTEN = 10.0


def known_task(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Tables 1 and 3: HyperMask's rank among the printed values, and above our own runs of the baselines."""
    verdicts = []
    for benchmark, method, rank in (
        ("permuted_mnist_10", "HyperMask-T", 2),
        ("split_mnist", "HyperMask-T", 2),
        ("split_cifar100", "HyperMask-F", 1),
        ("split_cifar100", "HyperMask-T", 2),
    ):
        place = {1: "first", 2: "second"}[rank]
        ours = runs[f"{benchmark}/{method.lower()}"]
        others = tables.others_printed(benchmark, method)
        claim = f"{method} is {place} on {paper.BENCHMARKS[benchmark]}"
        verdicts.append(by_rank(claim, ours, accuracy, others, rank))
    alexnet = max(row.mean for row in paper.known_task_rows() if row.target_network == "AlexNet")
    verdicts.append(
        by_sign(
            f"HyperMask-T is above the {alexnet:.2f} % printed for WSN with AlexNet",
            [runs["split_cifar100/hypermask-t"]],
            each(lambda record: accuracy(record) - alexnet),
        )
    )
    baselines = [group for group in runs.values() if group.name in ("permuted_mnist_10/hnet", "permuted_mnist_10/wsn")]
    for baseline in baselines:
        both = [runs["permuted_mnist_10/hypermask-t"], baseline]
        verdicts.append(by_sign(f"HyperMask-T is above our {baseline.label}", both, paired(accuracy)))
    return verdicts


def table_2(runs: Mapping[str, Runs]) -> list[Verdict]:
    """HyperMask+FeCAM against the best of the others' printed values, in two readings."""
    others = [row for row in paper.unknown_task_rows() if not row.method.startswith("HyperMask")]
    verdicts = []
    for name in ("permuted_mnist_10/hypermask-t", "split_cifar100_5x20/hypermask-f"):
        rows = [row for row in others if row.benchmark == name.split("/")[0]]
        for metric in dict.fromkeys(row.metric for row in rows):
            best = max((row for row in rows if row.metric == metric), key=lambda row: row.mean)
            for reading in ("released-code", "shuffled"):
                claim = f"HyperMask+FeCAM exceeds the printed {best.mean} % of {best.method}, {metric} ({reading})"
                values = partial(_above, value=best.mean, reading=reading, metric=metric)
                verdicts.append(by_sign(claim, [unknown_task.inferred(runs[name], "fecam")], values))
    return verdicts


def table_4(runs: Mapping[str, Runs]) -> list[Verdict]:
    """How little is lost, then whether it is a loss at all: the sign of the mean."""
    named = ("split_mnist/hypermask-t", "split_mnist/hnet", "permuted_mnist_10/hypermask-t", "permuted_mnist_10/hnet")
    tiny = [f"tiny_imagenet/hypermask-{kind}" for kind in "ft"]
    little = [*named, "permuted_mnist_100/hypermask-t", *tiny]

    def signed(name: str, word: str) -> Verdict:
        claim = f"Backward transfer of {name} is {word}"
        return by_sign(claim, [runs[name]], each(transfer), negative=word == "negative")

    return [
        *(forgets_little(runs[name]) for name in little),
        *(signed(name, "negative") for name in (*named, *tiny, "split_cifar100/hypermask-t")),
        signed("split_cifar100/hypermask-f", "positive"),
    ]


def weight_distance(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Tables 5 to 7: distances that grow, and earlier tasks that are kept all the same."""
    hypermask = runs["permuted_mnist_10/hypermask-t"]

    def grows(ours: Sequence[Record]) -> bool:
        return all((layer[0, 1:] > layer[0, :-1]).all() for record in ours for layer in record.target_distance.values())

    return [
        judged("D(1, j) grows with every j, in every layer and run", [hypermask], grows),
        forgets_little(hypermask),
    ]


def table_8(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Settings without one of the regularisers: forgetting, and accuracy below the printed one of both."""
    settings = list(runs.values())
    full = paper.printed_accuracy("HyperMask-T", "permuted_mnist_10").mean

    def forgotten(*settings: Sequence[Record]) -> bool:
        return all(transfer(record) < -_FORGOTTEN for records in settings for record in records)

    def far_below(*settings: Sequence[Record]) -> bool:
        return all(tables.final_mean(records) < full - _FORGOTTEN for records in settings)

    return [
        judged(
            f"Without one component earlier tasks lose more than {_FORGOTTEN:g} points on average, in every run",
            settings,
            forgotten,
            ours=True,
        ),
        judged(
            f"Without one component every setting ends {_FORGOTTEN:g} points below the {full:.2f} % printed for both",
            settings,
            far_below,
            ours=True,
        ),
    ]


def table_9(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Sparsity: which is worst, and by how much they differ."""
    settings = list(runs.values())
    return [
        judged("p = 70 has the lowest mean of the five", settings, last_is_worst),
        all_within("Every p ends within 1 point of p = 0", settings, 1.0),
    ]


def table_10(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Which setting of HyperMask-F is best on Tiny ImageNet, one run of each."""

    def holds(*settings: Sequence[Record]) -> bool:
        method = _method(max(settings, key=tables.final_mean))
        return method["p"] in (50, 70) and method["beta"] in (1, 10)

    return [judged("The best setting has p = 50 or 70 and beta = 1 or 10", list(runs.values()), holds)]


def table_11(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Which setting of HyperMask-T is worst on Tiny ImageNet, one run of each; the paper's own worst is named."""
    settings = list(runs.values())
    worst = min(paper.tiny_imagenet_ablation("trainable"), key=lambda row: row.mean)
    printed = (
        f"the paper's worst, {worst.mean:.2f} %, has an embedding of {worst.embedding_size}, beta = {worst.beta:g}, "
        f"lambda = {worst.lam:g}"
    )

    def worst_has(holds: Callable[[Mapping[str, float]], bool]) -> Callable[..., bool]:
        return lambda *settings: holds(_method(min(settings, key=tables.final_mean)))

    return [
        judged("The worst setting has an embedding of 48", settings, worst_has(lambda it: it["embedding_size"] == 48)),
        judged(
            "The worst setting has beta of at most 0.1", settings, worst_has(lambda it: it["beta"] <= 0.1), ours=True
        ),
        judged(
            f"The worst setting has lambda of at most 0.1 ({printed})",
            settings,
            worst_has(lambda it: it["lam"] <= 0.1),
            ours=True,
        ),
    ]


def table_12(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Our times against the paper's, each on its own device."""
    verdicts = []
    for printed in paper.training_time():
        ours = runs[f"{printed.benchmark}/hypermask-t"]
        claim = (
            f"Every run of {ours.name} {times.devices(ours)} took at most the paper's mean, {times.clock(printed.mean)}"
        )
        verdicts.append(
            judged(claim, [ours], lambda ours, most=printed.mean: all(record.seconds <= most for record in ours))
        )
    return verdicts


def _above(ours: Sequence[Record], value: float, reading: str, metric: str) -> dict[int, float]:
    """Seed -> class accuracy of HyperMask+FeCAM minus a printed value."""
    found = unknown_task.class_accuracies(ours, "fecam", reading, metric)
    return {seed: accuracy - value for seed, accuracy in found.items()}


def _method(records: Sequence[Record]) -> Mapping[str, float]:
    return records[0].config["method"]

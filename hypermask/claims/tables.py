"""What the paper states of its tables, judged by our records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import paper, tables, times, unknown_task
from hypermask.claims.criteria import accuracy, all_within, forgets_little, last_is_worst, transfer
from hypermask.claims.verdict import Verdict, by_interval, by_rank, each, judged, paired
from hypermask.experiments import OF_PHOTOGRAPHS

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

# Points of percent by which task 1 is forgotten, or a setting far below the main one; ours.
_FORGOTTEN = 10.0
# How much more the times may be that the text gives as "about", "around" or "slightly more than"; ours.
_A_TENTH_MORE = 1.1
# What the text says that a run takes, in minutes; named as a bound for two of them.
_LESS_THAN = {"permuted_mnist_10": 120, "split_cifar100": 120}
_ABOUT = {"split_mnist": 21, "split_cifar100_5x20": 210, "tiny_imagenet": 240}


def table_1(runs: Mapping[str, Runs]) -> list[Verdict]:
    """HyperMask's rank among the printed values, above our own runs of the baselines, and its two kinds of target."""
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
    baselines = [group for group in runs.values() if group.name in ("permuted_mnist_10/hnet", "permuted_mnist_10/wsn")]
    for baseline in baselines:
        both = [runs["permuted_mnist_10/hypermask-t"], baseline]
        verdicts.append(by_interval(f"HyperMask-T is above our {baseline.label}", both, paired(accuracy)))
    for better, worse, benchmarks in (
        ("trainable", "fixed", ("permuted_mnist_10", "split_mnist")),
        ("fixed", "trainable", ("split_cifar100", "tiny_imagenet")),
    ):
        for benchmark in benchmarks:
            claim = f"On {paper.BENCHMARKS[benchmark]} a {better} target is better than a {worse} one"
            both = [runs[f"{benchmark}/hypermask-{kind[0]}"] for kind in (better, worse)]
            verdicts.append(by_interval(claim, both, paired(accuracy)))
    photographs = [runs[f"{name}/hypermask-{kind}"] for name in ("split_cifar100", "tiny_imagenet") for kind in "ft"]
    claim = "Fixed and trainable targets differ less on Tiny ImageNet than on Split CIFAR-100"
    return [*verdicts, by_interval(claim, photographs, _differ_less)]


def table_3(runs: Mapping[str, Runs]) -> list[Verdict]:
    """What is said of table 1, with all shares of WSN, and of WSN with the networks of its own paper."""
    printed = [row for row in paper.known_task_rows() if row.method == "WSN"]
    alexnet, tinynet = (
        max(row.mean for row in printed if row.target_network == name) for name in ("AlexNet", "TinyNet")
    )

    def beside(name: str, word: str, value: float, network: str) -> Verdict:
        claim = f"{name} is {word} the {value:.2f} % printed for WSN with {network}"
        return by_interval(claim, [runs[name]], each(accuracy), bound=value, below=word == "below", unit="percent")

    return [
        *table_1(runs),
        beside("split_cifar100/hypermask-t", "above", alexnet, "AlexNet"),
        beside("split_cifar100/wsn", "below", alexnet, "AlexNet"),
        beside("tiny_imagenet/wsn", "above", tinynet, "TinyNet"),
    ]


def table_2(runs: Mapping[str, Runs]) -> list[Verdict]:
    """HyperMask+FeCAM against the best of the others' printed values; in two readings where batch norm sets them
    apart.
    """
    others = [row for row in paper.unknown_task_rows() if not row.method.startswith("HyperMask")]
    verdicts = []
    for name in ("permuted_mnist_10/hypermask-t", "split_cifar100_5x20/hypermask-f"):
        benchmark = name.split("/")[0]
        rows = [row for row in others if row.benchmark == benchmark]
        readings = ("released-code", "shuffled") if benchmark in OF_PHOTOGRAPHS else ("released-code",)
        for metric in dict.fromkeys(row.metric for row in rows):
            best = max((row for row in rows if row.metric == metric), key=lambda row: row.mean)
            for reading in readings:
                read = f" ({reading})" if len(readings) > 1 else ""
                claim = f"HyperMask+FeCAM exceeds the printed {best.mean} % of {best.method}, {metric}{read}"
                values = partial(_above, value=best.mean, reading=reading, metric=metric)
                verdicts.append(by_interval(claim, [unknown_task.inferred(runs[name], "fecam")], values))
    return verdicts


def table_4(runs: Mapping[str, Runs]) -> list[Verdict]:
    """How little is lost, then whether it is a loss at all: the sign of the mean."""
    named = ("split_mnist/hypermask-t", "split_mnist/hnet", "permuted_mnist_10/hypermask-t", "permuted_mnist_10/hnet")
    tiny = [f"tiny_imagenet/hypermask-{kind}" for kind in "ft"]
    hundred, cifar = "permuted_mnist_100/hypermask-t", "split_cifar100/hypermask-t"
    wsn = [group for group in runs.values() if group.name.endswith("/wsn")]

    def signed(name: str, word: str) -> Verdict:
        claim = f"Backward transfer of {name} is {word}"
        return by_interval(claim, [runs[name]], each(transfer), below=word == "negative")

    def bounded(name: str, word: str, bound: float) -> Verdict:
        claim = f"Backward transfer of {name} is {word} {bound:g} points"
        return by_interval(claim, [runs[name]], each(transfer), bound=bound, below=word == "below")

    return [
        *(forgets_little(runs[name]) for name in (*named, *tiny)),
        bounded(hundred, "above", -2.0),
        *(signed(name, "negative") for name in (*named, *tiny)),
        bounded(cifar, "below", -2.4),
        signed("split_cifar100/hypermask-f", "positive"),
        *(judged(f"Backward transfer of {group.label} is zero in every run", [group], _loses_nothing) for group in wsn),
    ]


def weight_distance(layer: int) -> Callable[[Mapping[str, Runs]], list[Verdict]]:
    """Table 5, 6 or 7: distances of a layer that grow, and earlier tasks that are kept all the same."""

    def grows(ours: Sequence[Record]) -> bool:
        return all(
            (np.diff(row[task:]) > 0).all()
            for record in ours
            for task, row in enumerate(tables.layer_distance(record, layer))
        )

    def of_layer(runs: Mapping[str, Runs]) -> list[Verdict]:
        hypermask = runs["permuted_mnist_10/hypermask-t"]
        claim = f"D(i, j) of layer {layer} grows with every j after i, for every i and in every run"
        return [judged(claim, [hypermask], grows), forgets_little(hypermask)]

    return of_layer


def table_8(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Settings without one of the regularisers: forgetting, and accuracy below the printed one of both."""
    settings = list(runs.values())
    full = paper.printed_accuracy("HyperMask-T", "permuted_mnist_10").mean

    # Of task 1, since a run may learn nothing after it: the accuracy printed for beta = 0, lambda = 1 is that of naming
    # one digit always.
    def forgotten(*settings: Sequence[Record]) -> bool:
        return all(
            record.accuracy[0, 0] - record.accuracy[-1, 0] > _FORGOTTEN for records in settings for record in records
        )

    def far_below(*settings: Sequence[Record]) -> bool:
        return all(tables.final_mean(records) < full - _FORGOTTEN for records in settings)

    return [
        judged(
            f"Without one component task 1 loses more than {_FORGOTTEN:g} points, in every run",
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
    """Which settings of HyperMask-F are best and weak on Tiny ImageNet, one run of each."""
    settings = list(runs.values())

    def best_has(holds: Callable[[Mapping[str, Any]], bool]) -> Callable[..., bool]:
        return lambda *settings: holds(_method(max(settings, key=tables.final_mean)))

    def lowest_of(key: str, value: object) -> Callable[..., bool]:
        def holds(*settings: Sequence[Record]) -> bool:
            best = _best_of(settings, key)
            return min(best, key=best.__getitem__) == value

        return holds

    return [
        judged(
            "The best setting has p = 50 or 70 and beta = 1 or 10",
            settings,
            best_has(lambda it: it["p"] in (50, 70) and it["beta"] in (1, 10)),
        ),
        judged(
            "The best setting has an embedding of more than 48 and hidden layers of 200",
            settings,
            best_has(lambda it: it["embedding_size"] > 48 and set(it["hypernetwork_hidden"]) == {200}),
            ours=True,
        ),
        judged("Of the best of each p, that of p = 90 is lowest", settings, lowest_of("p", 90)),
        judged(
            "Of the best of each hypernetwork, that of one layer of 100 is lowest",
            settings,
            lowest_of("hypernetwork_hidden", (100,)),
        ),
    ]


def table_11(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Which setting of HyperMask-T is worst on Tiny ImageNet, one run of each, beside the paper's own worst; then the
    best setting's share of zeros.
    """
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
        judged("The best of all settings has neither p = 0 nor p = 70", settings, _best_has_a_middle_p),
    ]


def table_12(runs: Mapping[str, Runs]) -> list[Verdict]:
    """Our times against those that the paper's text names, each on its own device."""
    verdicts = []
    for printed in paper.training_time():
        ours = runs[f"{printed.benchmark}/hypermask-t"]
        about = _ABOUT.get(printed.benchmark)
        bound = _LESS_THAN[printed.benchmark] if about is None else about * _A_TENTH_MORE
        takes = f"less than {bound} minutes" if about is None else f"at most about {about} minutes, here {bound:.1f}"
        claim = f"{ours.name} {times.devices(ours)} takes {takes}"
        values = each(lambda record: record.seconds / 60)
        verdicts.append(
            by_interval(claim, [ours], values, bound=bound, below=True, unit="minutes", ours=about is not None)
        )
    return verdicts


def _differ_less(
    cifar_f: Sequence[Record], cifar_t: Sequence[Record], tiny_f: Sequence[Record], tiny_t: Sequence[Record]
) -> dict[int, float]:
    """Seed -> how much less a fixed and a trainable target differ on Tiny ImageNet than on Split CIFAR-100, points."""
    cifar, tiny = paired(accuracy)(cifar_f, cifar_t), paired(accuracy)(tiny_f, tiny_t)
    return {seed: abs(cifar[seed]) - abs(tiny[seed]) for seed in cifar if seed in tiny}


def _loses_nothing(ours: Sequence[Record]) -> bool:
    return all(transfer(record) == 0.0 for record in ours)


def _best_of(settings: Sequence[Sequence[Record]], key: str) -> dict[object, float]:
    """Value of one of the method's settings -> the best mean accuracy with it."""
    best: dict[object, float] = {}
    for records in settings:
        value = _method(records)[key]
        value = tuple(value) if isinstance(value, list) else value
        best[value] = max(best.get(value, 0.0), tables.final_mean(records))
    return best


def _best_has_a_middle_p(*settings: Sequence[Record]) -> bool:
    return _method(max(settings, key=tables.final_mean))["p"] not in (0, 70)


def _above(ours: Sequence[Record], value: float, reading: str, metric: str) -> dict[int, float]:
    """Seed -> class accuracy of HyperMask+FeCAM minus a printed value."""
    found = unknown_task.class_accuracies(ours, "fecam", reading, metric)
    return {seed: inferred - value for seed, inferred in found.items()}


def _method(records: Sequence[Record]) -> Mapping[str, Any]:
    return records[0].config["method"]

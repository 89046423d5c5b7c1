"""The numbers the paper prints, as typed look-ups, and how ours compare with them.

They are read from hypermask/printed/*.csv. Accuracies, p and backward transfer are in percent. The paper's ± is taken
to be the population standard deviation over its runs, as it is for Tiny ImageNet, where figure 11 prints each; in
tables 10 and 11 it is the spread over the 40 tasks of one run. Of which kind that of a quoted value is the paper does
not say.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hypermask.errors import HyperMaskError
from hypermask.metrics import Summary

QUOTED = "quoted"
RUN_BY_AUTHORS = "run by the authors"

WITHIN_SPREAD = "within spread"
DIFFERS = "differs"
ONE_WITHIN = "one run, within spread"
ONE_OUTSIDE = "one run, outside spread"
NO_SPREAD = "no spread"
NOT_RUN = "not run"
COMPARISONS = (WITHIN_SPREAD, DIFFERS, ONE_WITHIN, ONE_OUTSIDE, NO_SPREAD, NOT_RUN)

# Half a unit of the second decimal, with which the paper prints most values.
ROUNDING = 0.005

# How the paper names the methods of our experiments, in the order of its tables, and how we its benchmarks.
METHODS = {"wsn": "WSN", "hnet": "HNET+ENT", "hypermask-f": "HyperMask-F", "hypermask-t": "HyperMask-T"}
BENCHMARKS = {
    "permuted_mnist_10": "Permuted MNIST, 10 tasks",
    "permuted_mnist_100": "Permuted MNIST, 100 tasks",
    "split_mnist": "Split MNIST",
    "split_cifar100": "Split CIFAR-100",
    "split_cifar100_5x20": "Split CIFAR-100, 5 x 20",
    "tiny_imagenet": "Tiny ImageNet",
}
_FOLDER = Path(__file__).resolve().parent / "printed"


@dataclass(frozen=True)
class Printed:
    """One printed value: mean, standard deviation (None if not printed), whose, and where.

    rounding: how far it may lie from the number that it was rounded from.
    """

    mean: float
    sd: float | None
    source: str
    place: str
    rounding: float = ROUNDING


@dataclass(frozen=True)
class KnownTaskRow:
    """One entry of tables 1 and 3: accuracy with known task identity. setting: WSN's share c, kept."""

    method: str
    setting: str
    benchmark: str
    target_network: str
    mean: float
    sd: float
    source: str
    place: str

    @property
    def printed(self) -> Printed:
        """Its value."""
        return Printed(self.mean, self.sd, self.source, self.place)


@dataclass(frozen=True)
class UnknownTaskRow:
    """One entry of table 2. aggregate: over runs, or the best one (`max`); metric: which accuracy."""

    method: str
    target: str
    benchmark: str
    aggregate: str
    metric: str
    mean: float
    sd: float | None
    source: str
    rounding: float


@dataclass(frozen=True)
class BackwardTransferRow:
    """One entry of table 4, in points of percent. runs: how many, or `by construction`."""

    method: str
    benchmark: str
    mean: float
    sd: float | None
    runs: str
    rounding: float


@dataclass(frozen=True)
class LossComponentsRow:
    """One row of table 8: accuracy of HyperMask-T on Permuted MNIST, 10 tasks, over `runs` runs."""

    beta: float
    lam: float
    mean: float
    sd: float
    runs: int


@dataclass(frozen=True)
class SparsityRow:
    """One row of table 9: accuracy of HyperMask-T on Permuted MNIST, 10 tasks, by sparsity p."""

    p: float
    mean: float
    sd: float
    runs: int


@dataclass(frozen=True)
class AblationRow:
    """One row of tables 10 (fixed target, no lambda) and 11: Tiny ImageNet, one run; sd over its 40 tasks."""

    embedding_size: int
    hypernetwork_hidden: tuple[int, ...]
    beta: float
    p: float
    lam: float | None
    mean: float
    sd_over_tasks: float


@dataclass(frozen=True)
class ModelRow:
    """One model of figure 11: mean accuracy over the 40 tasks; target: `fixed` or `trainable`."""

    model: int
    target: str
    mean: float


@dataclass(frozen=True)
class TimeRow:
    """One row of table 12: training time of HyperMask-T in seconds."""

    benchmark: str
    mean: float
    sd: float


@dataclass(frozen=True)
class Statement:
    """A number that the text or a caption prints."""

    place: str
    statement: str
    value: float
    sd: float | None
    rounding: float


@cache
def known_task_rows() -> tuple[KnownTaskRow, ...]:
    """Tables 1 and 3, and the caption of figure 2 (Permuted MNIST with 100 tasks), in the paper's order."""
    return tuple(
        KnownTaskRow(
            method=row["method"],
            setting=row["setting"],
            benchmark=row["benchmark"],
            target_network=row["target_network"],
            mean=float(row["accuracy_mean"]),
            sd=float(row["accuracy_std"]),
            source=QUOTED if row["source"] == QUOTED else RUN_BY_AUTHORS,
            place=_known_task_place(row["tables"]),
        )
        for row in _rows("table1_3_known_task_identity")
    )


@cache
def unknown_task_rows() -> tuple[UnknownTaskRow, ...]:
    """Table 2."""
    return tuple(
        UnknownTaskRow(
            method=row["method"],
            target=row["target"],
            benchmark=row["benchmark"],
            aggregate=row["aggregate"],
            metric=row["metric"],
            mean=float(row["mean"]),
            sd=_optional(row["std"]),
            source=row["source"],
            rounding=_rounding(row["mean"]),
        )
        for row in _rows("table2_unknown_task_identity")
    )


@cache
def table4() -> tuple[BackwardTransferRow, ...]:
    """Table 4, backward transfer."""
    return tuple(
        BackwardTransferRow(
            method=row["method"],
            benchmark=row["benchmark"],
            mean=float(row["bwt_percent"]),
            sd=_optional(row["std"]),
            runs=row["runs"],
            # A zero by construction is not rounded.
            rounding=_rounding(row["bwt_percent"]) if row["runs"].isdigit() else 0.0,
        )
        for row in _rows("table4_backward_transfer")
    )


@cache
def weight_distance(layer: int) -> np.ndarray:
    """Tables 5 to 7: D(i, j) of layer 1, 2 or 3, the L1 distance of its weights and bias after tasks i and j.

    [10, 10], NaN on and below the diagonal, where the tables are blank.
    """
    if layer not in (1, 2, 3):
        raise HyperMaskError(f"the paper prints weight distances of layers 1, 2 and 3, not of layer {layer!r}.")
    distance = np.full((10, 10), np.nan)
    for row in _rows(f"table{layer + 4}_target_weight_distance_layer{layer}"):
        distance[int(row["after_task_i"]) - 1, int(row["after_task_j"]) - 1] = float(row["l1_distance"])
    distance.flags.writeable = False
    return distance


@cache
def loss_components() -> tuple[LossComponentsRow, ...]:
    """Table 8."""
    return tuple(
        LossComponentsRow(
            float(row["beta"]),
            float(row["lambda"]),
            float(row["accuracy_mean"]),
            float(row["accuracy_std"]),
            int(row["runs"]),
        )
        for row in _rows("table8_loss_components")
    )


@cache
def sparsity() -> tuple[SparsityRow, ...]:
    """Table 9."""
    return tuple(
        SparsityRow(float(row["p_percent"]), float(row["accuracy_mean"]), float(row["accuracy_std"]), int(row["runs"]))
        for row in _rows("table9_permuted_mnist_sparsity")
    )


@cache
def tiny_imagenet_ablation(target: str) -> tuple[AblationRow, ...]:
    """Table 10 (`fixed`) or 11 (`trainable`), every printed row; table 11 prints six settings twice."""
    tables = {
        "fixed": "table10_tiny_imagenet_fixed_ablation",
        "trainable": "table11_tiny_imagenet_trainable_ablation",
    }
    if target not in tables:
        raise HyperMaskError(f"unknown target {target!r}; tables 10 and 11 are of a fixed and a trainable one.")
    return tuple(
        AblationRow(
            embedding_size=int(row["embedding_size"]),
            hypernetwork_hidden=tuple(json.loads(row["hypernetwork_hidden_layers"])),
            beta=float(row["beta"]),
            p=float(row["p_percent"]),
            lam=_optional(row["lambda"]),
            mean=float(row["accuracy_mean"]),
            sd_over_tasks=float(row["accuracy_std_over_tasks"]),
        )
        for row in _rows(tables[target])
    )


@cache
def tiny_imagenet_models() -> tuple[ModelRow, ...]:
    """Figure 11's ten models."""
    return tuple(
        ModelRow(int(row["model"]), row["target"], float(row["mean_task_accuracy"]))
        for row in _rows("figure11_tiny_imagenet_models")
    )


@cache
def training_time() -> tuple[TimeRow, ...]:
    """Table 12, on the authors' GeForce RTX 2070, 2080 Ti, 3080 and 4090 cards."""
    return tuple(
        TimeRow(row["benchmark"], _seconds(row["mean_hh_mm_ss"]), _seconds(row["std_hh_mm_ss"]))
        for row in _rows("table12_training_time")
    )


@cache
def statements() -> tuple[Statement, ...]:
    """Numbers of the text and the captions."""
    return tuple(
        Statement(row["place"], row["statement"], float(row["value"]), _optional(row["std"]), _rounding(row["value"]))
        for row in _rows("text_and_captions")
    )


def printed_accuracy(
    method: str, benchmark: str, setting: str | None = None, target_network: str | None = None
) -> Printed:
    """Mean overall accuracy with known task identity (tables 1 and 3, caption of figure 2).

    method: the paper's name or an experiment's (`HyperMask-T` or `hypermask-t`). WSN is printed for several
    settings (`c=50%`) and target networks (`ResNet-18`): name them. An error if the paper prints none, or
    more than one such value.
    """
    rows = [
        row
        for row in known_task_rows()
        if row.method == METHODS.get(method, method)
        and row.benchmark == benchmark
        and setting in (None, row.setting)
        and target_network in (None, row.target_network)
    ]
    if len(rows) != 1:
        found = "; ".join(f"{row.setting} {row.target_network}".strip() for row in rows) or "none"
        raise HyperMaskError(
            f"expected one printed accuracy of {method} on {benchmark}, found {len(rows)} ({found}); name "
            "another method or "
            "benchmark, or the setting and target network."
        )
    return rows[0].printed


def printed_bwt(method: str, benchmark: str) -> Printed:
    """Backward transfer of table 4, in points of percent; an error if the paper prints none."""
    name = METHODS.get(method, method)
    # Table 4 names WSN with its setting.
    rows = [row for row in table4() if row.method.split(",")[0] == name and row.benchmark == benchmark]
    if not rows:
        raise HyperMaskError(
            f"table 4 prints no backward transfer of {method} on {benchmark}; see hypermask.paper.table4()."
        )
    # The appendix names five training runs for HNET and HyperMask alike; WSN's zero holds by construction.
    source = QUOTED if name == "WSN" else RUN_BY_AUTHORS
    return Printed(rows[0].mean, rows[0].sd, source, "table 4", rows[0].rounding)


def compare(printed: Printed, ours: Summary | None) -> str:
    """One of `COMPARISONS`: `within spread` or `differs`; `not run` when there is no run of ours.

    Within spread: the two means lie no further apart than twice the larger of the printed standard deviation
    and our sample standard deviation. The tolerance is never below the rounding of the printed value.
    One run of ours has no spread: it is measured by the printed one alone, with words of its own (`one run, within
    spread` or `outside`), and by nothing where none is printed either (`no spread`).
    """
    if ours is None:
        return NOT_RUN
    one = ours.n == 1
    if one and printed.sd is None:
        return NO_SPREAD
    tolerance = max(2 * (printed.sd or 0.0), 2 * (ours.sd or 0.0), printed.rounding)
    if abs(ours.mean - printed.mean) <= tolerance:
        return ONE_WITHIN if one else WITHIN_SPREAD
    return ONE_OUTSIDE if one else DIFFERS


def outside_interval(printed: Printed, ours: Summary) -> bool:
    """Whether the printed mean lies outside the 95 % t interval of ours, and not by its rounding alone.

    False of a single run, which has no interval.
    """
    return ours.t95 is not None and abs(ours.mean - printed.mean) > ours.t95 + printed.rounding


def _rows(stem: str) -> list[dict[str, str]]:
    with open(_FOLDER / f"{stem}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _rounding(text: str) -> float:
    """Half a unit of the last decimal of a number as it is printed."""
    return 0.5 / 10 ** len(text.partition(".")[2])


def _known_task_place(tables: str) -> str:
    numbers = tables.split()
    if numbers[0] == "figure":
        return f"caption of {tables}"
    return f"table {numbers[0]}" if len(numbers) == 1 else f"tables {' and '.join(numbers)}"


def _optional(text: str) -> float | None:
    return float(text) if text else None


def _seconds(clock: str) -> float:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return float(3600 * hours + 60 * minutes + seconds)

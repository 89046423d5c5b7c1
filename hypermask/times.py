"""What training takes: table 12 from the records, and the benches that `hypermask bench --save` leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypermask import metrics, paper, saved_benches
from hypermask.metrics import Summary
from hypermask.needs import PASSES_PER_STEP, runs_at_once
from hypermask.records import Record
from hypermask.results import Runs
from hypermask.saved_benches import LOOPS
from hypermask.typesetting import BLANK, Table, number

# Share of one core that other programs may use before a bench is called one of a busy machine.
BUSY = 0.05
# The command that measures what the notebook shows of each benchmark.
COMMANDS = {
    "split_mnist": "hypermask bench split_mnist --tasks 1 5 --save",
    "permuted_mnist": "hypermask bench permuted_mnist --tasks 1 2 10 --save",
}
_TITLES = paper.BENCHMARKS | {"split_cifar100_5x20": "Split CIFAR-100, 5 tasks of 20 classes"}

TIME_NOTE = (
    "Paper: mean and standard deviation on GeForce RTX 2070, 2080 Ti, 3080 and 4090 cards, which one for which run is "
    "not said. Ours: wall time of training and evaluation, mean ± sample standard deviation over n runs on one device; "
    "one run has no spread. The CSV has the population standard deviation, too, which the paper's is taken to be, and "
    "the half width of the 95 % t interval. 'At once': so many runs shared the device, each of which takes longer than "
    "alone."
)


@dataclass(frozen=True)
class Timing:
    """One row of table 12: the printed time, and the runs made on one device by one engine; none where nothing was run.

    whose: `ours` or `yours`.
    """

    printed: paper.TimeRow
    whose: str = ""
    device: str = ""
    engine: str = ""
    records: tuple[Record, ...] = ()

    @property
    def total(self) -> Summary | None:
        """Seconds of training and evaluation over the runs."""
        return metrics.summary(record.seconds for record in self.records) if self.records else None

    @property
    def training(self) -> Summary | None:
        """Seconds of training alone over the runs."""
        seconds = [float(sum(record.payload["task_seconds"])) for record in self.records]
        return metrics.summary(seconds) if seconds else None

    @property
    def ratio(self) -> float | None:
        """How many times shorter our mean is than the paper's."""
        return self.printed.mean / self.total.mean if self.total else None


def training_time(runs: Mapping[str, Runs]) -> Table:
    """Table 12: the printed times of HyperMask-T and ours, a row for each benchmark, device and engine.

    runs: keyed by experiment, as `results.gather("table12")` gives them.
    """
    import pandas as pd

    rows = [row for printed in paper.training_time() for row in _timings(printed, runs)]
    return Table(
        title="Table 12. Mean training time of HyperMask-T, hours:minutes:seconds",
        label="training_time",
        frame=pd.DataFrame([_numbers(row) for row in rows]),
        head=("Benchmark", "Device and engine", "Paper", "Ours", "n", "Paper / ours", "Status"),
        body=tuple(_texts(row) for row in rows),
        notes=(TIME_NOTE,),
        text_columns=2,
    )


def benches(profile: str) -> list[dict[str, Any]]:
    """The benches a notebook shows: the saved ones; in the smoke profile tiny stand-ins, measured now."""
    return [_stand_in(name) for name in COMMANDS] if profile == "smoke" else saved_benches.read()


def report(benches: Sequence[Mapping[str, Any]]) -> str:
    """Plain text: every bench, and the command for each benchmark that has none."""
    present = {bench["benchmark"] for bench in benches}
    lacking = [
        f"{name}: no bench yet; to make one: {command}" for name, command in COMMANDS.items() if name not in present
    ]
    return "\n\n".join([*map(describe, benches), *lacking])


def describe(bench: Mapping[str, Any]) -> str:
    """Plain text: a bench's milliseconds per iteration, those of the authors' released loop beside its reference."""
    released = {entry["task"]: entry for entry in bench["released_loop"] if entry["device"] == bench["device"]}
    head = ("task", "released loop", *LOOPS, "speedup", "bandwidth share", "peak memory, MB")
    rows = [
        (
            str(row["task"]),
            f"{released[row['task']]['ms']:.0f}" if row["task"] in released else BLANK,
            *(f"{row[f'{loop}_ms']:.1f}" for loop in LOOPS),
            f"{row['speedup']:.1f}",
            f"{row['bandwidth_share']:.2f}",
            " / ".join(_megabytes(row["peak_memory_mb"][loop]) for loop in LOOPS),
        )
        for row in bench["rows"]
    ]
    elsewhere = ", ".join(
        f"{entry['ms']:.0f} ms at task {entry['task']} on {entry['machine']}" for entry in bench["released_loop"]
    )
    lines = [
        f"{_name(bench)}: milliseconds per iteration, medians of turns, {bench['iterations']} in all",
        _columns([head, *rows]),
    ]
    if elsewhere:
        lines.append(f"released loop, the authors' own, measured elsewhere and without a record here: {elsewhere}")
    lines += [
        "speedup: reference over fused; the reference is our own plain loop, not the released one, whose time stands "
        "beside it where it was measured on such a device",
        f"bandwidth share: time of {PASSES_PER_STEP} passes over the output layer's weights, as many as a plain step "
        f"makes, at the measured copy bandwidth, {bench['copy_gb_per_s']:.1f} GB/s, over the fused time; it may exceed "
        "1, since the fused step makes fewer passes and the cache may serve some",
    ]
    if bench["residual"]:
        lines.append(
            "R: what L_output penalises, the change of earlier tasks' outputs since the task began; D: the change of "
            "the output layer, U: its inputs, E: their change, W*: the layer as it was"
        )
    lines += [_residual(entry) for entry in bench["residual"]]
    if (bench["others_cpu_share"] or 0) > BUSY:
        lines.append(f"not an idle machine: other programs used {bench['others_cpu_share']:.0%} of a core meanwhile")
    return "\n".join(lines)


def growth(bench: Mapping[str, Any]) -> str:
    """Plain text: how a bench's times, and its peak memory where it was measured, grow with the task's number."""
    tasks = [row["task"] for row in bench["rows"]]
    base = 2 if 2 in tasks[:-1] else tasks[0]
    ratio = f"task {tasks[-1]} / task {base}"
    times = _growth_rows(bench, base, lambda row, loop: row[f"{loop}_ms"], "ms")
    memory = _growth_rows(bench, base, lambda row, loop: row["peak_memory_mb"][loop], "MB")
    head = ("", "", *(f"task {task}" for task in tasks), ratio)
    note = "" if bench["device"] == "cuda" else "\npeak memory is measured on a GPU only"
    return f"{_name(bench)}: growth with the number of tasks\n{_columns([head, *times, *memory])}{note}"


def devices(runs: Runs) -> str:
    """`on` the device or devices of our finished runs, in words; `on any device` where there is none."""
    return f"on {' and '.join(sorted({device_words(record.environment) for record in runs.records})) or 'any device'}"


def device_words(environment: Mapping[str, Any]) -> str:
    """The device's name; with its threads, which decide a CPU's times as much as its model does, and with the number of
    runs that shared it.
    """
    name, threads, together = environment["device_name"], environment["threads"], runs_at_once(environment)
    if environment["device"] == "cpu":
        name = f"{name}, {threads} thread{'s' * (threads > 1)}"
    return name if together == 1 else f"{name}, {together} at once"


def clock(seconds: float) -> str:
    """hours:minutes:seconds, as table 12 prints times."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"


def _timings(printed: paper.TimeRow, runs: Mapping[str, Runs]) -> list[Timing]:
    group = runs[f"{printed.benchmark}/hypermask-t"]
    found: dict[tuple[str, str, str], list[Record]] = {}
    for whose, records in (("ours", group.records), ("yours", group.own)):
        for record in records:
            found.setdefault((whose, device_words(record.environment), record.payload["engine"]), []).append(record)
    return [Timing(printed, *where, tuple(records)) for where, records in found.items()] or [Timing(printed)]


def _numbers(row: Timing) -> dict[str, Any]:
    return {
        "benchmark": row.printed.benchmark,
        "paper_mean_seconds": row.printed.mean,
        "paper_sd_seconds": row.printed.sd,
        "whose": row.whose,
        "device": row.device,
        "engine": row.engine,
        "mean_seconds": number(row.total and row.total.mean),
        "sample_sd_seconds": number(row.total and row.total.sd),
        "population_sd_seconds": number(row.total and row.total.population_sd),
        "t95_seconds": number(row.total and row.total.t95),
        "training_mean_seconds": number(row.training and row.training.mean),
        "runs": len(row.records),
        "paper_over_ours": number(row.ratio),
        "status": "" if row.records else paper.NOT_RUN,
    }


def _texts(row: Timing) -> tuple[str, ...]:
    return (
        _TITLES[row.printed.benchmark],
        f"{row.device}, {row.engine} ({row.whose})" if row.records else BLANK,
        f"{clock(row.printed.mean)} ± {clock(row.printed.sd)}",
        _clocks(row.total),
        str(len(row.records)),
        BLANK if row.ratio is None else f"{row.ratio:.1f}",
        BLANK if row.records else paper.NOT_RUN,
    )


def _clocks(total: Summary | None) -> str:
    if total is None:
        return BLANK
    return clock(total.mean) if total.sd is None else f"{clock(total.mean)} ± {clock(total.sd)}"


def _stand_in(name: str) -> dict[str, Any]:
    from hypermask import bench, device, experiments

    experiment = experiments.smoke(bench.BENCHMARKS[name][0])
    tasks = [1, experiment.config.benchmark.tasks]
    measured = bench.measure(name, experiment.config, tasks, device.resolve("cpu"), iterations=2)
    return measured | {"released_loop": [], "stand_in": True}


def _name(bench: Mapping[str, Any]) -> str:
    mark = "smoke stand-in of " if bench.get("stand_in") else ""
    return f"{mark}{bench['benchmark']}, {device_words(bench['environment'])}"


def _residual(entry: Mapping[str, Any]) -> str:
    errors = f"float32 {entry['float32_error']:.1e}"
    if entry["tf32_error"] is not None:
        errors += f", TF32 {entry['tf32_error']:.1e}"
    return f"task {entry['task']}: R = D U + W* E, |W* E| / |R| = {entry['ratio']:.1f}; relative error of R in {errors}"


def _growth_rows(
    bench: Mapping[str, Any], base: int, value: Callable[[Mapping[str, Any], str], float | None], unit: str
) -> list[tuple[str, ...]]:
    rows = []
    for loop in LOOPS:
        values = {row["task"]: value(row, loop) for row in bench["rows"]}
        if None not in values.values():
            last = list(values.values())[-1]
            rows.append((loop, unit, *(f"{v:.1f}" for v in values.values()), f"{last / values[base]:.2f}"))
    return rows


def _megabytes(value: float | None) -> str:
    return BLANK if value is None else f"{value:.0f}"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )

"""The runs behind a notebook: read from the records, or trained where the profile says so.

`recorded` reads the committed records and never trains. `paper` trains, at the full protocol, what neither
the committed records nor your own runs hold. `smoke` trains the experiments' tiny stand-ins, below
build/smoke/. Your own runs are kept apart from the committed records everywhere: a column or marker of their
own, never one mean with them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypermask import experiments, items, paths, records
from hypermask.errors import HyperMaskError

if TYPE_CHECKING:
    from hypermask.experiments import Experiment
    from hypermask.records import Record

PROFILES = ("recorded", "paper", "smoke")


@dataclass(frozen=True)
class Runs:
    """One experiment's runs.

    records: the finished ones, all of which enter a mean, sorted by seed.  own: the reader's own finished
    ones, empty unless asked for. unfinished: diverged or interrupted ones, named and never averaged.  seeds:
    the runs needed.  available: whether this version of the package has the experiment.
    """

    name: str
    records: tuple[Record, ...]
    own: tuple[Record, ...]
    unfinished: tuple[Record, ...]
    seeds: tuple[int, ...]
    available: bool = True

    @property
    def missing_seeds(self) -> tuple[int, ...]:
        """Needed runs that have no finished record."""
        present = {record.seed for record in self.records}
        return tuple(seed for seed in self.seeds if seed not in present)

    @property
    def command(self) -> str:
        """What makes the missing runs; empty when none is missing or this version cannot make them."""
        if not self.available or not self.missing_seeds:
            return ""
        return f"hypermask run {self.name} --seed {' '.join(map(str, self.missing_seeds))}"


def shows_own_runs(profile: str, own_runs: bool) -> bool:
    """Whether the reader's own runs are shown: on request, and in the profile that trains them."""
    return own_runs or profile == "paper"


def gather(
    item: str,
    profile: str = "recorded",
    own_runs: bool = False,
    device: str = "auto",
) -> dict[str, Runs]:
    """The runs an item of the paper (`fig06`, `table04`) is made of, in a profile; keyed by experiment.

    An experiment this version does not have has no runs: it is shown as not run.
    """
    if profile not in PROFILES:
        raise HyperMaskError(f"unknown profile {profile!r}; expected {', '.join(PROFILES)}.")
    gathered = {}
    for need in items.get(item).runs:
        name = need.experiment
        if name not in experiments.EXPERIMENTS:
            gathered[name] = Runs(name, (), (), (), need.seeds, available=False)
        elif profile == "smoke":
            gathered[name] = _smoke(name, need.seeds, device)
        else:
            gathered[name] = _recorded(name, need.seeds, profile, shows_own_runs(profile, own_runs), device)
    return gathered


def verdict(claim: str, runs: Sequence[Runs], holds: Callable[..., bool]) -> str:
    """One sentence on whether our records support a claim of the paper; it cannot be said where one of the
    runs is missing.

    holds: the claim as a test, called with each experiment's finished records, a sequence per experiment.
    """
    missing = [group.name for group in runs if not group.records]
    if missing:
        return f"{claim}: cannot say, {' and '.join(missing)} not run."
    counts = " and ".join(f"{group.name}, n = {len(group.records)}" for group in runs)
    answer = "supported" if holds(*(group.records for group in runs)) else "not supported"
    return f"{claim}: {answer} by our records ({counts})."


def report(runs: Iterable[Runs]) -> str:
    """Plain text on each experiment's runs: which there are, which are left out, and the command for what is
    missing.
    """
    lines = []
    for group in runs:
        if not group.available:
            lines.append(f"{group.name}: not run; this version has no such experiment yet")
            continue
        present = len(group.seeds) - len(group.missing_seeds)
        shown = ", ".join(str(record.seed) for record in group.records) or "none"
        lines.append(f"{group.name}: {present} of {len(group.seeds)} needed runs (seeds shown: {shown})")
        lines += [f"  seed {record.seed} is left out: {record.status}" for record in group.unfinished]
        if group.own:
            lines.append(f"  your own runs: seeds {', '.join(str(record.seed) for record in group.own)}")
        if group.command:
            lines.append(f"  missing; to make them: {group.command}")
    return "\n".join(lines)


def _recorded(name: str, seeds: tuple[int, ...], profile: str, own_runs: bool, device: str) -> Runs:
    shipped = records.load(name)
    if profile == "paper":
        shipped_seeds = {record.seed for record in shipped if record.finished}
        missing = [seed for seed in seeds if seed not in shipped_seeds]
        _train(experiments.get(name), missing, device, paths.runs())
    own = records.load(name, own=True) if own_runs else []
    return Runs(
        name,
        records=tuple(record for record in shipped if record.finished),
        own=tuple(record for record in own if record.finished),
        unfinished=tuple(record for record in shipped if not record.finished),
        seeds=seeds,
    )


def _smoke(name: str, needed: tuple[int, ...], device: str) -> Runs:
    experiment = experiments.smoke(name)
    seeds = tuple(seed for seed in experiment.seeds if seed in needed)
    found = _train(experiment, seeds, device, paths.build() / "smoke" / "runs")
    return Runs(
        name,
        records=tuple(record for record in found if record.finished),
        own=(),
        unfinished=tuple(record for record in found if not record.finished),
        seeds=seeds,
    )


def _train(experiment: Experiment, seeds: Sequence[int], device: str, root: Path) -> list[Record]:
    """The experiment's runs of these seeds below `root`; those without a record are trained, one after the
    other.
    """
    with _alone(root, experiment.name):
        present = {record.seed for record in records.find(experiment.name, experiment.config.hash, root, seeds)}
        for seed in seeds:
            if seed not in present:
                from hypermask.training import run_experiment

                run_experiment(experiment, seed, device=device, root=root)
    return records.find(experiment.name, experiment.config.hash, root, seeds)


@contextlib.contextmanager
def _alone(root: Path, name: str) -> Iterator[None]:
    """Hold the experiment's lock: notebooks that run side by side train a shared experiment once."""
    import fcntl

    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name.replace('/', '-')}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""The runs behind a notebook: read from the records, or trained where the profile says so.

`recorded` reads the committed records and never trains. `paper` trains, at the full protocol, what neither
the committed records nor your own runs hold. `smoke` trains the experiments' tiny stand-ins, below
build/smoke/. Your own runs are kept apart from the committed records everywhere: a column or marker of their
own, never one mean with them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypermask import experiments, items, paths, records
from hypermask.errors import HyperMaskError
from hypermask.items import Item, Need

if TYPE_CHECKING:
    from hypermask.experiments import Experiment
    from hypermask.records import Record

PROFILES = ("recorded", "paper", "smoke")
# Where settings are compared, the smoke profile trains this many changed ones of an experiment, one seed of each.
SMOKE_SETTINGS = 1
# More groups of runs than this are counted in a sentence, not named.
_NAMED = 3


@dataclass(frozen=True)
class Runs:
    """One configuration's runs.

    need: the configuration, and the seeds needed.  records: the finished ones, all of which enter a mean,
    sorted by seed.  own: the reader's own finished ones, empty unless asked for. unfinished: diverged or
    interrupted ones, named and never averaged.
    """

    need: Need
    records: tuple[Record, ...] = ()
    own: tuple[Record, ...] = ()
    unfinished: tuple[Record, ...] = ()

    @property
    def name(self) -> str:
        """The experiment."""
        return self.need.experiment

    @property
    def label(self) -> str:
        """The experiment, with the changed values where there are any."""
        return self.need.label

    @property
    def seeds(self) -> tuple[int, ...]:
        """The runs needed."""
        return self.need.seeds

    @property
    def missing_seeds(self) -> tuple[int, ...]:
        """Needed runs that have no finished record."""
        present = {record.seed for record in self.records}
        return tuple(seed for seed in self.seeds if seed not in present)

    def only(self, seeds: Sequence[int]) -> Runs:
        """The runs of these seeds alone."""
        kept = {
            kind: tuple(record for record in getattr(self, kind) if record.seed in seeds)
            for kind in ("records", "own", "unfinished")
        }
        return replace(self, need=replace(self.need, seeds=tuple(seeds)), **kept)

    @property
    def command(self) -> str:
        """What makes the missing runs; empty when none is missing."""
        return self.need.command(self.missing_seeds) if self.missing_seeds else ""


def shows_own_runs(profile: str, own_runs: bool) -> bool:
    """Whether the reader's own runs are shown: on request, and in the profile that trains them."""
    return own_runs or profile == "paper"


def gather(
    item: str,
    profile: str = "recorded",
    own_runs: bool = False,
    device: str = "auto",
) -> dict[str, Runs]:
    """The runs an item of the paper (`fig06`, `table04`) is made of, in a profile.

    Keyed by experiment; with changed values by those as well, `split_mnist/hypermask-t [beta=0.01]`.
    """
    if profile not in PROFILES:
        raise HyperMaskError(f"unknown profile {profile!r}; expected {', '.join(PROFILES)}.")
    wanted = items.get(item)
    gathered = {}
    changed: Counter[str] = Counter()
    for need in wanted.runs:
        if profile == "smoke":
            changed[need.experiment] += bool(need.overrides)
            too_many = need.overrides and changed[need.experiment] > SMOKE_SETTINGS
            gathered[need.label] = Runs(replace(need, seeds=())) if too_many else _smoke(wanted, need, device)
        else:
            gathered[need.label] = _recorded(wanted, need, profile, shows_own_runs(profile, own_runs), device)
    return gathered


def verdict(claim: str, runs: Sequence[Runs], holds: Callable[..., bool]) -> str:
    """One sentence on whether our records support a claim of the paper; it cannot be said where one of the
    runs is missing.

    holds: the claim as a test, called with each experiment's finished records, a sequence per experiment.
    """
    missing = [group.label for group in runs if not group.records]
    if missing:
        named = " and ".join(missing) if len(missing) <= _NAMED else f"{len(missing)} of {len(runs)} settings"
        return f"{claim}: cannot say, {named} not run."
    if len(runs) <= _NAMED:
        counts = " and ".join(f"{group.label}, n = {len(group.records)}" for group in runs)
    else:
        numbers = sorted({len(group.records) for group in runs})
        counts = f"{len(runs)} settings, n = {' or '.join(map(str, numbers))} each"
    answer = "supported" if holds(*(group.records for group in runs)) else "not supported"
    return f"{claim}: {answer} by our records ({counts})."


def report(runs: Iterable[Runs]) -> str:
    """Plain text on each configuration's runs: which there are, which are left out, and the command for what
    is missing.
    """
    lines = []
    for group in runs:
        if not group.seeds:
            lines.append(f"{group.label}: not run in this profile")
            continue
        present = len(group.seeds) - len(group.missing_seeds)
        shown = ", ".join(str(record.seed) for record in group.records) or "none"
        lines.append(f"{group.label}: {present} of {len(group.seeds)} needed runs (seeds shown: {shown})")
        lines += [f"  seed {record.seed} is left out: {record.status}" for record in group.unfinished]
        if group.own:
            lines.append(f"  your own runs: seeds {', '.join(str(record.seed) for record in group.own)}")
        if group.command:
            lines.append(f"  missing; to make them: {group.command}")
    return "\n".join(lines)


def report_settings(item: str, runs: Iterable[Runs]) -> str:
    """Plain text on an item's many settings: how many have been run, which are left out, and the first command
    for what is missing.
    """
    groups: dict[str, list[Runs]] = {}
    for group in runs:
        groups.setdefault(group.name, []).append(group)
    lines = []
    for name, settings in groups.items():
        done = sum(bool(group.records) for group in settings)
        lines.append(f"{name}: {done} of {len(settings)} settings run")
        lines += [
            f"  {group.label} seed {record.seed} is left out: {record.status}"
            for group in settings
            for record in group.unfinished
        ]
        own = sum(bool(group.own) for group in settings)
        if own:
            lines.append(f"  settings with your own runs: {own}")
        commands = [group.command for group in settings if group.command]
        if commands:
            lines.append(f"  missing; to make the first: {commands[0]}")
            lines.append(f"  to list them all: hypermask sweep {item} --dry-run")
    return "\n".join(lines)


def _recorded(item: Item, need: Need, profile: str, own_runs: bool, device: str) -> Runs:
    experiment = need.configured
    shipped = _shown(item, need, experiment, paths.records())
    if profile == "paper":
        shipped_seeds = {record.seed for record in shipped if record.finished}
        missing = [seed for seed in need.seeds if seed not in shipped_seeds]
        _train(item, need, experiment, missing, device, paths.runs())
    own = _shown(item, need, experiment, paths.runs()) if own_runs else []
    return Runs(
        need,
        records=tuple(record for record in shipped if record.finished),
        own=tuple(record for record in own if record.finished),
        unfinished=tuple(record for record in shipped if not record.finished),
    )


def _smoke(item: Item, need: Need, device: str) -> Runs:
    experiment = experiments.smoke(need.experiment).override(list(need.overrides))
    seeds = (experiment.seeds if not item.compares_settings else experiment.seeds[:1])[: len(need.seeds)]
    need = replace(need, seeds=seeds)
    root = paths.build() / "smoke" / "runs"
    _train(item, need, experiment, seeds, device, root)
    found = [record for record in _shown(item, need, experiment, root) if record.seed in seeds]
    return Runs(
        need,
        records=tuple(record for record in found if record.finished),
        unfinished=tuple(record for record in found if not record.finished),
    )


def _shown(item: Item, need: Need, experiment: Experiment, root: Path) -> list[Record]:
    """The configuration's records below `root` that the item shows."""
    found = records.find(experiment.name, experiment.config.hash, root)
    return [record for record in found if item.shows(need, record)]


def _train(item: Item, need: Need, experiment: Experiment, seeds: Sequence[int], device: str, root: Path) -> None:
    """Train those of the seeds, one after the other, that have no record below `root` which the item shows.

    A record without the part that is needed is made again.
    """
    with _alone(root, experiment.name):
        present = {record.seed for record in _shown(item, need, experiment, root)}
        for seed in seeds:
            if seed not in present:
                from hypermask.training import run_experiment

                run_experiment(experiment, seed, device=device, root=root, infer=need.infer, overwrite=True)


@contextlib.contextmanager
def _alone(root: Path, name: str) -> Iterator[None]:
    """Hold the experiment's lock: notebooks that run side by side train a shared experiment once."""
    import fcntl

    root.mkdir(parents=True, exist_ok=True)
    with open(root / f".{name.replace('/', '-')}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

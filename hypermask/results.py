"""The runs behind a notebook: read from the records, or trained where the profile says so.

`recorded` reads the committed records and never trains. `paper` trains, at the full protocol, what neither
the committed records nor your own runs hold. `smoke` trains the experiments' tiny stand-ins, below
build/smoke/. Your own runs are kept apart from the committed records everywhere: a column or marker of their
own, never one mean with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hypermask import experiments, items, paths, records
from hypermask.errors import HyperMaskError
from hypermask.files import locked
from hypermask.items import Item, Need
from hypermask.progress import say

if TYPE_CHECKING:
    from hypermask.experiments import Experiment
    from hypermask.records import Record

PROFILES = ("recorded", "paper", "smoke")
# Where settings are compared, the smoke profile trains this many changed ones of an experiment, one seed of each.
SMOKE_SETTINGS = 1


@dataclass(frozen=True)
class Runs:
    """One configuration's runs.

    need: the configuration, and the seeds needed.  records: the finished ones, all of which enter a mean,
    sorted by seed.  own: the reader's own finished ones, empty unless asked for.  unfinished, own_unfinished: diverged
    ones, named and never averaged.  changed: the configuration and seeds of the own ones where they have values
    changed.  shows_own: whether own ones are asked for.
    """

    need: Need
    records: tuple[Record, ...] = ()
    own: tuple[Record, ...] = ()
    unfinished: tuple[Record, ...] = ()
    own_unfinished: tuple[Record, ...] = ()
    changed: Need | None = None
    shows_own: bool = False

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
        """Needed runs that have no finished record with all that is needed."""
        present = {record.seed for record in self.records if self.need.met_by(record)}
        return tuple(seed for seed in self.seeds if seed not in present)

    @property
    def count(self) -> str:
        """How many finished runs there are, in words: `n = 5`; `1 of 5 runs` where needed ones are missing."""
        if self.missing_seeds:
            return f"{len(self.records)} of {len({*self.seeds, *(record.seed for record in self.records)})} runs"
        return counted(len(self.records))

    def only(self, seeds: Sequence[int]) -> Runs:
        """The runs of these seeds alone."""
        kept = {
            kind: tuple(record for record in getattr(self, kind) if record.seed in seeds)
            for kind in ("records", "own", "unfinished", "own_unfinished")
        }
        return replace(self, need=replace(self.need, seeds=tuple(seeds)), **kept)

    @property
    def command(self) -> str:
        """What makes the missing runs; empty when none is missing. One that diverged would again."""
        diverged = {record.seed for record in self.unfinished}
        seeds = [seed for seed in self.missing_seeds if seed not in diverged]
        return self.need.command(seeds) if seeds else ""


def counted(n: int) -> str:
    """A number of runs in words: `n = 5`, or `one run`, which is no mean and has no spread."""
    return "one run" if n == 1 else f"n = {n}"


def shows_own_runs(profile: str, own_runs: bool, changes: str = "") -> bool:
    """Whether the reader's own runs are shown: on request, with changed values, and in the profile that trains them."""
    return own_runs or bool(str(changes).split()) or profile == "paper"


def check_seeds(seeds: Sequence[int]) -> None:
    """HyperMaskError for a parameter `seeds` of a notebook that is no list of different whole numbers from 0."""
    if (
        isinstance(seeds, str)
        or not isinstance(seeds, Sequence)
        or not all(isinstance(seed, int) and seed >= 0 for seed in seeds)
        or len(set(seeds)) < len(seeds)
    ):
        raise HyperMaskError(f"seeds is {seeds!r}; expected a list of different whole numbers such as [1, 2].")


def gather(
    item: str,
    profile: str = "recorded",
    own_runs: bool = False,
    device: str = "auto",
    changes: str = "",
    seeds: Sequence[int] = (),
) -> dict[str, Runs]:
    """The runs an item of the paper (`fig06`, `table04`) is made of, in a profile.

    changes: values changed in the reader's own runs of HyperMask, `beta=0.01 p=70`; those are then shown beside ours,
    and trained in the paper profile, in the smoke profile as stand-ins. The settings that an item compares stay as they
    are.  seeds: of the own runs; those the item needs if empty.

    Keyed by experiment; with values the item itself changes by those as well, `split_mnist/hypermask-t [beta=0.01]`.
    """
    if profile not in PROFILES:
        raise HyperMaskError(f"unknown profile {profile!r}; expected {', '.join(PROFILES)}.")
    wanted = items.get(item)
    if not isinstance(changes, str):
        raise HyperMaskError(f'changes is {changes!r}; expected text such as "p=70 beta=0.01".')
    check_seeds(seeds)
    changes = " ".join(changes.split())
    if any(change.startswith("tasks=") for change in changes.split()):
        raise HyperMaskError("a figure or table shows runs of equally many tasks; use `hypermask run --set tasks=...`.")
    if changes and not any(_changeable(need) for need in wanted.runs):
        raise HyperMaskError(
            f"{item} shows settings of its own alone, so {changes!r} has nothing to change; use `hypermask run --set`."
        )
    if seeds and profile == "recorded" and not shows_own_runs(profile, own_runs, changes):
        raise HyperMaskError(
            f"seeds = {list(seeds)} chooses among your own runs, which are not shown; set own_runs = True, changes or "
            'profile = "paper" as well.'
        )
    if seeds and profile == "smoke" and not changes:
        raise HyperMaskError(
            f"seeds = {list(seeds)} chooses among your own runs, and in the smoke profile those are runs with changes; "
            "set changes as well."
        )
    shown = sorted({seed for need in wanted.runs for seed in need.seeds})
    if wanted.by_seed and not set(seeds) <= set(shown):
        raise HyperMaskError(
            f"{item} shows single runs, of seed {', '.join(map(str, shown))}; others, as of seeds = {list(seeds)}, "
            "have no place in it: leave seeds empty or choose among those."
        )
    gathered = {}
    settings: Counter[str] = Counter()
    for need in wanted.runs:
        own = _own(need, changes, seeds)
        if profile == "smoke":
            settings[need.experiment] += bool(need.overrides)
            too_many = need.overrides and settings[need.experiment] > SMOKE_SETTINGS
            gathered[need.label] = (
                Runs(replace(need, seeds=())) if too_many else _smoke(wanted, need, own, seeds, device)
            )
        else:
            shows_own = shows_own_runs(profile, own_runs, changes)
            gathered[need.label] = _recorded(wanted, need, own, profile, shows_own, device)
    return gathered


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
        there = ", ".join(str(record.seed) for record in group.records) or "none"
        lines.append(f"{group.label}: {present} of {len(group.seeds)} needed runs (seeds there: {there})")
        lines += [f"  seed {record.seed} is left out: {record.status}" for record in group.unfinished]
        for record in group.records:
            lacking = [name for name in group.need.infer if not items.has_inferred(record, [name])]
            if lacking and record.seed in group.seeds:
                lines.append(f"  seed {record.seed} is there without {' and '.join(lacking)}")
        changed = f" [{' '.join(group.changed.overrides)}]" if group.changed else ""
        if group.own:
            lines.append(f"  your own runs{changed}: seeds {', '.join(str(record.seed) for record in group.own)}")
        elif group.changed:
            lines.append(f"  your own runs{changed}: none; to make them: {group.changed.command(group.changed.seeds)}")
        elif group.shows_own:
            lines.append("  your own runs: none")
        lines += [f"  your own seed {record.seed} is left out: {record.status}" for record in group.own_unfinished]
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
        lines += [
            f"  {group.label}, your own seed {record.seed} is left out: {record.status}"
            for group in settings
            for record in group.own_unfinished
        ]
        own = sum(bool(group.own) for group in settings)
        if own:
            lines.append(f"  settings with your own runs: {own}")
        commands = [group.command for group in settings if group.command]
        if commands:
            lines.append(f"  missing; to make the first: {commands[0]}")
            lines.append(f"  to list them all: hypermask sweep {item} --dry-run")
    return "\n".join(lines)


def _changeable(need: Need) -> bool:
    """Whether a reader's changes reach the runs: HyperMask's, but for settings that the item itself changes."""
    return not need.overrides and need.experiment.split("/")[1].startswith("hypermask")


def _own(need: Need, changes: str, seeds: Sequence[int]) -> Need:
    """What the reader's own runs are of."""
    changed = tuple(changes.split()) if _changeable(need) else ()
    try:
        config = need.configured.override(list(changed)).config
    except HyperMaskError as error:
        raise HyperMaskError(f"changes do not suit {need.experiment}: {error}") from None
    if need.part == "target_distance":
        layers = len(need.configured.config.method.target_hidden)
        if not config.method.trainable_target or len(config.method.target_hidden) != layers:
            raise HyperMaskError(
                f"changes = {changes!r} leave no distances to show: expected a trainable target with {layers} hidden "
                "layers, whose weights after each task are compared."
            )
    return replace(need, overrides=need.overrides + changed, seeds=tuple(seeds) or need.seeds)


def _recorded(item: Item, need: Need, own: Need, profile: str, shows_own: bool, device: str) -> Runs:
    shipped = _shown(item, need, need.configured, paths.records())
    changed = own.configured.config != need.configured.config
    if profile == "paper":
        ended = {record.seed for record in shipped if not record.finished or need.met_by(record)}
        there = set() if changed else ended
        missing = [seed for seed in own.seeds if seed not in there]
        _train(item, own, own.configured, missing, device, paths.runs())
    yours = _shown(item, own, own.configured, paths.runs()) if shows_own else []
    chosen = [record for record in yours if own.seeds == need.seeds or record.seed in own.seeds]
    return Runs(
        need,
        records=tuple(record for record in shipped if record.finished),
        own=tuple(record for record in chosen if record.finished),
        unfinished=tuple(record for record in shipped if not record.finished),
        own_unfinished=tuple(record for record in chosen if not record.finished),
        changed=own if changed else None,
        shows_own=shows_own,
    )


def _smoke(item: Item, need: Need, own: Need, asked: Sequence[int], device: str) -> Runs:
    """Stand-ins of the runs, and of the reader's own ones where they have values changed.

    asked: the seeds of the own ones; as many as of the runs if empty.
    """
    # The stand-ins have few seeds.
    few = 1 if item.compares_settings else len(experiments.smoke(need.experiment).seeds)
    need = replace(need, seeds=need.seeds[:few])
    own = replace(own, seeds=tuple(asked) or need.seeds)
    root = paths.build() / "smoke" / "runs"

    def trained(of: Need) -> list[Record]:
        experiment = experiments.smoke(of.experiment).override(list(of.overrides))
        _train(item, of, experiment, of.seeds, device, root)
        return [record for record in _shown(item, of, experiment, root) if record.seed in of.seeds]

    found = trained(need)
    changed = own.overrides != need.overrides
    yours = trained(own) if changed else []
    return Runs(
        need,
        records=tuple(record for record in found if record.finished),
        own=tuple(record for record in yours if record.finished),
        unfinished=tuple(record for record in found if not record.finished),
        own_unfinished=tuple(record for record in yours if not record.finished),
        changed=own if changed else None,
    )


def _shown(item: Item, need: Need, experiment: Experiment, root: Path) -> list[Record]:
    """The configuration's records below `root` that the item shows."""
    found = records.find(experiment.name, experiment.config.hash, root)
    return [record for record in found if item.shows(need, record)]


def _train(item: Item, need: Need, experiment: Experiment, seeds: Sequence[int], device: str, root: Path) -> None:
    """Train those of the seeds, one after the other, that have no record below `root` which the item shows.

    A finished record without all that is needed is made again.
    """
    # Notebooks that run side by side train a shared experiment once.
    lock = root / f".{experiment.name.replace('/', '-')}.lock"
    with locked(lock, lambda: say(f"waits for another process, which trains {experiment.name}")):
        found = _shown(item, need, experiment, root)
        present = {record.seed for record in found if not record.finished or need.met_by(record)}
        for seed in seeds:
            if seed not in present:
                from hypermask.training import run_experiment

                infer = items.to_infer(experiment, need.infer)
                run_experiment(experiment, seed, device=device, root=root, infer=infer, overwrite=True)

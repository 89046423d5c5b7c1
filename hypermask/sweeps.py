"""The runs that an item of the paper still lacks, as jobs: one experiment, with its overrides, and a group of seeds.

What an item needs is written once, in `hypermask.items`; a sweep is nothing but that list without what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypermask import experiments, items, paths, questions, records
from hypermask.errors import HyperMaskError
from hypermask.experiments import Experiment
from hypermask.needs import needs

ALL = "all"
QUESTIONS = "questions"


@dataclass(frozen=True)
class Job:
    """One configuration and the seeds an item needs of it.

    shipped, own: the seeds with a run in records/ and in runs/, finished or diverged, as it would again.  infer:
    procedures that its records have to tell about.
    """

    experiment: Experiment
    seeds: tuple[int, ...]
    shipped: tuple[int, ...]
    own: tuple[int, ...]
    infer: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Seeds that have to be trained."""
        return tuple(seed for seed in self.seeds if seed not in (*self.shipped, *self.own))

    @property
    def command(self) -> str:
        """What trains the missing seeds; empty if there are none."""
        return f"hypermask run {self.arguments(self.missing)}" if self.missing else ""

    def arguments(self, seeds: Iterable[int]) -> str:
        """What `hypermask run` is told to train these seeds."""
        return items.run_arguments(self.experiment, self.infer, seeds)

    def groups(self, size: int) -> list[tuple[int, ...]]:
        """The seeds that are not in records/, at most `size` together; runs/ does not change them."""
        if size < 1:
            raise HyperMaskError(f"{size} seeds per job cannot be; expected at least 1.")
        seeds = [seed for seed in self.seeds if seed not in self.shipped]
        return [tuple(seeds[start : start + size]) for start in range(0, len(seeds), size)]

    def ended(self, seeds: Sequence[int]) -> bool:
        """Whether each of the seeds has a record in runs/, finished with all that it has to tell, or diverged."""
        found = records.find(self.experiment.name, self.experiment.config.hash, paths.runs(), seeds)
        ended = {record.seed for record in found if not record.finished or items.has_inferred(record, self.infer)}
        return ended == set(seeds)


def jobs(names: Sequence[str]) -> list[Job]:
    """The jobs of items (`fig15`, `table09`), or of `all`; a configuration that several items need is one job.

    `questions`: those that settle what the paper leaves open.
    """
    wanted: dict[str, tuple[Experiment, set[int], dict[str, None]]] = {}
    chosen = items.ITEMS if ALL in names else [items.get(name) for name in names if name != QUESTIONS]
    runs = [need for item in chosen for need in item.runs]
    if QUESTIONS in names:
        runs += questions.needs()
    for need in runs:
        experiment = need.configured
        _, seeds, infer = wanted.setdefault(experiment.config.hash, (experiment, set(), {}))
        seeds.update(need.seeds)
        infer.update(dict.fromkeys(need.infer))
    if not wanted:
        raise HyperMaskError(f"{' '.join(names)} needs no runs; see hypermask status.")
    return [_job(experiment, tuple(sorted(seeds)), tuple(infer)) for experiment, seeds, infer in wanted.values()]


def single(name: str, changes: Sequence[str] = (), seeds: Sequence[int] = ()) -> Job:
    """The job of one experiment, with `key=value` changes; of the paper's seeds if none are given."""
    experiment = experiments.get(name).override(list(changes))
    return _job(experiment, tuple(sorted(set(seeds))) or experiment.seeds)


def today(job: Job) -> Job:
    """The job with what is there by now."""
    return _job(job.experiment, job.seeds, job.infer)


def showing(job: Job) -> list[str]:
    """The items of the paper that show the job's configuration."""
    wanted = job.experiment.config.hash
    return [
        item.id
        for item in items.ITEMS
        for need in item.runs
        if need.experiment == job.experiment.name and need.configured.config.hash == wanted
    ]


def render(listed: Sequence[Job]) -> str:
    """The jobs as text: what each is, what is there, what it takes and the command for the rest."""
    lines = []
    for job in listed:
        name = " ".join([job.experiment.name, *job.experiment.overrides])
        lines.append(f"{name}: seeds {_listed(job.seeds)}")
        if job.shipped:
            lines.append(f"  in records/: {_listed(job.shipped)}")
        if job.own:
            lines.append(f"  in runs/: {_listed(job.own)}")
        if job.missing:
            lines.append(f"  missing: {_listed(job.missing)}; each takes: {needs(job.experiment).basis}")
            lines.append(f"  {job.command}")
    runs = sum(len(job.missing) for job in listed)
    lines.append(f"{len(listed)} configurations, {runs} runs missing")
    return "\n".join(lines)


def _job(experiment: Experiment, seeds: tuple[int, ...], infer: tuple[str, ...] = ()) -> Job:
    shipped, own = (
        records.find(experiment.name, experiment.config.hash, root, seeds) for root in (paths.records(), paths.runs())
    )
    # One that diverged would again.
    shipped, own = (
        tuple(record.seed for record in found if not record.finished or items.has_inferred(record, infer))
        for found in (shipped, own)
    )
    return Job(experiment, seeds, shipped, own, infer)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))

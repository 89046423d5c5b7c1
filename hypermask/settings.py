"""The values of every named experiment, and where in the paper each stands."""

from __future__ import annotations

import dataclasses

from hypermask import experiments
from hypermask.experiments import NO_L_TARGET, NO_SCHEDULER, Experiment

# How the places of settings begin that an experiment does not use.
_UNUSED = (NO_SCHEDULER, NO_L_TARGET, "not used by this scheduler", "the length is given in")


def markdown() -> str:
    """A table for each named experiment, folded, as Markdown: its settings, their values and their places.

    Settings that it does not use, and choices that no place names, are not shown.
    """
    return "\n\n".join(map(_one, experiments.EXPERIMENTS.values()))


def _one(experiment: Experiment) -> str:
    sections = (experiment.config.benchmark, experiment.config.method, experiment.config.training)
    rows = [
        (field.name, _shown(getattr(section, field.name)), experiment.places[field.name])
        for section in sections
        for field in dataclasses.fields(section)
        if field.name in experiment.places and not experiment.places[field.name].startswith(_UNUSED)
    ]
    return "\n".join(
        [
            "<details>",
            f"<summary><code>{experiment.name}</code>: {experiment.title}, {len(experiment.seeds)} runs</summary>",
            "",
            "| setting | value | where from |",
            "| --- | --- | --- |",
            *(f"| `{name}` | {value} | {place} |" for name, value, place in rows),
            "",
            "</details>",
        ]
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

"""Runs that kept their weights, asked for more than they were when they trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypermask import benchmarks, experiments, paths, records
from hypermask.config import Config
from hypermask.device import environment, resolve
from hypermask.errors import HyperMaskError
from hypermask.inference import PROCEDURES, check, measure
from hypermask.model import HyperMask
from hypermask.progress import say
from hypermask.records import Record


def infer(run: Path, procedures: Sequence[str] = tuple(PROCEDURES), device: str = "auto") -> Record:
    """Read a run in `runs/` from the weights it kept after each task, and write that into its record.

    run: the record's JSON file. Its `inference` is made anew, with the `environment` this ran in; nothing else changes
    but the content hash.
    """
    record = records.read(run)
    place = records.location(paths.runs(), record.experiment, record.config_hash, record.seed)
    if run.resolve() != place.resolve():
        raise HyperMaskError(
            f"{run.name} is not in its place in runs/, and other records are never changed; give a run of your own."
        )
    if not record.finished:
        raise HyperMaskError(f"{run.name} is {record.status}; only finished runs have all networks, so run it again.")
    if record.config["method"]["name"] != "hypermask":
        raise HyperMaskError(
            f"{run.name} is a run of {record.config['method']['name']}; weights are read for hypermask alone, so infer "
            "while it runs (--infer)."
        )
    if record.experiment not in experiments.EXPERIMENTS:
        raise HyperMaskError(
            f"{run.name} is a run of {record.experiment}, no named experiment whose data could be made again; infer "
            "while it runs (`infer` of hypermask.train)."
        )
    benchmark = benchmarks.build(Config.from_dict(record.config).benchmark, record.seed, resolve(device))
    if benchmark.checksums != record.payload["data"]:
        raise HyperMaskError(f"the data here is not what {run.name} was trained on (checksums differ); restore that.")
    method = HyperMask.load(run, 0).to(benchmark.device)
    check(procedures, method, benchmark)
    found: dict[str, dict[str, Any]] = {}
    for task in range(record.tasks):
        method.set_weights(HyperMask.load(run, task).weights())
        for procedure in dict.fromkeys(procedures):
            say(f"{record.experiment}, seed {record.seed}: task {task + 1}/{record.tasks}, by {procedure}")
            measure(found, procedure, method, benchmark, task, record.seed)
    inference = found | {"environment": environment(benchmark.device)}
    return records.read(records.write(record.payload | {"inference": inference}, None, paths.runs(), overwrite=True))

"""The command line `hypermask`: train, infer, regenerate, compare, list, measure.

Bad input ends with one sentence on standard error and status 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypermask import __version__, config, experiments, paths
from hypermask.errors import HyperMaskError
from hypermask.progress import say


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if getattr(options, "data_root", None):
        os.environ["HYPERMASK_DATA"] = options.data_root
    paths.settle()
    command: Callable[[argparse.Namespace], int] = options.command
    warnings.showwarning = _show_warning
    try:
        status = command(options)
        # Here, and not when the interpreter ends, a reader that has gone is met below.
        sys.stdout.flush()
        return status
    except HyperMaskError as error:
        print(f"hypermask: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "hypermask: stopped; nothing half-written is left (`run` and `sweep` go on from the last finished task).",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"hypermask: {_reason(error)}; make room or give access, then start it again.", file=sys.stderr)
        return 2


def _show_warning(message: Warning | str, *_: Any) -> None:
    """Our warnings are sentences; where in the code they arose is of no use on a terminal."""
    print(f"hypermask: {message}", file=sys.stderr)


def _reason(error: OSError) -> str:
    """`No space left on device: runs/...`, as far as the system tells."""
    return ": ".join(str(part) for part in (error.strerror or type(error).__name__, error.filename) if part)


def run(options: argparse.Namespace) -> int:
    """Train seeds of an experiment into runs/. A finished run of your own there is not trained again."""
    experiment = experiments.get(options.experiment).override(options.set)
    # Not argparse's default, which `extend` would add to.
    asked = options.seed or [1]
    repeated = {seed for seed in asked if asked.count(seed) > 1}
    if repeated:
        raise HyperMaskError(f"seed {repeated.pop()} is given twice; give each seed once.")
    from hypermask import checkpoints, items, paths, records

    mine = records.find(experiment.name, experiment.config.hash, paths.runs(), asked)
    there = []
    for record in mine if not options.force else ():
        inferred = items.has_inferred(record, options.infer)
        kept = not options.keep_weights or checkpoints.has_weights(record.path, record.tasks)
        lost = record.finished and record.lost_logits
        if lost:
            say(f"{record.experiment} seed {record.seed} is trained again: {lost}")
        elif record.finished and inferred and kept:
            there.append(record)
            print(_told(record, "was there already (--force trains it again)"))
        elif record.finished and inferred:
            say(f"{record.experiment} seed {record.seed} is there without its weights and is trained again")
        elif record.finished:
            say(
                f"{record.experiment} seed {record.seed} is there without {' or '.join(options.infer)} and is trained "
                "again; `hypermask infer` reads kept weights instead"
            )
    seeds = [seed for seed in asked if seed not in {record.seed for record in there}]
    if not seeds:
        return 0
    from hypermask.side_by_side import run_seeds

    trained = run_seeds(
        experiment,
        seeds,
        root=paths.runs(),
        device=options.device,
        engine=options.engine,
        evaluate_every=options.evaluate_every,
        logits_per_task=options.logits_per_task,
        keep_weights=options.keep_weights,
        infer=tuple(options.infer),
        overwrite=True,
    )
    for record in trained:
        print(_told(record, "is written"), flush=True)
    return 0


def _told(record: Any, word: str) -> str:
    from hypermask import metrics

    result = f"mean accuracy {metrics.mean_accuracy(record.accuracy):.2f} %" if record.finished else record.status
    line = f"{record.experiment} seed {record.seed}: {result}; {os.path.relpath(record.path)} {word}"
    return "\n".join([line, *_inferred(record)])


def _inferred(record: Any) -> list[str]:
    """A line for each procedure and reading that the record holds."""
    return [
        f"  {procedure}, {reading}: class {values['class_accuracy'][-1]:.2f} % after the last task, "
        f"{sum(values['class_accuracy']) / record.tasks:.2f} % on average; task {values['task_accuracy'][-1]:.2f} %"
        for procedure, readings in (record.payload["inference"] or {}).items()
        if procedure != "environment"
        for reading, values in readings.items()
    ]


def infer(options: argparse.Namespace) -> int:
    """Classify without the task's identity, from the weights a run in runs/ kept; its record gets the result."""
    from hypermask import kept_runs

    print(_told(kept_runs.infer(options.run, options.procedures, options.device), "is written"))
    return 0


def regenerate(options: argparse.Namespace) -> int:
    """Run notebooks, all by default, in a profile; with all of them, end with the closing table."""
    from hypermask import items, outputs, status
    from hypermask.regenerate import regenerate as run_notebooks

    if options.profile == "paper":
        _tell_what_is_trained(options.names)

    if options.own_runs:
        names = options.names or [item.id for item in items.ITEMS if item.runs]
        failed = run_notebooks(names, options.profile, options.jobs, {"own_runs": True})
    else:
        failed = run_notebooks(options.names, options.profile, options.jobs)
    base = outputs.base(options.profile, options.own_runs)
    if not options.names and options.profile != "smoke":
        print(f"\n{status.closing_table(base)}")
    elif base != paths.root():
        print(f"figures and tables are written below {os.path.relpath(base)}")
    return failed


def _tell_what_is_trained(names: Sequence[str]) -> None:
    """How many runs the notebooks of these names, of all without any, lack: each of them may take hours."""
    from hypermask import items, regenerate, sweeps

    of = [item.id for stem in regenerate.resolve(names) for item in items.of_notebook(stem) if item.runs]
    missing = sum(len(job.missing) for job in sweeps.jobs(of)) if of else 0
    if missing:
        chosen = " ".join(of) if names else sweeps.ALL
        print(
            f"{missing} runs are missing and trained first; hypermask sweep {chosen} --dry-run lists them", flush=True
        )


def notebooks(options: argparse.Namespace) -> int:
    """Execute the committed notebooks again, in place."""
    from hypermask.regenerate import refresh_committed

    return refresh_committed(options.names)


def show_status(options: argparse.Namespace) -> int:
    """Every figure and table of the paper: made or not, from which runs, what is missing."""
    from hypermask import records, status

    if options.csv:
        sys.stdout.write(records.to_frame().to_csv(index=False))
    elif options.json:
        print(json.dumps(status.status(), indent=1))
    elif options.markdown == "-":
        print(status.markdown())
    elif options.markdown:
        status.write_markdown(Path(options.markdown))
    else:
        print(status.render(status.status()))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Every method that ran on a benchmark, yours beside ours: means, and differences over shared seeds."""
    from hypermask import comparison

    table = comparison.methods(options.benchmark, options.against)
    if options.csv:
        sys.stdout.write(table.frame.to_csv(index=False))
    elif options.markdown:
        sys.stdout.write(table.markdown())
    else:
        print(table.text())
    return 0


def verify(options: argparse.Namespace) -> int:
    """Train a record's configuration again and compare."""
    from hypermask import records, training
    from hypermask.verify import compare

    committed = records.read(options.record)
    if not committed.finished:
        raise HyperMaskError(f"{options.record.name} is {committed.status}; only finished runs are compared.")
    experiment = experiments.leading_to(committed.experiment, committed.config, committed.payload["overrides"])
    siblings = records.find(committed.experiment, committed.config_hash, paths.records())
    with tempfile.TemporaryDirectory(prefix="hypermask-verify-") as scratch:
        new = training.run_experiment(
            experiment, committed.seed, root=Path(scratch), device=options.device, engine=options.engine
        )
        verdict = compare(new, committed, siblings)
    print(verdict.sentence)
    return 0 if verdict.passed else 1


def add_records(options: argparse.Namespace) -> int:
    """Check runs and saved benches, and copy them into records/."""
    from hypermask import admission

    added = admission.add(options.sources, options.force)
    for path in added:
        print(os.path.relpath(path))
    print(f"{len(added)} added; `make notebooks` brings them into the notebooks." if added else "nothing was added.")
    return 0


def bench(options: argparse.Namespace) -> int:
    """Time an iteration of a plain reference loop, of the eager and of the fused engine, on a machine at rest."""
    from hypermask import bench as benches
    from hypermask import times

    measured = benches.run(options.benchmark, options.tasks, device=options.device, iterations=options.iterations)
    print(json.dumps(measured) if options.json else f"{times.describe(measured)}\n\n{times.growth(measured)}")
    if options.save:
        print(f"{os.path.relpath(benches.save(measured))} is written", file=sys.stderr)
    return 0


def sweep(options: argparse.Namespace) -> int:
    """List, and train into runs/, what items of the paper lack; goes on where one configuration cannot be trained."""
    from hypermask import items, sweeps

    listed = sweeps.jobs(options.names)
    print(sweeps.render(listed), flush=True)
    if options.dry_run or not any(job.missing for job in listed):
        return 0
    from hypermask.side_by_side import run_seeds

    failed = 0
    for job in listed:
        # Another process may have finished some of them in the meantime.
        job = sweeps.today(job)
        if not job.missing:
            continue
        try:
            for record in run_seeds(
                job.experiment,
                job.missing,
                root=paths.runs(),
                device=options.device,
                engine=options.engine,
                infer=items.to_infer(job.experiment, job.infer),
                overwrite=True,
            ):
                print(_told(record, "is written"), flush=True)
        except HyperMaskError as error:
            # Data that is not there, say, is no reason to leave out what can be trained.
            print(f"hypermask: {error}", file=sys.stderr)
            failed = 2
    return failed


def revision(options: argparse.Namespace) -> int:
    """Note which revision this checkout is, for a copy of it without .git: the records made there will tell."""
    from hypermask import revision as revisions

    print(f"{os.path.relpath(revisions.note())} is written; copy it along.")
    return 0


def data(options: argparse.Namespace) -> int:
    """What data is bundled, found, missing or damaged, and how to get it."""
    from hypermask.benchmarks import data

    print(data.render(data.report()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hypermask", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=f"hypermask {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _command(commands, "run", run)
    command.add_argument(
        "experiment", metavar="EXPERIMENT", help=f"BENCHMARK/METHOD: {', '.join(experiments.EXPERIMENTS)}"
    )
    command.add_argument("--seed", type=int, nargs="+", action="extend", metavar="N", help="default: 1")
    command.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help=f"another value of the configuration: {', '.join(config.keys())}",
    )
    _device(command)
    command.add_argument("--force", action="store_true", help="train again what is in runs/ already")
    command.add_argument("--keep-weights", action="store_true", help="write the weights after each task beside the run")
    command.add_argument(
        "--infer",
        nargs="+",
        action="extend",
        default=[],
        metavar="PROCEDURE",
        help="ent, fecam: also classify without the task's identity, after each task",
    )
    command.add_argument(
        "--evaluate-every",
        type=int,
        default=1000,
        metavar="N",
        help="iterations between points of the validation curve; changes no result (default: 1000)",
    )
    command.add_argument(
        "--logits-per-task",
        type=int,
        default=400,
        metavar="N",
        help="test images per task whose logits are kept for t-SNE (default: 400)",
    )
    _data_root(command)

    command = _command(commands, "infer", infer)
    command.add_argument("run", type=Path, metavar="RUN", help="a run's JSON file in runs/, made with --keep-weights")
    command.add_argument(
        "--procedures", nargs="+", default=["ent", "fecam"], metavar="PROCEDURE", help="default: ent fecam"
    )
    command.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:N")
    _data_root(command)

    command = _command(commands, "regenerate", regenerate)
    command.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="notebook, item (fig06, table04) or unique prefix; all by default",
    )
    command.add_argument(
        "--profile",
        default="recorded",
        help="recorded: from committed records (default); paper: train what is missing; smoke: tiny runs into build/",
    )
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="notebooks at a time (default: 1)")
    command.add_argument(
        "--own-runs", action="store_true", help="show your own runs beside the shipped ones, in build/own/"
    )

    command = _command(commands, "notebooks", notebooks)
    command.add_argument("names", nargs="*", metavar="NAME", help="as for regenerate; all by default")

    command = _command(commands, "status", show_status)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the items as JSON")
    form.add_argument("--csv", action="store_true", help="every run as one row of CSV")
    form.add_argument(
        "--markdown",
        nargs="?",
        const="-",
        metavar="FILE",
        help="the results page; with FILE, write each of the sections it has - results, questions, differences, "
        "settings - anew between its lines <!-- NAME --> and <!-- /NAME -->",
    )

    command = _command(commands, "sweep", sweep)
    command.add_argument("names", nargs="+", metavar="NAME", help="items (fig15, table09), or all; questions")
    command.add_argument(
        "--dry-run", action="store_true", help="only list: what is there, what is missing, what it takes"
    )
    _device(command)

    command = _command(commands, "compare", compare)
    command.add_argument(
        "benchmark", metavar="BENCHMARK", help="split_mnist, permuted_mnist_10, or your own runs' name before the /"
    )
    command.add_argument(
        "--against",
        metavar="EXPERIMENT",
        help="what differences are to (default: BENCHMARK/hypermask-t); EXPERIMENT/HASH where it has several "
        "configurations",
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="the numbers as CSV, with their intervals")
    form.add_argument("--markdown", action="store_true", help="the table as Markdown")

    command = _command(commands, "verify", verify)
    command.add_argument("record", type=Path, metavar="RECORD", help="a record's JSON file")
    _device(command)

    command = commands.add_parser("records", help="manage committed records").add_subparsers(
        required=True, metavar="ACTION"
    )
    action = _command(command, "add", add_records)
    action.add_argument("sources", nargs="+", type=Path, metavar="RUN", help="JSON file, folder or .tar archive")
    action.add_argument(
        "--force",
        metavar="REASON",
        help="admit runs from an unclean tree, replace existing ones; kept in the record",
    )

    _data_root(_command(commands, "data", data))

    _command(commands, "revision", revision)

    command = _command(commands, "bench", bench)
    command.add_argument("benchmark", metavar="BENCHMARK", help="split_mnist or permuted_mnist")
    command.add_argument(
        "--tasks", type=int, nargs="+", metavar="N", help="tasks to measure, from 1 (default: the first and the last)"
    )
    command.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:N")
    command.add_argument("--iterations", type=int, default=30, metavar="N", help="measured of each (default: 30)")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--save", action="store_true", help="write it to records/bench/, for table 12's notebook")
    return parser


def _command(
    commands: argparse._SubParsersAction, name: str, function: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    text = function.__doc__
    parser = commands.add_parser(name, help=text.splitlines()[0], description=text)
    parser.set_defaults(command=function)
    return parser


def _device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:N")
    command.add_argument(
        "--engine",
        default="auto",
        help="auto (default), eager or fused: how a step runs, equal within rounding",
    )


def _data_root(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data-root",
        metavar="FOLDER",
        help="where data sets lie (default: HYPERMASK_DATA or ~/.cache/hypermask)",
    )

"""How runs come into records/: which may, and from where they are taken."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypermask import experiments, files, items, paths, questions, records, saved_benches
from hypermask.errors import HyperMaskError
from hypermask.progress import say
from hypermask.records import Record, RecordError

# Where a record or a saved bench lies below any folder or in an archive.
_MEMBER = re.compile(r"(?:.*/)?([\w-]+/[\w-]+/[0-9a-f]{12}/seed\d+\.(?:json|npz)|bench/[\w-]+/[\w.-]+\.json)")
# Embeddings lie below a folder of this name, under the names of the runs that they are of.
_EMBEDDINGS = "tsne"
_LARGEST_FILE = 2**30


def add(sources: Iterable[Path], force_reason: str | None = None) -> list[Path]:
    """Check runs, and benches that were saved, and copy them into records/; returns the new files, without what was
    there already.

    sources: a JSON file, a folder or a .tar archive of them. Each run must have ended, finished or diverged, be of a
    named configuration or one of the paper's ablations, from a clean tree, intact, and no other record of it may be
    there, save the same one that still lacks some of its `inference`; all are checked before any is copied. Of a folder
    or an archive, runs that are damaged, of other configurations or have another record, and benches of which another
    is there, are passed over with a line on standard error. `force_reason` admits runs from an unclean tree and
    replaces existing records, and is stored in those it was needed for.
    """
    root = paths.records()
    accepted: dict[Path, tuple[dict[str, Any], bytes | None]] = {}
    benches: dict[Path, bytes] = {}
    with ExitStack() as stack:
        for path, named in _files_in(sources, stack):
            if _is_bench(path):
                benches |= _bench(path, replace=named or force_reason is not None)
                continue
            try:
                record = records.read(path)
                record.arrays()
            except RecordError as error:
                if named:
                    raise
                say(f"left out: {error}")
                continue
            try:
                _refuse_unfit(record)
            except HyperMaskError as error:
                if named:
                    raise
                say(f"{record.experiment} seed {record.seed} is left out: {error}")
                continue
            npz = None if record.payload["logits"] is None else path.with_suffix(".npz").read_bytes()
            target = records.location(root, record.experiment, record.config_hash, record.seed)
            if target in accepted:
                if _same_run(Record(accepted[target][0]), record):
                    continue
                raise RecordError(
                    f"{record.experiment} seed {record.seed} is given twice, differently; give one of them."
                )
            existing = records.read(target) if target.exists() else None
            if existing is not None and _same_run(existing, record):
                continue
            objection = _objection(record, existing)
            if objection and existing is not None and force_reason is None and not named:
                say(f"{record.experiment} seed {record.seed} is left out: {objection} (--force REASON replaces it)")
                continue
            if objection and force_reason is None:
                raise RecordError(
                    f"{paths.shown(path)}: {objection}; run it again from a clean tree, or state why it should "
                    "count with --force."
                )
            payload = records.seal(record.payload | {"added_by_force": force_reason}) if objection else record.payload
            accepted[target] = (payload, npz)
    added = [records.store(payload, npz, root, overwrite=True) for payload, npz in accepted.values()]
    return added + [target for target, content in benches.items() if files.write_if_changed(target, content)]


def _is_bench(path: Path) -> bool:
    return path.parent.parent.name == saved_benches.FOLDER


def _bench(path: Path, replace: bool) -> dict[Path, bytes]:
    """Where a saved bench belongs, and its content; nothing where it is none, or another one is there that stays."""
    target = saved_benches.folder() / path.parent.name / path.name
    content = path.read_bytes()
    if target.exists() and target.read_bytes() != content and not replace:
        say(f"bench {path.parent.name}/{path.name} is left out: another one is there (--force REASON replaces it)")
        return {}
    return {target: content} if saved_benches.read_one(path) is not None else {}


def _files_in(sources: Iterable[Path], stack: ExitStack) -> Iterator[tuple[Path, bool]]:
    """The JSON files of all runs and benches in the sources, and whether each was named itself; archives are unpacked
    for as long as `stack` lives."""
    for source in sources:
        if not source.exists():
            raise RecordError(
                f"{paths.shown(source)} does not exist; give a run's JSON file, a folder or a .tar archive."
            )
        if source.is_file() and source.suffix == ".json":
            yield source, True
            continue
        folder = source
        if source.is_file():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hypermask-add-")))
            _unpack(source, folder)
        found = sorted(path for path in folder.rglob("*.json") if path.name.startswith("seed") or _is_bench(path))
        if not found:
            raise RecordError(f"{paths.shown(source)} holds no run; expected BENCHMARK/METHOD/HASH/seedN.json in it.")
        yield from ((path, False) for path in found)


def _unpack(archive: Path, folder: Path) -> None:
    """Write the archive's records below `folder`; anything that could point elsewhere is refused."""
    try:
        with tarfile.open(archive, "r:") as members:
            for member in members:
                if member.isdir():
                    continue
                parts = member.name.split("/")
                if not member.isfile() or member.name.startswith("/") or ".." in parts or "\\" in member.name:
                    raise RecordError(
                        f"{paths.shown(archive)} holds {member.name!r}, a link, device or path out of the "
                        "archive; nothing was added."
                    )
                match = _MEMBER.fullmatch(member.name)
                if match is None or _EMBEDDINGS in parts:
                    continue
                if member.size > _LARGEST_FILE:
                    raise RecordError(
                        f"{paths.shown(archive)} holds {member.name!r} of {member.size} bytes, too large for a record."
                    )
                target = folder / match[1]
                if target.exists():
                    raise RecordError(f"{paths.shown(archive)} holds {match[1]} twice; nothing was added.")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(members.extractfile(member).read())
    except tarfile.TarError as error:
        raise RecordError(f"{paths.shown(archive)} is not a readable .tar archive ({error}); make it again.") from None


def _refuse_unfit(record: Record) -> None:
    """What no reason excuses: a run that is not a named configuration.

    One that diverged is a result: notebooks name it and leave it out of their means.
    """
    run = f"{record.experiment} seed {record.seed}"
    config = experiments.get(record.experiment).override(record.payload["overrides"]).config
    if record.config_hash != config.hash or record.config != config.to_dict():
        raise RecordError(f"{run} was run with another configuration than its name has now; run it again.")
    if config.hash not in _configurations_of_the_paper(record.experiment):
        raise RecordError(
            f"{run} was run with --set {' '.join(record.payload['overrides'])}, which no figure or table needs; only "
            f"runs of `hypermask run {record.experiment}` and of the ablations (`hypermask sweep`) are added."
        )
    if record.tasks != config.benchmark.tasks:
        raise RecordError(f"{run} has {record.tasks} tasks; expected the configuration's {config.benchmark.tasks}.")


def _configurations_of_the_paper(name: str) -> set[str]:
    """Hashes of the named configuration and of those that an item or an open question needs with changes."""
    named = experiments.get(name)
    needed = [need for item in items.ITEMS for need in item.runs] + questions.needs()
    return {named.config.hash, *(need.configured.config.hash for need in needed if need.experiment == name)}


def _objection(record: Record, existing: Record | None) -> str | None:
    """What speaks against adding the record, unless a reason is given."""
    inferred = (record.payload["inference"] or {}).get("environment", {"dirty": False})
    if record.environment.get("dirty") is not False or inferred.get("dirty") is not False:
        return "the run does not come from a clean tree of a known revision"
    if existing is not None and not _completes(record, existing):
        return f"another record of {record.experiment} seed {record.seed} is there already"
    return None


def _completes(record: Record, existing: Record) -> bool:
    """Whether the record is the existing one with more `inference`, which can be read from kept weights later."""
    rest, old_rest = (
        {key: value for key, value in each.payload.items() if key not in ("inference", "content_sha256")}
        for each in (record, existing)
    )
    # `environment` tells where weights that were kept were read, and is no procedure.
    inferred, old = (
        {name: value for name, value in (each.payload["inference"] or {}).items() if name != "environment"}
        for each in (record, existing)
    )
    return rest == old_rest and len(inferred) > len(old) and old.items() <= inferred.items()


def _same_run(existing: Record, record: Record) -> bool:
    """Whether the record is there already, by force or not."""
    unforced = {key: value for key, value in existing.payload.items() if key != "added_by_force"}
    return record.content_sha256 in (existing.content_sha256, records.seal(unforced)["content_sha256"])

"""One run is one small file: write, find, check.

A record is the JSON file ROOT/<benchmark>/<method>/<first 12 digits of the configuration's
hash>/seed<N>.json; task-wise logits, too large for JSON, lie in seed<N>.npz beside it. A file that cannot be
read, is newer than this version, or is not where its content says is "not there", with a warning that says
so: nothing is guessed from it.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import experiments, files, metrics, paths
from hypermask.errors import HyperMaskError

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
# For each older schema a function from its payload to the next one's; the oldest schema is the first, so
# there is none yet.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

FINISHED = "finished"
STATUSES = (FINISHED, "diverged")

KEYS = (
    "schema",
    "experiment",
    "seed",
    "config",
    "overrides",
    "config_hash",
    "status",
    "accuracy",
    "task_seconds",
    "evaluation_seconds",
    "peak_memory_mb",
    "validation",
    "target_distance",
    "logits",
    "inference",
    "data",
    "method_digest",
    "engine",
    "evaluation_interval",
    "environment",
    "created",
)
_ARRAYS = ("masked", "unmasked", "labels")
_NAME = re.compile(r"[\w-]+/[\w-]+")


class RecordError(HyperMaskError):
    """A record that cannot be read, written or accepted."""


@dataclass(frozen=True)
class Record:
    """One run. payload: its JSON content (all keys of `KEYS`); path: the file it was read from."""

    payload: dict[str, Any]
    path: Path | None = None

    @property
    def experiment(self) -> str:
        return self.payload["experiment"]

    @property
    def seed(self) -> int:
        return self.payload["seed"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration; `hypermask.config.Config.from_dict` makes it one again."""
        return self.payload["config"]

    @property
    def config_hash(self) -> str:
        return self.payload["config_hash"]

    @property
    def status(self) -> str:
        """`finished`, or `diverged` where weights or class scores stopped being finite."""
        return self.payload["status"]

    @property
    def finished(self) -> bool:
        return self.status == FINISHED

    @property
    def tasks(self) -> int:
        return len(self.payload["accuracy"])

    @property
    def accuracy(self) -> np.ndarray:
        """Accuracy matrix [T, T], percent: row after training task, NaN above the diagonal and where not
        measured.
        """
        return _with_nan(self.payload["accuracy"])

    @property
    def validation_accuracy(self) -> float | None:
        """Accuracy of the chosen model on each task's validation images just after learning it, percent, mean over
        tasks; None if a task has no value.
        """
        choose = _lowest if self.config["training"]["model_choice"] == "lowest-validation-loss" else _last
        chosen = [choose(curve) for curve in self.payload["validation"]]
        return None if None in chosen else float(np.mean(chosen))

    @property
    def seconds(self) -> float:
        """Wall time of training and evaluation together, of the tasks that were finished."""
        times = (*self.payload["task_seconds"], *self.payload["evaluation_seconds"])
        return float(sum(time for time in times if time is not None))

    @property
    def target_distance(self) -> dict[str, np.ndarray] | None:
        """Layer -> [T, T], L1 distance of its weights and bias after tasks i, j; None for a fixed target."""
        distances = self.payload["target_distance"]
        return None if distances is None else {layer: _with_nan(rows) for layer, rows in distances.items()}

    @property
    def environment(self) -> dict[str, Any]:
        return self.payload["environment"]

    @property
    def content_sha256(self) -> str:
        return self.payload["content_sha256"]

    @property
    def lost_logits(self) -> str:
        """Why the logits that it names cannot be read, in a sentence; empty where they can, or where it names none."""
        try:
            self.arrays()
        except RecordError as error:
            return str(error)
        return ""

    def arrays(self) -> dict[str, np.ndarray]:
        """Task-wise logits: `masked` and `unmasked` [T, n, k] float32, `labels` [T, n] absolute classes.

        Empty if the run kept none; no `unmasked` where the tasks share no network. A missing or changed file is a
        RecordError.
        """
        logits = self.payload["logits"]
        if logits is None:
            return {}
        beside = self.path.with_name(logits["file"])
        again = f"restore it, or run {self.experiment} seed {self.seed} again"
        try:
            data = beside.read_bytes()
        except OSError as error:
            raise RecordError(f"{paths.shown(beside)} cannot be read ({error.strerror}); {again}.") from None
        if files.sha256(data) != logits["sha256"]:
            raise RecordError(f"{paths.shown(beside)} is not the file its record names (SHA-256 differs); {again}.")
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}


def seal(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload as plain JSON values with `content_sha256` over the canonical JSON of the rest."""
    content = {key: value for key, value in payload.items() if key != "content_sha256"}
    try:
        canonical = files.canonical_json(content)
    except (TypeError, ValueError) as error:
        raise RecordError(
            f"the record cannot be written as JSON ({error}); expected plain values, null instead of NaN."
        ) from None
    # Tuples become lists, as they will be when the file is read.
    plain = json.loads(json.dumps(content))
    return plain | {"content_sha256": files.sha256(canonical)}


def location(root: Path, experiment: str, config_hash: str, seed: int) -> Path:
    """Where a run's record lies below `root`."""
    return root / experiment / config_hash[:12] / f"seed{seed}.json"


def prepare(root: Path, experiment: str, config_hash: str, seed: int, overwrite: bool = False) -> Path:
    """Where a run's record will lie, asked before the run: its folder is made, an existing record is refused.

    A name that is not BENCHMARK/METHOD, a record that is there and may not be replaced, or a folder that cannot be
    written is a RecordError, so that no training is lost to it.
    """
    _demand(_NAME.fullmatch(experiment), "experiment", experiment, "BENCHMARK/METHOD of letters, digits, _ and -")
    path = location(root, experiment, config_hash, seed)
    _refuse_existing(path, overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise RecordError(
            f"the record would lie in {paths.shown(path.parent)}, which cannot be written ({error.strerror}); make "
            "room or name another folder (HYPERMASK_ROOT, with a copy of records/ where ours are to be shown)."
        ) from None
    return path


def write(payload: dict[str, Any], arrays: dict[str, np.ndarray] | None, root: Path, overwrite: bool = False) -> Path:
    """Write a run's record, and its logits beside it, below `root`; returns the path of the JSON file.

    payload: all of `KEYS`; `logits` is filled in here from `arrays` (see `Record.arrays`). An existing record
    is only replaced when told to.
    """
    npz = None
    if arrays is not None:
        npz = _npz(arrays)
        entry = {
            "per_task": arrays["labels"].shape[1],
            "file": f"seed{payload['seed']}.npz",
            "sha256": files.sha256(npz),
        }
        payload = payload | {"logits": entry}
    return store(seal(payload), npz, root, overwrite)


def store(payload: dict[str, Any], npz: bytes | None, root: Path, overwrite: bool = False) -> Path:
    """Write a sealed payload, and its logits' file beside it, below `root`; the path of the JSON file."""
    _check(payload)
    path = location(root, payload["experiment"], payload["config_hash"], payload["seed"])
    _refuse_existing(path, overwrite)
    # The JSON file comes last: without it there is no record, so a run killed in between leaves none. Where one is
    # replaced, a kill in between leaves the earlier record with logits that it refuses, since it holds their SHA-256.
    if npz is not None:
        files.write_atomic(path.with_suffix(".npz"), npz)
    files.write_atomic(path, files.pretty_json(payload))
    return path


def read(path: Path) -> Record:
    """Read and check one record; RecordError if it is unreadable, newer, foreign or was changed."""
    try:
        payload = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise RecordError(f"{paths.shown(path)} cannot be read ({error.strerror}); expected a record.") from None
    except ValueError:
        raise RecordError(
            f"{paths.shown(path)} is not valid JSON; delete it or restore it from where it came."
        ) from None
    schema = payload.get("schema") if isinstance(payload, dict) else None
    if type(schema) is not int or not (schema == SCHEMA or schema in UPGRADES or schema > SCHEMA):
        raise RecordError(f"{paths.shown(path)} is not a record of this project; expected JSON with schema {SCHEMA}.")
    if schema > SCHEMA:
        raise RecordError(
            f"{paths.shown(path)} has schema {schema}, newer than {SCHEMA}, the newest this version reads; update "
            "hypermask."
        )
    if seal(payload)["content_sha256"] != payload.get("content_sha256"):
        raise RecordError(
            f"{paths.shown(path)} was changed after it was written (content hash differs); restore the original."
        )
    while payload["schema"] < SCHEMA:
        payload = UPGRADES[payload["schema"]](payload)
    try:
        _check(payload)
    except RecordError as error:
        raise RecordError(f"{paths.shown(path)}: {error}") from None
    return Record(payload, path)


def find(experiment: str, config_hash: str, root: Path, seeds: Iterable[int] | None = None) -> list[Record]:
    """The runs of one configuration below `root`, sorted by seed; what is no such record is warned about."""
    wanted = None if seeds is None else set(seeds)
    found = []
    for path in location(root, experiment, config_hash, 0).parent.glob("seed*.json"):
        record = _read_or_warn(path)
        if record is not None and _in_place(record, path, root) and (wanted is None or record.seed in wanted):
            found.append(record)
    return sorted(found, key=lambda record: record.seed)


def load(name: str, seeds: Iterable[int] | None = None, own: bool = False) -> list[Record]:
    """The runs of a named experiment, finished or not: the committed ones, or with `own` those in runs/."""
    root = paths.runs() if own else paths.records()
    return find(name, experiments.get(name).config.hash, root, seeds)


def to_frame(roots: Iterable[Path] | None = None) -> pd.DataFrame:
    """Every run as one row: results, times (seconds), environment, and the configuration's values.

    roots: records/ and runs/ by default. Measures are of finished runs; others have empty cells there.
    """
    import pandas as pd

    return pd.DataFrame(
        [
            {"folder": root.name} | _row(record) | {"file": record.path.relative_to(root).as_posix()}
            for root, record in everything((paths.records(), paths.runs()) if roots is None else roots)
        ]
    )


def everything(roots: Iterable[Path]) -> Iterator[tuple[Path, Record]]:
    """Every run below the folders, finished or not, with its folder; what is no record, or not in its place, is warned
    about."""
    for root in roots:
        for path in sorted(root.glob("*/*/*/seed*.json")):
            record = _read_or_warn(path)
            if record is not None and _in_place(record, path, root):
                yield root, record


def _in_place(record: Record, path: Path, root: Path) -> bool:
    """Whether a record lies where its content says; one that does not is warned about."""
    place = location(root, record.experiment, record.config_hash, record.seed)
    if path != place:
        warnings.warn(f"{paths.shown(path)} is left out: its place is {paths.shown(place)}.", stacklevel=3)
    return path == place


def _refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise RecordError(
            f"{paths.shown(path)} is there already; move it away, or say that it may be replaced (--force, "
            "overwrite=True)."
        )


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    """The checked arrays as an .npz file."""
    if sorted({"unmasked", *arrays}) != sorted(_ARRAYS):
        raise RecordError(f"a record's arrays are {', '.join(_ARRAYS)}; found {', '.join(sorted(arrays)) or 'none'}.")
    masked, labels = arrays["masked"], arrays["labels"]
    unmasked = arrays.get("unmasked", masked)
    if masked.ndim != 3 or unmasked.shape != masked.shape or labels.shape != masked.shape[:2]:
        raise RecordError(
            "a record's logits are masked and unmasked [tasks, n, classes] and labels [tasks, n]; found "
            f"{list(masked.shape)}, {list(unmasked.shape)} and {list(labels.shape)}."
        )
    return files.npz({name: arrays[name] for name in _ARRAYS if name in arrays})


def _check(payload: dict[str, Any]) -> None:
    """The structure of a payload; RecordError names the first thing that is wrong."""
    missing = [key for key in KEYS if key not in payload]
    if missing:
        raise RecordError(f"the record lacks {', '.join(missing)}; a record has all of {', '.join(KEYS)}.")
    _demand(payload["schema"] == SCHEMA, "schema", payload["schema"], str(SCHEMA))
    _demand(
        _NAME.fullmatch(str(payload["experiment"])),
        "experiment",
        payload["experiment"],
        "BENCHMARK/METHOD",
    )
    _demand(
        type(payload["seed"]) is int and payload["seed"] >= 0,
        "seed",
        payload["seed"],
        "a whole number, 0 or more",
    )
    _demand(payload["status"] in STATUSES, "status", payload["status"], " or ".join(STATUSES))
    _demand(isinstance(payload["config"], dict), "config", payload["config"], "a dictionary")
    _demand(isinstance(payload["overrides"], list), "overrides", payload["overrides"], "a list")
    for key in ("config_hash", "method_digest"):
        _demand(re.fullmatch(r"[0-9a-f]{64}", str(payload[key])), key, payload[key], "64 hex digits")
    finished = payload["status"] == FINISHED
    tasks = _check_accuracy(payload["accuracy"], finished)
    for key in ("task_seconds", "evaluation_seconds", "peak_memory_mb", "validation"):
        complete = isinstance(payload[key], list) and (
            len(payload[key]) == tasks if finished else len(payload[key]) <= tasks
        )
        _demand(complete, key, payload[key], f"one entry for each of the {tasks} tasks")
    if payload["logits"] is not None:
        beside = f"seed{payload['seed']}.npz"
        _demand(payload["logits"].get("file") == beside, "logits file", payload["logits"].get("file"), beside)
    for layer, rows in (payload["target_distance"] or {}).items():
        _demand(_is_square(rows, tasks), f"target_distance of {layer}", rows, f"{tasks} x {tasks}")


def _check_accuracy(rows: Any, finished: bool) -> int:
    tasks = len(rows) if isinstance(rows, list) else 0
    _demand(tasks >= 1 and _is_square(rows, tasks), "accuracy", rows, "tasks x tasks")
    for i, row in enumerate(rows):
        seen, unseen = row[: i + 1], row[i + 1 :]
        _demand(
            all(value is None for value in unseen),
            f"accuracy after task {i + 1}",
            row,
            "null above the diagonal",
        )
        measured = all(isinstance(value, int | float) and 0 <= value <= 100 for value in seen)
        skipped = not finished and all(value is None for value in seen)
        _demand(measured or skipped, f"accuracy after task {i + 1}", row, "percentages of all tasks seen by then")
    return tasks


def _is_square(rows: Any, size: int) -> bool:
    return (
        isinstance(rows, list) and len(rows) == size and all(isinstance(row, list) and len(row) == size for row in rows)
    )


def _demand(holds: Any, key: str, value: Any, expected: str) -> None:
    if not holds:
        text = repr(value)
        raise RecordError(f"{key} is {text if len(text) <= 80 else text[:77] + '...'}; expected {expected}.")


def _read_or_warn(path: Path) -> Record | None:
    try:
        return read(path)
    except RecordError as error:
        warnings.warn(f"left out as not there: {error}", stacklevel=3)
        return None


def _row(record: Record) -> dict[str, Any]:
    payload = record.payload
    environment = record.environment
    row = {
        "experiment": record.experiment,
        "seed": record.seed,
        "status": record.status,
        "overrides": " ".join(payload["overrides"]),
        "config_hash": record.config_hash[:12],
        "tasks": record.tasks,
    }
    if record.finished:
        row["mean_accuracy"] = metrics.mean_accuracy(record.accuracy)
        row["diagonal_mean"] = metrics.diagonal_mean(record.accuracy)
        row["average_incremental_accuracy"] = metrics.average_incremental_accuracy(record.accuracy)
        if record.tasks > 1:
            row["backward_transfer"] = metrics.backward_transfer(record.accuracy)
            row["forgetting"] = metrics.forgetting(record.accuracy)
    row |= {
        "training_seconds": sum(time for time in payload["task_seconds"] if time is not None),
        "evaluation_seconds": sum(time for time in payload["evaluation_seconds"] if time is not None),
        "peak_memory_mb": max((peak for peak in payload["peak_memory_mb"] if peak is not None), default=None),
        "engine": payload["engine"],
        "created": payload["created"],
        "content_sha256": record.content_sha256,
    }
    row |= {
        key: environment.get(key)
        for key in ("device", "device_name", "threads", "torch", "revision", "dirty", "version")
    }
    for section, values in record.config.items():
        row |= {
            f"{section}.{key}": ",".join(map(str, value)) if isinstance(value, list) else value
            for key, value in values.items()
        }
    return row


def _lowest(curve: dict[str, list]) -> float | None:
    """The accuracy where the loss is lowest; null losses are those that are not finite."""
    points = zip(curve["loss"], curve["accuracy"], strict=True)
    finite = [(loss, accuracy) for loss, accuracy in points if loss is not None]
    return min(finite, key=lambda point: point[0])[1] if finite else None


def _last(curve: dict[str, list]) -> float | None:
    return curve["accuracy"][-1] if curve["accuracy"] else None


def _with_nan(rows: list[list[float | None]]) -> np.ndarray:
    return np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

"""Weights on disk - safetensors, written whole or not at all - and the checkpoints from which a stopped run goes on."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hypermask.errors import HyperMaskError
from hypermask.files import canonical_json, locked, sha256, write_atomic

if TYPE_CHECKING:
    from hypermask.benchmarks.base import Benchmark

# A checkpoint that turns out damaged leaves the one before it.
KEPT_STATES = 2

Layers = dict[str, torch.Tensor]


def weights_path(record: Path, task: int) -> Path:
    """Where the weights after training `task` (0-based) lie beside a record."""
    return record.with_name(f"{record.stem}-task{task + 1}.safetensors")


def has_weights(record: Path, tasks: int) -> bool:
    """Whether the weights after each of the first tasks lie beside a record."""
    return all(weights_path(record, task).exists() for task in range(tasks))


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON-plain facts to one safetensors file, atomically."""
    from safetensors.torch import save

    plain: dict[str, torch.Tensor] = {}
    taken = set()
    for name, tensor in tensors.items():
        alone = tensor.detach().cpu().contiguous()
        place = alone.untyped_storage().data_ptr()
        # Views of one tensor are written as tensors of their own, as the format asks.
        plain[name] = alone.clone() if place in taken else alone
        taken.add(place)
    write_atomic(path, save(plain, metadata={"facts": json.dumps(facts)}))


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read `save_tensors` back.  FileNotFoundError if the file is not there, ValueError if it is damaged or foreign."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            facts = json.loads(file.metadata()["facts"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 (no mapping)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is no readable weights file ({error})") from None


class KeptWeights:
    """The weights of a run after each of its tasks, beside the record to be, for `HyperMask.load`.

    wanted: whether they are kept at all. They are too where an earlier run of the record kept its own, which this run's
    replace: what was kept is not lost because the record is made again, say with more `inference`.
    """

    def __init__(self, record: Path, benchmark: Benchmark, wanted: bool) -> None:
        self._record, self._wanted = record, wanted or weights_path(record, 0).exists()
        self._network = {"input_shape": list(benchmark.input_shape), "classes": benchmark.classes_per_task}

    def save(self, task: int, weights: dict[str, torch.Tensor], accuracy: list[float]) -> None:
        """Write the weights after `task` (0-based), whose row of the accuracy matrix tells whose they are."""
        if self._wanted:
            save_tensors(weights_path(self._record, task), weights, self._network | {"accuracy": accuracy})

    def there(self, tasks: int) -> bool:
        """Whether all that are wanted of the first tasks are there."""
        return not self._wanted or has_weights(self._record, tasks)

    def close(self, tasks: int) -> None:
        """The record of so many learned tasks is written: weights of an earlier run after later ones are deleted."""
        own = {weights_path(self._record, task) for task in range(tasks)}
        for path in set(self._record.parent.glob(f"{self._record.stem}-task*.safetensors")) - own:
            path.unlink()


@dataclass(frozen=True)
class State:
    """A run after some tasks.  finished: how many.  history: what was measured, JSON-plain.  layers: one entry per
    task."""

    finished: int
    weights: dict[str, torch.Tensor]
    history: dict[str, Any]
    layers: list[Layers]


class Checkpoints:
    """The checkpoints of one run, in a folder below `seedN.partial` beside the record to be; one process at a time.

    identity: everything that decides the run's numbers, JSON-plain; each has a folder of its own, so that a checkpoint
    of other code or settings is neither used nor overwritten. A context: inside, no other process has this run's.
    """

    def __init__(self, record: Path, identity: dict[str, Any]) -> None:
        self._all = record.with_name(f"{record.stem}.partial")
        self._folder = self._all / sha256(canonical_json(identity))[:12]
        self._lock = locked(self._all / "lock", self._refuse)

    def __enter__(self) -> Checkpoints:
        self._lock.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if not any(self._all.glob("*/")):
            # Nothing was finished, so nothing is left behind.
            self.remove()
        self._lock.__exit__(*error)

    def _refuse(self) -> None:
        experiment = self._all.parents[1].relative_to(self._all.parents[3])
        raise HyperMaskError(f"another process is training {self._all.stem} of {experiment}; wait for it, or stop it.")

    def save(self, state: State) -> None:
        """Keep the state after its last finished task; of older states only the shared layers and one state stay."""
        save_tensors(self._layers(state.finished), state.layers[-1], {})
        facts = {"finished": state.finished, "history": state.history}
        save_tensors(self._state(state.finished), state.weights, facts)
        self._state(state.finished - KEPT_STATES).unlink(missing_ok=True)

    def latest(self) -> State | None:
        """The newest whole state of this run; None if there is none, with a warning where others are left aside."""
        found = sorted(self._folder.glob("state*.safetensors"), key=lambda path: int(path.stem[5:]), reverse=True)
        reason = (
            "it was made by other code, settings, initial weights, library versions, another device or number of "
            "threads"
        )
        for path in found:
            try:
                weights, facts = load_tensors(path)
                layers = [load_tensors(self._layers(task))[0] for task in range(1, facts["finished"] + 1)]
                return State(facts["finished"], weights, facts["history"], layers)
            except (ValueError, FileNotFoundError) as error:
                reason = str(error)
        if any(self._all.glob("*/state*.safetensors")):
            warnings.warn(f"the checkpoint in {self._all.name} is left aside: {reason}.", stacklevel=2)
        return None

    def remove(self) -> None:
        """Delete all checkpoints of this configuration and seed: the record is written."""
        shutil.rmtree(self._all, ignore_errors=True)

    def _state(self, finished: int) -> Path:
        return self._folder / f"state{finished}.safetensors"

    def _layers(self, task: int) -> Path:
        return self._folder / f"layers{task}.safetensors"

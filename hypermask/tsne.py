"""t-SNE embeddings of recorded logits (figures 12 to 14), and how pure their neighbourhoods are.

A seed gives the same embedding again on one machine, not on another. So the embeddings that notebooks show are
recorded: records/tsne/<experiment>/<first 12 digits of the configuration's hash>/seed<N>.npz holds the positions, the
settings, and the content hash of the record they were made from. An embedding of another record, or with other
settings, is computed where it is asked for.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hypermask import files, items, paths, records
from hypermask.errors import HyperMaskError

if TYPE_CHECKING:
    from hypermask.records import Record
    from hypermask.results import Runs

NETWORKS = {"masked": "with masks", "unmasked": "without masks"}
"""The logits of a record, and what a reader calls the network they come from."""

NEIGHBOURS = 10

# What every embedding has in common. Approximate neighbours would depend on the number of threads.
_FIXED = {
    "neighbors": "exact",
    "metric": "euclidean",
    "initialization": "pca",
    "early_exaggeration_iter": 250,
    "n_iter": 500,
    "n_jobs": 1,
}


@dataclass(frozen=True)
class Settings:
    """What can be changed about an embedding; the defaults are those of the recorded ones.

    points: at most so many, as many of each task.  perplexity: of t-SNE.  seed: of the embedding; the run has its own.
    """

    points: int = 2000
    perplexity: float = 30.0
    seed: int = 1

    def to_dict(self) -> dict[str, Any]:
        """All settings, JSON-plain."""
        return asdict(self) | _FIXED


@dataclass(frozen=True)
class Sample:
    """Test images of one run, as many of each task.

    logits: network (`masked`, `unmasked`) -> [N, k].  tasks: from 0.  digits: 0 to 9.  units: the output unit of the
    image's class, 0 to k-1, shared by the tasks. All int64 [N].
    """

    logits: dict[str, np.ndarray]
    tasks: np.ndarray
    digits: np.ndarray
    units: np.ndarray

    def kinds(self) -> dict[str, np.ndarray]:
        """What a neighbourhood may be pure in: digit, task, and output unit where that is not the digit itself."""
        kinds = {"digit": self.digits, "task": self.tasks}
        return kinds if np.array_equal(self.digits, self.units) else kinds | {"output unit": self.units}


@dataclass(frozen=True)
class Embedding:
    """Where t-SNE puts a sample.  run: what it is of, in words.  positions: network -> [N, 2]."""

    run: str
    settings: Settings
    sample: Sample
    positions: dict[str, np.ndarray]


def shown(runs: Runs) -> tuple[list[Record], list[Record]]:
    """The run that a figure shows, and the reader's own one: of the first needed seed, and the first there is.

    The paper shows one model and gives no rule for its choice; ours is fixed beforehand, whatever its accuracy.
    """
    return [run for run in runs.records if run.seed == runs.seeds[0]], list(runs.own[:1])


def embeddings(runs: Runs, settings: Settings | None = None) -> list[Embedding]:
    """The embeddings of the shown runs, the reader's own last; none where nothing was run."""
    ours, yours = shown(runs)
    made = [embedding(run, settings) for run in ours]
    return made + [embedding(run, settings, f"your own run of {runs.name}, seed {run.seed}") for run in yours]


def embedding(record: Record, settings: Settings | None = None, run: str = "") -> Embedding:
    """A run's embedding: the recorded one if it is of this very record and has these settings, else computed.

    run: what the run is called.
    """
    settings = settings or Settings()
    points = sample(record, settings.points)
    positions = _recorded(record, settings)
    if positions is None:
        positions = {network: embed(logits, settings) for network, logits in points.logits.items()}
    return Embedding(run or f"{record.experiment}, seed {record.seed}", settings, points, positions)


def sample(record: Record, points: int) -> Sample:
    """At most `points` of a record's logits: the first ones of each task, which the run drew at random."""
    arrays = record.arrays()
    if sorted(arrays) != ["labels", *NETWORKS]:
        raise HyperMaskError(
            f"{record.experiment} seed {record.seed} has no logits with and without masks; t-SNE needs both, so choose "
            "a run of HyperMask that kept them."
        )
    tasks, recorded, units = arrays["masked"].shape
    each = min(recorded, points // tasks)
    labels = arrays["labels"][:, :each].ravel()
    return Sample(
        logits={network: arrays[network][:, :each].reshape(-1, units) for network in NETWORKS},
        tasks=np.repeat(np.arange(tasks), each),
        # Absolute classes count on from task to task, and all our benchmarks with such logits are of digits.
        digits=labels % 10,
        units=labels % units,
    )


def embed(logits: np.ndarray, settings: Settings) -> np.ndarray:
    """t-SNE of logits [N, k], by openTSNE with exact neighbours in one thread: float32 [N, 2]."""
    if not 3 * settings.perplexity < len(logits):
        raise HyperMaskError(
            f"perplexity {settings.perplexity:g} needs more than {3 * settings.perplexity:g} points, and there are "
            f"{len(logits)}; lower the perplexity or take more points."
        )
    from openTSNE import TSNE

    tsne = TSNE(perplexity=settings.perplexity, random_state=settings.seed, **_FIXED)
    return np.asarray(tsne.fit(logits.astype(np.float64)), dtype=np.float32)


def refresh(notebook: str) -> list[Path]:
    """Record the embeddings that a notebook shows and that are missing, or of other records; returns the new files."""
    needs = [need for item in items.of_notebook(notebook) for need in item.runs if need.part == "logits"]
    written = []
    for need in needs:
        for record in records.load(need.experiment, need.seeds[:1]):
            if record.finished and record.payload["logits"] and _recorded(record, Settings()) is None:
                written.append(_write(embedding(record), record))
    return written


def purity(points: np.ndarray, groups: np.ndarray, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Of each point's nearest other points (Euclidean), the percentage in its own group: float64 [N].

    points: [N, d].  groups: [N].
    """
    if not 0 < neighbours < len(points):
        raise HyperMaskError(f"{neighbours} neighbours of {len(points)} points; expected 1 to {len(points) - 1}.")
    from scipy.spatial import cKDTree

    _, nearest = cKDTree(points).query(points, k=neighbours + 1)
    # Of points in one place, the search may name another one before the point itself.
    others = nearest != np.arange(len(points))[:, None]
    same = (groups[nearest] == groups[:, None]) & others
    return 100.0 * same.sum(axis=1) / others.sum(axis=1)


def chance(groups: np.ndarray) -> float:
    """The mean purity, percent, if places said nothing about groups."""
    counts = np.unique_counts(groups).counts
    return float(100.0 * (counts * (counts - 1)).sum() / (len(groups) * (len(groups) - 1)))


def group_purity(record: Record, network: str, kind: str, over: str) -> np.ndarray:
    """Mean purity of the points of each group of `over`, percent: float64 [groups].

    Measured among the logits of a network (`masked`, `unmasked`) themselves, without t-SNE.  kind: what the
    neighbourhoods may be pure in, and over: what the points are grouped by; each `digit`, `task` or `output unit`.
    """
    points = sample(record, Settings().points)
    kinds = points.kinds()
    values = purity(points.logits[network], kinds[kind])
    return np.array([values[kinds[over] == group].mean() for group in np.unique(kinds[over])])


def _location(record: Record) -> Path:
    return records.location(paths.records() / "tsne", record.experiment, record.config_hash, record.seed).with_suffix(
        ".npz"
    )


def _recorded(record: Record, settings: Settings) -> dict[str, np.ndarray] | None:
    """The recorded positions of a record; None if there are none of its content and with these settings."""
    path = _location(record)
    if not path.is_file():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as loaded:
            about = json.loads(loaded["about"].tobytes())
            positions = {network: loaded[network] for network in NETWORKS}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise HyperMaskError(
            f"{path.relative_to(paths.root())} is not a recorded embedding ({error}); delete it and run "
            "`hypermask notebooks`, which records it anew."
        ) from None
    same = (about["record"], about["settings"]) == (record.content_sha256, settings.to_dict())
    return positions if same else None


def _write(made: Embedding, record: Record) -> Path:
    from importlib.metadata import version

    about = {
        "experiment": record.experiment,
        "seed": record.seed,
        "config_hash": record.config_hash,
        "record": record.content_sha256,
        "settings": made.settings.to_dict(),
        "versions": {name: version(name) for name in ("openTSNE", "numpy", "scikit-learn")},
    }
    text = np.frombuffer(files.canonical_json(about), dtype=np.uint8)
    path = _location(record)
    files.write_atomic(path, files.npz({**made.positions, "about": text}))
    return path

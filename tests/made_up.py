"""Records with made-up numbers, for tests of what reads records; written below a temporary root only."""

from pathlib import Path

import numpy as np
from payloads import payload

from hypermask import experiments, records


def accuracy_matrix(tasks: int, seed: int, level: float = 99.5) -> list[list[float | None]]:
    """A plausible accuracy matrix, percent, rounded to 0.01; null above the diagonal."""
    start = level + np.random.default_rng(seed).uniform(-0.4, 0.4, tasks)
    return [
        [round(float(start[j] - 0.01 * (i - j)), 2) if j <= i else None for j in range(tasks)] for i in range(tasks)
    ]


def write_record(root: Path, name: str, seed: int, level: float = 99.5, **changes) -> Path:
    """A record of the named configuration below `root`; returns its path."""
    tasks = experiments.get(name).config.benchmark.tasks
    made_up = payload(name, seed, accuracy=accuracy_matrix(tasks, seed, level), **changes)
    return records.write(made_up, None, root)

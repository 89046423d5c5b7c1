"""Records as a run would leave them, with made-up numbers, for tests that need some without training.

They are written below temporary roots only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hypermask import experiments, records


def payload(
    experiment: str = "split_mnist/hypermask-t",
    seed: int = 1,
    final: list[float] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A finished run of a named configuration, changed if `overrides` are among the changes; `final` is the last row of
    its accuracy matrix, percent."""
    named = experiments.get(experiment).override(changes.get("overrides", []))
    tasks = named.config.benchmark.tasks
    last = final or [99.0 + 0.1 * task for task in range(tasks)]
    accuracy = [[90.0 + task] * (task + 1) + [None] * (tasks - task - 1) for task in range(tasks - 1)] + [last]
    trainable = getattr(named.config.method, "trainable_target", False)
    distance = [[100.0 * abs(i - j) for j in range(tasks)] for i in range(tasks)]
    return {
        "schema": 1,
        "experiment": experiment,
        "seed": seed,
        "config": named.config.to_dict(),
        "overrides": [],
        "config_hash": named.config.hash,
        "status": "finished",
        "accuracy": accuracy,
        "task_seconds": [60.0] * tasks,
        "evaluation_seconds": [0.5] * tasks,
        "peak_memory_mb": [None] * tasks,
        "validation": [{"iteration": [2000], "loss": [0.01], "accuracy": [99.0]}] * tasks,
        "target_distance": {"layer1": distance, "layer2": distance, "layer3": distance} if trainable else None,
        "logits": None,
        "inference": None,
        "data": {"train": "0" * 64},
        "method_digest": "1" * 64,
        "engine": "eager",
        "evaluation_interval": 1000,
        "environment": {
            "python": "3.11.7",
            "torch": "2.14.1",
            "numpy": "2.4.6",
            "platform": "Linux x86_64",
            "device": "cpu",
            "device_name": "Test CPU",
            "threads": 2,
            "variables": {},
            "revision": "2" * 40,
            "dirty": False,
            "version": "0.1.0",
            "kernel": None,
            "seeds_at_once": 1,
        },
        "created": "2026-01-02T03:04:05+00:00",
    } | changes


def record(**changes: Any) -> records.Record:
    return records.Record(records.seal(payload(**changes)))


def logits(tasks: int = 5, per_task: int = 4, classes: int = 2) -> dict[str, np.ndarray]:
    values = np.arange(tasks * per_task * classes, dtype=np.float32).reshape(tasks, per_task, classes)
    labels = np.arange(tasks * per_task, dtype=np.int64).reshape(tasks, per_task) % 10
    return {"masked": values, "unmasked": -values, "labels": labels}


def accuracy_matrix(tasks: int, seed: int, level: float = 99.5) -> list[list[float | None]]:
    """A plausible accuracy matrix, percent, rounded to 0.01; null above the diagonal."""
    start = level + np.random.default_rng(seed).uniform(-0.4, 0.4, tasks)
    return [
        [round(float(start[j] - 0.01 * (i - j)), 2) if j <= i else None for j in range(tasks)] for i in range(tasks)
    ]


def write_record(root: Path, name: str, seed: int, level: float = 99.5, **changes: Any) -> Path:
    """A record of the named configuration below `root`; returns its path."""
    tasks = experiments.get(name).config.benchmark.tasks
    made_up = payload(name, seed, accuracy=accuracy_matrix(tasks, seed, level), **changes)
    return records.write(made_up, None, root)

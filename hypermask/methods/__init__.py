"""Methods that train under the common protocol, one file each; HyperMask itself is `hypermask.model`."""

from __future__ import annotations

from hypermask.benchmarks.base import Benchmark
from hypermask.config import HyperMaskConfig
from hypermask.methods.base import Method

__all__ = ["Method", "build"]


def build(config: HyperMaskConfig, benchmark: Benchmark, seed: int) -> Method:
    """The method of a configuration for a benchmark, initialised from the run's seed."""
    from hypermask.model import HyperMask

    return HyperMask.from_config(
        config,
        tasks=benchmark.tasks,
        input_shape=benchmark.input_shape,
        classes=benchmark.classes_per_task,
        seed=seed,
    )

"""Methods that train under the common protocol, one file each; HyperMask itself is `hypermask.model`."""

from __future__ import annotations

from hypermask.benchmarks.base import Benchmark
from hypermask.config import FrozenConfig, HNETConfig, HyperMaskConfig, MethodConfig, WSNConfig
from hypermask.methods.base import Method

__all__ = ["Method", "build"]


def build(config: MethodConfig, benchmark: Benchmark, seed: int) -> Method:
    """The method of a configuration for a benchmark, initialised from the run's seed."""
    from hypermask.methods.frozen import FrozenNetwork
    from hypermask.methods.hnet import HNET
    from hypermask.methods.wsn import WSN
    from hypermask.model import HyperMask

    makers = {
        HyperMaskConfig: HyperMask.from_config,
        HNETConfig: HNET,
        WSNConfig: WSN.from_config,
        FrozenConfig: FrozenNetwork,
    }
    return makers[type(config)](
        config,
        tasks=benchmark.tasks,
        input_shape=benchmark.input_shape,
        classes=benchmark.classes_per_task,
        seed=seed,
    )

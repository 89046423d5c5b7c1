"""What tells a run from others: digests of its code, its networks and its data, and all that a checkpoint rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypermask import hidden_state, own_code
from hypermask.benchmarks.base import Benchmark
from hypermask.device import environment
from hypermask.files import canonical_json, sha256
from hypermask.methods import Method
from hypermask.revision import PACKAGE

# Values of these kinds in a benchmark's attributes say how it makes its images; a seed draws whole arrays and lists.
_PLAIN = (str, bytes, bool, int, float, complex, np.generic, torch.dtype)


def resumable(run: Mapping[str, Any], settings: Sequence[Any], benchmark: Benchmark, method: Method) -> dict[str, Any]:
    """What has to be equal for a run to go on from a checkpoint; of a method as it is before it is trained.

    run: its `config_hash` and `seed`.  settings: what of its settings decides numbers.
    """
    facts = environment(benchmark.device)
    weights = {name: hidden_state.tensor_digest(tensor) for name, tensor in method.weights().items()}
    return {
        **{key: run[key] for key in ("config_hash", "seed")},
        "settings": list(settings),
        "package": _digest_of(sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.c"))),
        "data": benchmark.checksums,
        "method": sha256(canonical_json([weights, hidden_state.digests(method)])),
        **{key: facts[key] for key in ("torch", "device_name", "threads", "version")},
    }


def network_digest(method: Method) -> str:
    """SHA-256 over the modules of a method, the shapes of its parameters, the source of classes of one's own, and what
    methods and networks of such classes hold in attributes."""
    shapes = {name: list(parameter.shape) for name, parameter in method.named_parameters()}
    own = {name: part for name, part in method.named_modules() if own_code.is_own(type(part))}
    # Runs of several seeds are of one configuration.
    held = {
        name: own_code.told({key: value for key, value in hidden_state.held(part).items() if key != "seed"})
        for name, part in own.items()
    }
    return sha256(canonical_json([repr(method), shapes, own_code.sources(map(type, method.modules())), held]))


def data_digest(benchmark: Benchmark) -> str:
    """SHA-256 over a benchmark's own checksums, the classes and sizes of its tasks and what the functions that it holds
    do, and of a class of one's own the source and the plain values in attributes, but for one called `seed`.

    What a seed draws - a list among the checksums, and with it which classes a task has - is no part: runs of several
    seeds are of one configuration.
    """
    tasks = [benchmark.task(index) for index in range(benchmark.tasks)]
    files = {name: checksum for name, checksum in benchmark.checksums.items() if not isinstance(checksum, list)}
    drawn = len(files) < len(benchmark.checksums)
    classes = [len(task.classes) if drawn else list(map(int, task.classes)) for task in tasks]
    sizes = [[len(task.train), len(task.validation), len(task.test)] for task in tasks]
    own = own_code.is_own(type(benchmark))
    held = {
        name: own_code.told(value)
        for name, value in vars(benchmark).items()
        if callable(value) or (own and name != "seed" and isinstance(value, _PLAIN))
    }
    return sha256(canonical_json([files, classes, sizes, own_code.sources([type(benchmark)]), held]))


def method_digest(method: Method) -> str:
    """SHA-256 over the source files that define the method."""
    return _digest_of(PACKAGE / name for name in method.sources)


def _digest_of(sources: Iterable[Path]) -> str:
    return sha256(b"".join(source.read_bytes() for source in sources))

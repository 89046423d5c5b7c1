"""One seed, many independent random streams.

Every use of randomness (initialisation, permutations, batch order, augmentation, ...) has a generator of its own,
derived from the run's seed, the purpose and the task. Nothing one stream does can shift another, and a resumed run
draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GLOBAL = threading.Lock()


def derive(seed: int, purpose: str, task: int | None = None) -> int:
    """A 63-bit seed for one purpose (and task) of the run `seed`."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, purpose: str, task: int | None = None, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for one purpose (and task) of the run `seed`.

    Everything that decides what a run is (initialisation, permutations, class and batch order) is drawn on the CPU
    whatever the device, so that runs on two devices start equal; only augmentation is drawn on the training device.
    """
    return torch.Generator(device=device).manual_seed(derive(seed, purpose, task))


@contextmanager
def global_generator(seed: int, purpose: str) -> Iterator[None]:
    """Inside, torch's global generator starts where the seed says; afterwards it is as before.

    For initialisers that take no generator. One thread at a time, since all seeds side by side share that generator.
    """
    with _GLOBAL, torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, purpose))
        yield


def seed_layers(seed: int, task: int) -> None:
    """Start torch's global generators, from which layers such as dropout draw, where the seed and the task say."""
    with _GLOBAL:
        torch.manual_seed(derive(seed, "layers", task))

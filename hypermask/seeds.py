"""One seed, many independent random streams.

Every use of randomness (initialisation, permutations, batch order, augmentation, ...) has a generator of its own,
derived from the run's seed, the purpose and the task. Nothing one stream does can shift another, and a resumed run
draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

import hashlib

import torch


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

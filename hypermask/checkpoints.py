"""Weights on disk: safetensors, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from hypermask.files import write_atomic


def weights_path(record: Path, task: int) -> Path:
    """Where the weights after training `task` (0-based) lie beside a record."""
    return record.with_name(f"{record.stem}-task{task + 1}.safetensors")


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    """Write tensors and JSON-plain facts to one safetensors file, atomically."""
    from safetensors.torch import save

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomic(path, save(plain, metadata={"facts": json.dumps(facts)}))

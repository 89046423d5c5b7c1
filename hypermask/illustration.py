"""The small real model that figure 1 is drawn from: trained once, recorded, and read without torch.

A narrow HyperMask-T learns scikit-learn's 8x8 digits in five tasks. Its embeddings, masks and target weights lie in
records/illustration.json; `write(make())` makes the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypermask import files, paths, records
from hypermask.config import BenchmarkConfig, Config, HyperMaskConfig, TrainingConfig
from hypermask.errors import HyperMaskError

SEED = 1
CONFIG = Config(
    BenchmarkConfig("split_digits", tasks=5, validation=40),
    HyperMaskConfig(
        target="mlp",
        target_hidden=(6, 6, 5),
        target_activation="relu",
        trainable_target=True,
        embedding_size=8,
        hypernetwork_hidden=(16, 16),
        beta=0.01,
        lam=1e-3,
        p=40.0,
    ),
    TrainingConfig(batch_size=32, iterations=100),
)
DECIMALS = 6


@dataclass(frozen=True)
class Illustration:
    """A trained model as figure 1 shows it.

    embeddings: [T, E].  theta: layer -> weights of the target network [out, in].  masks: layer -> [T, out, in], with
    the final p; exact zeros are switched off.  Layers: all with weights but the first, which sees the pixels.
    accuracy: [T, T], percent, NaN above the diagonal.  config, seed: of the run.
    """

    embeddings: np.ndarray
    theta: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    accuracy: np.ndarray
    config: Config
    seed: int

    @property
    def tasks(self) -> int:
        return len(self.embeddings)

    @property
    def p(self) -> float:
        """Sparsity, percent."""
        return self.config.method.p


def of(profile: str) -> Illustration:
    """The recorded one; in other profiles trained now, with a few iterations in `smoke`."""
    if profile == "recorded":
        return read()
    return make(CONFIG.override(["iterations=10"]) if profile == "smoke" else CONFIG)


def make(config: Config = CONFIG) -> Illustration:
    """Train the model, in seconds on a CPU.

    In double precision: what another machine rounds differently stays far below what can be seen, or recorded.
    """
    from hypermask import methods
    from hypermask.benchmarks.split_digits import SplitDigits
    from hypermask.training import train

    class InDouble(SplitDigits):
        def _prepare(self, *arguments: Any) -> Any:
            return super()._prepare(*arguments).double()

    benchmark = InDouble(config.benchmark.tasks, config.benchmark.validation, "cpu")
    model = methods.build(config.method, benchmark, SEED).double()
    record = train(model, benchmark, config.training, seed=SEED, engine="eager")
    masks = [model.masks(task) for task in range(model.tasks)]
    theta = {name: weights for name, weights in model.target.named_parameters() if weights.ndim == 2}
    drawn = list(theta)[1:]
    return Illustration(
        embeddings=np.stack([_array(embedding) for embedding in model.hypernetwork.conditional_params]),
        theta={name: _array(theta[name]) for name in drawn},
        masks={name: np.stack([_array(mask[name]) for mask in masks]) for name in drawn},
        accuracy=record.accuracy,
        config=config,
        seed=SEED,
    )


def write(illustration: Illustration) -> Path:
    """Record the illustration; returns the file."""
    payload = {
        "schema": records.SCHEMA,
        "of": "figure 1",
        "config": illustration.config.to_dict(),
        "seed": illustration.seed,
        "accuracy": [[None if np.isnan(a) else a for a in row] for row in _plain(illustration.accuracy)],
        "embeddings": _plain(illustration.embeddings),
        "theta": {name: _plain(weights) for name, weights in illustration.theta.items()},
        "masks": {name: _plain(masks) for name, masks in illustration.masks.items()},
    }
    files.write_if_changed(_path(), files.pretty_json(records.seal(payload)))
    return _path()


def read() -> Illustration:
    """The recorded illustration; HyperMaskError if the file is missing, or not as it was written."""
    how = "restore it, or make it with `python -c 'from hypermask import illustration as i; i.write(i.make())'`"
    try:
        payload = json.loads(_path().read_bytes())
        if records.seal(payload) != payload:
            raise ValueError("content hash differs")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise HyperMaskError(
            f"records/{_path().name} is not the recorded model of figure 1 ({reason}); {how}."
        ) from None
    return Illustration(
        embeddings=np.array(payload["embeddings"]),
        theta={name: np.array(weights) for name, weights in payload["theta"].items()},
        masks={name: np.array(masks) for name, masks in payload["masks"].items()},
        accuracy=np.array(payload["accuracy"], dtype=np.float64),
        config=Config.from_dict(payload["config"]),
        seed=payload["seed"],
    )


def _path() -> Path:
    return paths.records() / "illustration.json"


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy()


def _plain(array: np.ndarray) -> list[Any]:
    return np.round(array, DECIMALS).tolist()

"""HyperMask: hypernetwork-generated semi-binary masks for continual learning.

`import hypermask` is cheap: torch is imported only when a name below that needs it is first used.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "Benchmark": "benchmarks",
    "HyperMask": "model",
    "HyperMaskError": "errors",
    "Method": "methods",
    "Split": "benchmarks",
    "Task": "benchmarks",
    "TrainingConfig": "config",
    "cifar100_tasks": "benchmarks",
    "made_shapes": "benchmarks",
    "permuted_mnist": "benchmarks",
    "split_cifar100": "benchmarks",
    "split_cifar100_5x20": "benchmarks",
    "split_digits": "benchmarks",
    "split_mnist": "benchmarks",
    "tiny_imagenet": "benchmarks",
    "train": "training",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

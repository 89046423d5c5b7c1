"""Which device a run uses, and what a record says about the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from hypermask import __version__, revision
from hypermask.errors import HyperMaskError

CPUINFO = Path("/proc/cpuinfo")
# The numbers that tell processors apart, of x86 and of ARM, and their words in a name.
NUMBERS = (
    {"cpu family": "family", "model": "model"},
    {"CPU implementer": "implementer", "CPU part": "part"},
)
# How variables begin that change a run's speed or its rounding.
VARIABLES = (
    *("MALLOC_", "GLIBC_TUNABLES", "OMP_", "KMP_", "MKL_"),
    *("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
)


def resolve(name: str = "auto") -> torch.device:
    """`auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:N` as a torch device that exists here."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise HyperMaskError(f"device {name!r} is not known; expected auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HyperMaskError(
            f"device {name!r} is not here: this machine has {torch.cuda.device_count()} CUDA devices; use auto or cpu."
        )
    # With its number, as tensors name it; PyTorch's calls do not all take a device without one.
    return torch.device("cuda", torch.cuda.current_device()) if device == torch.device("cuda") else device


def make_current(device: torch.device) -> None:
    """Make a CUDA device the one that this thread's kernels run on; nothing to do for a CPU."""
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


@contextmanager
def memory_told(words: str) -> Iterator[None]:
    """Memory that runs out inside is one sentence, a HyperMaskError.  words: what runs."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = str(error).strip() or type(error).__name__
        # Allocators and libraries that have no class for it.
        known = ("can't allocate memory", "out of memory", "ALLOC_FAILED")
        if not isinstance(error, MemoryError) and not any(phrase in text for phrase in known):
            raise
        raise HyperMaskError(
            f"{words} needs more memory than there is here ({text.splitlines()[0][:200]}); free some, or take another "
            "device (`hypermask status` tells what experiments need)."
        ) from None


def environment(device: torch.device) -> dict[str, Any]:
    """The device, the versions, the code's revision and the environment variables that bear on a run, JSON-plain."""
    import numpy

    current, dirty = revision.state()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "threads": torch.get_num_threads(),
        "variables": {name: value for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)},
        "revision": current,
        "dirty": dirty,
        "version": __version__,
    }


def cpu_name() -> str:
    """The processor's model, with its numbers where Linux tells: cloud names are often generic, and ARM has none."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return _name_on_macos() or platform.processor() or platform.machine()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = facts.get("model name", platform.machine())
    for numbers in NUMBERS:
        if all(facts.get(key) for key in numbers):
            return f"{name}, {' '.join(f'{word} {facts[key]}' for key, word in numbers.items())}"
    return name


def _name_on_macos() -> str:
    """`Apple M2`; empty on other systems.  `platform.processor()` is `arm` on all of Apple's."""
    try:
        asked = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
    except OSError:
        return ""
    return asked.stdout.strip()

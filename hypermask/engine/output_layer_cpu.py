"""The output layer on a CPU: `output_layer.c`, compiled on first use for the width and precision at hand."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from hypermask.device import CPUINFO, cpu_name
from hypermask.engine.errors import UnavailableError
from hypermask.engine.optimizers import BETA1, BETA2, EPSILON

# Numbers of output_layer.c.
ROWS, LANES = 64, 16
# Tiles that share their partial sums: at least so many, and more where there would be too many chunks to add up.
CHUNK, MOST_CHUNKS = 64, 128
MADV_HUGEPAGE = 14
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-fPIC")


class OutputLayer:
    """Working copy of weight [P, h] and bias [P] with Adam's moments, in the kernel's layout.

    start: hidden vectors [t, h] of the t previous tasks at the start of the task.  kernel: the compiler that made the
    code.
    """

    def __init__(
        self,
        weight: torch.nn.Parameter,
        bias: torch.nn.Parameter,
        start: torch.Tensor,
        *,
        learning_rate: float,
    ) -> None:
        self._weight, self._bias, self.learning_rate = weight, bias, learning_rate
        self._rows, width = weight.shape
        self._columns = width + 1
        self._kind = {"dtype": weight.dtype}
        library, told = _library(self._columns, weight.dtype)
        if library is None:
            raise UnavailableError(told)
        self._library, self.kernel = library, told
        self._tiles = math.ceil(self._rows / ROWS)
        self._w = _buffer(self._tiles, self._columns, ROWS, **self._kind).copy_(self._to_tiles())
        self._previous = len(start)
        self._w_start = _buffer(*self._w.shape, **self._kind).copy_(self._w) if self._previous else self._w
        self._hidden_start = start
        self._m, self._v = (_buffer(*self._w.shape, **self._kind).zero_() for _ in range(2))
        self._chunk = CHUNK * math.ceil(self._tiles / (CHUNK * MOST_CHUNKS))
        chunks = math.ceil(self._tiles / self._chunk)
        self._gradient = torch.zeros(self._tiles * ROWS, **self._kind)
        self._partial = torch.empty(chunks, self._previous + 1, self._columns, LANES, **self._kind)
        self._squares = torch.empty(chunks, dtype=torch.float64)
        self._steps = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """W u for one hidden vector [h]: a new tensor [P]."""
        u = torch.cat([hidden, hidden.new_ones(1)])
        output = torch.empty(self._tiles * ROWS, **self._kind)
        self._library.output_forward(self._tiles, _at(self._w), _at(u), _at(output))
        return output[: self._rows]

    def update(self, gradient: torch.Tensor, hidden: torch.Tensor, kappa: float) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of Adam; gradient [P] of the current task's output, hidden [t+1, h].

        Returns |R|^2 and the gradient for `hidden`, both with the weights as they were before the step.
        """
        self._steps += 1
        t = self._previous
        u = torch.cat([hidden, hidden.new_ones(t + 1, 1)], dim=1)
        e = torch.cat([hidden[:t] - self._hidden_start, hidden.new_zeros(t, 1)], dim=1)
        self._gradient[: self._rows] = gradient
        self._library.output_update(
            self._tiles,
            self._chunk,
            t,
            *(_at(x) for x in (self._w, self._w_start, self._m, self._v, self._gradient, u, e)),
            _at(self._partial),
            _at(self._squares),
            2 * kappa,
            self.learning_rate / (1 - BETA1**self._steps),
            1 / math.sqrt(1 - BETA2**self._steps),
            BETA1,
            BETA2,
            EPSILON,
        )
        hidden_gradient = self._partial.sum(dim=(0, 3), dtype=torch.float64)[:, :-1].to(hidden.dtype)
        return self._squares.sum().to(hidden.dtype), hidden_gradient

    @torch.no_grad()
    def write_back(self) -> None:
        """Put the working copy into the parameters."""
        rows = self._w.transpose(1, 2).reshape(-1, self._columns)[: self._rows]
        self._weight.copy_(rows[:, :-1])
        self._bias.copy_(rows[:, -1])

    @torch.no_grad()
    def _to_tiles(self) -> torch.Tensor:
        rows = torch.zeros(self._tiles * ROWS, self._columns, **self._kind)
        rows[: self._rows, :-1] = self._weight
        rows[: self._rows, -1] = self._bias
        return rows.view(self._tiles, ROWS, self._columns).transpose(1, 2)


def _buffer(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor, in huge pages where Linux grants them: a pass over it then misses the TLB far less."""
    tensor = torch.empty(shape, dtype=dtype)
    if platform.system() == "Linux":
        page = os.sysconf("SC_PAGE_SIZE")
        start = -(-tensor.data_ptr() // page) * page
        size = max(0, tensor.data_ptr() + tensor.nbytes - start)
        # Only advice: where it is refused, nothing is lost.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), MADV_HUGEPAGE)
    return tensor


def _at(tensor: torch.Tensor) -> ctypes.c_void_p:
    assert tensor.is_contiguous()
    return ctypes.c_void_p(tensor.data_ptr())


@cache
def _library(columns: int, dtype: torch.dtype) -> tuple[ctypes.CDLL | None, str]:
    """The kernel for K = columns in float32 or float64, and its compiler's version line; or None, and why not.

    A reason is remembered too: else a compiler that fails would be started again for every task.
    """
    try:
        return _load(columns, dtype)
    except UnavailableError as reason:
        return None, str(reason)
    except OSError as error:
        return None, f"its kernel cannot be compiled ({error.strerror})"


def _load(columns: int, dtype: torch.dtype) -> tuple[ctypes.CDLL, str]:
    """The kernel, from the cache of compiled kernels or compiled now, and the compiler's version line."""
    compiler = _compiler()
    source = Path(__file__).with_name("output_layer.c")
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    # Code for one processor may not run on another that shares the home directory.
    defines = [f"-DK={columns}", *(["-DDOUBLE"] if dtype == torch.float64 else [])]
    identity = "\n".join([source.read_text(), *FLAGS, *defines, *compiler[1:], version, _processor()])
    kept = _kept(f"output-layer-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so")
    if kept and kept.exists():
        return _open(kept, dtype), version
    with tempfile.TemporaryDirectory(prefix="hypermask-kernel-", ignore_cleanup_errors=True) as scratch:
        built = _compile(compiler, source, defines, Path(scratch))
        # Once it is open it stays, though its file goes with the folder.
        return _open(_keep(built, kept), dtype), version


def _compiler() -> list[str]:
    """The words of the C compiler's command; CC may hold several, such as `ccache gcc`."""
    name, *more = shlex.split(os.environ.get("CC", "")) or ["cc"]
    program = shutil.which(name)
    if program is None:
        raise UnavailableError("no C compiler (cc) is installed")
    return [program, *more]


def _kept(name: str) -> Path | None:
    """Where a kernel is kept for later processes; None without a home folder."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hypermask" / "kernels" / name
    except RuntimeError:
        return None


def _keep(built: Path, kept: Path | None) -> Path:
    """Copy a kernel to where it is kept; returns its path there, or the old one where nothing can be written."""
    if kept is None:
        return built
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            os.replace(shutil.copy(built, scratch), kept)
    except OSError:
        return built
    return kept


def _open(path: Path, dtype: torch.dtype) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UnavailableError(f"its compiled kernel does not load ({error})") from None
    size, number = ctypes.c_ssize_t, ctypes.c_double if dtype == torch.float64 else ctypes.c_float
    library.output_forward.argtypes = [size, *[ctypes.c_void_p] * 3]
    library.output_update.argtypes = [size, size, ctypes.c_int, *[ctypes.c_void_p] * 9, *[number] * 6]
    library.output_forward.restype = library.output_update.restype = None
    return library


def _compile(compiler: list[str], source: Path, defines: list[str], folder: Path) -> Path:
    compiled, linked = folder / "kernel.o", folder / "kernel.so"
    steps = (
        [*compiler, *FLAGS, *defines, "-c", str(source), "-o", str(compiled)],
        # Linked without an OpenMP library of its own: the symbols resolve to the one torch has loaded, so that both
        # share one pool of threads.
        [*compiler, "-shared", str(compiled), "-o", str(linked), "-lm"],
    )
    try:
        for command in steps:
            subprocess.run(command, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise UnavailableError(
            f"{shlex.join(compiler)} could not compile its kernel ({error.stderr.strip()[:200]})"
        ) from None
    return linked


def _processor() -> str:
    """What compiled code depends on; more than the processor's name, since a virtual machine may hide some of it."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return cpu_name()
    return "\n".join(sorted({line for line in lines if line.startswith(("model", "flags", "Features", "CPU "))}))

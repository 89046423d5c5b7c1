"""The output layer on a CUDA device: one Triton kernel forms the gradient tile by tile and applies Adam in the same
pass.

A program walks over tiles of rows in a fixed order and keeps its own partial sums for the hidden vectors' gradient, so
that results are equal bit for bit from run to run on one device. A tile is walked over twice, some columns at a time:
first for the residual of all previous tasks, then, its weights still in the cache, for gradient and update. Products
use three TF32 multiplications per float32 one: TF32 alone would lose the residual where its two terms cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from hypermask.engine.errors import UnavailableError
from hypermask.engine.graph import ONE_AT_A_TIME
from hypermask.engine.optimizers import BETA1, BETA2, EPSILON


@dataclass(frozen=True)
class Tiling:
    """How the kernel is laid out for up to `tasks` tasks, the current one included, so that it fits into registers.

    rows, columns: of a tile, and of what is handled at a time.  programs: on each multiprocessor.
    """

    tasks: int
    rows: int
    columns: int
    warps: int
    programs: int


# Chosen by the registers that the compiler for compute capability 9.0 needs: almost none are spilled.
TILINGS = (
    Tiling(tasks=16, rows=64, columns=32, warps=4, programs=2),
    Tiling(tasks=64, rows=32, columns=16, warps=4, programs=2),
    Tiling(tasks=128, rows=32, columns=16, warps=4, programs=2),
)


def tiling(tasks: int) -> Tiling:
    """The smallest that takes so many tasks, the current one included."""
    for candidate in TILINGS:
        if tasks <= candidate.tasks:
            return candidate
    raise UnavailableError(f"its kernel takes {TILINGS[-1].tasks} tasks at most, and this is task {tasks}")


class OutputLayer:
    """Weight [P, h] and bias [P], updated in place, with Adam's moments and the start-of-task copies; float32.

    start: hidden vectors [t, h] of the t previous tasks at the start of the task.  Everything that changes from step to
    step is on the device, so that a step can be captured in a CUDA graph.
    """

    kernel = f"triton {triton.__version__}"

    def __init__(
        self, weight: torch.nn.Parameter, bias: torch.nn.Parameter, start: torch.Tensor, *, learning_rate: float
    ) -> None:
        self._weight, self._bias = weight.detach(), bias.detach()
        self._rows, self._width = weight.shape
        self._previous = len(start)
        self._tiling = tiling(self._previous + 1)
        self._padded = triton.cdiv(self._width, self._tiling.columns) * self._tiling.columns
        needed = self._previous > 0
        self._weight_start = self._weight.clone() if needed else self._weight
        self._bias_start = self._bias.clone() if needed else self._bias
        self._hidden_start = start
        self._moments = [torch.zeros_like(x) for x in (self._weight, self._weight, self._bias, self._bias)]
        device = weight.device
        self._programs = min(triton.cdiv(self._rows, self._tiling.rows), _programs(self._tiling, device))
        self._partial = torch.empty(self._programs, self._tiling.tasks, self._padded, device=device)
        self._squares = torch.empty(self._programs, device=device)
        self._steps = torch.zeros((), dtype=torch.float64, device=device)
        self._rate = torch.full((), learning_rate, dtype=torch.float64, device=device)
        self._try_out()

    @property
    def learning_rate(self) -> float:
        return self._rate.item()

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._rate.fill_(rate)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """W u for one hidden vector [h]: a new tensor [P]."""
        return torch.addmv(self._bias, self._weight, hidden)

    def update(self, gradient: torch.Tensor, hidden: torch.Tensor, kappa: float) -> tuple[torch.Tensor, torch.Tensor]:
        """One step of Adam; gradient [P] of the current task's output, hidden [t+1, h].

        Returns |R|^2 and the gradient for `hidden`, both with the weights as they were before the step.
        """
        t = self._previous
        self._steps += 1
        corrections = torch.stack(
            [self._rate / (1 - BETA1**self._steps), 1 / torch.sqrt(1 - BETA2**self._steps)]
        ).float()
        previous, change = self._padded_rows(hidden[:t]), self._padded_rows(hidden[:t] - self._hidden_start)
        current = torch.nn.functional.pad(hidden[t], (0, self._padded - self._width))
        self._partial.zero_()
        self._launch(self._rows, gradient, previous, change, current, corrections, kappa)
        sums = self._partial.sum(dim=0)[: t + 1, : self._width]
        return self._squares.sum(), sums

    def write_back(self) -> None:
        """Nothing to do: the parameters themselves are updated."""

    def _launch(
        self,
        rows: int,
        gradient: torch.Tensor,
        previous: torch.Tensor,
        change: torch.Tensor,
        current: torch.Tensor,
        corrections: torch.Tensor,
        kappa: float,
    ) -> None:
        _update[(self._programs,)](
            *(self._weight, self._bias, self._weight_start, self._bias_start, *self._moments),
            *(gradient, previous, change, current, corrections, self._partial, self._squares),
            *(rows, self._previous, 2 * kappa),
            **constants(self._width, self._tiling, first=self._previous == 0),
            num_warps=self._tiling.warps,
            num_stages=1,
        )

    def _try_out(self) -> None:
        """Compile the kernel and run it on no rows, while there is another engine to turn to: Triton builds what it
        needs with the system's C compiler and Python's headers."""
        tasks = self._partial[0]
        try:
            # Triton lets a second thread see a kernel that a first one is still loading, and unloads one that it
            # replaces; nor may anything be loaded while another thread captures.
            with ONE_AT_A_TIME:
                self._launch(0, self._bias, tasks, tasks, tasks[0], self._squares.new_zeros(2), 0.0)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            # Of whatever kind: the compiler, its program and the driver each have their own.
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UnavailableError(f"Triton does not start here ({reason[0].rstrip('.')})") from error

    def _padded_rows(self, vectors: torch.Tensor) -> torch.Tensor:
        """Zero rows and columns up to what the kernel's products need: they add nothing."""
        missing = (0, self._padded - self._width, 0, self._tiling.tasks - self._previous)
        return torch.nn.functional.pad(vectors, missing).contiguous()


def constants(width: int, chosen: Tiling, *, first: bool) -> dict[str, int | float | bool]:
    """What the kernel is compiled for.  width: h.  first: there are no previous tasks."""
    return {
        "WIDTH": width,
        "COLUMNS": chosen.columns,
        "PADDED": triton.cdiv(width, chosen.columns) * chosen.columns,
        "ROWS": chosen.rows,
        "TASKS": chosen.tasks,
        "FIRST": first,
        "BETA1": BETA1,
        "BETA2": BETA2,
        "EPSILON": EPSILON,
    }


def _programs(chosen: Tiling, device: torch.device) -> int:
    if device.type != "cuda":  # Triton's interpreter
        return 3
    return chosen.programs * torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def _adam(value, gradient, first, second, rate, inverse_root_correction, BETA1, BETA2, EPSILON):
    first = first + (1 - BETA1) * (gradient - first)
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    value = value - rate * first / (tl.sqrt(second) * inverse_root_correction + EPSILON)
    return value, first, second


@triton.jit(do_not_specialize=["rows", "previous_count"])
def _update(
    weight,
    bias,
    weight_start,
    bias_start,
    weight_first,
    weight_second,
    bias_first,
    bias_second,
    output_gradient,
    previous,
    change,
    current,
    corrections,
    partial,
    squares,
    rows,
    previous_count,
    two_kappa,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    TASKS: tl.constexpr,
    FIRST: tl.constexpr,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    EPSILON: tl.constexpr,
):
    program = tl.program_id(0)
    tasks = tl.arange(0, TASKS)
    rate = tl.load(corrections)
    inverse_root_correction = tl.load(corrections + 1)
    own_partial = partial + program * TASKS * PADDED
    square = 0.0
    for tile in range(program, tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS).to(tl.int64)
        valid = row < rows
        b = tl.load(bias + row, mask=valid, other=0.0)
        g = tl.load(output_gradient + row, mask=valid, other=0.0)
        # q: what each task's hidden vector weighs in the gradient, 2 kappa R and in the current task's column g.
        if FIRST:
            q = tl.where(tasks[None, :] == 0, g[:, None], 0.0)
        else:
            b_change = b - tl.load(bias_start + row, mask=valid, other=0.0)
            residual = tl.where(tasks[None, :] < previous_count, b_change[:, None], 0.0)
            for start in range(0, PADDED, COLUMNS):
                columns = start + tl.arange(0, COLUMNS)
                place = row[:, None] * WIDTH + columns[None, :]
                inside = valid[:, None] & (columns[None, :] < WIDTH)
                w = tl.load(weight + place, mask=inside, other=0.0)
                w_start = tl.load(weight_start + place, mask=inside, other=0.0)
                entries = tasks[:, None] * PADDED + columns[None, :]
                u = tl.load(previous + entries)
                e = tl.load(change + entries)
                residual = tl.dot(w - w_start, tl.trans(u), acc=residual, input_precision="tf32x3")
                residual = tl.dot(w_start, tl.trans(e), acc=residual, input_precision="tf32x3")
            square += tl.sum(residual * residual)
            q = tl.where(tasks[None, :] == previous_count, g[:, None], two_kappa * residual)
        for start in range(0, PADDED, COLUMNS):
            columns = start + tl.arange(0, COLUMNS)
            place = row[:, None] * WIDTH + columns[None, :]
            inside = valid[:, None] & (columns[None, :] < WIDTH)
            w = tl.load(weight + place, mask=inside, other=0.0)
            m = tl.load(weight_first + place, mask=inside, other=0.0)
            v = tl.load(weight_second + place, mask=inside, other=0.0)
            entries = tasks[:, None] * PADDED + columns[None, :]
            sums = tl.load(own_partial + entries)
            sums = tl.dot(tl.trans(q), w, acc=sums, input_precision="tf32x3")
            tl.store(own_partial + entries, sums)
            # The current task's share is rounded but once; its row of `previous` is zero.
            gradient = g[:, None] * tl.load(current + columns)[None, :]
            if not FIRST:
                gradient = tl.dot(q, tl.load(previous + entries), acc=gradient, input_precision="tf32x3")
            w, m, v = _adam(w, gradient, m, v, rate, inverse_root_correction, BETA1, BETA2, EPSILON)
            tl.store(weight + place, w, mask=inside)
            tl.store(weight_first + place, m, mask=inside)
            tl.store(weight_second + place, v, mask=inside)
        m = tl.load(bias_first + row, mask=valid, other=0.0)
        v = tl.load(bias_second + row, mask=valid, other=0.0)
        b, m, v = _adam(b, tl.sum(q, axis=1), m, v, rate, inverse_root_correction, BETA1, BETA2, EPSILON)
        tl.store(bias + row, b, mask=valid)
        tl.store(bias_first + row, m, mask=valid)
        tl.store(bias_second + row, v, mask=valid)
        # The next tile's threads read what this tile's have stored.
        tl.debug_barrier()
    tl.store(squares + program, square)

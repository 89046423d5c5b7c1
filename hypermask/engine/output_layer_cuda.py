"""The output layer on a CUDA device: one Triton kernel forms the gradient tile by tile and applies Adam in the same
pass.

A program walks over tiles of rows in a fixed order and keeps its own partial sums for the hidden vectors' gradient, so
that results are equal bit for bit from run to run on one device. Products use three TF32 multiplications per float32
one: TF32 alone would lose the residual where its two terms cancel.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from hypermask.engine.optimizers import BETA1, BETA2, EPSILON

# Previous tasks that one product handles; tl.dot wants at least 16.
TASKS = 16
PROGRAMS_PER_MULTIPROCESSOR = 2


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
        self._padded = max(16, triton.next_power_of_2(self._width))
        self._previous = len(start)
        self._previous_padded = triton.cdiv(self._previous, TASKS) * TASKS
        needed = self._previous > 0
        self._weight_start = self._weight.clone() if needed else self._weight
        self._bias_start = self._bias.clone() if needed else self._bias
        self._hidden_start = start
        self._moments = [torch.zeros_like(x) for x in (self._weight, self._weight, self._bias, self._bias)]
        device = weight.device
        self._block = 64 if self._padded <= 128 else 32
        self._programs = min(triton.cdiv(self._rows, self._block), _programs(device))
        self._partial = torch.empty(self._programs, self._previous_padded + 1, self._padded, device=device)
        self._squares = torch.empty(self._programs, device=device)
        self._steps = torch.zeros((), dtype=torch.float64, device=device)
        self._rate = torch.full((), learning_rate, dtype=torch.float64, device=device)

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
        previous = self._pad(hidden[:t])
        change = self._pad(hidden[:t] - self._hidden_start)
        current = torch.nn.functional.pad(hidden[t], (0, self._padded - self._width))
        self._partial.zero_()
        _update[(self._programs,)](
            *(self._weight, self._bias, self._weight_start, self._bias_start, *self._moments),
            *(gradient, previous, change, current, corrections, self._partial, self._squares),
            *(self._rows, t, self._previous_padded, 2 * kappa),
            WIDTH=self._width,
            PADDED=self._padded,
            BLOCK=self._block,
            TASKS=TASKS,
            BETA1=BETA1,
            BETA2=BETA2,
            EPSILON=EPSILON,
            num_warps=8,
        )
        sums = self._partial.sum(dim=0)[:, : self._width]
        return self._squares.sum(), torch.cat([sums[:t], sums[-1:]])

    def write_back(self) -> None:
        """Nothing to do: the parameters themselves are updated."""

    def _pad(self, vectors: torch.Tensor) -> torch.Tensor:
        """Zero rows and columns up to what the kernel's products need: they add nothing."""
        missing = (0, self._padded - self._width, 0, self._previous_padded - self._previous)
        return torch.nn.functional.pad(vectors, missing).contiguous()


def _programs(device: torch.device) -> int:
    if device.type != "cuda":  # Triton's interpreter
        return 3
    return PROGRAMS_PER_MULTIPROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count


@triton.jit
def _adam(value, gradient, first, second, rate, inverse_root_correction, BETA1, BETA2, EPSILON):
    first = first + (1 - BETA1) * (gradient - first)
    second = BETA2 * second + (1 - BETA2) * gradient * gradient
    value = value - rate * first / (tl.sqrt(second) * inverse_root_correction + EPSILON)
    return value, first, second


@triton.jit
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
    previous_padded,
    two_kappa,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    TASKS: tl.constexpr,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    EPSILON: tl.constexpr,
):
    program = tl.program_id(0)
    columns = tl.arange(0, PADDED)
    tasks = tl.arange(0, TASKS)
    rate = tl.load(corrections)
    inverse_root_correction = tl.load(corrections + 1)
    u_current = tl.load(current + columns)
    own_partial = partial + program * (previous_padded + 1) * PADDED
    square = 0.0
    current_sum = tl.zeros([PADDED], tl.float32)
    for tile in range(program, tl.cdiv(rows, BLOCK), tl.num_programs(0)):
        row = tile * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
        valid = row < rows
        place = row[:, None] * WIDTH + columns[None, :]
        inside = valid[:, None] & (columns[None, :] < WIDTH)
        w = tl.load(weight + place, mask=inside, other=0.0)
        b = tl.load(bias + row, mask=valid, other=0.0)
        g = tl.load(output_gradient + row, mask=valid, other=0.0)
        gradient = g[:, None] * u_current[None, :]
        bias_gradient = g
        current_sum += tl.sum(g[:, None] * w, axis=0)
        if previous_padded > 0:
            w_start = tl.load(weight_start + place, mask=inside, other=0.0)
            b_change = b - tl.load(bias_start + row, mask=valid, other=0.0)
            w_change = w - w_start
            for block in range(0, previous_padded, TASKS):
                entries = (block + tasks)[:, None] * PADDED + columns[None, :]
                u = tl.load(previous + entries)
                e = tl.load(change + entries)
                residual = tl.dot(w_change, tl.trans(u), input_precision="tf32x3")
                residual = tl.dot(w_start, tl.trans(e), acc=residual, input_precision="tf32x3")
                # Padded tasks have no bias term.
                residual += tl.where((block + tasks)[None, :] < previous_count, b_change[:, None], 0.0)
                square += tl.sum(residual * residual)
                q = two_kappa * residual
                bias_gradient += tl.sum(q, axis=1)
                gradient = tl.dot(q, u, acc=gradient, input_precision="tf32x3")
                sums = tl.load(own_partial + entries)
                sums = tl.dot(tl.trans(q), w, acc=sums, input_precision="tf32x3")
                tl.store(own_partial + entries, sums)
            # The next tile's threads read what this tile's have stored.
            tl.debug_barrier()
        m = tl.load(weight_first + place, mask=inside, other=0.0)
        v = tl.load(weight_second + place, mask=inside, other=0.0)
        w, m, v = _adam(w, gradient, m, v, rate, inverse_root_correction, BETA1, BETA2, EPSILON)
        tl.store(weight + place, w, mask=inside)
        tl.store(weight_first + place, m, mask=inside)
        tl.store(weight_second + place, v, mask=inside)
        m = tl.load(bias_first + row, mask=valid, other=0.0)
        v = tl.load(bias_second + row, mask=valid, other=0.0)
        b, m, v = _adam(b, bias_gradient, m, v, rate, inverse_root_correction, BETA1, BETA2, EPSILON)
        tl.store(bias + row, b, mask=valid)
        tl.store(bias_first + row, m, mask=valid)
        tl.store(bias_second + row, v, mask=valid)
    tl.store(own_partial + previous_padded * PADDED + columns, current_sum)
    tl.store(squares + program, square)

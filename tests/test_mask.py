import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from hypermask import mask
from hypermask.mask import Segments, kept_rank, order_statistics, scheduled_sparsity, sparsify, sparsify_all, threshold

PERCENTS = ("0.015", "0.03", "0.5", "1", "7.5", "15", "29.985", "30", "50", "70", "95", "99.9")


def tensors() -> dict[str, np.ndarray]:
    """Random, tied, constant and tiny tensors of mask values in [0, 1)."""
    draw = np.random.default_rng(0)
    sizes = (1, 2, 3, 7, 10, 101, 400, 800, 4097)
    found = {f"random {n}": draw.random(n, dtype=np.float32) for n in sizes}
    found |= {f"|tanh| {n}": np.abs(np.tanh(draw.standard_normal(n))).astype(np.float32) for n in sizes}
    found |= {f"tied {n}": draw.integers(0, 4, n).astype(np.float32) / 4 for n in sizes}
    found |= {f"mostly zero {n}": np.where(draw.random(n) < 0.8, 0, draw.random(n)).astype(np.float32) for n in sizes}
    found |= {f"constant {n}": np.full(n, 0.25, np.float32) for n in sizes}
    return found | {"matrix": draw.random((40, 33), dtype=np.float32)}


TENSORS = tensors()


def kept_by(values: np.ndarray, p: float) -> np.ndarray:
    return sparsify(torch.from_numpy(values.copy()), p).numpy() == values


# -- the threshold ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "p", "lowest_kept"),
    [
        # Position (n - 1) p / 100 = 2 of 0, 1, 2, 3, 4: the percentile is the order statistic itself.
        ([0.5, 0.1, 0.9, 0.3, 0.7], 50, 0.5),
        # Position 1.2: between 0.3 and 0.5, so 0.5 is the first that is kept.
        ([0.5, 0.1, 0.9, 0.3, 0.7], 30, 0.5),
        ([0.5, 0.1, 0.9, 0.3, 0.7], 25, 0.3),
        ([0.5, 0.1, 0.9, 0.3, 0.7], 99, 0.9),
        ([0.2, 0.2, 0.2, 0.8], 30, 0.2),
        ([0.2, 0.2, 0.2, 0.8], 70, 0.8),
        ([0.4], 99, 0.4),
    ],
)
def test_the_lowest_kept_value_by_hand(values, p, lowest_kept):
    found = threshold(torch.tensor(values), p)
    assert found.shape == ()
    assert found.item() == pytest.approx(lowest_kept, abs=1e-7)


def test_a_mask_by_hand():
    values = torch.tensor([[0.5, 0.1, 0.9], [0.3, 0.7, 0.2]])
    # Position 5 * 0.3 = 1.5: the two smallest go.
    assert torch.equal(sparsify(values, 30), torch.tensor([[0.5, 0.0, 0.9], [0.3, 0.7, 0.0]]))


@pytest.mark.parametrize("name", TENSORS)
def test_the_kept_set_is_that_of_numpys_percentile(name):
    values = TENSORS[name]
    for percent in PERCENTS:
        # Where the position is a whole number but for rounding, numpy may lose the entry there (next test).
        if (Fraction(percent) * (values.size - 1) / 100).denominator == 1:
            continue
        p = float(percent)
        expected = values >= np.percentile(values.astype(np.float64), p)
        found = sparsify(torch.from_numpy(values.copy()), p).numpy()
        np.testing.assert_array_equal(found, np.where(expected, values, 0), err_msg=f"p = {percent}")


@pytest.mark.parametrize("task_size", [400, 800, 1000, 3137])
def test_the_first_tasks_schedule_keeps_what_numpys_percentile_keeps(task_size):
    values = np.abs(np.tanh(np.random.default_rng(task_size).standard_normal(task_size))).astype(np.float32)
    for iteration in range(1, 2001, 7):
        p = scheduled_sparsity(30.0, 0, iteration, 2000)
        if (Fraction(30 * iteration, 200_000) * (task_size - 1)).denominator == 1:
            continue
        expected = values >= np.percentile(values.astype(np.float64), p)
        np.testing.assert_array_equal(kept_by(values, p), expected, err_msg=f"iteration {iteration}")


@pytest.mark.parametrize("percent", PERCENTS)
def test_the_rank_is_exact_whatever_the_rounding_of_the_position(percent):
    """(size - 1) p / 100 in exact arithmetic, rounded up: 7 % of 101 values masks out 7, though 0.07 * 100 > 7."""
    for size in (*range(1, 300), 10_001, 313_600, 1_000_001):
        position = Fraction(percent) * (size - 1) / 100
        assert kept_rank(size, float(percent)) == math.ceil(position)


def test_seven_percent_of_101_values_is_seven():
    values = torch.linspace(0.001, 0.9, 101)
    assert (sparsify(values, 7.0) == 0).sum() == 7


# -- the mask -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TENSORS)
def test_zero_percent_keeps_all(name):
    values = torch.from_numpy(TENSORS[name].copy())
    assert torch.equal(sparsify(values, 0.0), values)


@pytest.mark.parametrize("size", [1, 2, 10, 33, 1000, 40_000])
@pytest.mark.parametrize("p", [30.0, 70.0])
def test_p_percent_are_zeroed_give_or_take_one_entry(size, p):
    values = torch.rand(size, generator=torch.Generator().manual_seed(size)) + 0.01
    zeroed = (sparsify(values, p) == 0).sum().item()
    assert abs(zeroed - size * p / 100) <= 1


def test_the_kept_values_are_untouched_and_the_shape_stays():
    values = torch.rand(20, 30, generator=torch.Generator().manual_seed(0))
    found = sparsify(values, 45.0)
    assert found.shape == values.shape
    kept = found != 0
    assert torch.equal(found[kept], values[kept])
    assert found[kept].min() > values[~kept].max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_that_of_the_values(dtype):
    values = torch.rand(50, dtype=dtype, generator=torch.Generator().manual_seed(1))
    assert sparsify(values, 30.0).dtype == dtype
    assert (sparsify(values, 30.0) == 0).sum() == 15


def test_values_that_differ_in_the_last_bit_are_told_apart():
    low = torch.tensor(0.5)
    high = torch.nextafter(low, torch.tensor(1.0))
    assert torch.equal(sparsify(torch.stack([high, low]), 60.0), torch.stack([high, torch.tensor(0.0)]))


def test_tied_values_at_the_threshold_are_all_kept():
    values = torch.tensor([0.1, 0.4, 0.4, 0.4, 0.9])
    assert torch.equal(sparsify(values, 70.0), torch.tensor([0.0, 0.4, 0.4, 0.4, 0.9]))


def test_the_gradient_passes_through_kept_entries_alone():
    values = torch.tensor([0.5, 0.1, 0.9, 0.3, 0.7], requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    (sparsify(values, 30.0) * weights).sum().backward()
    assert values.grad.tolist() == [1.0, 0.0, 3.0, 0.0, 5.0]


def test_nan_is_never_silently_zeroed():
    values = torch.tensor([0.5, math.nan, 0.9, 0.3, 0.7, 0.1])
    for p in (0.0, 10.0, 30.0, 70.0, 99.0):
        assert sparsify(values, p)[1].isnan(), p
    assert sparsify(torch.full((4,), math.nan), 30.0).isnan().all()


# -- all tensors of a network at once -----------------------------------------------------------------------


def segments(sizes: tuple[int, ...]) -> Segments:
    of_value = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return Segments(torch.tensor(sizes) - 1, of_value)


def test_a_vector_is_cut_and_each_piece_has_its_own_p():
    values = torch.tensor([0.5, 0.1, 0.9, 0.3, 0.2, 0.8])
    first, second = sparsify_all(values, (4, 2), [50.0, 0.0])
    assert first.tolist() == pytest.approx([0.5, 0.0, 0.9, 0.0])
    assert second.tolist() == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize("percent", ["0", *PERCENTS])
def test_the_histograms_of_a_gpu_find_the_same_threshold(percent):
    """The arithmetic of the GPU's thresholds, here on the CPU: exact for random, tied and tiny tensors together."""
    pieces = [torch.from_numpy(values.reshape(-1).copy()) for values in TENSORS.values()]
    sizes = tuple(len(piece) for piece in pieces)
    layout = segments(sizes)
    ranks = layout.kept_ranks([float(percent)] * len(sizes))
    assert ranks.tolist() == [kept_rank(size, float(percent)) for size in sizes]
    found = order_statistics(torch.cat(pieces), layout, ranks)
    assert found.tolist() == [piece.sort().values[rank].item() for piece, rank in zip(pieces, ranks, strict=True)]


def test_the_histograms_take_p_from_the_device_and_tell_neighbours_apart():
    low = torch.tensor(0.5)
    neighbours = torch.stack([low, torch.nextafter(low, torch.tensor(1.0)), torch.tensor(0.0), torch.tensor(1.0)])
    layout = segments((4, 4))
    ranks = layout.kept_ranks([torch.tensor(34.0, dtype=torch.float64), 67.0])
    assert ranks.tolist() == [2, 3]
    assert layout.kept_ranks([33.0, torch.tensor(99.0)]).tolist() == [1, 3]
    assert layout.kept_ranks([33.0, torch.tensor([99.0])]).tolist() == [1, 3]
    found = order_statistics(torch.cat([neighbours, neighbours]), layout, torch.tensor([1, 2]))
    assert found.tolist() == [neighbours[0].item(), neighbours[1].item()]


def test_nan_does_not_break_the_histograms():
    values = torch.tensor([0.2, math.nan, 0.4, 0.3, math.nan, math.nan])
    found = order_statistics(values, segments((4, 2)), torch.tensor([2, 0]))
    assert found.tolist() == pytest.approx([0.4, 1.0])


# -- the schedule -------------------------------------------------------------------------------------------


def test_sparsity_rises_linearly_in_the_first_task_and_is_constant_later():
    assert scheduled_sparsity(30.0, 0, 1, 2000) == pytest.approx(0.015)
    assert scheduled_sparsity(30.0, 0, 500, 2000) == 7.5
    assert scheduled_sparsity(30.0, 0, 2000, 2000) == 30.0
    assert [scheduled_sparsity(30.0, task, 1, 2000) for task in (1, 2, 99)] == [30.0] * 3
    assert scheduled_sparsity(0.0, 0, 700, 2000) == 0.0


@pytest.mark.parametrize("p", [0.03, 30.0, 70.0])
def test_all_tensors_together_are_as_each_alone(p, monkeypatch):
    parts = [torch.from_numpy(values).flatten() for values in TENSORS.values()]
    sizes = tuple(map(len, parts))
    monkeypatch.setattr(mask, "TOGETHER", ("cpu",))
    found = sparsify_all(torch.cat(parts), sizes, [p] * len(parts))
    assert all(torch.equal(part, sparsify(alone, p)) for part, alone in zip(found, parts, strict=True))


def test_an_iteration_on_the_device_gives_the_same_sparsity_to_the_last_bit():
    for iteration in (1, 7, 500, 1999, 2000):
        found = scheduled_sparsity(30.0, 0, torch.tensor(iteration), 2000)
        assert found.item() == scheduled_sparsity(30.0, 0, iteration, 2000)
    assert scheduled_sparsity(30.0, 1, torch.tensor(3), 2000) == 30.0

import numpy as np
import pytest

from hypermask import metrics
from hypermask.errors import HyperMaskError

# Worked by hand; entries above the diagonal are there to show that they play no part.
GOLDEN = [[0.9, 0.1, 0.1], [0.8, 0.85, 0.2], [0.7, 0.9, 0.95]]


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (metrics.mean_accuracy, 0.85),
        (metrics.diagonal_mean, 0.90),
        (metrics.backward_transfer, -0.075),
        (metrics.forgetting, 0.075),
        (metrics.average_incremental_accuracy, 0.858333),
    ],
)
def test_golden_matrix(measure, expected):
    assert measure(GOLDEN) == pytest.approx(expected, abs=1e-6)
    without_upper = np.where(np.tri(3, dtype=bool), GOLDEN, np.nan)
    assert measure(without_upper) == pytest.approx(expected, abs=1e-6)


def test_backward_transfer_divides_by_one_less_than_the_tasks_and_is_negative_for_loss():
    matrix = [[100, 0, 0, 0], [99, 100, 0, 0], [98, 99, 100, 0], [94, 97, 98, 100]]
    assert metrics.backward_transfer(matrix) == pytest.approx((-6 - 3 - 2) / 3)


def test_forgetting_counts_from_the_highest_point_and_is_not_minus_bwt():
    matrix = [[90, 0, 0], [95, 90, 0], [92, 90, 90]]
    assert metrics.forgetting(matrix) == pytest.approx(1.5)
    assert metrics.backward_transfer(matrix) == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 0), (2, 2, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(HyperMaskError, match="expected tasks x tasks"):
        metrics.mean_accuracy(np.zeros(shape))


def test_a_gap_is_refused():
    with pytest.raises(HyperMaskError, match="gaps on or below its diagonal"):
        metrics.mean_accuracy([[90.0, np.nan], [np.nan, 90.0]])


def test_one_task_has_no_backward_transfer():
    assert metrics.mean_accuracy([[90.0]]) == 90.0
    for measure in (metrics.backward_transfer, metrics.forgetting):
        with pytest.raises(HyperMaskError, match="at least 2"):
            measure([[90.0]])


def test_t_interval():
    summary = metrics.summary([95.1, 95.4, 94.8, 95.0, 95.2])
    assert summary.n == 5
    assert summary.mean == pytest.approx(95.10)
    assert summary.t95 == pytest.approx(0.28, abs=0.005)
    assert summary.sd == pytest.approx(0.2236, abs=1e-4)
    assert summary.population_sd == pytest.approx(0.2)
    assert summary.values == (95.1, 95.4, 94.8, 95.0, 95.2)


def test_the_papers_spread_is_the_population_standard_deviation():
    fixed = metrics.summary([74.30, 73.70, 75.13, 75.31, 76.04])
    assert (fixed.population_sd, fixed.sd) == pytest.approx((0.815, 0.911), abs=1e-3)


def test_one_run_has_no_spread():
    assert metrics.summary([97.5]) == metrics.Summary(1, 97.5, None, None, None, (97.5,))


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_nothing_and_nan_are_refused(values):
    with pytest.raises(HyperMaskError, match="at least one finite value"):
        metrics.summary(values)

import pytest
from payloads import payload, record

from hypermask import verify
from hypermask.errors import HyperMaskError

FINAL = [99.9, 99.0, 99.8, 99.7, 99.1]
ELSEWHERE = payload()["environment"] | {"device_name": "Other CPU"}


def shifted(by: float) -> list[float]:
    return [value + by for value in FINAL]


def test_same_machine_must_be_identical():
    committed = record(final=FINAL)
    same = verify.compare(record(final=FINAL), committed, [committed])
    assert (same.passed, same.identical) == (True, True)
    near = verify.compare(record(final=[*FINAL[:-1], 99.11]), committed, [committed])
    assert (near.passed, near.identical) == (False, True)
    assert near.sentence == (
        "split_mnist/hypermask-t seed 1 DISAGREES: same machine, engine and torch version: "
        "the accuracy matrices must be identical, and they differ by up to 0.01 points."
    )


def test_identity_covers_every_entry_of_the_matrix():
    committed = record(final=FINAL)
    accuracy = payload(final=FINAL)["accuracy"]
    accuracy[1][0] += 0.01
    assert not verify.compare(record(accuracy=accuracy), committed, [committed]).passed


@pytest.mark.parametrize(
    "changes",
    [{"engine": "fused"}]
    + [
        {"environment": payload()["environment"] | {key: value}}
        for key, value in (("threads", 4), ("torch", "2.11.0"), ("kernel", "another"))
    ]
    + [{"environment": ELSEWHERE}],
)
def test_elsewhere_the_tolerance_is_at_least_0_3(changes):
    committed = record(final=FINAL)
    close = verify.compare(record(final=shifted(-0.29), **changes), committed, [committed])
    assert (close.passed, close.identical) == (True, False)
    assert close.tolerances == (0.3,) * 5
    far = verify.compare(record(final=shifted(-0.31), **changes), committed, [committed])
    assert far.passed is False
    assert "differs by -0.31 points where 0.30 are allowed" in far.sentence


def test_elsewhere_the_tolerance_is_three_sample_standard_deviations_by_task():
    committed = record(final=FINAL)
    siblings = (
        [committed]
        + [record(seed=seed, final=[*FINAL[:-1], last]) for seed, last in ((2, 98.9), (3, 99.3))]
        + [record(seed=4, status="diverged", final=[0.0] * 5)]
    )
    verdict = verify.compare(record(final=[*FINAL[:-1], 98.51], environment=ELSEWHERE), committed, siblings)
    assert verdict.tolerances == pytest.approx((0.3, 0.3, 0.3, 0.3, 0.6))
    assert verdict.passed is True
    worse = verify.compare(record(final=[*FINAL[:-1], 98.49], environment=ELSEWHERE), committed, siblings)
    assert worse.passed is False


def test_other_runs_are_not_compared():
    with pytest.raises(HyperMaskError, match="expected one configuration and seed"):
        verify.compare(record(seed=2), record(seed=1), [])
    with pytest.raises(HyperMaskError, match="seed 1 is diverged; only finished runs are compared"):
        verify.compare(record(status="diverged"), record(), [])

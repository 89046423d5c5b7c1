"""Which runs of two methods are a pair, and what is said of pairs with other draws."""

from payloads import payload

from hypermask import records, shared_seeds


def run(seed: int, last: float = 99.0, permutations: str = "1") -> records.Record:
    drawn = {"train": "0" * 64, "permutations": [permutations * 64]}
    return records.Record(records.seal(payload(seed=seed, final=[last] * 5, data=drawn)))


def last(record: records.Record) -> float:
    return float(record.accuracy[-1, 0])


def test_only_seeds_that_both_have_are_compared():
    first, second = [run(1, 99.0), run(2, 98.0), run(4, 10.0)], [run(2, 97.0), run(1, 98.5), run(3, 0.0)]
    assert shared_seeds.differences(first, second, last) == {1: 0.5, 2: 1.0}
    assert shared_seeds.differences(first[2:], second, last) == {}


def test_a_pair_with_other_draws_stays_one_and_is_told_of():
    first, second = [run(1, 99.0), run(2, 98.0)], [run(1, 98.0), run(2, 96.0, permutations="2")]
    assert shared_seeds.differences(first, second, last) == {1: 1.0, 2: 2.0}
    assert shared_seeds.other_draws(first, second) == {"permutations": [2]}
    assert shared_seeds.other_draws(first, [run(1, permutations="2"), run(3, permutations="2")]) == {
        "permutations": [1]
    }
    assert shared_seeds.other_draws(first, first) == {}

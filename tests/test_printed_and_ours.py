from dataclasses import replace

from hypermask import metrics, paper
from hypermask.printed_and_ours import STATUS_NOTE, Comparison


def test_status_needs_a_spread():
    printed = paper.Printed(1.0, None, paper.RUN_BY_AUTHORS, "table 5")
    assert Comparison("m", "split_mnist", "", printed, metrics.summary([1.1])).status == "no spread"
    assert Comparison("m", "split_mnist", "", printed, metrics.summary([0.9, 1.2])).status == "within spread"
    assert Comparison("m", "split_mnist", "", None, metrics.summary([0.9])).status == "not printed"
    assert Comparison("m", "split_mnist", "", printed).status == "not run"
    spread = replace(printed, sd=0.1)
    assert Comparison("m", "split_mnist", "", spread, metrics.summary([1.1])).status == "one run, within spread"
    assert Comparison("m", "split_mnist", "", spread, metrics.summary([1.3])).status == "one run, outside spread"
    for words in paper.COMPARISONS:
        assert f"'{words}'" in STATUS_NOTE


def test_a_sign_tells_where_the_printed_mean_is_within_spread_and_outside_our_interval():
    printed = paper.Printed(69.48, 0.8, paper.QUOTED, "table 2")
    marked, plain = (
        Comparison("m", "split_mnist", "", printed, metrics.summary(values))
        for values in ([66.0, 66.5, 67.0, 65.5, 70.0], [66.0, 75.0])
    )
    assert (marked.status, marked.marked_status) == ("within spread", "within spread †")
    assert (plain.status, plain.marked_status) == ("within spread", "within spread")

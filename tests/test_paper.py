import numpy as np
import pytest

from hypermask import paper
from hypermask.errors import HyperMaskError
from hypermask.metrics import summary


def test_every_table_is_complete():
    assert len(paper.known_task_rows()) == 51
    assert len(paper.unknown_task_rows()) == 34
    assert len(paper.table4()) == 12
    assert len(paper.loss_components()) == 6
    assert len(paper.sparsity()) == 5
    assert len(paper.tiny_imagenet_ablation("fixed")) == 68
    assert len(paper.tiny_imagenet_ablation("trainable")) == 58
    assert len(paper.tiny_imagenet_models()) == 10
    assert len(paper.training_time()) == 5
    assert len(paper.statements()) == 13


@pytest.mark.parametrize(
    ("method", "benchmark", "mean", "sd"),
    [
        ("hypermask-t", "split_mnist", 99.64, 0.07),
        ("HyperMask-F", "split_cifar100", 81.36, 0.57),
        ("hypermask-t", "permuted_mnist_100", 95.92, 0.18),
        ("hnet", "permuted_mnist_10", 97.57, 0.02),
    ],
)
def test_printed_accuracy(method, benchmark, mean, sd):
    printed = paper.printed_accuracy(method, benchmark)
    assert (printed.mean, printed.sd) == (mean, sd)


def test_printed_accuracy_says_whose_it_is_and_where():
    assert paper.printed_accuracy("hypermask-t", "split_mnist").source == "run by the authors"
    assert paper.printed_accuracy("EWC", "split_mnist").source == "quoted"
    assert paper.printed_accuracy("EWC", "split_mnist").place == "tables 1 and 3"
    assert paper.printed_accuracy("hypermask-t", "permuted_mnist_100").place == "caption of figure 2"


def test_printed_accuracy_refuses_what_is_not_one_number():
    with pytest.raises(HyperMaskError, match="found 0"):
        paper.printed_accuracy("hypermask-t", "split_digits")
    with pytest.raises(HyperMaskError, match="found 6"):
        paper.printed_accuracy("wsn", "permuted_mnist_10")
    assert paper.printed_accuracy("wsn", "split_cifar100", "c=50%", "ResNet-18").mean == 73.29


def test_printed_backward_transfer():
    assert paper.printed_bwt("hypermask-t", "permuted_mnist_100").mean == -1.791
    assert paper.printed_bwt("wsn", "tiny_imagenet") == paper.Printed(0.0, None, "quoted", "table 4", rounding=0.0)
    assert paper.printed_bwt("hnet", "split_mnist").source == "run by the authors"
    with pytest.raises(HyperMaskError, match="no backward transfer of hypermask-f on split_mnist"):
        paper.printed_bwt("hypermask-f", "split_mnist")


@pytest.mark.parametrize(("layer", "growth"), [(1, 695.0), (2, 302.75), (3, 12.22)])
def test_weight_distances_grow_by_what_the_text_says(layer, growth):
    distance = paper.weight_distance(layer)
    assert distance.shape == (10, 10)
    assert np.isfinite(distance).sum() == 45
    assert np.isnan(distance[np.tril_indices(10)]).all()
    assert distance[0, 9] - distance[0, 1] == pytest.approx(growth, abs=0.005)


def test_weight_distance_of_another_layer_is_refused():
    with pytest.raises(HyperMaskError, match="not of layer 4"):
        paper.weight_distance(4)


def test_a_few_values():
    assert paper.loss_components()[0] == paper.LossComponentsRow(0.01, 0.0, 84.18, 0.18, 3)
    assert paper.sparsity()[1] == paper.SparsityRow(15.0, 97.680, 0.06, 3)
    assert paper.training_time()[0] == paper.TimeRow("split_mnist", 1266.0, 157.0)
    fixed = paper.tiny_imagenet_ablation("fixed")[0]
    assert fixed == paper.AblationRow(48, (200,), 10.0, 0.0, None, 75.51, 8.12)
    assert paper.tiny_imagenet_models()[4] == paper.ModelRow(5, "fixed", 76.04)


def test_table_11_prints_six_settings_twice():
    rows = paper.tiny_imagenet_ablation("trainable")
    assert len({(row.embedding_size, row.hypernetwork_hidden, row.beta, row.p, row.lam) for row in rows}) == 52


def test_comparison_words():
    printed = paper.printed_accuracy("hypermask-t", "split_mnist")
    assert paper.compare(printed, None) == "not run"
    assert paper.compare(printed, summary([99.51, 99.51])) == "within spread"
    assert paper.compare(printed, summary([99.49, 99.49])) == "differs"
    assert paper.compare(printed, summary([99.0, 99.4])) == "within spread"
    without_spread = paper.Printed(75.0, None, "quoted", "nowhere")
    assert paper.compare(without_spread, summary([75.004, 75.004])) == "within spread"
    assert paper.compare(without_spread, summary([75.01, 75.01])) == "differs"


def test_a_printed_value_is_as_exact_as_it_is_printed():
    one_decimal = next(row for row in paper.unknown_task_rows() if row.method == "FeCAM" and row.mean == 48.1)
    printed = paper.Printed(one_decimal.mean, None, "quoted", "table 2", one_decimal.rounding)
    assert paper.compare(printed, summary([48.14, 48.14])) == "within spread"
    assert paper.compare(printed, summary([48.16, 48.16])) == "differs"
    zero = paper.printed_bwt("wsn", "permuted_mnist_10")
    assert paper.compare(zero, summary([0.0, 0.0])) == "within spread", "by construction"
    assert paper.compare(zero, summary([0.004, 0.004])) == "differs"
    assert [row.rounding for row in paper.statements() if row.place == "figure 3"] == [0.05, 0.05]


def test_one_run_has_words_of_its_own():
    printed = paper.printed_accuracy("hypermask-t", "split_mnist")
    assert paper.compare(printed, summary([99.51])) == "one run, within spread"
    assert paper.compare(printed, summary([99.49])) == "one run, outside spread"
    assert paper.compare(paper.Printed(75.0, None, "quoted", "nowhere"), summary([75.0])) == "no spread"


@pytest.mark.parametrize(
    ("ours", "outside"),
    # The half width of the interval of two runs 2 d apart is 12.706 d.
    [([99.63, 99.61], False), ([99.63, 99.63], True), ([99.636, 99.636], False), ([90.0], False)],
)
def test_whether_the_printed_mean_lies_outside_our_interval(ours, outside):
    printed = paper.printed_accuracy("hypermask-t", "split_mnist")
    assert paper.outside_interval(printed, summary(ours)) == outside

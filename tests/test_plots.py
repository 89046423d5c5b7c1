import io

import numpy as np
import pytest
from payloads import accuracy_matrix

from hypermask import plots
from hypermask.plots import Panel


def matrices(tasks: int, runs: int) -> np.ndarray:
    return np.array([accuracy_matrix(tasks, seed) for seed in range(1, runs + 1)], dtype=float)


def texts(figure) -> list[str]:
    figure.draw_without_rendering()
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_visible() and text.get_text()]


@pytest.fixture
def panels() -> list[Panel]:
    return [Panel("HyperMask-T", 5, matrices(5, 3), (99.64, 0.07)), Panel("HNET", 5, None, (99.79, 0.01))]


def test_heat_map_names_its_axes_and_annotates_the_means(panels):
    figure = plots.accuracy_matrices(panels, "Split MNIST")
    shown = texts(figure)
    mean = panels[0].matrices.mean(axis=0)
    assert shown.count("after training task") == shown.count("evaluated on task") == 2
    assert f"{mean[4, 0]:.2f}" in shown
    assert sum("." in text and len(text) == 5 for text in shown) >= 15


def test_a_panel_without_runs_says_so_and_shows_what_is_printed(panels):
    shown = "\n".join(texts(plots.accuracy_matrices(panels, "Split MNIST")))
    assert "not run\n\nThe paper prints the mean\nafter all tasks:\n99.79 ± 0.01 %" in shown


def test_many_tasks_are_not_annotated():
    figure = plots.accuracy_matrices([Panel("many", 20, matrices(20, 1))], "title")
    assert len(figure.axes[0].texts) == 0


@pytest.mark.parametrize("runs", [1, 3])
def test_text_is_at_least_7_pt_and_intervals_need_two_runs(runs):
    from matplotlib.container import ErrorbarContainer
    from matplotlib.text import Text

    figure = plots.mean_accuracy([Panel("HyperMask-T", 5, matrices(5, runs), (99.64, 0.07))], "Split MNIST")
    figure.draw_without_rendering()
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7
    bars = [bar for bar in figure.axes[0].containers if isinstance(bar, ErrorbarContainer)]
    assert len(bars) == 2
    assert all(bar.has_yerr == (runs > 1) for bar in bars)
    assert ("(one run: no interval)" in figure.axes[0].get_title()) == (runs == 1)


def test_mean_accuracy_draws_blue_circles_and_orange_squares():
    axes = plots.mean_accuracy([Panel("HyperMask-T", 5, matrices(5, 3))], "Split MNIST").axes[0]
    drawn = {(line.get_color(), line.get_marker()) for line in axes.get_lines() if line.get_marker() in "os"}
    assert drawn == {(plots.BLUE, "o"), (plots.ORANGE, "s")}


def test_no_tick_stands_above_100_percent():
    near = np.array([[[99.9, np.nan], [100.0, 99.0]], [[99.0, np.nan], [98.0, 100.0]]])
    axes = plots.mean_accuracy([Panel("near 100", 2, near)], "title").axes[0]
    assert max(axes.get_yticks()) <= 100.0 + 1e-9
    assert axes.get_ylim()[1] > 100


def test_own_runs_have_a_panel_and_a_marker_of_their_own():
    panel = Panel("HyperMask-T", 5, matrices(5, 3), (99.64, 0.07), own=matrices(5, 1))
    assert len([ax for ax in plots.accuracy_matrices([panel], "t").axes if ax.get_xlabel()]) == 2
    axes = plots.mean_accuracy([panel], "t").axes[0]
    assert "yours" in panel.values()
    assert plots.YOURS in axes.get_legend_handles_labels()[1]
    data = plots.mean_accuracy_data([panel])
    assert data["after_all_mean"][0] == pytest.approx(panel.matrices[:, -1, 0].mean())
    assert data["own_after_all_mean"][0] == pytest.approx(panel.own[0, -1, 0])


def test_plotted_data(panels):
    data = plots.matrix_data(panels)
    assert list(data) == ["panel", "after_training_task", "evaluated_on_task", "accuracy_mean", "runs"]
    assert len(data) == 30
    row = data[(data.after_training_task == 4) & (data.evaluated_on_task == 2)].iloc[0]
    assert row.accuracy_mean == pytest.approx(panels[0].matrices[:, 3, 1].mean())
    assert data[data.panel == "HNET"].accuracy_mean.isna().all()


def test_half_widths_are_those_of_the_t_interval():
    one_task = np.array([95.1, 95.4, 94.8, 95.0, 95.2]).reshape(5, 1, 1)
    row = plots.mean_accuracy_data([Panel("golden", 1, one_task)]).iloc[0]
    assert (round(row.after_all_mean, 2), round(row.after_all_t95, 2)) == (95.10, 0.28)


def test_description_gives_the_values_in_words(panels):
    text = plots.describe(panels, "Split MNIST")
    mean = np.mean([matrix[-1].mean() for matrix in panels[0].matrices])
    assert f"HyperMask-T: ours {mean:.2f} ± " in text
    assert "HNET: not run; paper 99.79 ± 0.01." in text


def test_style_does_not_leak():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure = plots.mask_images([np.eye(8)], ["task 1"], "masks")
    figure.savefig(io.BytesIO())
    assert dict(matplotlib.rcParams) == before

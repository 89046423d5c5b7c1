import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from payloads import accuracy_matrix

from hypermask import paper, plots
from hypermask.errors import HyperMaskError
from hypermask.plots import Panel, curves, styling
from hypermask.results import gather


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


def numbers(*rows: tuple) -> pd.DataFrame:
    columns = ("method", "setting", "whose", "runs", "paper_mean", "accuracy_mean", "accuracy_t95")
    frame = pd.DataFrame([row[:7] for row in rows], columns=columns)
    frame["paper_source"] = paper.RUN_BY_AUTHORS
    return frame.assign(difference_mean=[row[7] for row in rows], difference_t95=[row[8] for row in rows], pairs=0)


def test_methods_have_a_row_each_and_a_panel_holds_means_the_papers_and_narrow_intervals():
    base = ("base", "", "ours", 5, 99.0, 90.0, 1.0, np.nan, np.nan)
    mine = ("mine", "p=70", "yours", 2, np.nan, 80.0, 50.0, -10.0, 60.0)
    never = ("never", "", "yours", 0, np.nan, np.nan, np.nan, np.nan, np.nan)
    figure = plots.methods(numbers(base, mine, never).assign(pairs=[0, 2, 0]), "title")
    shown = texts(figure)
    assert {"base (n = 5)", "mine p=70 (n = 2)", "ours, 95 % interval", "yours, 95 % interval", "paper"} <= set(shown)
    assert "never" not in shown
    accuracy, difference = figure.axes
    assert accuracy.get_xlim() == pytest.approx((80 - 0.06 * 19, 99 + 0.06 * 19))
    assert difference.get_xlim() == pytest.approx((-10.6, 0.6))
    top, bottom = (accuracy.transData.transform((90, row))[1] for row in (0, 1))
    assert top > bottom


def test_what_the_paper_quotes_has_a_mark_of_its_own():
    rows = [(name, "", "ours", 5, 99.0, 90.0, 1.0, np.nan, np.nan) for name in ("one", "two")]
    frame = numbers(*rows)
    frame.loc[1, "paper_source"] = paper.QUOTED
    bars = {line.get_label(): line for line in plots.methods(frame, "title").axes[0].lines}
    assert [list(bars[name].get_ydata()) for name in ("paper", "quoted")] == [[0], [1]]
    assert bars["paper"].get_color() != bars["quoted"].get_color()


def test_methods_without_differences_have_one_panel_and_one_kind_of_run_one_entry():
    figure = plots.methods(numbers(("mine", "", "yours", 1, np.nan, 80.0, np.nan, np.nan, np.nan)), "title")
    assert len(figure.axes) == 1
    assert "yours, 95 % interval" in texts(figure)
    assert not {"paper", "ours, 95 % interval"} & set(texts(figure))


def test_methods_without_a_finished_run_are_one_sentence():
    with pytest.raises(HyperMaskError, match=r"^no method has a finished run, so there is nothing to draw"):
        plots.methods(numbers(("never", "", "yours", 0, np.nan, np.nan, np.nan, np.nan, np.nan)), "title")


def test_many_tasks_are_not_annotated():
    figure = plots.accuracy_matrices([Panel("many", 20, matrices(20, 1))], "title")
    assert len(figure.axes[0].texts) == 0


@pytest.mark.parametrize("runs", [1, 3])
def test_text_is_at_least_7_pt_and_intervals_need_three_runs(runs):
    from matplotlib.container import ErrorbarContainer
    from matplotlib.text import Text

    figure = plots.mean_accuracy([Panel("HyperMask-T", 5, matrices(5, runs), (99.64, 0.07))], "Split MNIST")
    figure.draw_without_rendering()
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7
    bars = [bar for bar in figure.axes[0].containers if isinstance(bar, ErrorbarContainer)]
    assert len(bars) == 2
    assert all(bar.has_yerr == (runs > 1) for bar in bars)
    assert ("(one run: no interval)" in figure.axes[0].get_title()) == (runs == 1)
    assert figure.legends[0].get_title().get_text() == ("" if runs == 1 else curves.INTERVALS)


def test_mean_accuracy_draws_blue_circles_and_orange_squares():
    axes = plots.mean_accuracy([Panel("HyperMask-T", 5, matrices(5, 3))], "Split MNIST").axes[0]
    drawn = {(line.get_color(), line.get_marker()) for line in axes.get_lines() if line.get_marker() in "os"}
    assert drawn == {(styling.BLUE, "o"), (styling.ORANGE, "s")}


def test_two_runs_are_drawn_themselves_and_not_their_wide_interval():
    values = np.full((2, 2, 2), np.nan)
    values[:, 0, 0], values[:, 1, 0], values[:, 1, 1] = ([99.0, 99.8] for _ in range(3))
    panel = Panel("T", 2, values, (98.5, 0.1), own=values[:1] - 2)
    figure = plots.mean_accuracy([panel], "title")
    axes = figure.axes[0]
    dots = [line.get_ydata().tolist() for line in axes.get_lines() if line.get_marker() == "."]
    assert dots == [[99.0, 99.0], [99.8, 99.8]] * 2
    assert axes.get_title().endswith("(dots: the two runs)")
    assert figure.legends[0].get_title().get_text() == ""
    words = plots.describe([panel], "title", intervals=True).splitlines()[-1]
    assert words == "Dots: the two runs, whose interval would be too wide to say anything."


def test_what_the_paper_quotes_is_called_quoted():
    panel = Panel("HNET", 2, None, (99.79, 0.01), quoted=True)
    assert panel.values() == "not run; quoted 99.79 ± 0.01"


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
    assert curves.YOURS in axes.get_legend_handles_labels()[1]
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
    assert text.endswith("; the paper's ± is taken to be the population standard deviation.")


def test_a_quoted_value_is_not_said_to_have_the_papers_deviation(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    runs = gather("fig06")
    ours, hnet = runs["split_mnist/hypermask-t"], runs["split_mnist/hnet"]
    found = plots.panels({"HyperMask-T": ours, "HNET": hnet}, tasks=5)
    assert [panel.quoted for panel in found] == [False, True]
    assert plots.describe(found, "title").endswith(
        "; the paper's ± is taken to be the population standard deviation, but for HNET, whose value it quotes without "
        "saying which deviation it is."
    )


def test_one_run_is_called_one_run():
    assert Panel("HyperMask-T", 5, matrices(5, 1)).values().endswith("(one run)")
    assert Panel("HyperMask-T", 5, matrices(5, 2)).values().endswith("(n = 2)")


def test_style_does_not_leak():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure = plots.mask_images([np.eye(8)], ["task 1"], "masks")
    figure.savefig(io.BytesIO())
    assert dict(matplotlib.rcParams) == before


@pytest.fixture
def groups() -> dict[str, list[Panel]]:
    main = Panel("128", 5, matrices(5, 2), (99.64, 0.07))
    return {
        "embedding size": [main, Panel("24", 5, matrices(5, 1)), Panel("72", 5, None)],
        "beta": [Panel("0.001", 5, matrices(5, 2), (99.64, 0.07)), Panel("0.01", 5, None)],
    }


def test_settings_have_a_line_and_a_marker_each_and_name_what_was_not_run(groups):
    figure = plots.settings(groups, "Split MNIST")
    first, second = figure.axes[:2]
    legend = [text.get_text() for text in first.get_legend().get_texts()]
    assert legend == ["128 (n = 2)", "24 (one run)", "72: not run"]
    assert [text.get_text() for text in second.get_legend().get_texts()] == ["0.001 (n = 2)", "0.01: not run"]
    drawn = [container.lines[0] for container in first.containers]
    assert len({line.get_marker() for line in drawn}) == len({line.get_linestyle() for line in drawn}) == 2
    assert first.get_ylim() == second.get_ylim()
    assert curves.MAIN_PAPER in [text.get_text() for text in figure.legends[0].get_texts()]


def test_intervals_of_settings_need_two_runs_and_are_drawn_on_request(groups):
    def has_bars(figure) -> list[bool]:
        return [container.has_yerr for ax in figure.axes for container in ax.containers]

    assert has_bars(plots.settings(groups, "title", intervals=True)) == [True, False, True]
    assert has_bars(plots.settings(groups, "title")) == [False, False, False]


def test_settings_without_any_run_show_the_printed_value_alone():
    figure = plots.settings({"beta": [Panel("0.1", 5, None, (99.64, 0.07)), Panel("1", 5, None)]}, "title")
    assert "not run" in texts(figure)
    assert figure.axes[0].get_ylim() == pytest.approx((97.64, 101.64))


def test_a_panel_without_run_and_printed_value_has_no_scale(groups):
    groups["lambda"] = [Panel("1", 5, None), Panel("10", 5, None)]
    first, second, empty = plots.settings(groups, "title", intervals=True).axes[:3]
    assert len(first.get_yticks()) > 1 and len(second.get_yticks()) > 1
    assert list(empty.get_yticks()) == []
    assert "not run" in [text.get_text() for text in empty.texts]


@pytest.mark.parametrize("draw", [plots.mean_accuracy, plots.single_models])
def test_a_figure_without_run_and_printed_value_has_no_scale(draw):
    figure = draw([Panel("mine", 5, None)], "title")
    assert list(figure.axes[0].get_yticks()) == []


def test_data_and_words_of_settings(groups):
    data = plots.settings_data(groups)
    assert list(data) == ["panel", "setting", "task", "after_all_mean", "after_all_t95", "runs"]
    assert len(data) == 25
    row = data[(data.setting == "24") & (data.task == 3)].iloc[0]
    assert row.after_all_mean == pytest.approx(groups["embedding size"][1].matrices[0, -1, 2])
    words = plots.describe_settings(groups, "Split MNIST", "Ours.", "Two runs.").splitlines()
    assert words[:2] == ["Split MNIST.", "Ours."]
    assert words[2].startswith("Main setting: ours 99.") and words[2].endswith("paper 99.64 ± 0.07.")
    assert words[4] == "beta - 0.001: the main setting; 0.01: not run."


def test_single_models_stand_beside_the_papers_model_without_spread():
    panels = [Panel("model 1", 40, matrices(40, 1), (74.30, None)), Panel("model 2", 40, None, (73.70, None))]
    assert panels[1].values() == "not run; paper 73.70"
    figure = plots.single_models(panels, "Tiny ImageNet", columns=2)
    left, right = figure.axes[:2]
    after, last = (line for line in left.get_lines() if line.get_marker() in ("o", "s"))
    assert list(after.get_ydata()) == list(np.diagonal(panels[0].matrices[0]))
    assert list(last.get_ydata()) == list(panels[0].matrices[0, -1])
    assert [line.get_ydata()[0] for line in right.get_lines()] == [73.70]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == [curves.JUST_AFTER, curves.AFTER_ALL, curves.MODEL_MEAN, curves.MODEL_PAPER]


def test_a_scale_far_from_100_percent_ends_at_its_highest_value():
    near = plots.accuracy_matrices([Panel("near", 5, matrices(5, 1))], "title")
    far = plots.accuracy_matrices([Panel("far", 5, matrices(5, 1) - 20)], "title")
    assert near.axes[0].images[0].norm.vmax == 100
    assert far.axes[0].images[0].norm.vmax == np.ceil(2 * np.nanmax(matrices(5, 1) - 20)) / 2


@pytest.mark.parametrize(
    ("lowest", "highest", "scale"),
    [
        (97.1, 97.9, (97.0, 98.0)),
        (96.4, 98.2, (96.0, 98.5)),
        (98.99, 99.98, (98.5, 100.0)),
        (97.5, 97.5, (97.0, 97.5)),
        (60.2, 81.7, (60.0, 82.0)),
    ],
)
def test_the_scale_spans_the_values_to_the_next_half_point(lowest, highest, scale):
    matrix = np.array([[[lowest, np.nan], [lowest, highest]]])
    shown = plots.accuracy_matrices([Panel("a panel", 2, matrix)], "title").axes[0].images[0].norm
    assert (shown.vmin, shown.vmax) == scale


def test_text_of_settings_and_models_is_at_least_7_pt(groups):
    from matplotlib.text import Text

    models = [Panel("model 1", 40, matrices(40, 1), (74.30, None))]
    for figure in (plots.settings(groups, "title"), plots.single_models(models, "title")):
        figure.draw_without_rendering()
        assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7


def test_changed_own_runs_are_labelled_by_what_is_changed(groups):
    main, *others = groups["beta"]
    changed = replace(main, own=matrices(5, 2), changed="p=70")
    legend = plots.settings({"beta": [changed, *others]}, "title").axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["0.001 (n = 2)", "yours with p=70", "0.01: not run"]
    assert re.search(r"yours \d+\.\d\d ± \d\.\d\d \(n = 2\)", changed.values())


def test_a_long_title_is_broken_and_none_is_cut():
    title = "Split MNIST: mean test accuracy (your own runs with p=70 beta=0.01 hypernetwork_hidden=50,50)"
    figure = plots.mean_accuracy([Panel("T", 5, matrices(5, 2))], title)
    figure.draw_without_rendering()
    words = figure.get_suptitle()
    assert (words.replace("\n", " "), words.count("\n")) == (title, 1)
    assert figure._suptitle.get_window_extent().width <= figure.bbox.width


def test_names_of_methods_say_their_runs_and_long_ones_are_broken():
    long = "embedding_size=24 hypernetwork_hidden=50,50 beta=0.01 lam=0.01 p=70"
    mine = ("mine", long, "yours", 2, np.nan, 80.0, 1.0, np.nan, np.nan)
    base = ("base", "", "ours", 1, np.nan, 90.0, np.nan, np.nan, np.nan)
    figure = plots.methods(numbers(mine, base), "title")
    first, second = (label.get_text() for label in figure.axes[0].get_yticklabels())
    assert (first.replace("\n", " "), second) == (f"mine {long} (n = 2)", "base (one run)")
    assert max(map(len, first.splitlines())) <= 48

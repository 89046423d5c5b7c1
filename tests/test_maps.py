from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from payloads import logits, payload

from hypermask import maps, records, tsne
from hypermask.plots import styling
from hypermask.results import gather
from hypermask.tsne import Embedding, Sample, Settings

NAME = "split_mnist/hypermask-t"


@pytest.fixture
def embedding() -> Embedding:
    """Two tasks of two digits, each digit a clump of its own with masks, all in one without."""
    draw = np.random.default_rng(0)
    digits = np.tile(np.arange(4), 15)
    clumps = np.array([(0.0, 0.0), (50.0, 0.0), (0.0, 50.0), (50.0, 50.0)])[digits] + draw.normal(size=(60, 2))
    positions = {"masked": clumps, "unmasked": draw.normal(size=(60, 2))}
    return Embedding("a run", Settings(), Sample(positions, digits // 2, digits, digits % 2), positions)


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_with_masks_left_without_right_and_a_row_for_each_way_to_tell_points_apart(embedding):
    axes = maps.draw([embedding], "title", by=["digit", "task"]).axes
    titles = [ax.get_title().splitlines()[0] for ax in axes]
    assert titles == [
        "with masks, by digit",
        "without masks, by digit",
        "with masks, by task",
        "without masks, by task",
    ]
    assert axes[0].get_title().splitlines()[1] == "of the 10 nearest points, 100 % are of the same digit"


def test_every_digit_and_task_has_its_number_at_its_clump_and_a_marker_and_colour_of_its_own(embedding):
    figure = maps.draw([embedding], "title", by=["digit", "task"])
    by_digit, _, by_task, _ = figure.axes
    assert texts(by_digit) == ["0", "1", "2", "3"]
    assert texts(by_task) == ["1", "1", "2", "2"]
    for number, text in enumerate(by_digit.texts):
        members = embedding.positions["masked"][embedding.sample.digits == number]
        assert np.linalg.norm(members - text.xy, axis=1).min() == 0
    looks = {(tuple(part.get_facecolor()[0]), len(part.get_paths()[0])) for part in by_digit.collections}
    assert len(looks) == 4
    assert sum(len(part.get_offsets()) for part in by_digit.collections) == 60


# Linear RGB as the colour-blind see it (Machado, Oliveira and Fernandes, 2009), and CIE XYZ from linear RGB.
SIGHT = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(color: str, sight) -> np.ndarray:
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    relative = XYZ @ np.clip(sight @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_ten_groups_have_ten_colours_that_are_told_apart(sight):
    seen = [lab(color, np.array(SIGHT[sight])) for color in styling.GROUPS]
    distances = [np.linalg.norm(one - other) for one, other in combinations(seen, 2)]
    assert len(distances) == 45
    # CIE76; ten of viridis come as close as 7.5.
    assert min(distances) > 15


def test_points_have_the_colour_of_their_group():
    digits = np.repeat(np.arange(10), 20)
    positions = np.random.default_rng(0).normal(size=(200, 2))
    points = Sample({"masked": positions, "unmasked": positions}, digits // 2, digits, digits % 2)
    axes = maps.draw([Embedding("a run", Settings(), points, points.logits)], "title", by=["digit"]).axes[0]
    colors = {part.get_label(): to_hex(part.get_facecolor()[0]) for part in axes.collections}
    assert [colors[f"digit {digit}"] for digit in range(10)] == [color.lower() for color in styling.GROUPS]


def test_where_a_task_has_many_places_it_has_one_number():
    digits = np.tile(np.arange(10), 30)
    tasks = np.repeat(np.arange(3), 100)
    positions = np.random.default_rng(0).normal(size=(300, 2)) + 30 * tasks[:, None]
    points = Sample({"masked": positions, "unmasked": positions}, tasks, digits, digits)
    figure = maps.draw([Embedding("a run", Settings(), points, points.logits)], "title", by=["task"])
    assert texts(figure.axes[0]) == ["1", "2", "3"]


def test_a_group_that_is_nowhere_by_itself_has_no_number(embedding):
    figure = maps.draw([embedding], "title", by=["digit"])
    # The first digit takes half of its points to a place of its own.
    apart = embedding.positions["unmasked"].copy()
    apart[np.flatnonzero(embedding.sample.digits == 0)[:8]] += 50
    moved = replace(embedding, positions=embedding.positions | {"unmasked": apart})
    assert (texts(figure.axes[1]), texts(maps.draw([moved], "title", by=["digit"]).axes[1])) == ([], ["0"])


def test_numbers_hide_no_points_and_not_each_other_where_there_is_room(embedding):
    ax = maps.draw([embedding], "title", by=["digit"]).axes[0]
    positions = embedding.positions["masked"]
    places = np.array([text.get_position() for text in ax.texts])
    radius = 0.03 * np.ptp(positions, axis=0).max()
    assert np.linalg.norm(places[:, None] - positions[None], axis=2).min() >= radius
    assert min(np.linalg.norm(one - other) for one, other in combinations(places, 2)) >= 2 * radius
    assert (places >= positions.min(axis=0)).all() and (places <= positions.max(axis=0)).all()


def test_a_legend_names_every_group_once_and_rows_of_several_runs_are_named(embedding):
    one = maps.draw([embedding], "title", by=["digit", "task"])
    legends = [[text.get_text() for text in part.legends[0].get_texts()] for part in one.subfigs]
    assert legends == [["digit 0", "digit 1", "digit 2", "digit 3"], ["task 1", "task 2"]]
    two = maps.draw([embedding, replace(embedding, run="your own run")], "title", by=["task"])
    assert [part.get_suptitle() for part in two.subfigs] == ["a run", "your own run"]
    assert [part.get_suptitle() for part in one.subfigs] == ["", ""]


def test_text_is_at_least_7_pt(embedding):
    from matplotlib.text import Text

    figure = maps.draw([embedding], "title", by=["digit"])
    figure.draw_without_rendering()
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7


def test_without_runs_the_panels_say_so_with_the_command():
    figure = maps.draw([], "title", by=["task"], command="hypermask run a/b --seed 1")
    assert [texts(ax) for ax in figure.axes] == [["not run\n\nto make it:\nhypermask run\na/b --seed 1"]] * 2
    assert maps.purity_table([]) == "not run"
    assert "Not run." in maps.describe([], "title")


def test_data_has_the_same_columns_with_and_without_runs(embedding):
    data = maps.data([embedding])
    columns = ["run", "task", "digit", "x_with_masks", "y_with_masks", "x_without_masks", "y_without_masks"]
    assert list(data) == list(maps.data([])) == columns
    assert len(data) == 60
    assert sorted(set(data.task)) == [1, 2]
    assert data.y_without_masks.iloc[7] == embedding.positions["unmasked"][7, 1]
    assert len(maps.data([])) == 0


def test_purities_of_all_points_of_task_1_and_of_the_others(embedding):
    rows = [line.split() for line in maps.purity_table([embedding]).splitlines()[3:]]
    assert [row[0] for row in rows] == ["digit"] * 3 + ["task"] * 3 + ["output"] * 3
    expected = tsne.purity(embedding.positions["unmasked"], embedding.sample.digits)
    assert rows[0] == ["digit", "all", "23.7", "100.0", f"{expected.mean():.1f}", "100.0", f"{expected.mean():.1f}"]
    assert rows[1][:4] == ["digit", "of", "task", "1"]
    assert float(rows[1][6]) == pytest.approx(expected[embedding.sample.tasks == 0].mean(), abs=0.05)


def test_words(embedding):
    words = maps.describe([embedding], "Split MNIST").splitlines()
    assert words[0] == "Split MNIST."
    assert words[1] == (
        "a run: the 2 logits of 60 test images, 30 of each task; t-SNE with exact neighbours, perplexity 30, seed 1."
    )
    assert words[2].startswith("With masks: of the 10 nearest points in the picture 100.0 % are of the same digit, ")


def test_the_shown_models_accuracy_stands_beside_the_papers(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    row = maps.accuracy_comparison(gather("fig14")[NAME], "figure 14")
    assert (row.printed.mean, row.ours, row.status) == (99.76, None, "not run")
    for seed in (1, 2):
        records.write(payload(NAME, seed), logits(), tmp_path / "records")
    row = maps.accuracy_comparison(gather("fig14")[NAME], "figure 14")
    assert (row.ours.n, row.status) == (1, "no spread")

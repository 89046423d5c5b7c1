import numpy as np
import pytest

from hypermask import diagram
from hypermask.illustration import CONFIG, Illustration
from hypermask.plots import styling

TASKS = 5


@pytest.fixture
def model() -> Illustration:
    draw = np.random.default_rng(0)
    shapes = {"hidden.1.weight": (6, 6), "hidden.2.weight": (5, 6), "output.weight": (2, 5)}
    masks = {layer: draw.uniform(0.1, 1, (TASKS, *shape)) for layer, shape in shapes.items()}
    for layer in masks:
        masks[layer][masks[layer] < 0.4] = 0
    theta = {layer: draw.normal(size=shape) for layer, shape in shapes.items()}
    accuracy = np.where(np.tri(TASKS) > 0, 97.0, np.nan)
    return Illustration(draw.normal(size=(TASKS, 8)), theta, masks, accuracy, CONFIG, 1)


def connections(figure, color: str) -> list[float]:
    return [line.get_linewidth() for line in figure.axes[0].get_lines() if line.get_color() == color]


def test_lines_are_as_thick_as_mask_values_and_missing_where_switched_off(model):
    figure = diagram.draw(model, "title")
    values = np.concatenate([masks[-1].ravel() for masks in model.masks.values()])
    assert (values == 0).any()
    assert connections(figure, styling.BLUE) == pytest.approx(2.0 * values[values > 0])


def test_the_target_network_has_all_connections(model):
    widths = connections(diagram.draw(model, "title"), styling.GREY)
    assert len(widths) == sum(weights.size for weights in model.theta.values())
    assert max(widths) == pytest.approx(2.0)


def test_heat_maps_show_embeddings_masks_weights_and_masked_weights(model):
    from matplotlib.collections import QuadMesh

    figure = diagram.draw(model, "title")
    meshes = [mesh.get_array() for mesh in figure.axes[0].collections if isinstance(mesh, QuadMesh)]
    assert [mesh.shape for mesh in meshes] == [(1, 8), (6, 6)] * 3 + [(6, 6)] * 2 + [(1, 1), (1, 8)]
    first = model.masks["hidden.1.weight"]
    for mesh, task in zip(meshes[1:6:2], (0, TASKS - 2, TASKS - 1), strict=True):
        assert np.array_equal(mesh.mask, first[task] == 0)
        assert np.array_equal(mesh.filled(0), first[task])
    assert np.array_equal(meshes[7].mask, first[-1] == 0)
    assert np.allclose(meshes[7].filled(0), first[-1] * model.theta["hidden.1.weight"])


def test_the_papers_symbols_stand_in_its_order_left_to_right(model):
    texts = {text.get_text(): text.get_position() for text in diagram.draw(model, "title").axes[0].texts}
    found = [next(at for text, at in texts.items() if part in text) for part in (r"$\mathbf{e}_i$", "Hypernetwork")]
    found += [texts[r"$\mathcal{H}(\mathbf{e}_i, p\,; \mathbf{\Phi})$"], texts[r"$\odot$"]]
    found += [texts[r"$\boldsymbol{\theta}$"], next(at for text, at in texts.items() if text.startswith("$f"))]
    assert [x for x, _ in found] == sorted(x for x, _ in found)
    losses = [texts[rf"$\mathcal{{L}}_{{{name}}}$"] for name in ("output", "target", "current")]
    assert [x for x, _ in losses] == sorted(x for x, _ in losses)
    assert max(y for _, y in losses) < min(y for _, y in found)


def test_text_is_at_least_7_pt_and_needs_no_font_of_the_machine(model, caplog):
    from matplotlib.text import Text

    figure = diagram.draw(model, "title")
    figure.draw_without_rendering()
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 7
    assert caplog.messages == []


def test_data_has_every_drawn_value(model):
    data = diagram.data(model)
    assert list(data) == ["what", "task", "layer", "to_unit", "from_unit", "value"]
    assert data.what.value_counts().to_dict() == {"mask": 3 * 76, "theta": 76, "embedding": 24}
    row = data[(data.what == "mask") & (data.task == TASKS) & (data.layer == "output.weight")]
    value = row[(row.to_unit == 2) & (row.from_unit == 4)].value.item()
    assert value == model.masks["output.weight"][-1][1, 3]


def test_words(model):
    assert "tasks 1, 4 and 5 stand for 1, i-1 and i" in diagram.describe(model, "The method")
    last = np.concatenate([masks[-1].ravel() for masks in model.masks.values()])
    said = diagram.says(model)
    assert said.startswith("Paper, caption of figure 1")
    assert f"{(last == 0).sum()} of 76 connections are off (p = 40 %)" in said
    assert "97.0 % on it, 97.0 % on all tasks" in said

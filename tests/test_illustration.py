import json

import numpy as np
import pytest

from hypermask import files, illustration, paths
from hypermask.errors import HyperMaskError


@pytest.fixture(scope="module")
def recorded(project_root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERMASK_ROOT", str(project_root))
        return illustration.read()


def test_the_maker_reproduces_the_recorded_model(recorded):
    made = illustration.make()
    assert made.config == recorded.config == illustration.CONFIG
    for layer, masks in recorded.masks.items():
        assert np.array_equal(made.masks[layer] == 0, masks == 0)
        assert made.masks[layer] == pytest.approx(masks, abs=1e-4)
        assert made.theta[layer] == pytest.approx(recorded.theta[layer], abs=1e-4)
    assert made.embeddings == pytest.approx(recorded.embeddings, abs=1e-4)
    assert made.accuracy == pytest.approx(recorded.accuracy, abs=1e-6, nan_ok=True)


def test_what_is_recorded(recorded):
    assert recorded.embeddings.shape == (5, 8)
    assert {layer: masks.shape for layer, masks in recorded.masks.items()} == {
        "hidden.1.weight": (5, 6, 6),
        "hidden.2.weight": (5, 5, 6),
        "output.weight": (5, 2, 5),
    }
    for layer, masks in recorded.masks.items():
        assert masks.shape[1:] == recorded.theta[layer].shape
        assert masks.min() >= 0 and masks.max() < 1
        # p percent of every task's tensor, to within one entry.
        off = (masks == 0).sum(axis=(1, 2))
        assert np.abs(off - recorded.p / 100 * masks[0].size).max() <= 1
    assert recorded.accuracy.shape == (5, 5)
    assert recorded.accuracy[-1].mean() > 85


def test_writing_and_reading_keep_everything(recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    path = illustration.write(recorded)
    again = illustration.read()
    assert again.masks.keys() == recorded.masks.keys()
    assert all(np.array_equal(again.masks[layer], masks) for layer, masks in recorded.masks.items())
    assert np.array_equal(again.accuracy, recorded.accuracy, equal_nan=True)
    assert again.config == recorded.config
    assert path.read_bytes() == (tmp_path / "records/illustration.json").read_bytes()


def test_a_missing_or_changed_file_is_named_with_the_way_to_make_it(recorded, tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    with pytest.raises(HyperMaskError, match=r"\(No such file or directory\); restore it, or make it with `python -c"):
        illustration.read()
    path = illustration.write(recorded)
    payload = json.loads(path.read_text())
    payload["embeddings"][0][0] += 0.1
    path.write_bytes(files.pretty_json(payload))
    with pytest.raises(HyperMaskError, match=r"records/illustration\.json is not .* \(content hash differs\)"):
        illustration.read()


def test_the_smoke_profile_trains_a_smaller_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    small = illustration.of("smoke")
    assert small.config.training.iterations == 10
    assert small.masks["output.weight"].shape == (5, 2, 5)
    assert not paths.records().exists()

"""Every notebook in the smoke profile, by papermill: the same files and columns as in the recorded one."""

import nbformat
import pytest
from nbval_run import PROJECT

from hypermask import regenerate


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    root = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPERMASK_ROOT", str(root))
        status = regenerate.regenerate(profile="smoke")
    return root, status


def test_the_versions_of_a_method_in_a_notebook_are_told_by_its_source(smoke):
    """Classes of a notebook have no file; runs of one version share a configuration all the same."""
    root, _ = smoke
    (folder,) = (root / "build/smoke/runs/split_mnist/fine-tuning").iterdir()
    assert sorted(path.name for path in folder.glob("*.json")) == ["seed1.json", "seed2.json", "seed3.json"]


def outputs(base):
    return {
        path.relative_to(base).as_posix(): path
        for name in ("figures", "paper_tables")
        for path in (base / name).rglob("*.*")
    }


def test_every_notebook_succeeds_and_its_executed_copy_is_kept(smoke):
    root, status = smoke
    assert status == 0
    copies = {path.stem for path in (root / "build/notebooks/smoke").glob("*.ipynb")}
    assert copies == set(regenerate.notebooks())


def test_nothing_is_written_beside_the_committed_outputs(smoke):
    root, _ = smoke
    assert {path.name for path in root.iterdir()} == {"build"}


def test_the_same_files_and_columns_and_each_says_what_it_is(smoke):
    root, _ = smoke
    made, committed = outputs(root / "build/smoke"), outputs(PROJECT)
    assert set(made) == set(committed)
    for name, path in made.items():
        if path.suffix == ".csv":
            mark, columns = path.read_text().splitlines()[:2]
            assert mark.startswith("# smoke profile")
            assert columns == committed[name].read_text().splitlines()[0]
        elif path.suffix in (".md", ".tex"):
            assert "smoke profile" in path.read_text().splitlines()[0]


def test_a_changed_value_is_trained_and_shown_beside_ours(smoke, monkeypatch):
    """The last one here: it replaces the notebook's outputs."""
    root, _ = smoke
    monkeypatch.setenv("HYPERMASK_ROOT", str(root))
    assert regenerate.regenerate(["fig10"], "smoke", parameters={"changes": "p=70", "seeds": [1]}) == 0
    ran = nbformat.read(root / "build/notebooks/smoke/fig10_split_mnist_mean_accuracy.ipynb", 4)
    text = "".join(output.get("text", "") for cell in ran.cells for output in cell.get("outputs", []))
    assert "your own runs [p=70]: seeds 1\n" in text
    columns = (root / "build/smoke/figures/fig10_split_mnist_mean_accuracy.csv").read_text().splitlines()[1]
    assert "own_after_all_mean" in columns.split(",")

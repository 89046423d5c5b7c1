import os
from pathlib import Path

import pytest

from hypermask import paths
from hypermask.errors import HyperMaskError

CHECKOUT = Path(paths.__file__).resolve().parent.parent


def test_root_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    assert paths.root() == tmp_path.resolve()
    assert paths.records() == tmp_path.resolve() / "records"
    assert paths.tables() == tmp_path.resolve() / "paper_tables"
    assert paths.notebooks() == CHECKOUT / "notebooks"
    (tmp_path / "notebooks").mkdir()
    assert paths.notebooks() == tmp_path.resolve() / "notebooks"


def test_a_home_folder_that_is_not_known_is_one_sentence(monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", "~nobody-of-this-name/x")
    with pytest.raises(HyperMaskError, match="HYPERMASK_ROOT is ~nobody-of-this-name/x, in a home folder which is not"):
        paths.root()


def test_folders_of_the_environment_stay_the_same_for_processes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPERMASK_ROOT", "out")
    monkeypatch.setenv("HYPERMASK_DATA", "~/data")
    paths.settle()
    assert (os.environ["HYPERMASK_ROOT"], os.environ["HYPERMASK_DATA"]) == (str(tmp_path / "out"), "~/data")
    monkeypatch.delenv("HYPERMASK_ROOT")
    paths.settle()
    assert "HYPERMASK_ROOT" not in os.environ


def test_root_is_the_nearest_project_above_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERMASK_ROOT", raising=False)
    deep = tmp_path / "copy" / "notebooks" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "copy" / "pyproject.toml").touch()
    (tmp_path / "copy" / "hypermask").mkdir()
    monkeypatch.chdir(deep)
    assert paths.root() == tmp_path / "copy"


def test_root_elsewhere_is_the_checkout_of_the_package(tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERMASK_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    assert paths.root() == CHECKOUT

"""The committed notebooks, run again on the committed records, give the committed outputs."""

import re
import shutil
from importlib.metadata import version

import pytest
from nbval_run import NOTEBOOKS, PROJECT, code_cells, is_compared, nbval

from hypermask import files


@pytest.fixture(scope="module")
def run_again(tmp_path_factory):
    root = tmp_path_factory.mktemp("recorded")
    if (PROJECT / "records").is_dir():
        shutil.copytree(PROJECT / "records", root / "records")
    return root, nbval(NOTEBOOKS, root)


def test_every_cell_of_every_notebook_passes(run_again):
    _, result = run_again
    assert result.status == 0, result.output
    assert dict(result.passed) == {path.stem: len(code_cells(path)) for path in NOTEBOOKS}
    assert not result.failed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_enough_is_compared_and_the_closing_table_is(path):
    cells = code_cells(path)
    assert sum(map(is_compared, cells)) >= 3
    assert is_compared(cells[-1])
    assert "Paper" in cells[-1].outputs[-1].text


def test_the_same_records_give_the_same_bytes(run_again):
    root, _ = run_again
    written = sorted(
        path.relative_to(root) for name in ("figures", "paper_tables") for path in (root / name).rglob("*.*")
    )
    committed = sorted(
        path.relative_to(PROJECT) for name in ("figures", "paper_tables") for path in (PROJECT / name).rglob("*.*")
    )
    assert written == committed
    # Another version draws the same figure in other bytes.
    drawn_alike = all(version(name) == locked(name) for name in ("matplotlib", "pillow"))
    compared = [name for name in written if drawn_alike or name.suffix not in (".pdf", ".png")]
    assert {".csv", ".md", ".tex"} <= {name.suffix for name in compared}
    assert [str(name) for name in compared if files.sha256(root / name) != files.sha256(PROJECT / name)] == []


def locked(name: str) -> str:
    (line,) = re.findall(rf"^{name}==(.+)$", (PROJECT / "requirements.lock").read_text(), re.MULTILINE | re.IGNORECASE)
    return line.strip()

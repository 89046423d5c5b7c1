"""What every committed notebook has in common."""

import ast
import json
import re

import papermill
import pytest
from nbval_run import NOTEBOOKS, code_cells

from hypermask import items, regenerate
from hypermask.errors import HyperMaskError

LONGEST_DEFINITION = 8
# A method, which the reader replaces.
LONGEST_EXAMPLE = 12

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_the_notebooks_are_those_of_the_items_and_two_to_start_from():
    stems = {path.stem for path in NOTEBOOKS}
    assert stems == {"quickstart", "your_method"} | {item.notebook for item in items.ITEMS}


@every_notebook
def test_first_cells(path):
    notebook = json.loads(path.read_text())
    first, second, third = notebook["cells"][:3]
    text = "".join(first["source"])
    assert first["cell_type"] == "markdown"
    for part in ("# ", "**Reads**", "**Writes**", "**Time:**"):
        assert part in text
    assert second["metadata"] == {"tags": ["parameters"]}
    assert third["cell_type"] == "code" and "import" in "".join(third["source"])
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1


@every_notebook
def test_parameters_are_annotated_commented_and_json_plain(path):
    source = code_cells(path)[0].source
    names = set()
    for line, node in zip(source.splitlines(), ast.parse(source).body, strict=True):
        assert isinstance(node, ast.AnnAssign) and "  # " in line
        json.dumps(ast.literal_eval(node.value))
        names.add(node.target.id)
    found = papermill.inspect_notebook(str(path))
    assert set(found) == names, "papermill leaves out, with a line in its log, what it cannot parse"
    assert found["profile"]["default"] == '"recorded"'
    assert all(parameter["help"] for parameter in found.values())


@pytest.mark.parametrize(
    ("stem", "value", "said"),
    [
        ("quickstart", {"tasks": 1}, "tasks is 1; expected 2 to 5, since the masks of two tasks are compared below."),
        ("quickstart", {"tasks": "2"}, "split_mnist was asked for '2' tasks; it has 1 to 5, so choose a whole number"),
        ("your_method", {"seeds": ["a"]}, "seeds is ['a']; expected a list of different whole numbers such as [1, 2]."),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_is_trained(stem, value, said):
    (path,) = [path for path in NOTEBOOKS if path.stem == stem]
    parameters, setup = code_cells(path)[:2]
    names = {}
    exec(parameters.source, names)
    with pytest.raises(HyperMaskError, match=re.escape(said)):
        exec(setup.source, names | value)


@every_notebook
def test_it_is_executed_from_a_fresh_kernel_and_clean(path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"] == {"kernelspec": regenerate.KERNELSPEC, "language_info": {"name": "python"}}
    cells = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(set(cell["metadata"]) <= {"tags"} for cell in cells)
    assert regenerate.cleaned(path) == path.read_bytes()


@every_notebook
def test_text_outputs_have_no_paths_addresses_errors_or_bars(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type in ("stream", "execute_result")
            assert output.get("name", "stdout") == "stdout"
            text = output.get("text", "") + "".join(output.get("data", {}).get("text/plain", ""))
            assert not re.search(r"(^|\s)/\w+/|0x[0-9a-f]{6}|it/s|\r|<Figure", text)


@every_notebook
def test_nothing_longer_than_a_few_lines_is_defined(path):
    longest = LONGEST_EXAMPLE if path.stem == "your_method" else LONGEST_DEFINITION
    for cell in code_cells(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert node.end_lineno - node.lineno < longest

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from hypermask import paths, regenerate
from hypermask.errors import HyperMaskError

PARAMETERS = 'profile: str = "recorded"  # which records\n'


def write_notebook(root: Path, stem: str, *sources: str, parameters: str = PARAMETERS) -> Path:
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    cells = [nbformat.v4.new_markdown_cell("# Title"), first, *map(nbformat.v4.new_code_cell, sources)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": regenerate.KERNELSPEC})
    path = root / "notebooks" / f"{stem}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return path


def test_each_kind_of_failure_is_named_with_its_cell(root, capfd):
    write_notebook(root, "good", "print(profile)")
    write_notebook(root, "raises", "x = 1", "1 / 0")
    write_notebook(root, "leaves", "import sys\nsys.exit(0)", "print('never')")
    write_notebook(root, "dies", "import os\nos.kill(os.getpid(), 9)")
    write_notebook(root, "other_parameters", "print(1)", parameters="seed: int = 1  # seed\n")
    assert regenerate.regenerate(profile="smoke", jobs=2) == 1
    errors = capfd.readouterr().err
    assert "failed: raises, cell 4: ZeroDivisionError: division by zero" in errors
    assert "failed: leaves, cell 3" in errors
    assert "failed: dies, " in errors
    assert "failed: other_parameters, parameters: there is no parameter profile" in errors
    assert "good" not in errors
    executed = root / "build/notebooks/smoke"
    assert {path.name for path in executed.iterdir()} >= {"good.ipynb", "raises.ipynb", "leaves.ipynb"}
    assert not [path for path in executed.iterdir() if path.name.startswith(".")]
    outputs = [o for cell in nbformat.read(executed / "good.ipynb", 4).cells for o in cell.get("outputs", [])]
    assert [output.text for output in outputs] == ["smoke\n"]


def test_names_are_stems_item_ids_or_unique_prefixes(project_root, monkeypatch):
    monkeypatch.setenv("HYPERMASK_ROOT", str(project_root))
    known = {
        "fig06_split_mnist_accuracy_matrix": "fig06_split_mnist_accuracy_matrix",
        "fig06": "fig06_split_mnist_accuracy_matrix",
        "table03": "table01_known_task_identity",
        "table06": "table05_07_target_weight_distance",
        "quick": "quickstart",
    }
    for name, stem in known.items():
        assert regenerate.resolve([name]) == [stem]
    assert regenerate.resolve(["table05", "table07"]) == ["table05_07_target_weight_distance"]
    assert regenerate.resolve([]) == sorted(regenerate.notebooks())
    with pytest.raises(HyperMaskError, match="no notebook or item is called 'figure6'"):
        regenerate.resolve(["figure6"])
    with pytest.raises(HyperMaskError, match=r"'fig0' fits fig01_.*, fig02_.*; give enough of the name"):
        regenerate.resolve(["fig0"])


def test_an_item_without_a_notebook_is_named(root):
    write_notebook(root, "good")
    with pytest.raises(HyperMaskError, match="fig03 has no notebook in this version yet; there are good"):
        regenerate.resolve(["fig03"])


@pytest.mark.parametrize("command", [regenerate.regenerate, regenerate.refresh_committed])
@pytest.mark.parametrize("names", [(), ("fig06",)])
def test_without_notebooks_it_says_so_and_makes_nothing(root, monkeypatch, command, names):
    # As an installed package has it: none below the root and none beside the package.
    monkeypatch.setattr(paths, "_PACKAGE", root / "hypermask")
    with pytest.raises(HyperMaskError) as error:
        command(names)
    assert str(error.value) == ("there are no notebooks here; run it inside a checkout, or set HYPERMASK_ROOT to one.")
    assert list(root.iterdir()) == []


def test_half_a_file_is_a_failure_like_others(tmp_path):
    written = write_notebook(tmp_path, "killed", "print(1)")
    written.write_bytes(written.read_bytes()[:-20])
    assert regenerate._fault(written, -9, tmp_path / "log") == (
        "while it was written",
        "papermill ended with status -9 and left half a file",
    )


def test_what_ends_papermill_outside_of_its_cells_is_named(tmp_path):
    (tmp_path / "log").write_text("line\nNoSuchKernel: python9\n")
    assert regenerate._fault(tmp_path / "none.ipynb", 1, tmp_path / "log") == (
        "before the first cell",
        "NoSuchKernel: python9",
    )
    written = write_notebook(tmp_path, "done", "print(1)")
    notebook = nbformat.read(written, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata["papermill"] = {"status": "completed"}
    nbformat.write(notebook, written)
    assert regenerate._fault(written, 0, tmp_path / "log") == ("", "")
    assert regenerate._fault(written, 1, tmp_path / "log")[0] == "after its last completed cell"


def test_parameters_that_are_no_python_are_one_sentence(root):
    write_notebook(root, "n", "pass", parameters="profile: =")
    with pytest.raises(HyperMaskError, match=r"^n.ipynb: the cell of parameters is no Python \(invalid syntax\); mend"):
        regenerate.regenerate(["n"])


class AtOnce:
    """In place of a notebook's process."""

    def __init__(self, source, folder, parameters, jobs):
        self.source = source

    def finished(self, seconds):
        return True

    def close(self):
        return None


@pytest.mark.parametrize(
    ("profile", "printed"), [("paper", "good: started\ngood: done\n"), ("recorded", "good: done\n")]
)
def test_a_notebook_that_may_train_for_hours_is_named_when_it_starts(root, monkeypatch, capsys, profile, printed):
    write_notebook(root, "good")
    monkeypatch.setattr(regenerate, "_Run", AtOnce)
    assert regenerate.regenerate(profile=profile) == 0
    assert capsys.readouterr().out == printed


def test_wrong_profile_and_jobs_are_one_sentence(root):
    with pytest.raises(HyperMaskError, match="unknown profile 'full'"):
        regenerate.regenerate(profile="full")
    with pytest.raises(HyperMaskError, match="jobs is 0; expected at least 1"):
        regenerate.regenerate(jobs=0)


def test_refresh_replaces_a_notebook_whole_and_cleans_it(root, capfd):
    good = write_notebook(root, "good", "print(profile)", "6 * 7")
    bad = write_notebook(root, "bad", "1 / 0")
    before = bad.read_bytes()
    assert regenerate.refresh_committed() == 1
    assert bad.read_bytes() == before
    assert "failed, and left as it was: bad, cell 3: ZeroDivisionError" in capfd.readouterr().err
    notebook = json.loads(good.read_text())
    assert notebook["metadata"] == {"kernelspec": regenerate.KERNELSPEC, "language_info": {"name": "python"}}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [1, 2, 3]
    assert [cell["metadata"] for cell in code] == [{"tags": ["parameters"]}, {}, {}]
    assert code[1]["outputs"][0]["text"] == ["recorded\n"]
    assert code[2]["outputs"][0]["execution_count"] == 3
    once = good.read_bytes()
    regenerate.refresh_committed(["good"])
    assert good.read_bytes() == once


def test_text_that_the_kernel_cut_is_one_output_again(root):
    path = write_notebook(root, "cut", "print()")
    notebook = nbformat.read(path, 4)
    picture = nbformat.v4.new_output("execute_result", {"text/plain": "picture"}, execution_count=2)
    texts = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("one\n", "two", "\n", "three\n")]
    notebook.cells[2].outputs = [*texts[:3], picture, texts[3]]
    nbformat.write(notebook, path)
    outputs = nbformat.reads(regenerate.cleaned(path).decode(), 4).cells[2].outputs
    assert [output.get("text") for output in outputs] == ["one\ntwo\n", None, "three\n"]


def test_refresh_refuses_a_notebook_that_shows_own_runs(root):
    changed = PARAMETERS + "own_runs: bool = True  # yours\n"
    write_notebook(root, "changed", "print(1)", parameters=changed)
    with pytest.raises(HyperMaskError, match=r"changed\.ipynb has own_runs = True; a committed notebook keeps False"):
        regenerate.refresh_committed()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("changes", 'changes: str = "p=70 beta=0.01"  # of your own'),
        ("seeds", "seeds: list[int] = [1, 2]  # yours"),
        ("own_runs", "own_runs: bool = True  # yours"),
        ("profile", 'profile: str = "paper"  # which'),
    ],
)
def test_refresh_refuses_a_readers_parameters(root, name, line):
    first = "" if name == "profile" else 'profile: str = "recorded"\n'
    write_notebook(root, "fig10_split_mnist_mean_accuracy", "print(1)", parameters=f"{first}{line}\n")
    with pytest.raises(HyperMaskError, match=rf"^fig10_split_mnist_mean_accuracy\.ipynb has {name} = .*; a committed"):
        regenerate.refresh_committed(["fig10"])


def test_refresh_refuses_the_records_of_another_root(root, tmp_path, monkeypatch):
    """The notebooks beside the package would be filled with what is there, or is not."""
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path / "results"))
    with pytest.raises(HyperMaskError, match="unset HYPERMASK_ROOT"):
        regenerate.refresh_committed(["fig10"])


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_kernel_and_no_half_written_file(root, request_to_end):
    says_who = "import os, time\nopen(os.environ['MARK'], 'w').write(str(os.getpid()))"
    write_notebook(root, "sleeps", says_who + "\ntime.sleep(300)")
    mark = root / "kernel"
    # Tests that run in the background of a script inherit that interrupts are ignored.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    launcher = f"{heeds}; from hypermask import regenerate; regenerate.regenerate()"
    package = str(Path(regenerate.__file__).resolve().parent.parent)
    environment = os.environ | {"MARK": str(mark), "PYTHONPATH": package}
    process = subprocess.Popen(
        [sys.executable, "-c", launcher], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(request_to_end)
    assert process.wait(30) != 0
    kernel = int(mark.read_text())
    assert not psutil.pid_exists(kernel) or psutil.Process(kernel).status() == psutil.STATUS_ZOMBIE
    assert list((root / "build/notebooks/recorded").iterdir()) == []


@pytest.mark.parametrize(
    ("cores", "jobs", "given", "threads"),
    [(8, 2, "7", "4"), (2, 4, "7", "1"), (8, 1, "7", "7"), (8, 2, "3", "3"), (8, 2, "", "4"), (8, 2, "0", "4")],
)
def test_notebooks_side_by_side_share_the_cores_that_they_may_use(cores, jobs, given, threads, monkeypatch):
    # A job of a cluster may use some of the machine's cores alone.
    monkeypatch.setattr(regenerate.os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert regenerate._environment(jobs)["OMP_NUM_THREADS"] == threads


def test_lines_of_the_parameters_cell_that_set_something_else_are_no_parameters(root):
    lines = 'profile: str = "recorded"\nimport os\nos.environ["X"] = "0"\na, b = 1, 2\nseeds = [1]'
    source = write_notebook(root, "n", "pass", parameters=lines)
    assert regenerate._parameters(source) == {"profile": "'recorded'", "seeds": "[1]"}

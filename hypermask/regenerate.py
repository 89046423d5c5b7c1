"""Run the notebooks: each by papermill in a process of its own, with the guards papermill lacks.

papermill ends with status 0 when a parameter is unknown or a cell ended its kernel, and marks every cell of a
killed kernel as completed. So a notebook has succeeded only if its parameters exist, papermill ended with 0,
every code cell is completed and no cell shows an error.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypermask import files, items, paths, tsne
from hypermask.errors import HyperMaskError
from hypermask.results import PROFILES

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
COMMITTED_PARAMETERS = {"profile": "recorded", "own_runs": False, "changes": ""}
PAPERMILL_TAGS = {"injected-parameters", "papermill-error-cell-tag"}
CLOSE_SECONDS = 10


@dataclass(frozen=True)
class Failure:
    """A notebook that did not succeed: where and why, and its executed copy, which is kept."""

    notebook: str
    cell: str
    error: str
    executed: Path | None = None

    def __str__(self) -> str:
        kept = f" (see {os.path.relpath(self.executed)})" if self.executed else ""
        return f"{self.notebook}, {self.cell}: {self.error}{kept}"


def notebooks() -> dict[str, Path]:
    """Stem -> path of every notebook, sorted."""
    return {path.stem: path for path in sorted(paths.notebooks().glob("*.ipynb"))}


def resolve(names: Sequence[str]) -> list[str]:
    """Notebook stems for stems, item ids (`fig06`, `table03`) or unique prefixes of either; all notebooks for
    no names.

    Raises HyperMaskError for a name that fits none or several, and where there are no notebooks at all.
    """
    known = notebooks()
    if not known:
        raise HyperMaskError("there are no notebooks here; run it inside a checkout, or set HYPERMASK_ROOT to one.")
    if not names:
        return list(known)
    stems = []
    for name in names:
        stem = _resolve(name, known)
        if stem not in stems:
            stems.append(stem)
    return stems


def regenerate(
    names: Sequence[str] = (),
    profile: str = "recorded",
    jobs: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> int:
    """Run the named notebooks (all by default) in a profile, at most `jobs` at a time; returns the exit
    status.

    Executed copies go to build/notebooks/PROFILE/ and are kept on failure. Each of several jobs gets its
    share of the cores. Failures are named at the end, each with its cell and error.
    """
    if profile not in PROFILES:
        raise HyperMaskError(f"unknown profile {profile!r}; expected {', '.join(PROFILES)}.")
    if jobs < 1:
        raise HyperMaskError(f"jobs is {jobs}; expected at least 1.")
    sources = [notebooks()[stem] for stem in resolve(names)]
    passed = {"profile": profile} | dict(parameters or {})
    failures = _run_all(sources, paths.build() / "notebooks" / profile, passed, jobs)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def refresh_committed(names: Sequence[str] = ()) -> int:
    """Execute the committed notebooks anew, with their own parameters, and replace them; returns the exit
    status.

    This is the way to bring new records into the notebooks. Embeddings that figures 12 to 14 lack are recorded
    first. Metadata of the run is stripped. A notebook is replaced only as a whole, and only after it succeeded;
    the committed one stays otherwise.
    """
    sources = [notebooks()[stem] for stem in resolve(names)]
    if not paths.notebooks().is_relative_to(paths.root()):
        raise HyperMaskError(
            f"the committed notebooks lie in {paths.notebooks()} and show the records there, not those below "
            f"{paths.root()}; unset HYPERMASK_ROOT."
        )
    for source in sources:
        _refuse_changed_parameters(source)
    for source in sources:
        for path in tsne.refresh(source.stem):
            print(f"{path.relative_to(paths.root())}: embedding recorded", flush=True)
    folder = paths.build() / "notebooks" / "committed"
    failures = _run_all(sources, folder, {}, jobs=1)
    failed = {failure.notebook for failure in failures}
    for source in sources:
        if source.stem not in failed:
            files.write_if_changed(source, cleaned(folder / source.name))
    for failure in failures:
        print(f"failed, and left as it was: {failure}", file=sys.stderr)
    return 1 if failures else 0


def cleaned(path: Path) -> bytes:
    """An executed notebook without papermill's and timing metadata; outputs, tags and counts 1..n stay."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata.tags} if cell.metadata.get("tags") else {})
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = _joined(cell.outputs)
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """Text that a cell printed as one output: how a kernel cuts it is a matter of time."""
    joined: list[Any] = []
    for output in outputs:
        printed = output.output_type == "stream" and joined and joined[-1].get("name") == output.name
        if printed:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _resolve(name: str, known: Mapping[str, Path]) -> str:
    by_id = {item.id: item.notebook for item in items.ITEMS if item.notebook in known}
    if name in known:
        return name
    if name in by_id:
        return by_id[name]
    candidates = {stem for stem in known if stem.startswith(name)}
    candidates |= {stem for item, stem in by_id.items() if item.startswith(name)}
    if len(candidates) == 1:
        return candidates.pop()
    planned = next((item for item in items.ITEMS if item.id == name), None)
    if planned is not None:
        raise HyperMaskError(f"{name} has no notebook in this version yet; there are {', '.join(known)}.")
    if candidates:
        raise HyperMaskError(
            f"{name!r} fits {', '.join(sorted(candidates))}; give enough of the name to mean one of them."
        )
    raise HyperMaskError(
        f"no notebook or item is called {name!r}; expected one of {', '.join(known)}, or an item's id."
    )


def _run_all(sources: Sequence[Path], folder: Path, parameters: Mapping[str, Any], jobs: int) -> list[Failure]:
    waiting = list(sources)
    running: list[_Run] = []
    failures = []
    folder.mkdir(parents=True, exist_ok=True)
    with _closing(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                source = waiting.pop(0)
                unknown = _unknown_parameters(source, parameters)
                if unknown:
                    failures.append(Failure(source.stem, "parameters", f"there is no parameter {', '.join(unknown)}"))
                    continue
                running.append(_Run(source, folder, parameters, min(jobs, len(sources))))
                if parameters.get("profile") == "paper":  # It may train for hours.
                    print(f"{source.stem}: started", flush=True)
            for run in list(running):
                if run.finished(seconds=0.1):
                    running.remove(run)
                    failure = run.close()
                    print(f"{run.source.stem}: {'failed' if failure else 'done'}", flush=True)
                    failures += [failure] if failure else []
    return failures


@contextmanager
def _closing(running: list[_Run]) -> Iterator[None]:
    """End what still runs when the block is left early: by Ctrl-C, by a request to end, or by an error."""

    def on_request(signum, frame):
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, on_request)
    except ValueError:  # only the main thread may set a handler
        before = None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
        for run in running:
            run.stop()


class _Run:
    """One notebook's papermill process. It writes to a temporary folder; the result is moved to its place at
    the end.
    """

    def __init__(self, source: Path, folder: Path, parameters: Mapping[str, Any], jobs: int) -> None:
        self.source = source
        self.target = folder / source.name
        self._scratch = Path(tempfile.mkdtemp(prefix=f".{source.stem}-", dir=folder))
        self._written = self._scratch / source.name
        self._log = self._scratch / "papermill.log"
        command = [sys.executable, "-m", "papermill", str(source), str(self._written)]
        command += [
            "--cwd",
            str(source.parent),
            "--kernel",
            "python3",
            "--no-progress-bar",
            "--log-level",
            "ERROR",
        ]
        if parameters:
            command += ["--parameters_yaml", json.dumps(dict(parameters))]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                env=_environment(jobs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finished(self, seconds: float) -> bool:
        """Whether the process has ended, waiting up to `seconds` for it."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> Failure | None:
        """Judge the finished process, and move the executed copy to its place."""
        cell, error = _fault(self._written, self._process.returncode, self._log)
        executed = None
        if self._written.exists():
            os.replace(self._written, self.target)
            executed = self.target
        shutil.rmtree(self._scratch)
        return Failure(self.source.stem, cell, error, executed) if error else None

    def stop(self) -> None:
        """End papermill, its kernel (in a process group of its own) and whatever the kernel started."""
        import psutil

        try:
            parent = psutil.Process(self._process.pid)
            family = [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            family = []
        for process in family:
            _signal(process, signal.SIGTERM)
        _, alive = psutil.wait_procs(family, timeout=CLOSE_SECONDS)
        for process in alive:
            _signal(process, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _signal(process: Any, signum: int) -> None:
    import psutil

    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        return


def _environment(jobs: int) -> dict[str, str]:
    environment = dict(os.environ)
    # Text outputs are compared to the letter: no progress bars, whatever the kernel takes itself for.
    environment["HYPERMASK_PROGRESS"] = "off"
    # A kernel imports this package, also where it runs from a checkout without installation.
    package = str(Path(__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    if jobs > 1:
        share = max(1, _cores() // jobs)
        given = environment.get("OMP_NUM_THREADS", "")
        environment["OMP_NUM_THREADS"] = str(min(share, int(given)) if given.isdecimal() and int(given) else share)
    return environment


def _cores() -> int:
    """How many cores this process may use: on a cluster those of its job, not all of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _unknown_parameters(source: Path, parameters: Mapping[str, Any]) -> list[str]:
    return sorted(set(parameters) - set(_parameters(source)))


def _parameters(source: Path) -> dict[str, str]:
    """Name -> value, as Python writes it, of a notebook's parameters. papermill's own reading leaves out lines whose
    value has a `=` in it."""
    import nbformat

    cells = nbformat.read(source, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if "parameters" in cell.metadata.get("tags", []))
    try:
        lines = ast.parse(text).body
    except SyntaxError as error:
        raise HyperMaskError(f"{source.name}: the cell of parameters is no Python ({error.msg}); mend it.") from None
    # Other lines, such as one that sets an environment variable, are no parameters.
    assigned = [
        (line.target if isinstance(line, ast.AnnAssign) else line.targets[0], line.value)
        for line in lines
        if isinstance(line, ast.AnnAssign | ast.Assign)
    ]
    return {target.id: ast.unparse(value) for target, value in assigned if isinstance(target, ast.Name)}


def _refuse_changed_parameters(source: Path) -> None:
    found = _parameters(source)
    # The notebook of one's own method keeps the seeds of its example.
    of_the_paper = {"seeds": []} if items.of_notebook(source.stem) else {}
    for name, expected in (COMMITTED_PARAMETERS | of_the_paper).items():
        value = found.get(name, repr(expected))
        if value != repr(expected):
            raise HyperMaskError(
                f"{source.name} has {name} = {value}; a committed notebook keeps {expected!r}: change it back, or run "
                "it yourself."
            )


def _fault(written: Path, status: int, log: Path) -> tuple[str, str]:
    """(cell, error) of an executed notebook; two empty strings when it succeeded."""
    import nbformat

    if not written.exists():
        lines = log.read_text(errors="replace").strip().splitlines()
        return "before the first cell", lines[-1] if lines else f"papermill ended with status {status}"
    try:
        notebook = nbformat.read(written, as_version=4)
    except ValueError:
        return "while it was written", f"papermill ended with status {status} and left half a file"
    # Cells are numbered as in the source: papermill adds cells of its own.
    own = [cell for cell in notebook.cells if not PAPERMILL_TAGS & set(cell.metadata.get("tags", []))]
    code = [(number, cell) for number, cell in enumerate(own, 1) if cell.cell_type == "code"]
    for number, cell in code:
        for output in cell.outputs:
            if output.output_type == "error":
                return f"cell {number}", f"{output.ename}: {output.evalue}"
    for number, cell in code:
        if cell.metadata.get("papermill", {}).get("status") != "completed":
            return f"cell {number}", "the notebook ended before this cell was completed"
    if status != 0:
        return (
            "after its last completed cell",
            f"papermill ended with status {status}; its kernel may have died",
        )
    return "", ""

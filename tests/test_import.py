"""Reading records, drawing and asking for the status are cheap: none of it imports torch."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import hypermask

WITHOUT_TORCH = (
    "hypermask",
    *(f"hypermask.{name}" for name in ("errors", "config", "experiments", "paths", "files", "records", "metrics")),
    *(f"hypermask.{name}" for name in ("paper", "items", "status", "needs", "verify", "outputs", "results", "plots")),
    *(f"hypermask.{name}" for name in ("typesetting", "printed_and_ours", "tables", "comparison", "admission")),
    *(f"hypermask.{name}" for name in ("saved_benches", "times", "regenerate", "progress", "cli")),
    *(f"hypermask.{name}" for name in ("tsne", "maps", "illustration", "diagram")),
)
HEAVY = ("torch", "torchvision", "hypnettorch", "sklearn", "safetensors", "openTSNE", "papermill")
DRAWING = ("matplotlib", "pandas", "scipy", "seaborn")


def fresh(program: str) -> list[str]:
    """The words that a program prints in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ended.stdout.split()


def imported(*modules: str) -> set[str]:
    """Top-level names in sys.modules after importing some modules in a fresh process."""
    return {name.partition(".")[0] for name in fresh(f"import sys, {', '.join(modules)}; print(*sys.modules)")}


def test_no_torch():
    program = (
        "import importlib, sys\n"
        f"for module in {WITHOUT_TORCH}:\n"
        "    importlib.import_module(module)\n"
        f"    print(*[f'{{module}}:{{name}}' for name in {HEAVY} if name in sys.modules])"
    )
    assert fresh(program) == []


def test_downloaders_are_imported_when_something_is_fetched():
    assert sorted(imported("hypermask.benchmarks.download", "hypermask.benchmarks") & {"pooch", "requests"}) == []


def test_no_drawing_library_where_nothing_is_drawn():
    names = imported("hypermask", "hypermask.cli", "hypermask.records", "hypermask.status", "hypermask.verify")
    assert sorted(names & set(DRAWING)) == []


def test_importing_the_package_takes_less_than_half_a_second():
    # Seconds of CPU: other processes on the machine do not count.
    program = (
        "import time; start = time.process_time(); import hypermask; print(time.process_time() - start)\n"
        "import sys; print('numpy' in sys.modules)"
    )
    seconds, numpy = fresh(program)
    assert float(seconds) < 0.5
    assert numpy == "False"


def test_the_heavy_names_are_there_when_asked_for():
    assert fresh("import hypermask, sys; hypermask.train; print('torch' in sys.modules)") == ["True"]


class Imports(ast.NodeVisitor):
    """Which modules of a package a module imports, at its top or inside its functions; for types alone does not
    count."""

    def __init__(self, modules: set[str]) -> None:
        self.modules, self.found = modules, set()

    def visit_If(self, node):
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_ImportFrom(self, node):
        for name in node.names:
            inner = f"{node.module}.{name.name}"
            self.found.add(inner if inner in self.modules else node.module)

    def visit_Import(self, node):
        self.found.update(name.name for name in node.names)


def test_no_modules_import_each_other_in_a_circle():
    package = Path(hypermask.__file__).parent
    files = {
        ".".join([package.name, *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    graph = {}
    for name, path in files.items():
        imports = Imports(set(files))
        imports.visit(ast.parse(path.read_text(encoding="utf-8")))
        graph[name] = imports.found & set(files) - {package.name}
    assert "hypermask.records" in graph["hypermask.training"] and "hypermask.status" in graph["hypermask.cli"]
    # An error names the circle.
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(files)

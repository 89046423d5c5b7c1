"""Reading records, drawing and asking for the status are cheap: none of it imports torch."""

import subprocess
import sys

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

"""What every test may rely on: the project's folder, and an environment free of the user's own settings."""

import os
import sys
from pathlib import Path

import pytest

# Not in a fixture: it must hold before any test module is imported, and in all that a test starts.
for _name in ("HYPERMASK_ROOT", "HYPERMASK_DATA"):
    os.environ.pop(_name, None)
os.environ["HYPERMASK_PROGRESS"] = "off"


@pytest.fixture(scope="session")
def project_root() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """An empty root of the project, with no records."""
    monkeypatch.setenv("HYPERMASK_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _on_the_cpu(request, monkeypatch):
    """A GPU is for the tests that are marked for it: the others ask for a CPU's numbers, texts and order."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        if "torch" in sys.modules:
            monkeypatch.setattr(sys.modules["torch"].cuda, "is_available", lambda: False)


def pytest_collection_modifyitems(items):
    if "HYPERMASK_TEST_DATA" not in os.environ:
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(pytest.mark.skip(reason="not run: HYPERMASK_TEST_DATA names no folder of data sets"))
    for_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if for_gpu:
        import torch

        if not torch.cuda.is_available():
            for item in for_gpu:
                item.add_marker(pytest.mark.skip(reason="not run: there is no CUDA device"))


def pytest_terminal_summary(terminalreporter):
    sections = {
        "gpu": "GPU tests that were not run, for lack of a CUDA device",
        "real_data": "Tests on the published images that were not run, for lack of the data",
    }
    for marker, title in sections.items():
        skipped = [report.nodeid for report in terminalreporter.stats.get("skipped", []) if marker in report.keywords]
        if skipped:
            terminalreporter.section(title)
            for name in skipped:
                terminalreporter.write_line(name)

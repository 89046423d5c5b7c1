"""What every test may rely on: the project's folder, and an environment free of the user's own settings."""

import os
from pathlib import Path

import pytest

# Not in a fixture: it must hold before any test module is imported, and in all that a test starts.
for _name in ("HYPERMASK_ROOT", "HYPERMASK_DATA"):
    os.environ.pop(_name, None)
os.environ["HYPERMASK_PROGRESS"] = "off"


@pytest.fixture(scope="session")
def project_root() -> Path:
    return Path(__file__).resolve().parent.parent

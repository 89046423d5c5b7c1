"""What all tests of this folder are: for a GPU, and failed by a warning that one is not used as it should be."""

from pathlib import Path

import pytest

MARKS = (
    pytest.mark.gpu,
    # Going on without a graph or without the kernel, with a warning, would pass most of these tests.
    pytest.mark.filterwarnings("error:this step cannot be captured"),
    pytest.mark.filterwarnings("error:the eager engine is used"),
)


# Before the other conftest looks for the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for mark in MARKS:
                item.add_marker(mark)

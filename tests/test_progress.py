import os
import pty
import re
import subprocess
import sys
import types

import pytest
import torch

from hypermask import progress
from hypermask.progress import Bar, Lines, Progress


def report(shown: Progress) -> None:
    """Two tasks of three iterations, as the training loop tells them."""
    shown.begin("split_digits/own, seed 1", [3, 3])
    for task in (0, 1):
        for iteration in (1, 2, 3):
            shown.iteration(task, iteration, torch.tensor(0.25))
        shown.finished_task(task, 98.0 - task, 97.0 - task, 1.25)
    shown.end()


def test_lines_are_one_per_finished_task(capsys):
    report(Lines())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "split_digits/own, seed 1: 2 tasks of 3 iterations",
        "split_digits/own, seed 1: task 1/2 done in 1.2 s, accuracy on it 98.00 %, mean so far 97.00 %",
        "split_digits/own, seed 1: task 2/2 done in 1.2 s, accuracy on it 97.00 %, mean so far 96.00 %",
    ]


def test_a_long_task_has_a_line_every_few_minutes(capsys, monkeypatch):
    clock = iter([0.0, 200.0, 301.0, 301.0, 400.0, 602.0, 602.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = Lines()
    shown.begin("run", [100, 100], done=1)
    for iteration in (10, 20, 30, 40):
        shown.iteration(1, iteration, Unread())
    assert capsys.readouterr().err.splitlines() == [
        "run: 2 tasks of 100 iterations, goes on after task 1",
        "run: task 2/2, iteration 20/100",
        "run: task 2/2, iteration 40/100",
    ]


@pytest.mark.parametrize("kind", [Lines, lambda: Bar(notebook=False)])
def test_reading_a_procedure_is_said(capsys, kind):
    shown = kind()
    shown.begin("run", [100, 100])
    shown.reading(1, "fecam")
    shown.end()
    assert "task 2/2, infers the task by fecam" in capsys.readouterr().err


def test_a_bar_goes_on_where_an_earlier_process_stopped(capsys):
    bar = Bar(notebook=False)
    bar.begin("run", [100] * 4, done=3)
    bar.end()
    assert "300/400" in capsys.readouterr().err


def test_tasks_of_different_lengths_are_counted_each(capsys, monkeypatch):
    clock = iter([0.0, 301.0, 301.0])
    with monkeypatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: next(clock))
        shown = Lines()
        shown.begin("run", [62, 63])
        shown.iteration(1, 63, Unread())
    assert capsys.readouterr().err.splitlines() == [
        "run: 2 tasks of 62 to 63 iterations",
        "run: task 2/2, iteration 63/63",
    ]
    bar = Bar(notebook=False)
    bar.begin("run", [62, 63], done=1)
    bar.end()
    assert "62/125" in capsys.readouterr().err


def test_what_is_said_can_be_silenced(capsys, monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    progress.say("a line")
    monkeypatch.setenv("HYPERMASK_PROGRESS", "off")
    progress.say("another")
    assert capsys.readouterr() == ("", "a line\n")


def test_silence_is_silent(capsys):
    report(Progress())
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_task_loss_accuracy_and_time_left(capsys):
    report(Bar(notebook=False))
    out, err = capsys.readouterr()
    assert out == ""
    assert "split_digits/own, seed 1" in err
    assert "task 1/2, loss 0.2500, acc -" in err
    last = err.replace("\r", "\n").strip().splitlines()[-1]
    assert "6/6" in last
    assert re.search(r"\[\d\d:\d\d<", last)


class Unread:
    """A loss that may not be read: that would wait for the device."""

    def item(self):
        raise AssertionError("the loss was read")


def test_a_bar_reads_the_loss_only_now_and_then(capsys, monkeypatch):
    clock = iter([10.0, 10.1, 10.4, 10.6])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    bar = Bar(notebook=False)
    bar.begin("run", [10])
    bar._bar.refresh = lambda *_, **__: None
    bar.iteration(0, 1, torch.tensor(1.0))
    bar.iteration(0, 2, Unread())
    bar.iteration(0, 3, Unread())
    with pytest.raises(AssertionError, match="the loss was read"):
        bar.iteration(0, 4, Unread())


def test_lines_and_silence_never_read_the_loss():
    for shown in (Lines(), Progress()):
        shown.begin("run", [1])
        shown.iteration(0, 1, Unread())


def test_off_silences_it(monkeypatch):
    monkeypatch.setenv("HYPERMASK_PROGRESS", "off")
    assert type(progress.choose()) is Progress


def test_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert type(progress.choose()) is Lines


def test_a_notebook_has_its_own_bar(monkeypatch):
    monkeypatch.delenv("HYPERMASK_PROGRESS")
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    chosen = progress.choose()
    assert (type(chosen), chosen._notebook) == (Bar, True)


def test_a_terminal_has_a_bar():
    """With a real pseudo-terminal as standard error."""
    leader, follower = pty.openpty()
    try:
        program = "from hypermask.progress import choose; print(type(choose()).__name__, choose()._notebook)"
        environment = {name: value for name, value in os.environ.items() if name != "HYPERMASK_PROGRESS"}
        ended = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=follower, text=True
        )
    finally:
        os.close(leader)
        os.close(follower)
    assert ended.stdout == "Bar False\n"

"""What a person sees of a run: a bar on a terminal or in a live notebook, one line per finished task elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from itertools import accumulate

# Seconds without a word that a log file is left with.
SILENCE = 300.0


def say(text: str) -> None:
    """One line on standard error before something that takes a while; HYPERMASK_PROGRESS=off silences it."""
    if os.environ.get("HYPERMASK_PROGRESS") != "off":
        print(text, file=sys.stderr, flush=True)


class Progress:
    """Silent. The training loop reports to it; subclasses show it.

    `loss` is a tensor on the device: reading it waits for the device, so only a bar does, a few times a second.
    """

    def begin(self, title: str, iterations: Sequence[int], done: int = 0) -> None:
        """iterations: of each task, which may differ in size.  done: tasks that an earlier process finished."""

    def iteration(self, task: int, iteration: int, loss) -> None: ...

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None: ...

    def reading(self, task: int, procedure: str) -> None:
        """After training `task`, a procedure is about to infer the tasks of all images seen so far."""

    def end(self) -> None: ...


class Lines(Progress):
    """One line per finished task on standard error, and one every few minutes within a task."""

    def begin(self, title: str, iterations: Sequence[int], done: int = 0) -> None:
        self._title, self._tasks, self._per_task = title, len(iterations), iterations
        on = f", goes on after task {done}" if done else ""
        fewest, most = min(iterations), max(iterations)
        self._say(f"{self._tasks} tasks of {most if fewest == most else f'{fewest} to {most}'} iterations{on}")

    def iteration(self, task: int, iteration: int, loss) -> None:
        if time.monotonic() - self._said >= SILENCE:
            self._say(f"task {task + 1}/{self._tasks}, iteration {iteration}/{self._per_task[task]}")

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None:
        self._say(
            f"task {task + 1}/{self._tasks} done in {seconds:.1f} s, accuracy on it {accuracy:.2f} %, "
            f"mean so far {mean_accuracy:.2f} %"
        )

    def reading(self, task: int, procedure: str) -> None:
        self._say(f"task {task + 1}/{self._tasks}, infers the task by {procedure}")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print(f"{self._title}: {text}", file=sys.stderr, flush=True)


class Bar(Progress):
    """A bar over all iterations with task, loss, accuracy and time left."""

    def __init__(self, notebook: bool, row: int = 0) -> None:
        self._notebook, self._row = notebook, row

    def begin(self, title: str, iterations: Sequence[int], done: int = 0) -> None:
        if self._notebook:
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        self._tasks, self._shown = len(iterations), 0.0
        # How many iterations there are before each task, and in all.
        self._before = [0, *accumulate(iterations)]
        self._accuracy = "-"
        self._bar = tqdm(
            total=self._before[-1],
            initial=self._before[done],
            desc=title,
            unit="it",
            dynamic_ncols=True,
            position=self._row,
        )

    def iteration(self, task: int, iteration: int, loss) -> None:
        now = time.monotonic()
        if now - self._shown < 0.5:
            return
        self._shown = now
        self._bar.n = self._before[task] + iteration
        self._bar.set_postfix_str(f"task {task + 1}/{self._tasks}, loss {loss.item():.4f}, acc {self._accuracy}")

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None:
        self._accuracy = f"{mean_accuracy:.2f} %"
        self._bar.n = self._before[task + 1]
        self._bar.refresh()

    def reading(self, task: int, procedure: str) -> None:
        self._bar.set_postfix_str(f"task {task + 1}/{self._tasks}, infers the task by {procedure}")

    def end(self) -> None:
        self._bar.close()


def choose(row: int = 0) -> Progress:
    """The progress that fits where the process runs; HYPERMASK_PROGRESS=off silences it.  row: of several bars."""
    if os.environ.get("HYPERMASK_PROGRESS") == "off":
        return Progress()
    if "ipykernel" in sys.modules:
        return Bar(notebook=True, row=row)
    return Bar(notebook=False, row=row) if sys.stderr.isatty() else Lines()

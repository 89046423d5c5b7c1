"""What a person sees of a run: a bar on a terminal or in a live notebook, one line per finished task elsewhere."""

from __future__ import annotations

import os
import sys
import time


class Progress:
    """Silent. The training loop reports to it; subclasses show it.

    `loss` is a tensor on the device: reading it waits for the device, so only a bar does, a few times a second.
    """

    def begin(self, title: str, tasks: int, iterations: int) -> None: ...

    def iteration(self, task: int, iteration: int, loss) -> None: ...

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None: ...

    def end(self) -> None: ...


class Lines(Progress):
    """One line per finished task on standard error."""

    def begin(self, title: str, tasks: int, iterations: int) -> None:
        self._title, self._tasks = title, tasks

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None:
        print(
            f"{self._title}: task {task + 1}/{self._tasks} done in {seconds:.1f} s, accuracy on it {accuracy:.2f} %, "
            f"mean so far {mean_accuracy:.2f} %",
            file=sys.stderr,
            flush=True,
        )


class Bar(Progress):
    """A bar over all iterations with task, loss, accuracy and time left."""

    def __init__(self, notebook: bool, row: int = 0) -> None:
        self._notebook, self._row = notebook, row

    def begin(self, title: str, tasks: int, iterations: int) -> None:
        if self._notebook:
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        self._tasks, self._per_task, self._shown = tasks, iterations, 0.0
        self._accuracy = "-"
        self._bar = tqdm(total=tasks * iterations, desc=title, unit="it", dynamic_ncols=True, position=self._row)

    def iteration(self, task: int, iteration: int, loss) -> None:
        now = time.monotonic()
        if now - self._shown < 0.5:
            return
        self._shown = now
        self._bar.n = task * self._per_task + iteration
        self._bar.set_postfix_str(f"task {task + 1}/{self._tasks}, loss {loss.item():.4f}, acc {self._accuracy}")

    def finished_task(self, task: int, accuracy: float, mean_accuracy: float, seconds: float) -> None:
        self._accuracy = f"{mean_accuracy:.2f} %"
        self._bar.n = (task + 1) * self._per_task
        self._bar.refresh()

    def end(self) -> None:
        self._bar.close()


def choose(row: int = 0) -> Progress:
    """The progress that fits where the process runs; HYPERMASK_PROGRESS=off silences it.  row: of several bars."""
    if os.environ.get("HYPERMASK_PROGRESS") == "off":
        return Progress()
    if "ipykernel" in sys.modules:
        return Bar(notebook=True, row=row)
    return Bar(notebook=False, row=row) if sys.stderr.isatty() else Lines()

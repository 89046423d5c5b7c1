"""The numbers that figures plot, as their CSV files hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypermask.plots.panel import Panel, mean_curves, own_beside

if TYPE_CHECKING:
    import pandas as pd


def matrix_data(panels: Sequence[Panel]) -> pd.DataFrame:
    """The plotted accuracy matrices, one row per panel, row and column; values are missing where nothing was
    run.
    """
    import pandas as pd

    rows = []
    for panel in own_beside(panels):
        mean = None if panel.matrices is None else panel.matrices.mean(axis=0)
        rows += [
            {
                "panel": panel.title,
                "after_training_task": i + 1,
                "evaluated_on_task": j + 1,
                "accuracy_mean": np.nan if mean is None else mean[i, j],
                "runs": panel.runs,
            }
            for i in range(panel.tasks)
            for j in range(i + 1)
        ]
    return pd.DataFrame(rows)


def mean_accuracy_data(panels: Sequence[Panel]) -> pd.DataFrame:
    """The plotted means and 95 % half widths, one row per panel and task; values are missing where nothing
    was run.
    """
    import pandas as pd

    rows = []
    shows_own = any(panel.own is not None for panel in panels)
    for panel in panels:
        curves = None if panel.matrices is None else mean_curves(panel.matrices)
        own = None if panel.own is None else panel.own[:, -1, :].mean(axis=0)
        for task in range(panel.tasks):
            row = {"panel": panel.title, "task": task + 1}
            for key in ("just_after", "after_all"):
                mean, half_width = (np.nan, np.nan) if curves is None else (c[task] for c in curves[key])
                row |= {f"{key}_mean": mean, f"{key}_t95": half_width}
            row |= {"runs": panel.runs}
            if shows_own:
                row["own_after_all_mean"] = np.nan if own is None else own[task]
            rows.append(row)
    return pd.DataFrame(rows)


def settings_data(groups: Mapping[str, Sequence[Panel]]) -> pd.DataFrame:
    """The plotted means and 95 % half widths, one row per panel, setting and task; values are missing where nothing was
    run.
    """
    import pandas as pd

    frames = []
    for group, panels in groups.items():
        frame = mean_accuracy_data(panels).rename(columns={"panel": "setting"})
        frame = frame.drop(columns=["just_after_mean", "just_after_t95"])
        frame.insert(0, "panel", group)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)

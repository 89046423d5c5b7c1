"""Every figure and table of the paper: whether it is made, from how many runs, and what is missing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypermask import (
    claims,
    differences,
    experiments,
    files,
    items,
    metrics,
    paper,
    paths,
    questions,
    records,
    settings,
)
from hypermask.errors import HyperMaskError
from hypermask.items import Headline, Item, Need
from hypermask.metrics import Summary
from hypermask.needs import needs, runs_at_once
from hypermask.printed_and_ours import INTERVAL_NOTE, interval_sign
from hypermask.records import Record
from hypermask.results import counted, gather
from hypermask.typesetting import BLANK, plus_minus

# Longest texts of a table on a terminal.
_TITLE_WIDTH = 44
_MISSING_SHOWN = 2


class _Shelf:
    """The records of today, each folder read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[Path, list[Record]] = {}

    def folder(self, name: str, config_hash: str) -> list[Record]:
        """All readable records of a configuration, finished or not."""
        place = records.location(self._root, name, config_hash, 0).parent
        if place not in self._read:
            self._read[place] = records.find(name, config_hash, self._root)
        return self._read[place]

    def present(self, need: Need) -> list[Record]:
        """The finished runs that meet the need."""
        return [record for record in self.folder(need.experiment, need.configured.config.hash) if need.met_by(record)]


def status() -> dict[str, list[dict[str, Any]]]:
    """The 27 items, JSON-plain.

    Each item: id, title, notebook (stem), made (all its files exist and are those its notebook writes from
    today's records), state (`complete`: all runs there, `partial`, `empty`: none), runs_present, runs_needed,
    and missing, a list of {experiment, seed, command}. Only committed, finished runs count.
    """
    shelf = _Shelf(paths.records())
    return {"items": [_item_status(item, shelf) for item in items.ITEMS]}


def render(status: dict[str, list[dict[str, Any]]]) -> str:
    """The status as a table for a terminal, and what the missing experiments need."""
    rows = [("item", "title", "made", "state", "runs", "missing")]
    for item in status["items"]:
        rows.append(
            (
                item["id"],
                _shorten(item["title"], _TITLE_WIDTH),
                "yes" if item["made"] else "no",
                item["state"],
                f"{item['runs_present']}/{item['runs_needed']}",
                _missing_shortened(item["missing"]),
            )
        )
    wanted = dict.fromkeys(run["experiment"] for item in status["items"] for run in item["missing"])
    lines = [_columns(rows), "", "What one seed of a missing experiment needs:"]
    for name in wanted:
        required = needs(experiments.get(name))
        memory = "unknown" if required.gpu_memory_mb is None else f"about {required.gpu_memory_mb:.0f} MB"
        lines.append(f"  {name}: GPU memory {memory}; time {required.basis}")
    if not paths.records().is_dir():
        lines += ["", f"There are no records at all: {paths.records()} is not there. Copy ours to it to see them."]
    return "\n".join(lines)


def closing_table(base: Path | None = None) -> str:
    """For each item with a notebook: the printed headline value, the committed runs', yours, and the files.

    Means with sample standard deviation (number of runs); `your own` are finished runs in runs/ and enter no
    other mean.  base: the folder that the notebooks wrote to, the root by default.
    """
    base = base or paths.root()
    above = f"{base.relative_to(paths.root())}/" if base != paths.root() else ""
    rows = [("item", "quantity", "printed", "shipped", "yours", "files")]
    for item in items.ITEMS:
        if not (paths.notebooks() / f"{item.notebook}.ipynb").is_file():
            continue
        present = [name for name in item.files if (base / name).is_file()]
        kinds = ",".join(Path(name).suffix[1:] for name in present)
        written = f"{above}{Path(item.files[0]).with_suffix('')}.{{{kinds}}}"
        quantity, printed, shipped, yours = _headline_cells(item)
        rows.append((item.id, quantity, printed, shipped, yours, written if present else "none yet"))
    return f"{_columns(rows)}\n\n±: the paper's as printed; of the others the sample standard deviation (runs)"


def markdown() -> str:
    """The results page: for each item its claim, the printed and our number, and what is missing, as Markdown.

    Only committed, finished runs count. Ours: mean, half width of its 95 % t interval, number of runs.
    """
    shelf = _Shelf(paths.records())
    head = (
        *("item", "the paper's claim", "its statements, by our records", "printed", "ours", "headline number"),
        *("runs", "device time"),
    )
    rows = [head, ("---",) * len(head), *(_markdown_row(item, shelf) for item in items.ITEMS)]
    return "\n".join(
        [
            *(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows),
            "",
            "Accuracy and backward transfer (BWT) in percent, by experiment. Printed: mean ± what is taken to be the "
            "population standard deviation. Ours: mean ± half width of its 95 % t interval (n runs). Statements: the "
            "notebook spells them out, with what they rest on; open are those that no run, or too few, can tell. "
            "Headline number: how this one number compares. Reproduced within spread: the means lie no further apart "
            "than twice the larger standard deviation, and all runs are there; within spread so far: some are missing; "
            f"one run, which has no spread, is measured by the printed one. {INTERVAL_NOTE} Runs: those that "
            "have all that the item shows of each; `hypermask sweep ITEM`, say `fig02`, makes the others. Device time: "
            "their training and evaluation, each run's in full whatever ran beside it, but for seeds of one command "
            "that ran at once, which share it equally; items share runs, and a name may stand for several models.",
        ]
    )


def write_markdown(path: Path) -> bool:
    """Write the generated sections of a file anew; returns whether it changed.

    A section lies between `<!-- results -->` and `<!-- /results -->`, or another name in their place (`_SECTIONS`).
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise HyperMaskError(f"{path} cannot be read ({error.strerror}); name a Markdown file.") from None
    present = [name for name in _SECTIONS if f"<!-- {name} -->" in text and f"<!-- /{name} -->" in text]
    if not present:
        expected = " or ".join(f"from <!-- {name} --> to <!-- /{name} -->" for name in _SECTIONS)
        raise HyperMaskError(f"{path.name} has no section {expected}; add two such lines to it.")
    for name in present:
        before, begin, rest = text.partition(f"<!-- {name} -->")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        text = f"{before}{begin}\n\n{_SECTIONS[name]()}\n\n{end}{after}"
    return files.write_if_changed(path, text.encode())


_SECTIONS = {
    "results": markdown,
    "questions": questions.markdown,
    "differences": differences.markdown,
    "settings": settings.markdown,
}


def _markdown_row(item: Item, shelf: _Shelf) -> tuple[str, ...]:
    state = _item_status(item, shelf)
    kind, number = ("figure", item.id[3:]) if item.id.startswith("fig") else ("table", item.id[5:])
    name = f"{kind} {int(number)}"
    made = (paths.notebooks() / f"{item.notebook}.ipynb").is_file()
    printed, ours, compared = _markdown_numbers(item, shelf, state["state"])
    return (
        f"[{name}](notebooks/{item.notebook}.ipynb)" if made else name,
        item.claim,
        claims.tally(claims.verdicts(item.id, gather(item.id))) or BLANK,
        printed,
        ours,
        compared,
        f"{state['runs_present']}/{state['runs_needed']}",
        _device_time(item, shelf),
    )


def _markdown_numbers(item: Item, shelf: _Shelf, state: str) -> tuple[str, str, str]:
    """(printed, ours, how they compare) cells."""
    settings = _printed_settings(item)
    if settings:
        compared = [(printed, _measure(Headline(need.experiment), shelf.present(need))) for need, printed in settings]
        words = Counter(paper.compare(printed, ours) for printed, ours in compared)
        counts = "; ".join(f"{word}: {words[word]}" for word in paper.COMPARISONS if words[word])
        run = sum(ours is not None for _, ours in compared)
        return f"{len(settings)} settings", f"{run} of {len(settings)} settings", counts
    if item.headline is None:
        where = "see the figure" if item.id.startswith("fig") else "see the table"
        return BLANK, BLANK, {"empty": paper.NOT_RUN, "partial": f"incomplete, {where}", "complete": where}[state]
    digits = _digits(item.headline)
    need = _headline_need(item)
    ours = _headline(item, shelf.folder(need.experiment, need.configured.config.hash))
    value = _printed_value(item.headline)
    word = paper.compare(value, ours)
    sign = interval_sign(word, value, ours)
    if word == paper.WITHIN_SPREAD:
        whole = {record.seed for record in shelf.present(need)} >= set(need.seeds)
        word = f"reproduced {word}" if whole else f"{word} so far"
    return (
        f"{_label(item.headline)}, {need.experiment}: {_printed(item.headline, digits)}",
        BLANK if ours is None else f"{plus_minus(ours.mean, ours.t95, digits)} ({counted(ours.n)})",
        f"{word} {sign}".rstrip(),
    )


def _printed_settings(item: Item) -> list[tuple[Need, paper.Printed]]:
    """Each setting of tables 8 and 9 with its printed accuracy; nothing for other items."""
    rows = {"table08": paper.loss_components, "table09": paper.sparsity}.get(item.id, tuple)()
    place = item.id.replace("table0", "table ")
    printed = [paper.Printed(row.mean, row.sd, paper.RUN_BY_AUTHORS, place) for row in rows]
    return list(zip(item.runs, printed, strict=True)) if printed else []


def _device_time(item: Item, shelf: _Shelf) -> str:
    """Device -> time of the counted runs, as text; seeds of one command that shared it have an equal share each."""
    shown = {record.path: record for need in item.runs for record in shelf.present(need)}
    seconds: dict[str, float] = {}
    for record in shown.values():
        # The numeric family and model after the comma tell processors apart that this page need not.
        device = record.environment["device_name"].split(",")[0]
        seconds[device] = seconds.get(device, 0.0) + record.seconds / runs_at_once(record.environment)
    return "; ".join(f"{_duration(total)}, {device}" for device, total in sorted(seconds.items())) or BLANK


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def _item_status(item: Item, shelf: _Shelf) -> dict[str, Any]:
    present = 0
    missing = []
    for need in item.runs:
        seeds = {record.seed for record in shelf.present(need)}
        present += len(seeds)
        missing += [
            {"experiment": need.experiment, "seed": seed, "command": need.command([seed])}
            for seed in need.seeds
            if seed not in seeds
        ]
    return {
        "id": item.id,
        "title": item.title,
        "notebook": item.notebook,
        "made": _made(item, shelf),
        "state": _state(present, len(missing)),
        "runs_present": present,
        "runs_needed": present + len(missing),
        "missing": missing,
    }


def _state(present: int, missing: int) -> str:
    if missing == 0:
        return "complete"
    return "partial" if present else "empty"


def _made(item: Item, shelf: _Shelf) -> bool:
    """Whether the item's files are those its notebook's manifest names, drawn from the records of today."""
    manifest = _manifest(item.notebook)
    if manifest is None:
        return False
    root = paths.root()
    for name in item.files:
        written = manifest["files"].get(name)
        if written is None or not (root / name).is_file() or files.sha256(root / name) != written:
            return False
    return manifest["records"] == _records_today(item.notebook, shelf)


def _manifest(notebook: str) -> dict[str, Any] | None:
    """What the notebook wrote last; None if it never ran or its note cannot be read."""
    try:
        manifest = json.loads((paths.figures() / "manifests" / f"{notebook}.json").read_bytes())
        return manifest if isinstance(manifest["files"], dict) and isinstance(manifest["records"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _records_today(notebook: str, shelf: _Shelf) -> dict[str, str]:
    """Path -> content hash of the records that the notebook would read today, those that its items show."""
    today = [
        record
        for item in items.of_notebook(notebook)
        for need in item.runs
        for record in shelf.folder(need.experiment, need.configured.config.hash)
        if item.shows(need, record)
    ]
    return {record.path.relative_to(paths.root()).as_posix(): record.content_sha256 for record in today}


def _missing_shortened(missing: list[dict[str, Any]]) -> str:
    counts = Counter(run["experiment"] for run in missing)
    shown = [f"{name} ({count})" for name, count in counts.most_common(_MISSING_SHOWN)]
    if len(counts) > _MISSING_SHOWN:
        shown.append(f"{len(counts) - _MISSING_SHOWN} more")
    return ", ".join(shown)


def _headline_cells(item: Item) -> tuple[str, str, str, str]:
    headline = item.headline
    if headline is None:
        return "", "", "", ""
    name = headline.experiment
    shipped, yours = (_headline(item, records.load(name, own=own)) for own in (False, True))
    digits = _digits(headline)
    return (
        f"{_label(headline)}, {name}",
        _printed(headline, digits),
        _ours(shipped, digits),
        "" if yours is None else _ours(yours, digits),
    )


def _headline(item: Item, found: Iterable[Record]) -> Summary | None:
    """The headline's quantity over those records of its experiment that the item shows."""
    need = _headline_need(item)
    return _measure(item.headline, [record for record in found if item.shows(need, record)])


def _headline_need(item: Item) -> Need:
    return next(need for need in item.runs if need.experiment == item.headline.experiment and not need.overrides)


def _label(headline: Headline) -> str:
    return {"accuracy": "accuracy", "bwt": "BWT", "distance": "D(1,10) - D(1,2)"}[headline.quantity]


def _digits(headline: Headline) -> int:
    return 3 if headline.quantity == "bwt" else 2


def _measure(headline: Headline, runs: Iterable[Record]) -> Summary | None:
    finished = [record for record in runs if record.finished]
    if not finished:
        return None
    if headline.quantity == "accuracy":
        return metrics.summary(metrics.mean_accuracy(record.accuracy) for record in finished)
    if headline.quantity == "bwt":
        return metrics.summary(metrics.backward_transfer(record.accuracy) for record in finished)
    return metrics.summary(_distance_growth(record, headline.layer) for record in finished)


def _distance_growth(record: Record, layer: int) -> float:
    """D(1, T) - D(1, 2) of a layer (tables 5 to 7), L1."""
    if record.target_distance is None:
        raise HyperMaskError(f"{record.experiment} has no distances of target weights; expected a trainable target.")
    distance = list(record.target_distance.values())[layer - 1]
    return float(distance[0, -1] - distance[0, 1])


def _printed_value(headline: Headline) -> paper.Printed:
    if headline.quantity == "distance":
        distance = paper.weight_distance(headline.layer)
        growth = float(distance[0, -1] - distance[0, 1])
        return paper.Printed(growth, None, paper.RUN_BY_AUTHORS, f"table {headline.layer + 4}")
    benchmark, method = headline.experiment.split("/")
    look_up = paper.printed_bwt if headline.quantity == "bwt" else paper.printed_accuracy
    return look_up(method, benchmark)


def _printed(headline: Headline, digits: int) -> str:
    printed = _printed_value(headline)
    return plus_minus(printed.mean, printed.sd, digits, 2)


def _ours(measured: Summary | None, digits: int) -> str:
    if measured is None:
        return "not run"
    return f"{plus_minus(measured.mean, measured.sd, digits)} ({measured.n})"


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _columns(rows: list[tuple[str, ...]]) -> str:
    """Left-aligned columns with a rule below the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)

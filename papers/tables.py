"""Published tables: found in their folders, run, and compared value by value."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from multimargin import datasets
from multimargin.errors import InputError

from .measuring import Cell, Settings, Step

__all__ = ["Table", "absent_data", "compared", "experiment", "find_tables", "picture", "reproduce"]

Table = dict[str, Any]
"""The content of a TOML file, with the names of its ``paper`` and of the ``table`` itself."""


def find_tables(paper: str | None = None, table: str | None = None) -> list[Table]:
    """Return the tables that can be run, and those that say why they cannot; of one paper or of one name."""
    tables = [
        {"paper": file.parent.name, "table": file.stem, **tomllib.loads(file.read_text(encoding="utf-8"))}
        for file in sorted(Path(__file__).parent.glob("*/*.toml"))
    ]
    for key, wanted in (("paper", paper), ("table", table)):
        names = list(dict.fromkeys(entry[key] for entry in tables))
        if wanted is not None and wanted not in names:
            close = get_close_matches(wanted, names, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            msg = f"There is no {key} called {wanted!r}.{hint} There is {', '.join(names)}."
            raise InputError(msg)
        tables = [entry for entry in tables if wanted in (None, entry[key])]
    return tables


def experiment(table: Table) -> Callable[[Settings, Step], list[Cell]]:
    """Return the function of the paper's folder that the table names."""
    function: Callable[[Settings, Step], list[Cell]] = _function(table, "experiment")
    return function


def picture(table: Table) -> Callable[[list[dict[str, Any]]], Any] | None:
    """Return the function that draws the rows of a result into a figure, if the table names one."""
    return _function(table, "picture") if "picture" in table else None


def _function(table: Table, key: str) -> Any:
    module, _, name = table[key].partition(".")
    return getattr(import_module(f"{__package__}.{table['paper']}.{module}"), name)


def absent_data(table: Table) -> str | None:
    """Return which data sets of a table are not on this machine, and cannot be downloaded, in a sentence; or None."""
    wanted = table["data"] if isinstance(table["data"], list) else [table["data"]]
    absent = [
        known.name
        for known in datasets.available()
        if known.name in wanted and not (known.on_disk or known.on_openml or "unavailable" in table)
    ]
    return f"{', '.join(absent)} is not on this machine: see multimargin datasets {absent[0]}." if absent else None


def reproduce(table: Table, small: bool, step: Step) -> dict[str, Any]:
    """Run the experiment of a table and compare it with what was published."""
    published = table["published"]
    settings = {**table.get("settings", {}), **(table.get("small", {}) if small else {})}
    if "unavailable" in table:
        nothing = {"setting": "", "ours": None, "spread": None, "headline": True, "difference": None, "verdict": None}
        rows = [{"name": name, "published": value, **nothing} for name, value in published.items()]
    else:
        cells = sorted(experiment(table)(settings, step), key=lambda cell: not cell["headline"])
        rows = [compared(cell, published.get(cell["name"]), *_rule(cell, table), small) for cell in cells]
        rows = [
            {**row, "verdict": row["verdict"] and "not comparable"} if not _comparable(row, table) else row
            for row in rows
        ]
    return {
        "paper": table["paper"],
        "table": table["table"],
        "title": table["title"],
        "small": small,
        "settings": settings,
        "unavailable": table.get("unavailable"),
        "deviations": table["deviations"],
        "decimals": table.get("decimals", 2),
        "rows": rows,
    }


def _comparable(row: dict[str, Any], table: Table) -> bool:
    """Whether a verdict means anything: a table says ``comparable = false``, or lists the rows where it does."""
    comparable: bool | list[str] = table.get("comparable", True)
    if isinstance(comparable, bool):
        return comparable
    return row.get("row", row["name"]) in comparable


def _rule(cell: Cell, table: Table) -> tuple[float, float]:
    """Tolerance and sign of a cell: of its measure where a table has several, of the whole table otherwise."""
    tolerance = table.get("tolerances", {}).get(cell.get("measure"), table["tolerance"])
    higher = cell.get("higher_is_better", table.get("higher_is_better", False))
    return tolerance, -1.0 if higher else 1.0


def compared(
    cell: Cell, published: float | None, tolerance: float, sign: float = 1.0, small: bool = False
) -> dict[str, Any]:
    """Return a cell with the published value, the difference and a verdict; none for small variants."""
    difference = None if published is None else cell["ours"] - published
    verdict = None
    if difference is not None and not small and cell.get("judged", True):
        verdict = "reproduced" if abs(difference) <= tolerance else "better" if sign * difference < 0 else "not reached"
    return {**cell, "published": published, "difference": difference, "verdict": verdict}

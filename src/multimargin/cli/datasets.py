"""``multimargin datasets``: the data sets that have a name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ._options import Json

__all__ = ["HELP", "run"]

HELP = """
List the data sets that have a name, or show one.

Embedded sets are always there. Others are read from the folder named by the environment variable
MULTIMARGIN_DATA, or fetched from OpenML. Cardinality = labels per row.

Examples:

  multimargin datasets

  multimargin datasets scene --json
"""

Name = Annotated[str | None, typer.Argument(help="Show this data set.", metavar="NAME")]


def run(name: Name = None, json: Json = False) -> None:
    """Run the verb."""
    from ._data import known_sets
    from ._output import print_json

    sets = known_sets()
    if name is not None:
        _show_one(_find(name, sets), json)
    elif json:
        print_json(sets)
    else:
        _show_all(sets)


def _find(name: str, sets: list[dict[str, Any]]) -> dict[str, Any]:
    from multimargin.errors import InputError

    from ._models import did_you_mean

    for entry in sets:
        if entry["name"] == name:
            return entry
    hint = did_you_mean(name, [entry["name"] for entry in sets])
    msg = f"There is no data set called {name!r}.{hint} See: multimargin datasets"
    raise InputError(msg)


def _show_one(entry: dict[str, Any], json: bool) -> None:
    from ._output import console, facts_table, print_json

    if json:
        print_json(entry)
        return
    shown = {key: value for key, value in entry.items() if value not in ([], None)}
    if "files" in shown:
        shown["files"] = ", ".join(shown["files"])
    console().print(facts_table(shown))


def _show_all(sets: list[dict[str, Any]]) -> None:
    from ._output import console, table

    counts = ("train", "test", "features", "labels")
    rows = [
        (
            entry["name"],
            *(f"{entry[key]:,}" for key in counts),
            "" if entry["cardinality"] is None else f"{entry['cardinality']:.2f}",
            entry["where"],
        )
        for entry in sets
    ]
    console().print(table(("name", *counts, "cardinality", "where"), rows))

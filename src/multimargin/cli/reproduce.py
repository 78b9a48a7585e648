"""``multimargin reproduce``: the tables and figures of the papers, published against ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Json

__all__ = ["HELP", "run"]

HELP = """
Run the experiments of a paper and compare with its published values.

Settings and published values are in the folder papers/ of the repository, one file per table or figure. A verdict
is "reproduced" within the tolerance of the table, "better" or "not reached" outside it. Numbers that the paper does
not have stand beside them without a verdict, and so do seconds of another machine and all of a small variant. A table
whose data are not at hand is listed, and says why it cannot be run.

Examples:

  multimargin reproduce --list

  multimargin reproduce hariharan2012 --table awa

  multimargin reproduce hariharan2012 --small --json
"""

Paper = Annotated[str | None, typer.Argument(help="The folder of a paper, such as hariharan2012.", metavar="PAPER")]
Table = Annotated[str | None, typer.Option("--table", help="Only this table or figure.", metavar="NAME")]
List = Annotated[bool, typer.Option("--list", help="Show what can be reproduced, and run nothing.")]
Small = Annotated[bool, typer.Option("--small", help="A quick variant: fewer draws, a smaller grid.")]
Folder = Annotated[
    Path | None, typer.Option("--papers", help="The folder papers/, if not run from the repository.", metavar="FOLDER")
]


def run(
    paper: Paper = None,
    table: Table = None,
    listing: List = False,
    small: Small = False,
    papers: Folder = None,
    json: Json = False,
) -> None:
    """Run the verb."""
    from multimargin.errors import InputError

    from ._output import print_json

    found = _tables(_folder(papers), paper, table)
    if listing:
        _show_list(found, json)
        return
    if paper is None:
        msg = f"Which paper? There is {', '.join(sorted({entry['paper'] for entry in found}))}."
        raise InputError(msg)
    results = [_reproduce(entry, small) for entry in found]
    if json:
        print_json(results)
        return
    for result in results:
        _show(result)


def _folder(given: Path | None) -> Path:
    from multimargin.errors import InputError

    folder = given or Path(__file__).parents[3] / "papers"
    if not folder.is_dir():
        msg = f"The settings of the papers are not at {folder}. Give the repository's folder papers/: --papers FOLDER."
        raise InputError(msg)
    return folder


def _tables(folder: Path, paper: str | None, table: str | None) -> list[dict[str, Any]]:
    import tomllib

    from multimargin.errors import InputError

    from ._models import did_you_mean

    entries = [
        {"paper": file.parent.name, "table": file.stem, **tomllib.loads(file.read_text(encoding="utf-8"))}
        for file in sorted(folder.glob("*/*.toml"))
    ]
    # Others only record what was published.
    entries = [entry for entry in entries if "experiment" in entry or "unavailable" in entry]
    for key, wanted in (("paper", paper), ("table", table)):
        if wanted is None:
            continue
        names = sorted({entry[key] for entry in entries})
        if wanted not in names:
            msg = f"There is no {key} called {wanted!r}.{did_you_mean(wanted, names)} See: multimargin reproduce --list"
            raise InputError(msg)
        entries = [entry for entry in entries if entry[key] == wanted]
    return entries


def _reproduce(entry: dict[str, Any], small: bool) -> dict[str, Any]:
    from ._output import status
    from .experiments import EXPERIMENTS

    published = entry["published"]
    settings = {**entry.get("settings", {}), **(entry.get("small", {}) if small else {})}
    if "unavailable" in entry:
        rows = [_only_published(name, value) for name, value in published.items()]
    else:
        with status(f"{entry['paper']}: {entry['table']}") as step:
            cells = EXPERIMENTS[entry["experiment"]](settings, step)
        rows = [_compared(cell, published.get(cell["name"]), *_rule(cell, entry), small) for cell in cells]
    return {
        "paper": entry["paper"],
        "table": entry["table"],
        "title": entry["title"],
        "small": small,
        "settings": settings,
        "unavailable": entry.get("unavailable"),
        "deviations": entry["deviations"],
        "rows": rows,
    }


def _only_published(name: str, value: float) -> dict[str, Any]:
    cell = {"name": name, "setting": "", "ours": None, "spread": None, "headline": True}
    return {**cell, "published": value, "difference": None, "verdict": None}


def _rule(cell: dict[str, Any], entry: dict[str, Any]) -> tuple[float, float]:
    """Tolerance and sign of a cell: of its measure where a table has several, of the whole table otherwise."""
    tolerance = entry.get("tolerances", {}).get(cell.get("measure"), entry["tolerance"])
    higher = cell.get("higher_is_better", entry.get("higher_is_better", False))
    return tolerance, -1.0 if higher else 1.0


def _compared(
    cell: dict[str, Any], published: float | None, tolerance: float, sign: float = 1.0, small: bool = False
) -> dict[str, Any]:
    difference = None if published is None else cell["ours"] - published
    verdict = None
    if difference is not None and not small and cell.get("judged", True):
        verdict = "reproduced" if abs(difference) <= tolerance else "better" if sign * difference < 0 else "not reached"
    return {**cell, "published": published, "difference": difference, "verdict": verdict}


def _show_list(entries: list[dict[str, Any]], json: bool) -> None:
    from ._output import console, facts_table, print_json

    if json:
        keys = ("paper", "table", "title", "data", "unavailable")
        print_json([{key: entry.get(key) for key in keys} for entry in entries])
        return
    titles = {f"{entry['paper']} --table {entry['table']}": _listed(entry) for entry in entries}
    console().print(facts_table(titles))


def _listed(entry: dict[str, Any]) -> str:
    return f"{entry['title']} (cannot be run: data not at hand)" if "unavailable" in entry else str(entry["title"])


def _show(result: dict[str, Any]) -> None:
    from rich.table import Table

    from ._output import console

    screen = console()
    screen.print(f"\n[bold]{result['title']}[/bold]" + (" (small variant)" if result["small"] else ""))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    for name in ("published", "ours", "sd", "difference"):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), 5))
    table.add_column("verdict", no_wrap=True, min_width=len("not reached"))
    for row in result["rows"]:
        numbers = [row["published"], row["ours"], row["spread"]]
        texts = ["" if value is None else f"{value:.2f}" for value in numbers]
        difference = "" if row["difference"] is None else f"{row['difference']:+.2f}"
        table.add_row(row["name"], *texts, difference, row["verdict"] or "")
    screen.print(table)
    for setting in dict.fromkeys(row["setting"] for row in result["rows"] if row["headline"] and row["setting"]):
        screen.print(f"  - Rows without a setting of their own: {setting}.", markup=False)
    if result["unavailable"]:
        screen.print(f"  - Not run: {result['unavailable']}", markup=False)
    for sentence in result["deviations"]:
        screen.print(f"  - {sentence}", markup=False)

"""Tables of a paper's README, written by the command that measures them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from multimargin.errors import InputError

__all__ = ["markdown", "write_picture", "write_table"]


def write_table(result: dict[str, Any]) -> Path:
    """Put the table of a result into the README of its paper, between the two comments that carry its name."""
    readme = Path(__file__).parent / str(result["paper"]) / "README.md"
    text = readme.read_text(encoding="utf-8")
    begin, end = f"<!-- {result['table']}: written by the command -->\n", f"<!-- end of {result['table']} -->"
    if begin not in text or end not in text:
        msg = (
            f"{readme} has no place for the table {result['table']!r}. Put these two lines where it belongs: "
            f"{begin.strip()} and {end}"
        )
        raise InputError(msg)
    before, rest = text.split(begin, 1)
    readme.write_text(f"{before}{begin}\n{markdown(result)}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
    return readme


def write_picture(result: dict[str, Any], figure: Any) -> Path:
    """Put the picture of a result beside the README of its paper."""
    file = Path(__file__).parent / str(result["paper"]) / f"{result['table']}.png"
    figure.savefig(file, dpi=90)
    return file


def markdown(result: dict[str, Any]) -> str:
    """Return the headline rows: laid out where each says its row and column, otherwise one below the other."""
    rows = [row for row in result["rows"] if row["headline"]]
    if all("column" in row for row in rows):
        return _laid_out(rows)
    lines = [
        [row["name"], _number(row["published"]), _ours(row), _list_of(row.get("values")), row["verdict"] or ""]
        for row in rows
    ]
    return _table(["", "published", "ours (sd)", "each", "verdict"], lines)


def _laid_out(rows: list[dict[str, Any]]) -> str:
    """Return a table; numbers in the same place stand beside each other, and published ones in a line above."""
    columns = list(dict.fromkeys(row["column"] for row in rows))
    places: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        places.setdefault(row["row"], {}).setdefault(row["column"], []).append(row)
    lines = []
    for name, cells in places.items():
        inside = [cells.get(column, []) for column in columns]
        published = [_beside(_number(row["published"]) for row in there) for there in inside]
        if any(published):
            lines.append([f"{name}, published", *published, ""])
        verdicts = _beside((row["verdict"] or "" for there in inside for row in there), ", ")
        lines.append([name, *(_beside(_ours(row) for row in there) for there in inside), verdicts])
    return _table(["", *columns, "verdicts"], lines)


def _beside(words: Iterable[str], between: str = " / ") -> str:
    return between.join(word for word in words if word)


def _ours(row: dict[str, Any]) -> str:
    return _number(row["ours"]) + (f" ({_number(row['spread'])})" if row["spread"] is not None else "")


def _list_of(values: list[float] | None) -> str:
    return " ".join(map(_number, values)) if values and len(values) > 1 else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".removesuffix(".00")


def _table(header: list[str], lines: list[list[str]]) -> str:
    filled = [place for place in range(len(header)) if any(line[place] for line in lines)]
    cells = [[line[place] for place in filled] for line in (header, ["---"] * len(header), *lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)

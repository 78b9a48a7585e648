"""Tables of a paper's README, written by the command that measures them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multimargin.errors import InputError

__all__ = ["markdown", "write_picture", "write_table"]

ROUNDING = 1e-9


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
    """Return the headline rows, and those of a part with a title of its own, one table below the other.

    A part is laid out where each row says its row and column; otherwise its rows stand one below the other.
    """
    parts: dict[str, list[_Text]] = {}
    for row in result["rows"]:
        if row["headline"] or "part" in row:
            parts.setdefault(row.get("part", ""), []).append(_Text.of(row, result.get("decimals", 2)))
    return "\n".join((f"{title}:\n\n" if title else "") + _part(texts) for title, texts in parts.items())


@dataclass(frozen=True)
class _Text:
    """A row in words: where it stands, and what stands there."""

    name: str
    row: str
    column: str | None
    published: str
    ours: str
    each: str
    verdict: str

    @classmethod
    def of(cls, row: dict[str, Any], decimals: int) -> _Text:
        def number(value: float | None) -> str:
            return "" if value is None else _number(value, decimals)

        spread = f" ({number(row['spread'])})" if row["spread"] is not None else ""
        values = row.get("values") or []
        return cls(
            row["name"],
            row.get("row", ""),
            row.get("column"),
            number(row["published"]),
            number(row["ours"]) + spread,
            " ".join(map(number, values)) if len(values) > 1 else "",
            row["verdict"] or "",
        )


def _part(texts: list[_Text]) -> str:
    if all(text.column is not None for text in texts):
        return _laid_out(texts)
    lines = [[text.name, text.published, text.ours, text.each, text.verdict] for text in texts]
    return _table(["", "published", "ours (sd)", "each", "verdict"], lines)


def _laid_out(texts: list[_Text]) -> str:
    """Return a table; numbers in the same place stand beside each other, and published ones in a line above."""
    columns = list(dict.fromkeys(str(text.column) for text in texts))
    places: dict[str, dict[str, list[_Text]]] = {}
    for text in texts:
        places.setdefault(text.row, {}).setdefault(str(text.column), []).append(text)
    lines = []
    for name, cells in places.items():
        inside = [cells.get(column, []) for column in columns]
        published = [_beside(text.published for text in there) for there in inside]
        if any(published):
            lines.append([f"{name}, published", *published, ""])
        verdicts = _beside((text.verdict for there in inside for text in there), ", ")
        lines.append([name, *(_beside(text.ours for text in there) for there in inside), verdicts])
    return _table(["", *columns, "verdicts"], lines)


def _beside(words: Iterable[str], between: str = " / ") -> str:
    return between.join(word for word in words if word)


def _number(value: float, decimals: int) -> str:
    """So many decimals, none for whole numbers; one digit of a small number, unless it is a trace of rounding."""
    text = f"{value:.{decimals}f}"
    if not float(text):
        return f"{value:.1g}" if abs(value) > ROUNDING else "0"
    return text.removesuffix(f".{'0' * decimals}")


def _table(header: list[str], lines: list[list[str]]) -> str:
    filled = [place for place in range(len(header)) if any(line[place] for line in lines)]
    cells = [[line[place] for place in filled] for line in (header, ["---"] * len(header), *lines)]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)

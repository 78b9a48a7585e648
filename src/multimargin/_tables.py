"""Small tables, as plain text and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["aligned", "html_table"]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as lines: the first column to the left, the others to the right.

    Examples
    --------
    >>> print(aligned([["label", "rows"], ["sea", "12"], ["mountain", "3"]]))
    label     rows
    sea         12
    mountain     3
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def html_table(rows: Sequence[Sequence[str]], *, head: bool = True, note: str = "") -> str:
    """Return rows of cells as an HTML table, the first row its head; every cell is escaped.

    Examples
    --------
    >>> html_table([["label", "rows"], ["<sea>", "12"]]).count("&lt;sea&gt;")
    1
    """
    caption = f"<caption style='caption-side:bottom;text-align:left'>{escape(note)}</caption>" if note else ""
    top = f"<thead>{_html_row(rows[0], 'th')}</thead>" if head else ""
    body = "".join(_html_row(row, "td") for row in rows[head:])
    return f"<table>{caption}{top}<tbody>{body}</tbody></table>"


def _html_row(cells: Sequence[str], tag: str) -> str:
    first, *others = (escape(cell.strip()) for cell in cells)
    numbers = "".join(f"<{tag} style='text-align:right'>{cell}</{tag}>" for cell in others)
    return f"<tr><th style='text-align:left'>{first}</th>{numbers}</tr>"

"""Plain text tables."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned"]


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

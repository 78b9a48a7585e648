"""``multimargin demo``: see what it does on real data, offline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from multimargin.cli._options import Json

__all__ = ["HELP", "run"]

HELP = """
Learn from handwritten digits, here and now, and write a page of pictures.

First the strokes of digits never seen in training: one-vs-all against M3L, which minimises
[bold]1/2 tr(Z R⁺ Zᵀ) + C · Σ max(0, 1 - y z·x)[/bold] with the prior [bold]R = mean of s sᵀ[/bold] over the
signatures s of the unseen digits. Then which digits are in a strip. No network is needed, and it takes less
than a minute.

Example:

  multimargin demo --out multimargin-demo
"""

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the page.", metavar="FOLDER")]


def run(out: Out = Path("multimargin-demo"), json: Json = False) -> None:
    """Run the verb."""
    _check_folder(out)
    start = time.perf_counter()
    from multimargin.cli._output import print_json, steps
    from multimargin.report import write_page

    from .page import demo_page
    from .strips import run_strips
    from .strokes import run_strokes

    with steps(total=12) as step:
        strokes = run_strokes(step)
        strips = run_strips(step)
        step("the page")
        path = write_page(demo_page(strokes, strips), out)
    seconds = time.perf_counter() - start
    if json:
        page = {"page": str(path), "seconds": round(seconds, 1)}
        print_json({"strokes": strokes.as_dict(), "strips": strips.as_dict(), **page})
    else:
        _show(strokes, strips, path, seconds)


def _check_folder(folder: Path) -> None:
    from multimargin.errors import InputError

    if folder.exists() and not folder.is_dir():
        msg = f"The page goes into a folder; {folder} is a file. Give another --out."
        raise InputError(msg)


def _show(strokes: Any, strips: Any, path: Path, seconds: float) -> None:
    from multimargin.cli._output import console, table

    from .strips import MEASURES

    screen = console()
    unseen = len(strokes.splits[0].unseen)
    title = f"Strokes of {unseen} digits never seen, mean of {len(strokes.splits)} splits"
    screen.print(table(("", "wrong strokes", "digits named right"), strokes.table(), title))
    for finding in strokes.findings():
        screen.print(f"  {finding}", markup=False)
    screen.print()
    screen.print(table(("", *MEASURES.values()), strips.table(), "Which digits are in the strip"))
    for finding in strips.findings():
        screen.print(f"  {finding}", markup=False)
    screen.print()
    screen.print(f"{seconds:.0f} seconds. The page of pictures: {path}", markup=False)

"""``multimargin demo``: see what it does on real data, offline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multimargin.cli._options import Json

if TYPE_CHECKING:
    from rich.table import Table

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
    from multimargin.cli._output import print_json
    from multimargin.report import write_page

    from .page import demo_page
    from .strips import run_strips
    from .strokes import run_strokes

    with _steps(total=12) as step:
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


@contextmanager
def _steps(total: int) -> Iterator[Callable[[str], None]]:
    """Give a function to announce the next step: a bar on a terminal, nothing otherwise."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)

        def step(what: str) -> None:
            bar.update(task, description=what, advance=1)

        yield step


def _show(strokes: Any, strips: Any, path: Path, seconds: float) -> None:
    from multimargin.cli._output import console

    from .strips import MEASURES

    screen = console()
    unseen = len(strokes.splits[0].unseen)
    title = f"Strokes of {unseen} digits never seen, mean of {len(strokes.splits)} splits"
    screen.print(_table(title, ("", "wrong strokes", "digits named right"), strokes.table()))
    for finding in strokes.findings():
        screen.print(f"  {finding}", markup=False)
    screen.print()
    screen.print(_table("Which digits are in the strip", ("", *MEASURES.values()), strips.table()))
    for finding in strips.findings():
        screen.print(f"  {finding}", markup=False)
    screen.print()
    screen.print(f"{seconds:.0f} seconds. The page of pictures: {path}", markup=False)


def _table(title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for k, name in enumerate(header):
        table.add_column(name, justify="right" if k else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table

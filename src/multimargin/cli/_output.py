"""What the command shows: tables for people, JSON for machines, and progress on standard error."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from multimargin._plain import plain

__all__ = [
    "Step",
    "console",
    "facts_table",
    "fit_progress",
    "held_out_facts",
    "path_progress",
    "print_json",
    "status",
    "steps",
    "table",
]

QUIET_SECONDS = 10.0

Callback = Callable[[Any], bool | None]
Step = Callable[[str], None]
"""Told what is being worked on."""


def console() -> Console:
    """Return a console on standard output."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())


def print_json(value: Any) -> None:
    """Print one JSON document; NaN and infinity become null."""
    sys.stdout.write(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def held_out_facts(report: Any) -> dict[str, Any]:
    """Return a report on rows held out, if there is one, for a JSON document."""
    return {} if report is None else {"held_out": {"rows": report.n_samples, "report": report.to_dict()}}


def facts_table(facts: Mapping[str, Any]) -> Table:
    """Return a table of two columns, name and value, without lines."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), str(value))
    return table


def table(header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """Return a table whose first column names the rows."""
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for k, name in enumerate(header):
        made.add_column(name, justify="right" if k else "left", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


@contextmanager
def steps(total: int) -> Iterator[Step]:
    """Give a function to announce the next of several steps: a bar on a terminal, nothing otherwise."""
    errors = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)


def status(what: str) -> AbstractContextManager[Any]:
    """Show what is being done beside a spinner, on a terminal; nothing otherwise."""
    errors = Console(stderr=True)
    return errors.status(what) if errors.is_terminal else nullcontext()


@contextmanager
def fit_progress(what: str, tol: float) -> Iterator[Callback]:
    """Give a callback for an estimator that shows how far its duality gap has closed.

    A bar on a terminal; otherwise one line on standard error every ten seconds.
    """
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield _quiet_lines(what)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, TimeElapsedColumn(), console=errors, transient=True) as bar:
        yield _moving_bar(bar, what, tol)


@contextmanager
def path_progress(what: str) -> Iterator[Callback]:
    """Give a callback for a search over many fits: a bar with the time left, or a line every ten seconds."""
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    last = time.monotonic()
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(what, total=1.0, state="first fit")

        def update(progress: Any) -> None:
            nonlocal last
            state = (
                f"fit {progress.done} of {progress.total}, C = {progress.C:.3g}, about {progress.time_left:.0f} s left"
            )
            bar.update(task, completed=progress.done / progress.total, state=state)
            if not errors.is_terminal and time.monotonic() - last >= QUIET_SECONDS:
                last = time.monotonic()
                sys.stderr.write(f"{what}: {state}\n")

        yield update


def _moving_bar(bar: Progress, what: str, tol: float) -> Callback:
    task = bar.add_task(what, total=1.0, state="first pass")
    gaps: list[float] = []

    def update(progress: Any) -> None:
        gap = _relative_gap(progress)
        if gap is not None:
            gaps[1:] = [gap]  # the first and the last
        if gaps:
            done = _share_closed(gaps[0], gaps[-1], tol)
            bar.update(task, completed=done, state=f"pass {progress.pass_}, gap {gaps[-1]:.1e} of {tol:.0e}")

    return update


def _quiet_lines(what: str) -> Callback:
    last = time.monotonic()

    def update(progress: Any) -> None:
        nonlocal last
        gap = _relative_gap(progress)
        if gap is not None and time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{what}: pass {progress.pass_}, {progress.time:.0f} s, relative gap {gap:.1e}\n")

    return update


def _relative_gap(progress: Any) -> float | None:
    if progress.gap is None:
        return None
    return max(float(progress.gap), 0.0) / (float(progress.primal) if progress.primal > 0 else 1.0)


def _share_closed(first: float, gap: float, tol: float) -> float:
    """How much of the way from the first gap to the tolerance is done, on a logarithmic scale."""
    if gap <= tol or first <= tol:
        return 1.0
    return min(max(math.log(first / gap) / math.log(first / tol), 0.0), 1.0)

"""``python -m papers``: run the experiments of a paper and compare with its published values."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from multimargin.errors import InputError

from .measuring import Step
from .readme import write_picture, write_table
from .tables import Table, absent_data, find_tables, picture, reproduce

__all__ = ["main"]

ABOUT = """
Run the experiments of a paper and compare with its published values; without a name, list what there is.

Settings and published values are beside the experiments, one file per table or figure. A verdict is "reproduced"
within the tolerance of the table, "better" or "not reached" outside it; "not comparable" where the data are others, and
the deviations say how. Numbers that the paper does not have stand beside them without a verdict, and so do seconds of
another machine and all of a small variant. A table whose data are not at hand is listed, and says why it cannot be run;
one whose data can be had is left out of a run of the whole paper, and run by its name says which files to put where.
"""
EXAMPLES = """
examples:
  python -m papers
  python -m papers tan2015 table2
  python -m papers hariharan2012 --small --json
  python -m papers guo2013 scene --write
"""
QUIET_SECONDS = 10.0
HEADER = ("", "published", "ours", "sd", "difference", "verdict")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        msg = f"{message}. See: python -m papers --help"
        raise InputError(msg)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for bad input with one sentence on standard error."""
    try:
        _run(arguments)
    except (InputError, OSError) as error:
        sys.stderr.write(f"papers: {str(error).splitlines()[0]}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("papers: interrupted.\n")
        return 130
    return 0


def _run(arguments: Sequence[str] | None) -> None:
    parser = _Parser("papers", description=ABOUT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", nargs="?", help="a folder, such as hariharan2012")
    parser.add_argument("table", nargs="?", help="only this table or figure")
    parser.add_argument("--list", action="store_true", help="show what can be reproduced, and run nothing")
    parser.add_argument("--small", action="store_true", help="a quick variant: fewer draws, a smaller grid")
    parser.add_argument("--json", action="store_true", help="answer as one JSON document on standard output")
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the table into the README of the paper as well, and its picture beside it",
    )
    words = parser.parse_args(arguments)
    if words.write and words.small:
        parser.error("--write is for the whole table, --small for a look at it: leave out one of them")
    tables = find_tables(words.paper, words.table)
    if words.list or words.paper is None:
        _show_list(tables, words.json)
        return
    results = []
    with _one_line_warnings():
        for table in tables:
            if words.table is None and (absent := absent_data(table)):
                table = {**table, "unavailable": absent}
            with _progress(f"{table['paper']} {table['table']}") as step:
                results.append(reproduce(table, words.small, step))
            if words.write:
                write_table(results[-1])
                if draw := picture(table):
                    write_picture(results[-1], draw(results[-1]["rows"]))
            if not words.json:
                _show(results[-1])
    if words.json:
        _print_json(results)


def _print_json(value: Any) -> None:
    """Print one JSON document; NaN and infinity become null."""
    plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
    print(json.dumps(plain, indent=2, ensure_ascii=False))


@contextmanager
def _progress(what: str) -> Iterator[Step]:
    """Tell on standard error what is worked on: in one line of a terminal; otherwise every ten seconds at most."""
    terminal, last = sys.stderr.isatty(), time.monotonic()

    def step(words: str) -> None:
        nonlocal last
        if terminal:
            sys.stderr.write(f"\r\x1b[K{what}: {words}")
            sys.stderr.flush()
        elif time.monotonic() - last >= QUIET_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{what}: {words}\n")

    try:
        yield step
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        sys.stderr.write(f"warning: {' '.join(str(message).split())}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("default", RuntimeWarning)
        warnings.showwarning = show
        yield


def _show_list(tables: list[Table], as_json: bool) -> None:
    if as_json:
        keys = ("paper", "table", "title", "data", "unavailable")
        _print_json([{key: table.get(key) for key in keys} for table in tables])
        return
    names = [f"{table['paper']} {table['table']}" for table in tables]
    for name, table in zip(names, tables, strict=True):
        missing = " (cannot be run: data not at hand)" if "unavailable" in table else ""
        print(f"{name:<{max(map(len, names))}}  {table['title']}{missing}")


def _show(result: dict[str, Any]) -> None:
    lines = [HEADER, *map(_line, result["rows"])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{result['title']}" + (" (small variant)" if result["small"] else ""))
    for name, *numbers, verdict in lines:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:-1], strict=True)]
        print("  ".join([name.ljust(widths[0]), *cells, verdict]).rstrip())
    for setting in dict.fromkeys(row["setting"] for row in result["rows"] if row["headline"] and row["setting"]):
        print(f"  - Rows without a setting of their own: {setting}.")
    if result["unavailable"]:
        print(f"  - Not run: {result['unavailable']}")
    for sentence in result["deviations"]:
        print(f"  - {sentence}")


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = ["" if row[key] is None else f"{row[key]:.2f}" for key in ("published", "ours", "spread")]
    difference = "" if row["difference"] is None else f"{row['difference']:+.2f}"
    return (row["name"], *numbers, difference, row["verdict"] or "")


if __name__ == "__main__":
    sys.exit(main())

"""``multimargin datasets``: the data sets that have a name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ._options import Json

__all__ = ["HELP", "run"]

HELP = """
List the data sets that have a name, or show one.

Embedded sets are always there. Others are read from the folder in the environment variable MULTIMARGIN_DATA, or
fetched from OpenML.

Examples:

  multimargin datasets

  multimargin datasets scene --json
"""

Name = Annotated[str | None, typer.Argument(help="Show this data set.", metavar="NAME")]


def run(name: Name = None, json: Json = False) -> None:
    """Run the verb."""
    raise NotImplementedError

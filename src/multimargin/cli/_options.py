"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Format", "Json", "Labels", "ModelFile", "TestData"]

Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="Which columns are labels: the XML file of a Mulan data set, column names separated by commas, "
        "or how many (the first ones; negative: the last). MEKA, LIBSVM, XMC and npz files need none.",
        metavar="XML|NAMES|COUNT",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="File format, where the extension does not tell.", metavar="NAME"),
]
Json = Annotated[bool, typer.Option("--json", help="Answer as one JSON document on standard output.")]
TestData = Annotated[
    str, typer.Argument(help="A data file, or the name of a data set (its test split).", metavar="DATA")
]
ModelFile = Annotated[Path, typer.Argument(help="A model file written by fit.", metavar="MODEL")]

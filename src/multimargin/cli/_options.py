"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AllowUnconverged",
    "Format",
    "Json",
    "Labels",
    "ModelFile",
    "ModelOut",
    "Parameter",
    "Prior",
    "TestData",
]

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
ModelOut = Annotated[Path | None, typer.Option("--out", "-o", help="The model file to write.", metavar="FILE")]
Parameter = Annotated[
    list[str] | None,
    typer.Option("--parameter", "-p", help="A parameter of the model; may be repeated.", metavar="NAME=VALUE"),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        help="Which labels go together: 'labels' for the correlations of the training labels, or a .npy or "
        ".csv file with a positive semidefinite matrix, one row per label.",
        metavar="labels|FILE",
    ),
]
AllowUnconverged = Annotated[
    bool, typer.Option("--allow-unconverged", help="Exit with code 0 also where the fit did not converge.")
]

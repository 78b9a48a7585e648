"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AllowUnconverged",
    "Category",
    "Format",
    "Ignore",
    "Json",
    "Labels",
    "Missing",
    "ModelFile",
    "ModelOut",
    "Parameter",
    "Prior",
    "Scale",
    "Signatures",
    "Split",
    "TestData",
    "TestSize",
    "Text",
]

Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="Which columns are labels: the XML file of a Mulan data set, column names separated by commas, "
        "or how many (the first ones; negative: the last). MEKA, LIBSVM, XMC and npz files need none. In JSON and "
        "Parquet one column may hold lists of labels. An empty cell, or ? in ARFF, is an unknown label.",
        metavar="XML|NAMES|COUNT",
    ),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="File format, where the extension does not tell.", metavar="NAME"),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        help="A column that is neither feature nor label, such as an identifier; may be repeated. The model file "
        "remembers it.",
        metavar="COLUMN",
    ),
]
Text = Annotated[
    str | None,
    typer.Option(
        "--text",
        help="The column whose texts are the features, as TF-IDF inside the model; columns that are no labels are left "
        "out. The model file remembers it.",
        metavar="COLUMN",
    ),
]
Scale = Annotated[
    bool,
    typer.Option(
        "--scale",
        help="Scale inside the model: columns to mean 0 and variance 1, or sparse rows to length 1. Texts always are, "
        "as are the features of tune without --model.",
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="Fill missing features, inside the model, by the mean or the median of their column in training.",
        metavar="mean|median|error",
    ),
]
TestSize = Annotated[
    float | None,
    typer.Option(
        "--test-size",
        help="Hold out this share of the rows (or so many rows), with as much of every label, and report on them; the "
        "model is trained on the others.",
        metavar="SHARE",
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Hold out the rows that have 'test' in this column, train on those that have 'train', and report on the "
        "former.",
        metavar="COLUMN",
    ),
]
Signatures = Annotated[
    Path | None,
    typer.Option(
        "--signatures",
        help="Attributes of categories: a CSV, Parquet or JSON table with a row per category, its name in the first "
        "column, and a column of 0 and 1, or no and yes, per attribute.",
        metavar="FILE",
    ),
]
Category = Annotated[
    str | None,
    typer.Option(
        "--category",
        help="The column with the category of each row, for models with --signatures. The model file remembers it.",
        metavar="COLUMN",
    ),
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

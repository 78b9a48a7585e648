"""Categories and their attributes, from a table."""

from collections import Counter

import numpy as np

from multimargin.datasets.formats import column_names, read
from multimargin.datasets.formats.source import FilePath
from multimargin.errors import FileFormatError

__all__ = ["read_signatures"]


def read_signatures(path: FilePath, *, format: str | None = None) -> dict[str, dict[str, int]]:
    r"""Read the attributes of categories: a row per category, its name in the first column, and a column per attribute.

    Parameters
    ----------
    path : path
        A CSV, Parquet, JSON or ARFF file, optionally gzipped. Names of categories are texts, attributes 0 or 1,
        true/false, yes/no or Y/N, all of them known.
    format : {"csv", "parquet", "json", "arff"} or None, default=None
        None: by the ending of the name, or by the content.

    Returns
    -------
    dict
        For each category a dict from attributes to 0 or 1, as :class:`multimargin.ZeroShotClassifier` takes them.

    Raises
    ------
    FileFormatError
        The file is malformed, names a category twice or not at all, or leaves a cell open.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import read_signatures
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "animals.csv"
    >>> _ = path.write_text("animal,stripes,hooves\ntiger,yes,no\nhorse,no,yes\nzebra,yes,yes\n")
    >>> read_signatures(path)["zebra"]
    {'stripes': 1, 'hooves': 1}
    """
    first, *attributes = column_names(path, format) or [""]
    if not attributes:
        msg = (
            f"{path}: expected a column with the names of categories and a column per attribute, found no two columns "
            f"with names; write a CSV file with a first line such as category,stripes,hooves"
        )
        raise FileFormatError(msg)
    table = read(path, format=format, labels=attributes, text=first)
    categories = [name.strip() for name in table.X.tolist()]
    if "" in categories:
        row = categories.index("") + 1
        msg = f"{path}: every row must name its category in column {first!r}, found none in row {row}; name it"
        raise FileFormatError(msg)
    twice = [name for name, count in Counter(categories).items() if count > 1]
    if twice:
        msg = f"{path}: every category must have one row, found {twice[0]!r} twice in column {first!r}; remove one"
        raise FileFormatError(msg)
    cells = table.Y.toarray()
    if np.isnan(cells).any():
        row, column = np.argwhere(np.isnan(cells))[0]
        msg = (
            f"{path}: every attribute of a category must be known, found no value of {attributes[column]!r} for "
            f"{categories[row]!r}; write 0 or 1, or leave the category out"
        )
        raise FileFormatError(msg)
    rows = cells.astype(int).tolist()
    return {name: dict(zip(attributes, row, strict=True)) for name, row in zip(categories, rows, strict=True)}

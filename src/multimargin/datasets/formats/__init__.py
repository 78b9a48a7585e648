"""Readers of multi-label data files. A new format is one new file and one line in ``FORMATS``."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multimargin.datasets.dataset import Dataset
from multimargin.datasets.formats.arff import arff_columns, read_arff
from multimargin.datasets.formats.columns import Labels
from multimargin.datasets.formats.npz import read_npz
from multimargin.datasets.formats.records import json_columns, read_json
from multimargin.datasets.formats.source import FilePath, peek, unpacked_name
from multimargin.datasets.formats.sparse_text import read_libsvm, read_xmc
from multimargin.datasets.formats.tables import csv_columns, parquet_columns, read_csv, read_parquet
from multimargin.errors import FileFormatError, InputError

__all__ = [
    "FORMATS",
    "column_names",
    "format_of",
    "read",
    "read_arff",
    "read_csv",
    "read_json",
    "read_libsvm",
    "read_npz",
    "read_parquet",
    "read_xmc",
]


@dataclass(frozen=True)
class Format:
    """A file format: its reader, the endings of file names that mean it for certain, and how its columns are named."""

    read: Callable[..., Dataset]
    endings: tuple[str, ...]
    columns: Callable[[FilePath], list[str]] | None = None

    def options(self) -> list[str]:
        """Return the keywords its reader takes."""
        return [name for name in inspect.signature(self.read).parameters if name != "path"]


FORMATS = {
    "arff": Format(read_arff, (".arff",), arff_columns),
    "libsvm": Format(read_libsvm, (".svm", ".libsvm", ".svmlight")),
    "xmc": Format(read_xmc, (".xmc",)),
    "csv": Format(read_csv, (".csv", ".tsv"), csv_columns),
    "parquet": Format(read_parquet, (".parquet", ".pq"), parquet_columns),
    "npz": Format(read_npz, (".npz",)),
    "json": Format(read_json, (".json", ".jsonl", ".ndjson"), json_columns),
}


def read(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    format: str | None = None,
    **options: Any,
) -> Dataset:
    r"""Read a multi-label data file.

    Parameters
    ----------
    path : path
        The file. Any format may be compressed by gzip or bzip2.
    labels : path of a Mulan XML file, list of names, int or None, default=None
        Which columns are labels (ARFF, CSV, Parquet, JSON), or the names of the labels (LIBSVM, XMC, npz). None
        suffices for MEKA ARFF, LIBSVM, XMC and npz.
    need_labels : bool, default=True
        Whether a file must have labels. False: one without the label columns, or without Y, is read as features only.
        In LIBSVM and XMC files any row may have no labels.
    format : {"arff", "libsvm", "xmc", "csv", "parquet", "npz", "json"} or None, default=None
        None: by the ending of the name, or by the content if the ending says nothing (.txt, .data).
    **options
        Options of the reader of that format: see :func:`read_arff`, :func:`read_libsvm`, :func:`read_xmc`,
        :func:`read_csv`, :func:`read_parquet`, :func:`read_npz`, :func:`read_json`.

    Returns
    -------
    Dataset

    Raises
    ------
    FileFormatError
        The file is malformed. The message begins with the path and the line.
    InputError
        The file cannot be opened, or an argument is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin import datasets
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("1,3 1:0.5 4:2\n2 2:1\n")
    >>> _ = (folder / "test.txt").write_text("2 1:1\n")
    >>> train = datasets.read(folder / "train.txt")
    >>> train.label_names
    ('1', '2', '3')
    >>> datasets.read(folder / "test.txt", **train.options).X.shape
    (1, 4)
    """
    name = format_of(path, format)
    known = FORMATS[name].options()
    unknown = [option for option in options if option not in known]
    if unknown:
        msg = f"{path}: the {name} reader has no option {unknown[0]!r}; its options are {', '.join(known)}"
        raise InputError(msg)
    if "need_labels" in known:
        options["need_labels"] = need_labels
    return FORMATS[name].read(path, labels=labels, **options)


def format_of(path: FilePath, format: str | None = None) -> str:
    """Return the name of the format of a file: the one given, or what its name or else its content says."""
    if format is None:
        return _guess(path)
    if format not in FORMATS:
        msg = f"format must be one of {', '.join(FORMATS)}, got {format!r}"
        raise InputError(msg)
    return format


def column_names(path: FilePath, format: str | None = None) -> list[str]:
    """Return the names of the columns of a file; none where its format names none."""
    columns = FORMATS[format_of(path, format)].columns
    return [] if columns is None else columns(path)


def _guess(path: FilePath) -> str:
    ending = Path(unpacked_name(path).lower()).suffix
    for name, entry in FORMATS.items():
        if ending in entry.endings:
            return name
    data = peek(path)
    if data.startswith(b"PK"):
        return "npz"
    if data.startswith(b"PAR1"):
        return "parquet"
    start = data.removeprefix(b"\xef\xbb\xbf")
    line = next((part for part in start.split(b"\n") if part.strip() and part.lstrip()[:1] not in b"#%"), b"")
    if line.lstrip().startswith(b"@"):
        return "arff"
    if line.lstrip()[:1] in (b"{", b"["):
        return "json"
    if re.fullmatch(rb"\s*\d+\s+\d+\s+\d+\s*", line):
        return "xmc"
    if re.match(rb"\s*(\d+(,\d+)*)?(\s*$|\s+\d+:)|\s*\d+:", line):
        return "libsvm"
    if re.search(rb"[,;\t]", line):
        return "csv"
    msg = f"{path}: the format is not clear from the name or the content; pass format= one of {', '.join(FORMATS)}"
    raise FileFormatError(msg)

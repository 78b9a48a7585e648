"""A folder of data files that belong together: one file, one part of the rows."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.datasets.dataset import Dataset
from multimargin.datasets.formats import format_of, read
from multimargin.datasets.formats.source import FilePath
from multimargin.errors import InputError

__all__ = ["PartFiles"]

OPEN_ENDED = ("libsvm", "xmc")


class PartFiles:
    r"""Files of a folder, in the order of their names; each is read when it is asked for.

    Parameters
    ----------
    folder : path
    pattern : str, default="*"
        Which files, as in ``Path.glob``: ``"*.npz"``, ``"train-*.parquet"``. Names that begin with a dot are left out.
    dtype : float32 or float64, default=float32
        Type of X.
    **options
        What :func:`multimargin.datasets.read` needs besides the path: ``labels`` for Parquet files, ``format``...

    Notes
    -----
    All files have the same features and the same labels in one order; LIBSVM and XMC files may lack labels and last
    features that do not occur in them. An npz file may hold ``sample_weight``, of shape (n_samples,) or (n_samples,
    n_labels).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.datasets import PartFiles
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.svm").write_text("1 1:0.5 4:2\n2 2:1\n")
    >>> _ = (folder / "b.svm").write_text("3 1:1\n")
    >>> files = PartFiles(folder, "*.svm")
    >>> len(files), files.read(1).label_names
    (2, ('1', '2', '3'))
    """

    def __init__(self, folder: FilePath, pattern: str = "*", *, dtype: Any = np.float32, **options: Any):
        self.folder, self.pattern = Path(folder), pattern
        self.options = {"dtype": dtype, **options}
        if not self.folder.is_dir():
            msg = f"PartFiles needs a folder; there is none at {folder}. Give one that holds the part files."
            raise InputError(msg)
        self.paths: Sequence[Path] = tuple(
            sorted(path for path in self.folder.glob(pattern) if path.is_file() and not path.name.startswith("."))
        )
        if not self.paths:
            msg = f"The folder {folder} has no file that matches {pattern!r}. Give the pattern of the part files."
            raise InputError(msg)

    def __len__(self) -> int:
        return len(self.paths)

    def __repr__(self) -> str:
        return f"PartFiles({str(self.folder)!r}, {self.pattern!r}): {len(self)} files"

    def read(self, k: int) -> Dataset:
        """Read file k."""
        return read(self.paths[k], **self.options)

    def sample_weight(self, k: int) -> NDArray[np.float64] | None:
        """Return the weights in file k, if it holds any."""
        if not self._is("npz", k):
            return None
        with zipfile.ZipFile(self.paths[k]) as archive:
            if "sample_weight.npy" not in archive.namelist():
                return None
        with np.load(self.paths[k], allow_pickle=False) as arrays:
            return np.asarray(arrays["sample_weight"], dtype=np.float64)

    def is_open_ended(self, k: int) -> bool:
        """Whether labels and last features may be missing in file k because they do not occur in it."""
        fixed = self.options.get("labels") is not None and self.options.get("n_features") is not None
        return not fixed and any(self._is(name, k) for name in OPEN_ENDED)

    def _is(self, name: str, k: int) -> bool:
        return format_of(self.paths[k], self.options.get("format")) == name

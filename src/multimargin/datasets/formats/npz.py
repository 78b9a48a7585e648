"""NumPy archives with a feature matrix and a label matrix."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin.datasets.formats.columns import Labels, check_missing, check_width, given_names
from multimargin.datasets.formats.dataset import Dataset, Matrix, make_dataset
from multimargin.datasets.formats.source import FilePath, read_bytes
from multimargin.errors import FileFormatError

__all__ = ["load_arrays", "read_npz"]

_Arrays = dict[str, npt.NDArray[Any]]


def read_npz(
    path: FilePath,
    *,
    labels: Labels | None = None,
    split: str | None = None,
    missing: str = "error",
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> Dataset:
    """Read a NumPy archive.

    Keys: ``X`` and ``Y``, each either a two-dimensional array or the three arrays of a CSR matrix,
    ``X_data``, ``X_indices`` and ``X_indptr``, with its shape in ``X_shape`` (or in ``shape`` for X;
    without one, the number of columns is the largest index plus one). ``label_names`` and ``feature_names``
    are optional. With ``split="train"`` the matrices are ``X_train`` and ``Y_train``, or ``X_train_data``
    and so on.

    Parameters
    ----------
    path : path
        The file.
    labels : path of a Mulan XML file, list of names or None, default=None
        Names of the columns of Y. None: ``label_names`` in the file, else "0", "1", ...
    split : str or None, default=None
        Which part to read from a file that holds several.
    missing : {"error", "nan"}, default="error"
        Whether X may hold NaN.
    n_features : int or None, default=None
        The number of columns that X must have.
    dtype : float64 or float32, default=float64
        Type of X.

    Returns
    -------
    Dataset
        X is dense or CSR as in the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from multimargin.datasets import read_npz
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.npz"
    >>> np.savez(path, X=np.eye(3), Y=[[1, 0], [1, 1], [0, 0]])
    >>> read_npz(path)
    Dataset(tiny.npz: 3 samples, 3 features, 2 labels, cardinality 1.00)
    """
    missing_as_nan = check_missing(missing)
    names = given_names(labels)
    arrays = load_arrays(path)
    suffix = "" if split is None else f"_{split}"
    X = _matrix(path, arrays, f"X{suffix}")
    Y = _matrix(path, arrays, f"Y{suffix}")
    _check(path, X, Y, missing_as_nan)
    check_width(path, X.shape[1], n_features)
    if names is None:
        names = _names(path, arrays, "label_names", Y.shape[1]) or [str(k) for k in range(Y.shape[1])]
    elif len(names) != Y.shape[1]:
        msg = f"{path}: expected one label name per column of Y ({Y.shape[1]}), got {len(names)} names"
        raise FileFormatError(msg)
    return make_dataset(
        Path(path).name,
        X,
        csr_matrix(Y, dtype=np.int8),
        names,
        _names(path, arrays, "feature_names", X.shape[1]),
        dtype,
        {"labels": tuple(names), "n_features": X.shape[1], "missing": missing},
    )


def load_arrays(path: FilePath) -> _Arrays:
    """Return the arrays of an archive."""
    data = read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)), np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception as error:  # a damaged archive raises nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{path}: expected an .npz archive with X and Y, found something else or a damaged one ({reason})"
        raise FileFormatError(msg) from None


def _matrix(path: FilePath, arrays: _Arrays, key: str) -> Matrix:
    if key in arrays:
        found = arrays[key]
        if found.ndim != 2 or found.dtype.kind not in "fiub":
            msg = (
                f"{path}: {key} must be a two-dimensional array of numbers, got {found.ndim} dimensions "
                f"of {found.dtype}"
            )
            raise FileFormatError(msg)
        return found
    parts = [f"{key}_{part}" for part in ("data", "indices", "indptr")]
    if not all(part in arrays for part in parts):
        present = ", ".join(sorted(arrays)) or "nothing"
        msg = f"{path}: expected {key}, or {', '.join(parts)}, found {present}; pass split= if the file has parts"
        raise FileFormatError(msg)
    data, indices, indptr = (arrays[part] for part in parts)
    if data.dtype.kind not in "fiub" or indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        kinds = f"{data.dtype}, {indices.dtype}, {indptr.dtype}"
        msg = f"{path}: {', '.join(parts)} must be numbers and two arrays of integers, got {kinds}"
        raise FileFormatError(msg)
    n_rows = max(len(indptr) - 1, 0)
    stated = arrays.get(f"{key}_shape", arrays.get("shape") if key.startswith("X") else None)
    try:
        width = int(indices.max(initial=-1)) + 1 if stated is None else int(stated[1])
        matrix = csr_matrix((data, indices, indptr), shape=(n_rows, width))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        msg = f"{path}: {', '.join(parts)} must form a CSR matrix, found: {error}"
        raise FileFormatError(msg) from None
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _check(path: FilePath, X: Matrix, Y: Matrix, missing_as_nan: bool) -> None:
    if X.shape[0] != Y.shape[0]:
        msg = f"{path}: X and Y must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}"
        raise FileFormatError(msg)
    if X.shape[0] == 0 or X.shape[1] == 0:
        msg = f"{path}: X must have rows and columns, got shape {X.shape}"
        raise FileFormatError(msg)
    values = X.data if isinstance(X, csr_matrix) else X
    if np.isinf(values).any() or (not missing_as_nan and np.isnan(values).any()):
        msg = f'{path}: X must hold finite numbers, found NaN or infinity; pass missing="nan" to keep NaN'
        raise FileFormatError(msg)
    marks = Y.data if isinstance(Y, csr_matrix) else Y
    if not np.isin(marks, (0, 1)).all():
        strange = marks[~np.isin(marks, (0, 1))][0]
        msg = f"{path}: Y must hold 0 and 1 only, found {strange}"
        raise FileFormatError(msg)


def _names(path: FilePath, arrays: _Arrays, key: str, count: int) -> list[str] | None:
    if key not in arrays:
        return None
    names = [str(name) for name in arrays[key].ravel()]
    if len(names) != count or len(set(names)) != count:
        msg = f"{path}: {key} must be {count} different names, got {len(names)} ({len(set(names))} different)"
        raise FileFormatError(msg)
    return names

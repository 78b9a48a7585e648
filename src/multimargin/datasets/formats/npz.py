"""NumPy archives with a feature matrix and a label matrix."""

import io
import math
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from multimargin._core import MOST_FEATURES, MOST_LABELS
from multimargin.datasets.dataset import LABEL_DTYPE, Dataset, Matrix, first_position, make_dataset
from multimargin.datasets.formats.columns import (
    Labels,
    check_missing,
    check_width,
    given_names,
    numbers_as_names,
)
from multimargin.datasets.formats.source import FilePath, allowed_bytes, check_size, fitting, read_bytes
from multimargin.errors import FileFormatError

__all__ = ["load_arrays", "read_npz"]

_Arrays = dict[str, npt.NDArray[Any]]


def read_npz(
    path: FilePath,
    *,
    labels: Labels | None = None,
    need_labels: bool = True,
    split: str | None = None,
    missing: str = "error",
    n_features: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    max_bytes: int | None = None,
) -> Dataset:
    """Read a NumPy archive.

    Keys: ``X`` and ``Y``, each either a two-dimensional array or the three arrays of a CSR matrix,
    ``X_data``, ``X_indices`` and ``X_indptr``, with its shape in ``X_shape`` (or in ``shape`` for X;
    without one, the number of columns is the largest index plus one). NaN in Y is an unknown label.
    ``label_names`` and ``feature_names`` are optional. With ``split="train"`` the matrices are ``X_train`` and
    ``Y_train``, or ``X_train_data`` and so on.

    Parameters
    ----------
    path : path
        The file.
    labels : path of a Mulan XML file, list of names or None, default=None
        Names of the columns of Y. None: ``label_names`` in the file, else "0", "1", ...
    need_labels : bool, default=True
        Whether there must be a Y. False: an archive without one is read as features only.
    split : str or None, default=None
        Which part to read from a file that holds several.
    missing : {"error", "nan"}, default="error"
        Whether X may hold NaN.
    n_features : int or None, default=None
        The number of columns that X must have.
    dtype : float64 or float32, default=float64
        Type of X.
    max_bytes : int or None, default=None
        The most memory to take for the content of the file, decompressed, and as much again for the table made from
        it; what needs more is refused before it is taken. None: half of the memory of this machine or container.

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
    most = allowed_bytes(max_bytes)
    names = given_names(labels, most)
    arrays = load_arrays(path, most)
    suffix = "" if split is None else f"_{split}"
    with fitting(path, lambda: 2 * sum(array.nbytes for array in arrays.values())):
        X = _matrix(path, arrays, f"X{suffix}", MOST_FEATURES)
        if not need_labels and not any(key.startswith(f"Y{suffix}") for key in arrays):
            names, arrays[f"Y{suffix}"] = [], np.zeros((X.shape[0], 0))
        Y = _matrix(path, arrays, f"Y{suffix}", MOST_LABELS)
        _check(path, X, Y, missing_as_nan)
        check_width(path, X.shape[1], n_features)
        if names is None:
            names = _names(path, arrays, "label_names", Y.shape[1]) or numbers_as_names(path, 0, Y.shape[1], most)
        elif len(names) != Y.shape[1]:
            msg = f"{path}: expected one label name per column of Y ({Y.shape[1]}), got {len(names)} names"
            raise FileFormatError(msg)
        return make_dataset(
            path,
            X,
            csr_matrix(Y, dtype=np.float64 if _is_nan(_marks(Y)).any() else LABEL_DTYPE),
            names,
            _names(path, arrays, "feature_names", X.shape[1]),
            dtype,
            {"labels": tuple(names), "n_features": X.shape[1], "missing": missing},
        )


def load_arrays(path: FilePath, max_bytes: int | None = None) -> _Arrays:
    """Return the arrays of an archive."""
    most = allowed_bytes(max_bytes)
    data = read_bytes(path, most)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            size = sum(member.file_size for member in members)
            check_size(path, "arrays", size, most)
            with fitting(path, lambda: len(data) + size):
                return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
    except FileFormatError:
        raise
    except Exception as error:  # a damaged archive raises nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{path}: expected an .npz archive with X and Y, found something else or a damaged one ({reason})"
        raise FileFormatError(msg) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """Read an array, unless it is announced to be larger than what is stored."""
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(member) as stored:
        version = np.lib.format.read_magic(stored)
        if version in read_header:
            shape, _, dtype = read_header[version](stored)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                msg = f"{member.filename} announces shape {shape} of {dtype}, but holds {member.file_size} bytes"
                raise ValueError(msg)
        stored.seek(0)
        array: npt.NDArray[Any] = np.lib.format.read_array(stored, allow_pickle=False)
        return array


def _matrix(path: FilePath, arrays: _Arrays, key: str, most_columns: int) -> Matrix:
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
        width = int(indices.max(initial=-1)) + 1 if stated is None else int(stated.tolist()[1])
        if width > most_columns:
            msg = f"{path}: {key} must have at most {most_columns} columns, got {width}; correct its shape or indices"
            raise FileFormatError(msg)
        if data.dtype not in (np.float32, np.float64):  # sums of integers overflow, and scipy knows no other floats
            data = data.astype(np.float64)
        matrix = csr_matrix((data, indices, indptr), shape=(n_rows, width))
        matrix.check_format(full_check=True)
    except FileFormatError:
        raise
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
    wrong = first_position(X, np.isinf if missing_as_nan else lambda values: ~np.isfinite(values))
    if wrong is not None:
        row, column = wrong
        msg = (
            f"{path}: X must hold finite numbers, found {X[row, column]} in row {row + 1}, column {column + 1}; "
            'pass missing="nan" to keep NaN'
        )
        raise FileFormatError(msg)
    marks = _marks(Y)
    wrong_marks = ~(np.isin(marks, (0, 1)) | _is_nan(marks))
    if wrong_marks.any():
        msg = f"{path}: Y must hold 0 and 1, or NaN for unknown labels, found {marks[wrong_marks][0]}"
        raise FileFormatError(msg)


def _marks(Y: Matrix) -> npt.NDArray[Any]:
    marks: npt.NDArray[Any] = Y.data if isinstance(Y, csr_matrix) else Y
    return marks


def _is_nan(marks: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.isnan(marks) if marks.dtype.kind == "f" else np.zeros(marks.shape, dtype=bool)


def _names(path: FilePath, arrays: _Arrays, key: str, count: int) -> list[str] | None:
    if key not in arrays:
        return None
    try:
        names = [str(name) for name in arrays[key].ravel()]
    except (ValueError, SystemError):  # numpy keeps any number as a character, Python does not
        msg = f"{path}: {key} must be text, found characters that do not exist; write the file again"
        raise FileFormatError(msg) from None
    if len(names) != count or len(set(names)) != count:
        msg = f"{path}: {key} must be {count} different names, got {len(names)} ({len(set(names))} different)"
        raise FileFormatError(msg)
    return names

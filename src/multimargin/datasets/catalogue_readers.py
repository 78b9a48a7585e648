"""How the files of each data set in the catalogue become its fields.

A reader takes the files in the order of the catalogue and the type of X, and returns X_train, Y_train, X_test
and Y_test, or X and Y where there is no official split.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix, vstack

from multimargin.datasets.dataset import LABEL_DTYPE, Dataset
from multimargin.datasets.formats import read_arff, read_npz, read_xmc
from multimargin.datasets.formats.npz import load_arrays
from multimargin.datasets.formats.source import read_text
from multimargin.errors import FileFormatError

__all__ = [
    "RCV1_FEATURES",
    "read_awa",
    "read_mediamill",
    "read_mulan",
    "read_rcv1",
    "read_rcv1_pooled",
    "read_xmc_pair",
]

RCV1_FEATURES = 47236


def _both(train: Dataset, test: Dataset) -> Dataset:
    return Dataset(
        X_train=train.X,
        Y_train=train.Y,
        X_test=test.X,
        Y_test=test.Y,
        label_names=train.label_names,
        feature_names=train.feature_names,
    )


def read_mulan(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read a training ARFF, a test ARFF and an XML file of labels."""
    train_file, test_file, labels = files
    train = read_arff(train_file, labels=labels, dtype=dtype)
    return _both(train, read_arff(test_file, dtype=dtype, **train.options))


def read_xmc_pair(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read a training and a test file in XMC form."""
    train = read_xmc(files[0], dtype=dtype)
    return _both(train, read_xmc(files[1], dtype=dtype, **train.options))


def read_mediamill(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read an archive of both parts, and an XML file of labels."""
    archive, labels = files
    train = read_npz(archive, split="train", labels=labels, dtype=dtype)
    return _both(train, read_npz(archive, split="test", dtype=dtype, **train.options))


def read_rcv1(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read an archive of both parts."""
    train, test = (_widened(read_npz(files[0], split=split, dtype=dtype)) for split in ("train", "test"))
    return _both(train, test)


def _widened(data: Dataset) -> Dataset:
    """Give every RCV1 subset the same columns: two of them end before the last, which they never use."""
    data.X.resize(data.X.shape[0], RCV1_FEATURES)
    return data


def read_rcv1_pooled(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Stack the subsets; of samples with equal features keep the first."""
    data = [_widened(read_npz(file, split=split)) for file in files for split in ("train", "test")]
    X = vstack([part.X for part in data], format="csr")
    Y = vstack([part.Y for part in data], format="csr")
    first: dict[bytes, int] = {}
    for i in range(X.shape[0]):
        row = slice(X.indptr[i], X.indptr[i + 1])
        first.setdefault(X.indices[row].tobytes() + X.data[row].tobytes(), i)
    keep = list(first.values())
    return Dataset(
        X=csr_matrix(X[keep], dtype=dtype),
        Y=csr_matrix(Y[keep]),
        label_names=data[0].label_names,
        feature_names=None,
    )


def read_awa(files: list[Path], dtype: npt.DTypeLike) -> Dataset:
    """Read image features, classes and their attributes; an image has the attributes of its class."""
    archive, classes, predicates, binary, continuous, trained, tested = files
    names, attributes = _numbered_names(classes), _numbered_names(predicates)
    signatures = _numbers(binary, (len(names), len(attributes))).astype(LABEL_DTYPE)
    strengths = _numbers(continuous, (len(names), len(attributes)))
    strengths[strengths < 0] = np.nan
    seen, unseen = (_positions(file, names) for file in (trained, tested))
    arrays = load_arrays(archive)
    if not {"X", "class_index"} <= arrays.keys():
        msg = f"{archive}: expected the arrays X and class_index, found {', '.join(arrays) or 'none'}"
        raise FileFormatError(msg)
    X, animal = arrays["X"].astype(dtype, copy=False), arrays["class_index"].astype(np.int64)
    train, test = np.isin(animal, seen), np.isin(animal, unseen)
    return Dataset(
        X_train=X[train],
        Y_train=csr_matrix(signatures[animal[train]]),
        X_test=X[test],
        Y_test=csr_matrix(signatures[animal[test]]),
        class_train=animal[train],
        class_test=animal[test],
        class_names=tuple(names),
        signatures=signatures,
        association_strengths=strengths,
        seen=seen,
        unseen=unseen,
        label_names=tuple(attributes),
        feature_names=None,
    )


def _words(file: Path) -> list[str]:
    return read_text(file).decode("utf-8", "replace").split()


def _numbered_names(file: Path) -> list[str]:
    """Return the names of a file of lines ``1 name``."""
    words = _words(file)
    if len(words) % 2 or words[::2] != [str(k + 1) for k in range(len(words) // 2)]:
        msg = f"{file}: expected lines such as '1 antelope', numbered from 1"
        raise FileFormatError(msg)
    return words[1::2]


def _positions(file: Path, names: list[str]) -> npt.NDArray[np.int64]:
    """Return where the names in the file are among all names."""
    strange = [name for name in _words(file) if name not in names]
    if strange:
        msg = f"{file}: expected names of the list of classes, found {strange[0]!r}"
        raise FileFormatError(msg)
    return np.array([names.index(name) for name in _words(file)])


def _numbers(file: Path, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    try:
        return np.array(_words(file), dtype=np.float64).reshape(shape)
    except ValueError:
        msg = f"{file}: expected {shape[0]} rows of {shape[1]} numbers"
        raise FileFormatError(msg) from None

"""Training data as blocks of rows: what of Dask's collections, lists and files ``fit`` takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
from dask.delayed import Delayed
from distributed import Future

from multimargin import datasets
from multimargin.datasets.formats import format_of
from multimargin.errors import InputError

__all__ = ["Block", "PartFiles", "is_array", "is_frame", "is_parts", "read_blocks"]

FORMS = (
    "X and Y may be dask arrays with chunks of rows, dask DataFrames, lists of delayed or futures, a list of delayed "
    "or futures of pairs (X, Y), or a folder of part files"
)


@dataclass(frozen=True)
class PartFiles:
    """A folder of files, each of which holds some of the rows; workers read them.

    Parameters
    ----------
    folder : path
        Where the files are, as the workers see it.
    pattern : str, default="*"
        Which files belong to the set; they are taken in the order of their names.
    options : dict, default={}
        What :func:`multimargin.datasets.read` is given with every file. LIBSVM files need ``n_features``, ``n_labels``,
        ``zero_based`` and ``labels_zero_based``, which a part alone does not tell; ``dtype="float32"`` halves the
        memory.

    Examples
    --------
    >>> from multimargin.dask import PartFiles
    >>> PartFiles("rows", "*.npz", {"dtype": "float32"})
    PartFiles(folder='rows', pattern='*.npz', options={'dtype': 'float32'})
    """

    folder: Any
    pattern: str = "*"
    options: dict[str, Any] = field(default_factory=dict)

    def paths(self) -> list[Path]:
        """Return the files, as this process sees them."""
        folder = Path(self.folder)
        if not folder.is_dir():
            msg = f"The folder of part files must exist here and on the workers; there is no folder {folder}."
            raise InputError(msg)
        found = sorted(path for path in folder.glob(self.pattern) if path.is_file() and not path.name.startswith("."))
        if not found:
            msg = f"There is no part file {self.pattern!r} in {folder}. Give the folder of the files, or their pattern."
            raise InputError(msg)
        wanted = ["n_features", "n_labels", "zero_based", "labels_zero_based"]
        absent = [name for name in wanted if name not in self.options]
        if format_of(found[0], self.options.get("format")) == "libsvm" and absent:
            msg = (
                "A part of LIBSVM rows does not tell how many features and labels all parts have, nor whether they are "
                f"counted from 0: give {', '.join(absent)} in the options of PartFiles(folder, pattern, options)."
            )
            raise InputError(msg)
        return found


@dataclass(frozen=True)
class Block:
    """Some of the rows, still to be computed.

    Attributes
    ----------
    name : str
        What errors call it.
    value : Delayed
        Of a tuple of features, labels and weights or None.
    """

    name: str
    value: Delayed


def read_blocks(X: Any, y: Any, sample_weight: Any) -> list[Block]:
    """Return the blocks of training data in any form; nothing is computed."""
    if isinstance(X, str | Path):
        X = PartFiles(X)
    if isinstance(X, PartFiles):
        blocks = _files(X, y, sample_weight)
    elif is_array(X) or is_frame(X):
        blocks = _collections(X, y, sample_weight)
    elif is_parts(X):
        blocks = _lists(list(X), y, sample_weight)
    else:
        msg = (
            f"X is a {type(X).__name__}, which this process holds: train it by multimargin.LinearM3L, or cut it into "
            f"blocks of rows by dask.array.from_array(X, chunks=(10_000, -1)). {FORMS}."
        )
        raise InputError(msg)
    if not blocks:
        msg = f"X has no blocks at all. {FORMS}."
        raise InputError(msg)
    return blocks


def is_array(X: Any) -> bool:
    """Whether X is a dask array."""
    return dask.is_dask_collection(X) and hasattr(X, "chunks") and hasattr(X, "map_blocks")


def is_frame(X: Any) -> bool:
    """Whether X is a dask DataFrame."""
    return dask.is_dask_collection(X) and hasattr(X, "map_partitions") and hasattr(X, "columns")


def is_parts(X: Any) -> bool:
    """Whether X is a list of delayed or futures."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(part, Delayed | Future) for part in X)


def _collections(X: Any, y: Any, sample_weight: Any) -> list[Block]:
    if y is None:
        msg = f"requires y to be passed, but the target y is None: Y holds the labels. {FORMS}."
        raise InputError(msg)
    parts = _blocks_of(X, "X")
    labels = _like(X, y, "Y", len(parts))
    weights = None if sample_weight is None else _like(X, sample_weight, "sample_weight", len(parts))
    return _put_together(parts, labels, weights)


def _like(X: Any, other: Any, subject: str, count: int) -> list[Any]:
    """Blocks of labels or weights, which must be divided as X is."""
    if is_parts(other):
        blocks = list(other)
    elif is_array(other) or is_frame(other) or hasattr(other, "to_delayed"):
        blocks = _blocks_of(other, subject)
    else:
        msg = (
            f"{subject} must be divided into blocks as X is; got a {type(other).__name__}. Make it a dask array, "
            f"dask.array.from_array({subject}, chunks=(X.chunks[0], -1)), or a list of delayed."
        )
        raise InputError(msg)
    if len(blocks) != count:
        msg = (
            f"{subject} must be divided into blocks as X is: X has {count} blocks, {subject} has {len(blocks)}. "
            f"Call {subject}.rechunk({{0: X.chunks[0]}}) or {subject}.repartition first."
        )
        raise InputError(msg)
    if is_array(X) and is_array(other):
        for k, (rows, others) in enumerate(zip(X.chunks[0], other.chunks[0], strict=True)):
            if rows == rows and others == others and rows != others:  # both are known
                msg = (
                    f"Block {k} of X has {rows} rows, block {k} of {subject} has {others}. Call "
                    f"{subject}.rechunk({{0: X.chunks[0]}}) first."
                )
                raise InputError(msg)
    return blocks


def _blocks_of(collection: Any, subject: str) -> list[Any]:
    if is_array(collection) and collection.ndim == 2 and collection.numblocks[1] > 1:
        msg = (
            f"{subject} must be divided by rows only; it has {collection.numblocks[1]} chunks of columns. Call "
            f"{subject}.rechunk({{0: 'auto', 1: -1}}) first."
        )
        raise InputError(msg)
    if is_array(collection) and collection.ndim not in ((2,) if subject == "X" else (1, 2)):
        msg = f"{subject} must have {'two' if subject == 'X' else 'one or two'} dimensions; got {collection.ndim}."
        raise InputError(msg)
    delayed = collection.to_delayed()
    return list(delayed.ravel() if hasattr(delayed, "ravel") else delayed)


def _lists(X: list[Any], y: Any, sample_weight: Any) -> list[Block]:
    weights = None if sample_weight is None else _like(X, sample_weight, "sample_weight", len(X))
    if y is None:
        return [
            Block(f"block {k}", dask.delayed(_pair)(pair, None if weights is None else weights[k], f"block {k}"))
            for k, pair in enumerate(X)
        ]
    return _put_together(X, _like(X, y, "Y", len(X)), weights)


def _put_together(parts: Sequence[Any], labels: Sequence[Any], weights: Sequence[Any] | None) -> list[Block]:
    triples = zip(parts, labels, weights if weights is not None else [None] * len(parts), strict=True)
    return [Block(f"block {k}", dask.delayed(_triple)(*triple)) for k, triple in enumerate(triples)]


def _triple(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    return X, y, weight


def _pair(pair: Any, weight: Any, name: str) -> tuple[Any, Any, Any]:
    if not isinstance(pair, Iterable) or len(tuple(pair)) != 2:
        msg = f"Without y, every part must be a pair (X, Y); {name} is a {type(pair).__name__}. Give y as a list, too."
        raise InputError(msg)
    X, y = pair
    return X, y, weight


def _files(files: PartFiles, y: Any, sample_weight: Any) -> list[Block]:
    if y is not None or sample_weight is not None:
        msg = "Part files hold their labels, and no weights: y and sample_weight must be None. Give lists of delayed."
        raise InputError(msg)
    read = dask.delayed(_read_file, pure=False)
    return [Block(f"file {path.name}", read(str(path), files.options)) for path in files.paths()]


def _read_file(path: str, options: dict[str, Any]) -> tuple[Any, Any, Any]:
    from multimargin.labels import read_labels

    found = datasets.read(path, **options)
    return found.X, read_labels(found.Y, names=found.label_names), None

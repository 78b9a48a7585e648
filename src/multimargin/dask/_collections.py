"""Training data as blocks of rows: what of Dask's collections, lists and files ``fit`` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from distributed import Future

from multimargin.datasets import PartFiles
from multimargin.errors import InputError
from multimargin.estimators.m3l.blocks import Block
from multimargin.fleets import file_source

__all__ = ["RemoteBlock", "is_array", "is_frame", "is_parts", "read_blocks"]

FORMS = (
    "X and Y may be dask arrays with chunks of rows, dask DataFrames, lists of delayed or futures, a list of delayed "
    "or futures of pairs (X, Y), or a folder of part files"
)


@dataclass(frozen=True)
class RemoteBlock:
    """Some of the rows, still to be computed.

    Attributes
    ----------
    name : str
        What errors call it.
    value : callable
        Returns a Delayed of a :class:`~multimargin.estimators.m3l.blocks.Block`, by another key each time: a worker
        that is fetching a key from one that sleeps would not compute it itself.
    n_bytes : int or None
        What its rows take at least, where that is known.
    """

    name: str
    value: Callable[[], Delayed]
    n_bytes: int | None = None


def read_blocks(X: Any, y: Any, sample_weight: Any) -> list[RemoteBlock]:
    """Return the blocks of training data in any form; nothing is computed."""
    if isinstance(X, str | Path):
        X = PartFiles(X)
    if isinstance(X, PartFiles):
        blocks = _files(X, y, sample_weight)
    elif is_array(X) or is_frame(X):
        blocks = _collections(X, y, sample_weight)
    elif is_parts(X):
        blocks = _lists(list(X), y, sample_weight)
    elif dask.is_dask_collection(X) or isinstance(X, list | tuple):
        msg = f"X is a {type(X).__name__} that has no blocks of rows. {FORMS}, as [dask.delayed(part) for part in X]."
        raise InputError(msg)
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


def _collections(X: Any, y: Any, sample_weight: Any) -> list[RemoteBlock]:
    if y is None:
        msg = f"requires y to be passed, but the target y is None: Y holds the labels. {FORMS}."
        raise InputError(msg)
    parts = _blocks_of(X, "X")
    labels = _like(X, y, "Y", len(parts))
    weights = None if sample_weight is None else _like(X, sample_weight, "sample_weight", len(parts))
    return _put_together(parts, labels, weights, _sizes(X))


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


def _lists(X: list[Any], y: Any, sample_weight: Any) -> list[RemoteBlock]:
    weights = None if sample_weight is None else _like(X, sample_weight, "sample_weight", len(X))
    if y is not None:
        return _put_together(X, _like(X, y, "Y", len(X)), weights)
    given = weights if weights is not None else [None] * len(X)
    named = [(f"block {k}", part, weight) for k, (part, weight) in enumerate(zip(X, given, strict=True))]
    return [RemoteBlock(name, partial(_task, _of_pair, pair, weight, name)) for name, pair, weight in named]


def _put_together(
    parts: Sequence[Any],
    labels: Sequence[Any],
    weights: Sequence[Any] | None,
    sizes: Sequence[int | None] | None = None,
) -> list[RemoteBlock]:
    triples = zip(parts, labels, weights if weights is not None else [None] * len(parts), strict=True)
    sizes = sizes or [None] * len(parts)
    return [
        RemoteBlock(f"block {k}", partial(_task, _of_parts, *triple, f"block {k}"), sizes[k])
        for k, triple in enumerate(triples)
    ]


def _sizes(X: Any) -> list[int | None] | None:
    """Bytes of the blocks of dense rows whose numbers are known."""
    if not is_array(X) or type(X._meta) is not np.ndarray:
        return None
    width = X.shape[1] * X.dtype.itemsize
    return [None if rows != rows else int(rows * width) for rows in X.chunks[0]]


def _task(function: Callable[..., Block], *arguments: Any) -> Delayed:
    return dask.delayed(function, pure=False)(*arguments)


def _of_parts(X: Any, y: Any, weight: Any, name: str) -> Block:
    return Block(X, y, weight, name)


def _of_pair(pair: Any, weight: Any, name: str) -> Block:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        msg = f"Without y, every part must be a pair (X, Y); {name} is a {type(pair).__name__}. Give y as a list, too."
        raise InputError(msg)
    return Block(pair[0], pair[1], weight, name)


def _files(files: PartFiles, y: Any, sample_weight: Any) -> list[RemoteBlock]:
    if y is not None or sample_weight is not None:
        msg = "Part files hold their labels, and npz files their weights: y and sample_weight must be None."
        raise InputError(msg)
    return [
        RemoteBlock(f"file {path.name}", partial(_task, _of_file, files, k), _file_size(path))
        for k, path in enumerate(files.paths)
    ]


def _file_size(path: Path) -> int | None:
    """Bytes of a file, if it can be seen from here."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def _of_file(files: PartFiles, k: int) -> Block:
    return file_source(files, k)()

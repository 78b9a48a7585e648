"""Predictions on collections: lazy, block by block, with a model that travels once."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.dask._collections import is_array, is_frame
from multimargin.errors import InputError
from multimargin.labels import write_labels

__all__ = ["by_block", "sets_by_block"]


def by_block(model: Any, method: str, X: Any) -> Any:
    """Return what a method of a local model gives on each block of rows, as a lazy collection like X."""
    remote = dask.delayed(model, pure=False, traverse=False)
    if is_frame(X):
        return _on_frame(model, remote, method, X)
    if is_array(X):
        return _on_array(model, remote, method, X)
    return [dask.delayed(_call, pure=False)(block, remote, method) for block in X]


def sets_by_block(model: Any, method: str, X: Any) -> Any:
    """Return a dask bag of the label sets of the rows."""
    import dask.bag

    remote = dask.delayed(model, pure=False, traverse=False)
    if is_array(X) or is_frame(X):
        delayed = X.to_delayed()
        blocks = list(delayed.ravel() if hasattr(delayed, "ravel") else delayed)
    else:
        blocks = list(X)
    return dask.bag.from_delayed([dask.delayed(_call, pure=False)(block, remote, method) for block in blocks])


def _call(X: Any, model: Any, method: str) -> Any:
    """Predict a block; one without rows, too."""
    if X.shape[0]:
        return getattr(model, method)(X)
    return _empty(model, method)


def _empty(model: Any, method: str) -> Any:
    """Return what a method gives without rows."""
    n_labels = len(model.label_names_)
    if method == "decision_function":
        column = model.label_form_.kind == "column"
        return np.empty(0 if column else (0, n_labels), dtype=np.result_type(model.coef_, model.intercept_))
    if method == "predict_sets":
        return []
    none = sp.csr_array((0, n_labels), dtype=bool)
    return write_labels(none, model.label_form_, model.label_names_, model.classes_)


def _on_array(model: Any, remote: Any, method: str, X: Any) -> Any:
    if X.ndim != 2 or X.numblocks[1] > 1:
        msg = (
            f"X must be a table divided by rows only; its numbers of chunks are {X.numblocks}. Call "
            "X.rechunk({0: 'auto', 1: -1}) first."
        )
        raise InputError(msg)
    empty = _empty(model, method)
    if isinstance(empty, list):
        return sets_by_block(model, method, X)
    if model.label_form_.kind == "frame" and method == "predict":
        # A DataFrame of each block would need the row numbers of the others: cells instead.
        return X.map_blocks(_cells, model=remote, chunks=(X.chunks[0], (empty.shape[1],)), meta=empty.to_numpy())
    if empty.ndim == 1:
        return X.map_blocks(_call, model=remote, method=method, drop_axis=1, meta=empty)
    return X.map_blocks(_call, model=remote, method=method, chunks=(X.chunks[0], (empty.shape[1],)), meta=empty)


def _cells(X: Any, model: Any) -> NDArray[Any]:
    return np.asarray(_call(X, model, "predict").to_numpy())


def _on_frame(model: Any, remote: Any, method: str, X: Any) -> Any:
    import pandas as pd

    empty = _empty(model, method)
    if isinstance(empty, list):
        return sets_by_block(model, method, X)
    if empty.ndim == 1:
        meta: Any = pd.Series(empty, name="label")
    else:
        cells = empty.toarray() if sp.issparse(empty) else np.asarray(empty)
        meta = pd.DataFrame(cells, columns=pd.Index(model.label_names_))
    return X.map_partitions(_framed, remote, method, meta=meta)


def _framed(X: Any, model: Any, method: str) -> Any:
    """Predict a block of a DataFrame: a DataFrame with the label names, and the index of the rows."""
    import pandas as pd

    found = _call(X, model, method)
    if found.ndim == 1:
        return pd.Series(np.asarray(found), index=X.index, name="label")
    cells = found.toarray() if sp.issparse(found) else np.asarray(found)
    return pd.DataFrame(cells, columns=pd.Index(model.label_names_), index=X.index)

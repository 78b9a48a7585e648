"""Labels beside what was predicted for them, brought to one form and checked against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, _is_label_sets, read_labels

Floats = NDArray[np.float64]
Names = Sequence[Any] | NDArray[Any] | None
Undefined = Literal["skip", 0, 1]


class Mean(NamedTuple):
    """An average and the number of undefined values left out of it."""

    value: float
    skipped: int = 0


def ratio(part: Any, whole: Any) -> Floats:
    """Return part / whole, NaN where whole is 0."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    shares: Floats = np.full(np.broadcast(part, whole).shape, np.nan)
    np.divide(part, whole, out=shares, where=whole != 0)
    return shares


def mean(values: Floats, weights: Floats | None = None) -> Mean:
    """Average the values that are not NaN."""
    defined = ~np.isnan(values)
    weights = np.ones(len(values)) if weights is None else weights
    total = weights[defined].sum()
    value = float(values[defined] @ weights[defined] / total) if total > 0 else float("nan")
    return Mean(value, int(len(values) - defined.sum()))


def fill(values: Floats, undefined: Undefined, best: float = 1.0, worst: Any = 0.0) -> Floats:
    """Put the best or the worst value in place of NaN, or leave NaN to be skipped."""
    if undefined == "skip":
        return values
    return np.where(np.isnan(values), best if undefined else worst, values)


def check_undefined(undefined: Any) -> None:
    """Reject anything but "skip", 0 and 1."""
    if isinstance(undefined, bool) or undefined not in ("skip", 0, 1):
        msg = f'undefined must be "skip", 0 or 1; got {undefined!r}. "skip" leaves undefined values out.'
        raise InputError(msg)


def is_sets(Y: Any) -> bool:
    """Whether Y is a list of label sets."""
    return not sp.issparse(Y) and not hasattr(Y, "columns") and _is_label_sets(Y)


def read_pair(Y: Any, prediction: Any, names: Names) -> tuple[LabelMatrix, sp.csr_array]:
    """Read labels and predicted labels of the same rows. Predictions on unknown cells are dropped."""
    if prediction is None:
        msg = "prediction is None; the metrics compare predicted labels with Y. Give model.predict(X)."
        raise InputError(msg)
    if names is None and is_sets(Y) and is_sets(prediction):
        names = _in_order({label for rows in (Y, prediction) for row in rows for label in row})
    if names is None and _is_column(Y) and _is_column(prediction):
        truth, guess = _read_columns(np.asarray(Y), np.asarray(prediction))
    else:
        truth = read_labels(Y, names=names)
        prediction = _in_columns_of(truth, prediction, "prediction") if names is None else prediction
        known = truth.names if is_sets(prediction) else None
        guess = read_labels(prediction, names=known, subject="prediction")
    _check_shape(truth, guess.positives.shape, "prediction")
    if guess.missing is not None:
        msg = (
            f"prediction must say yes or no for every cell; {guess.missing.nnz} cells are NaN. Fill them "
            "with 0 or 1, or drop these rows."
        )
        raise InputError(msg)
    predicted = guess.positives.astype(np.int8)
    if truth.missing is not None:
        predicted = predicted - predicted.multiply(truth.missing.astype(np.int8))
        predicted.eliminate_zeros()
    return truth, predicted


def read_scores(scores: Any, truth: LabelMatrix) -> NDArray[Any]:
    """Read scores for the cells of Y; float32 stays float32."""
    if sp.issparse(scores):
        msg = (
            "scores must be a dense array; got a sparse one, where absent cells have no rank: only the metrics of the "
            "best k labels take it. Use toarray()."
        )
        raise InputError(msg)
    try:
        cells = np.asarray(_in_columns_of(truth, scores, "scores"))
        cells = cells if cells.dtype in (np.float32, np.float64) else cells.astype(np.float64)
    except (TypeError, ValueError) as error:
        msg = f"scores must be numbers, one per row and label; {error}. Give decision_function(X)."
        raise InputError(msg) from None
    if cells.ndim == 1 and truth.n_labels == 1:
        cells = cells[:, None]
    _check_shape(truth, cells.shape, "scores")
    if np.isnan(cells.max()):  # the maximum is NaN if any cell is, without an array of flags
        row = int(np.isnan(cells.max(axis=1)).argmax())
        msg = f"scores must not be NaN; row {row} has one. A label without rank may have score -inf."
        raise InputError(msg)
    return cells


def read_best_scores(scores: Any, truth: LabelMatrix, k: int) -> NDArray[Any] | sp.csr_array:
    """Read scores of which the best k of each row are needed; sparse ones must hold as many, and stay sparse.

    What a sparse row does not hold ranks below what it does, and scores of unknown cells are dropped.
    """
    if not sp.issparse(scores):
        return read_scores(scores, truth)
    best = sp.csr_array(scores, copy=True)
    _check_shape(truth, best.shape, "scores")
    stored = best.nnz
    best.sum_duplicates()
    if best.nnz != stored or best.data.dtype.kind not in "fiu" or np.isnan(best.data).any():
        msg = "Sparse scores must be numbers, not NaN, at most one for each cell. Give predict_top(X, k)."
        raise InputError(msg)
    wanted = np.full(truth.n_samples, truth.n_labels)
    if truth.missing is not None:
        place = truth.missing.indices + truth.n_labels * np.repeat(
            np.arange(truth.n_samples), np.diff(truth.missing.indptr)
        )
        cells = best.indices + truth.n_labels * np.repeat(np.arange(truth.n_samples), np.diff(best.indptr))
        known = ~np.isin(cells, place)
        offsets = np.concatenate([[0], np.cumsum(known)])[best.indptr]
        best = sp.csr_array((best.data[known], best.indices[known], offsets), shape=best.shape)
        wanted = wanted - np.diff(truth.missing.indptr)
    short = np.diff(best.indptr) < np.minimum(k, wanted)
    if short.any():
        row = int(short.argmax())
        msg = (
            f"Sparse scores must hold the best {k} known labels of every row; row {row} holds "
            f"{int(np.diff(best.indptr)[row])}. Give predict_top(X, {k}), or more where labels are unknown."
        )
        raise InputError(msg)
    return best


def read_weights(sample_weight: Any, n_samples: int) -> Floats | None:
    """Read one non-negative weight per row."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_samples,):
        msg = f"sample_weight must have shape ({n_samples},), one weight per row; got {weights.shape}."
        raise InputError(msg)
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() == 0:
        msg = (
            f"sample_weight must be finite, non-negative and not all zero; got values from {weights.min()} "
            f"to {weights.max()}. Correct the weights, or leave them out."
        )
        raise InputError(msg)
    return weights


def _in_columns_of(truth: LabelMatrix, table: Any, subject: str) -> Any:
    """Return the columns of a DataFrame in the order of Y's, if Y has named columns too."""
    if truth.form.kind not in ("frame", "sets") or not hasattr(table, "columns"):
        return table
    ours, theirs = truth.names.tolist(), list(table.columns)
    if ours == theirs:
        return table
    if len(ours) != len(theirs) or set(ours) != set(theirs):
        odd = sorted(set(ours) ^ set(theirs), key=str)[:1]
        msg = f"The columns of {subject} must be the labels of Y; {odd} is in one only. Rename or drop it."
        raise InputError(msg)
    return table[ours]


def _read_columns(y: NDArray[Any], prediction: NDArray[Any]) -> tuple[LabelMatrix, LabelMatrix]:
    """Read two 1-D arrays together, so that both call the same class positive."""
    if len(y) != len(prediction):
        msg = f"prediction has {len(prediction)} rows but Y has {len(y)}. Predict the rows of Y."
        raise InputError(msg)
    both = read_labels(np.concatenate([y, prediction]), subject="Y with prediction")

    return both.part(slice(0, len(y))), both.part(slice(len(y), None))


def _is_column(Y: Any) -> bool:
    if sp.issparse(Y) or hasattr(Y, "columns") or is_sets(Y):
        return False
    try:
        return bool(np.asarray(Y).ndim == 1) and len(Y) > 0
    except ValueError:  # ragged
        return False


def _check_shape(truth: LabelMatrix, shape: tuple[int, ...], subject: str) -> None:
    expected = (truth.n_samples, truth.n_labels)
    if shape != expected:
        msg = (
            f"{subject} must have the shape of Y, {expected[0]} rows and {expected[1]} labels; got shape "
            f"{shape}. Predict the rows of Y with a model of its labels."
        )
        raise InputError(msg)


def _in_order(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=str)

"""Accuracies of categories, one per row, as zero-shot learning reports them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multimargin.errors import InputError

__all__ = ["harmonic_mean_accuracy", "harmonic_mean_scorer", "per_class_accuracy", "per_class_scorer"]


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean over the categories of y_true of the share of their rows that are predicted right.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin.metrics import per_class_accuracy
    >>> per_class_accuracy(["a", "a", "a", "b"], ["a", "a", "a", "c"])
    0.5
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if truth.shape != predicted.shape or truth.ndim != 1 or not len(truth):
        msg = f"y_true and y_pred must be 1-D, of the same length, not empty; got {truth.shape} and {predicted.shape}."
        raise InputError(msg)
    # scikit-learn's balanced_accuracy_score warns of predictions that are no category of y_true, here the rule.
    _, category = np.unique(truth, return_inverse=True)
    right = np.bincount(category, weights=truth == predicted)
    return float(np.mean(right / np.bincount(category)))


def harmonic_mean_accuracy(y_true: ArrayLike, y_pred: ArrayLike, seen: ArrayLike) -> float:
    """Harmonic mean of the per-class accuracies of the seen and of the unseen categories.

    Parameters
    ----------
    y_true, y_pred : array of shape (n_samples,)
    seen : array
        Categories that had training rows.

    Returns
    -------
    float
        0 if either accuracy is.

    Examples
    --------
    >>> from multimargin.metrics import harmonic_mean_accuracy
    >>> harmonic_mean_accuracy(["a", "a", "b", "b"], ["a", "b", "b", "b"], seen=["a"])
    0.6666666666666666
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    known = np.isin(truth, np.asarray(seen))
    if known.all() or not known.any():
        which = "unseen" if known.all() else "seen"
        msg = f"The harmonic mean needs rows of seen and of unseen categories; y_true has no {which} one."
        raise InputError(msg)
    parts = [per_class_accuracy(truth[rows], predicted[rows]) for rows in (known, ~known)]
    return 0.0 if min(parts) == 0 else float(2.0 * parts[0] * parts[1] / (parts[0] + parts[1]))


def per_class_scorer(model: Any, X: Any, y: Any) -> float:
    """Scorer for scikit-learn: :func:`per_class_accuracy` of the predictions.

    Parameters
    ----------
    model : fitted classifier
    X : rows
    y : categories of the rows

    Returns
    -------
    float
    """
    return per_class_accuracy(y, model.predict(X))


def harmonic_mean_scorer(model: Any, X: Any, y: Any) -> float:
    """Scorer for scikit-learn: :func:`harmonic_mean_accuracy`, the model telling which categories it has seen.

    Parameters
    ----------
    model : fitted ZeroShotClassifier, or a pipeline that ends in one
        With ``candidates="all"``.
    X : rows
    y : categories of the rows; see ``seen_share`` of :class:`multimargin.model_selection.CategoryKFold`

    Returns
    -------
    float
    """
    last = model[-1] if hasattr(model, "steps") else model
    return harmonic_mean_accuracy(y, model.predict(X), last.seen_categories_)

"""The best label set of a row for a metric, from probabilities."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.decisions import _row_rules as rows
from multimargin.decisions._lines import log_odds_of
from multimargin.decisions._scoring import read_scoring
from multimargin.errors import InputError
from multimargin.labels import read_labels

__all__ = ["decode", "joint_sets"]

Floats = NDArray[np.float64]

METRICS = (
    "hamming-loss",
    "cost",
    "subset-accuracy",
    "example-f1",
    "example-fbeta",
    "macro-f1",
    "macro-fbeta",
    "micro-f1",
    "micro-fbeta",
    "precision@k",
)


def decode(
    probabilities: Any,
    metric: str = "example-f1",
    *,
    beta: float = 1.0,
    costs: Any = None,
    sets: Any = None,
    sizes: Any = None,
) -> Any:
    r"""Predict the label set of largest expected value of a metric.

    ============================ ==========================================================================
    metric                       the best prediction
    ============================ ==========================================================================
    ``hamming-loss``             labels with :math:`p > 1/2`
    ``cost``                     labels with :math:`p > c_{FP} / (c_{FP} + c_{FN})`
    ``subset-accuracy``          the most likely set: labels with :math:`p > 1/2` if they are independent
    ``precision@k``              the k most likely labels
    ``example-f1``, ``-fbeta``   the k most likely labels, k by the expected F of the row, exact
    ``macro-f1``, ``-fbeta``     one threshold per label, by the expected counts of the rows given
    ``micro-f1``, ``-fbeta``     one threshold for all labels, by the expected counts of the rows given
    ============================ ==========================================================================

    The expected F of a row whose labels are independent,

    .. math:: f(k) = E\Big[\frac{(1 + \beta^2)\, a}{k + \beta^2 (a + c)}\Big],

    with a positives among the k most likely labels and c among the others, is computed for every k that can be best; an
    empty set is right for a row without labels.

    Parameters
    ----------
    probabilities : array or DataFrame of shape (n_samples, n_labels)
        As :class:`LabelCalibrator` gives them.
    metric : str, default="example-f1"
        One of the table, k being a number, as in ``"precision@3"``.
    beta : float, default=1.0
        For metrics that end in ``-fbeta``: recall counts beta times as much as precision.
    costs : pair of floats or arrays, optional
        For ``"cost"``: of a false positive and of a false negative, the same for all labels or one per label.
    sets : labels in any form, optional
        For ``"subset-accuracy"``: only label sets that occur in these labels, such as those of the training rows, are
        predicted; the one of largest :math:`\sum_{l \in y} \log p_l / (1 - p_l)`.
    sizes : array of shape (n_samples, n_labels, n_labels), optional
        For ``"example-f1"`` and ``-fbeta`` of labels that are not independent: ``sizes[i, l, k - 1]`` is the
        probability that row i has label l and k labels in all. The set is then the best one for this joint
        distribution, exactly.

    Returns
    -------
    ndarray of 0 and 1, or DataFrame for a DataFrame, of shape (n_samples, n_labels)

    References
    ----------
    N. Ye, K. M. A. Chai, W. S. Lee, H. L. Chieu. Optimizing F-measure: a tale of two approaches. ICML 2012.

    K. Dembczynski, W. Waegeman, W. Cheng, E. Hullermeier. An exact algorithm for F-measure maximization. NIPS 2011.

    Examples
    --------
    >>> from multimargin.decisions import decode
    >>> p = [[0.45, 0.4, 0.05], [0.9, 0.3, 0.1]]
    >>> decode(p, "hamming-loss").tolist()
    [[0, 0, 0], [1, 0, 0]]
    >>> decode(p, "example-f1").tolist()
    [[1, 1, 0], [1, 0, 0]]
    """
    p = _read(probabilities)
    n_labels = p.shape[1]
    kind, k = _read_metric(metric)
    if sets is not None and kind != "subset-accuracy":
        msg = f"sets belong to metric='subset-accuracy'; got metric={metric!r}. Leave sets out."
        raise InputError(msg)
    if sizes is not None and not kind.startswith("example"):
        msg = f"sizes belong to metric='example-f1' or 'example-fbeta'; got metric={metric!r}. Leave sizes out."
        raise InputError(msg)
    if kind in ("subset-accuracy", "precision@k"):
        _no_options(metric, beta, costs)
        chosen = _top(p, k) if kind == "precision@k" else _likeliest(p, sets)
    else:
        scoring = read_scoring(kind, n_labels, beta, costs, None)
        b = scoring.beta_squared
        if scoring.costs is not None:
            chosen = p > scoring.costs[0] / (scoring.costs[0] + scoring.costs[1])
        elif scoring.kind == "example":
            chosen = joint_sets(_read_sizes(sizes, p), b) if sizes is not None else _independent(p, b)
        else:
            chosen = _counted(p, b, pooled=scoring.kind == "micro")
    cells = chosen.astype(np.int64)
    if hasattr(probabilities, "columns"):
        import pandas as pd

        return pd.DataFrame(cells, columns=probabilities.columns, index=probabilities.index)
    return cells


def _read(probabilities: Any) -> Floats:
    if sp.issparse(probabilities):
        msg = "probabilities must be a dense array; got a sparse one. Use toarray()."
        raise InputError(msg)
    try:
        p = np.array(probabilities, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"probabilities must be numbers, one per row and label; {error}."
        raise InputError(msg) from None
    if p.ndim != 2 or p.shape[1] == 0:
        msg = f"probabilities must have a row per sample and a column per label; got shape {p.shape}."
        raise InputError(msg)
    if p.size and not (p.min() >= 0 and p.max() <= 1):
        msg = f"probabilities must lie between 0 and 1; they go from {p.min():.3g} to {p.max():.3g}. Calibrate scores."
        raise InputError(msg)
    return p


def _read_metric(metric: Any) -> tuple[str, int]:
    name, at, k = str(metric).partition("@")
    if name == "precision" and at and k.isdecimal() and int(k) > 0:
        return "precision@k", int(k)
    if metric not in METRICS or metric == "precision@k":
        close = difflib.get_close_matches(str(metric), METRICS, n=1)
        hint = "Use 'precision@3', for instance." if name == "precision" else f"There are: {', '.join(METRICS)}."
        hint = f"Did you mean {close[0]!r}?" if close and name != "precision" else hint
        msg = f"metric must be one that has a best label set; got {metric!r}. {hint}"
        raise InputError(msg)
    return str(metric), 0


def _no_options(metric: str, beta: Any, costs: Any) -> None:
    if beta != 1.0 or costs is not None:
        msg = f"metric={metric!r} takes neither beta nor costs. Leave them out."
        raise InputError(msg)


def _top(p: Floats, k: int) -> NDArray[np.bool_]:
    chosen = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(chosen, np.argsort(-p, axis=1, kind="stable")[:, :k], True, axis=1)
    return chosen


def _likeliest(p: Floats, sets: Any) -> NDArray[np.bool_]:
    if sets is None:
        return np.asarray(p > 0.5)
    labels = read_labels(sets, subject="sets")
    if labels.n_labels != p.shape[1]:
        msg = f"sets must have the {p.shape[1]} labels of the probabilities; got {labels.n_labels}."
        raise InputError(msg)
    if labels.missing is not None:
        msg = "sets must be complete; some of their cells are NaN. Leave these rows out."
        raise InputError(msg)
    sets_seen = rows.distinct_sets(labels.positives)
    return np.asarray(rows.seen_sets(log_odds_of(p), sets_seen).toarray().astype(bool))


def _independent(p: Floats, beta_squared: float) -> NDArray[np.bool_]:
    return np.asarray(rows.best_sets(p, beta_squared))


def _counted(p: Floats, beta_squared: float, pooled: bool) -> NDArray[np.bool_]:
    """Predict the most likely cells of a column as long as the F of the expected counts rises."""
    columns = p.reshape(-1, 1) if pooled else p
    order = np.argsort(-columns, axis=0, kind="stable")
    ordered = np.take_along_axis(columns, order, axis=0)
    hits, size = np.cumsum(ordered, axis=0), np.arange(1, len(columns) + 1)[:, None]
    f = (1 + beta_squared) * hits / (beta_squared * hits[-1] + size)
    best = np.argmax(f, axis=0)
    limit = np.take_along_axis(ordered, best[None, :], axis=0)
    chosen = (columns >= limit) & (columns > 0)
    return np.asarray(chosen.reshape(p.shape))


def _read_sizes(sizes: Any, p: Floats) -> Floats:
    found = np.asarray(sizes, dtype=np.float64)
    n, n_labels = p.shape
    if found.shape != (n, n_labels, n_labels):
        msg = f"sizes must have shape {(n, n_labels, n_labels)}; got {found.shape}."
        raise InputError(msg)
    if found.size and (found.min() < -1e-9 or np.abs(found.sum(axis=2) - p).max() > 1e-6):
        msg = (
            "sizes must be probabilities that sum, over the numbers of labels, to the probability of each label; they "
            "do not. Compute both from the same distribution."
        )
        raise InputError(msg)
    return found


def joint_sets(sizes: Floats, beta_squared: float) -> NDArray[np.bool_]:
    """Compare the best sets of every size: for size k, the k labels of largest expected gain."""
    n, n_labels, _ = sizes.shape
    counts = np.arange(1, n_labels + 1)
    share = (1 + beta_squared) / (counts[None, :] + beta_squared * counts[:, None])  # labels in all x predicted
    # a row with k labels appears k times among its labels
    empty = 1.0 - (sizes / counts).sum(axis=(1, 2))
    chosen = np.zeros((n, n_labels), dtype=bool)
    for row in range(n):
        gains = sizes[row] @ share  # label x number predicted
        best = np.sort(gains, axis=0)[::-1].cumsum(axis=0).diagonal()
        k = int(np.argmax(best)) + 1
        if best[k - 1] > empty[row]:
            chosen[row, np.argsort(-gains[:, k - 1], kind="stable")[:k]] = True
    return chosen

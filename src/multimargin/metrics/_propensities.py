"""Precision of the best labels where rare ones count more: unbiased when labels are missing from Y by their rarity.

These need the label counts of the training rows beside Y and scores, and so are functions, and no part of reports.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels
from multimargin.metrics._pairs import Floats, Names, read_best_scores, read_weights
from multimargin.metrics._ranks import Ranking
from multimargin.metrics._registry import check_k

__all__ = ["propensities", "psp_at_k"]


def propensities(Y: Any, *, A: float = 0.55, B: float = 1.5, names: Names = None) -> Floats:
    r"""How likely a true label is to be found in Y, from how often it is found in training.

    .. math:: p_l = \frac{1}{1 + c\, e^{-A \log(N_l + B)}}, \qquad c = (\log N - 1) (B + 1)^A

    where :math:`N_l` of N training rows have label l; fewer than 3 rows count as 3.

    Parameters
    ----------
    Y : labels in any form
        Of the training rows.
    A, B : float
        The usual values, 0.55 and 1.5; for Wikipedia's sets 0.5 and 0.4, for Amazon's 0.6 and 2.6 are published.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.

    Returns
    -------
    ndarray of shape (n_labels,)

    References
    ----------
    H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging, ranking and other
    missing label applications. KDD 2016. https://doi.org/10.1145/2939672.2939756

    Examples
    --------
    >>> from multimargin import metrics
    >>> metrics.propensities([[1, 0], [1, 0], [1, 1], [1, 0]]).round(3)
    array([0.8  , 0.721])
    """
    if not all(isinstance(value, Real) and np.isfinite(value) and value > 0 for value in (A, B)):
        msg = f"A and B must be numbers above 0; got A={A!r} and B={B!r}. The usual values are 0.55 and 1.5."
        raise InputError(msg)
    labels = read_labels(Y, names=names)
    present = labels.counts()[0]
    c = (np.log(max(labels.n_samples, 3)) - 1) * (B + 1) ** A
    return np.asarray(1 / (1 + c * np.exp(-A * np.log(present + B))))


def psp_at_k(
    Y: Any,
    scores: Any,
    k: int,
    propensities: ArrayLike,
    *,
    normalize: bool = True,
    names: Names = None,
    sample_weight: Any = None,
) -> float:
    r"""Propensity-scored precision at k: the true labels among the best k, each counted 1 / p.

    .. math:: \text{PSP@}k = \frac{\sum_i \sum_{l \in \text{best } k \text{ of row } i} y_{il} / p_l}
              {\sum_i \max_{|S| \le k} \sum_{l \in S} y_{il} / p_l}

    Labels tied at rank k share the remaining places.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels), or what ``predict_top(X, k)`` gives
        Larger means more likely.
    k : int
        How many labels to look at, from 1 to the number of labels.
    propensities : array-like of shape (n_labels,)
        p, from the labels of the training rows: :func:`propensities`.
    normalize : bool, default=True
        Whether to divide by the best value there can be, as published tables do; otherwise by k times the rows.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float
        NaN where no row has a label.

    Examples
    --------
    >>> from multimargin import metrics
    >>> p = metrics.propensities([[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]])
    >>> round(metrics.psp_at_k([[1, 1, 0]], [[0.9, 0.2, 0.1]], 1, p), 3)
    0.902
    """
    truth = read_labels(Y, names=names)
    k = check_k(k, truth.n_labels)
    gain = 1 / _checked(propensities, truth)
    ranking = Ranking(truth, read_best_scores(scores, truth, k), read_weights(sample_weight, truth.n_samples))
    rows, gains = ranking.rows, gain[truth.positives.indices]
    got = rows.per_row(gains * np.clip((k - rows.above) / (rows.reach - rows.above), 0.0, 1.0))
    weights = np.ones(truth.n_samples) if ranking.weights is None else ranking.weights
    best = weights @ _largest(gains, rows.row, rows.present, k) if normalize else k * weights[rows.known > 0].sum()
    return float(weights @ got / best) if best > 0 else float("nan")


def _largest(gains: Floats, row: Any, present: Any, k: int) -> Floats:
    """Sum the k largest gains of each row."""
    order = np.lexsort((-gains, row))
    rank = np.arange(len(row)) - np.repeat(np.cumsum(present) - present, present)
    first = rank < k
    sums = np.bincount(row[order][first], weights=gains[order][first], minlength=len(present))
    return np.asarray(sums, dtype=np.float64)


def _checked(propensities: ArrayLike, truth: LabelMatrix) -> Floats:
    p = np.asarray(propensities, dtype=np.float64)
    if p.shape != (truth.n_labels,) or not np.all((p > 0) & (p <= 1)):
        extent = f" with values from {p.min():.3g} to {p.max():.3g}" if p.size else ""
        msg = (
            f"propensities must be {truth.n_labels} numbers above 0 and up to 1, one per label; got shape {p.shape}"
            f"{extent}. Give metrics.propensities(Y_train)."
        )
        raise InputError(msg)
    return p

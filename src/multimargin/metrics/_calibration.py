"""How good probabilities of labels are: Brier score, log-loss, reliability and calibration errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix, read_labels
from multimargin.metrics._pairs import Floats, Names, mean, ratio, read_scores, read_weights

__all__ = ["Reliability", "brier_score", "calibration_error", "calibration_error_at_k", "log_loss", "reliability"]

AVERAGES = ("macro", "micro")


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean probability against the share of positives, in bins of equally many cells.

    Attributes
    ----------
    probability, share : ndarray of shape (n_bins,)
        Mean probability of the cells of a bin, and the share of them that is positive.
    size : ndarray of shape (n_bins,)
        Cells in the bin.
    low, high : ndarray of shape (n_bins,)
        Wilson's interval of 90 % for the share.
    """

    probability: Floats
    share: Floats
    size: Floats
    low: Floats
    high: Floats

    @property
    def error(self) -> float:
        r"""Expected calibration error, :math:`\sum_b n_b |\bar y_b - \bar p_b| / n`: biased upwards."""
        return float(self.size @ np.abs(self.share - self.probability) / self.size.sum())

    @property
    def debiased_squared_error(self) -> float:
        r"""Squared calibration error without the noise of the bins; it may be negative.

        .. math:: \sum_b \frac{n_b}{n} \Big[ (\bar y_b - \bar p_b)^2 - \frac{\bar y_b (1 - \bar y_b)}{n_b - 1} \Big]
        """
        noise = self.share * (1 - self.share) / np.maximum(self.size - 1, 1)
        return float(self.size @ ((self.share - self.probability) ** 2 - noise) / self.size.sum())


def brier_score(
    Y: Any, probabilities: Any, *, average: str | None = "macro", names: Names = None, sample_weight: Any = None
) -> Any:
    r"""Mean squared distance between probabilities and labels.

    .. math:: \frac{1}{n L} \sum_{i,l} (p_{il} - y_{il})^2

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    probabilities : array-like of shape (n_samples, n_labels)
        Probability of every label.
    average : {"macro", "micro"} or None, default="macro"
        Mean over labels, over cells, or an array with one value per label. A label of which nothing is known is NaN.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float or ndarray of shape (n_labels,)

    Examples
    --------
    >>> from multimargin import metrics
    >>> metrics.brier_score([[1, 0], [0, 0]], [[0.5, 0.0], [0.5, 0.0]])
    0.125
    """
    cells = _read(Y, probabilities, names, sample_weight)
    return cells.average((cells.p - cells.truth) ** 2, average)


def log_loss(
    Y: Any, probabilities: Any, *, average: str | None = "macro", names: Names = None, sample_weight: Any = None
) -> Any:
    r"""Mean negative logarithm of the probability given to the truth of each cell.

    .. math:: -\frac{1}{n L} \sum_{i,l} y_{il} \log p_{il} + (1 - y_{il}) \log(1 - p_{il})

    Infinite where a probability of 0 or 1 was wrong.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    probabilities : array-like of shape (n_samples, n_labels)
        Probability of every label.
    average : {"macro", "micro"} or None, default="macro"
        Mean over labels, over cells, or an array with one value per label. A label of which nothing is known is NaN.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float or ndarray of shape (n_labels,)

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.log_loss([[1, 0], [0, 0]], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    cells = _read(Y, probabilities, names, sample_weight)
    with np.errstate(divide="ignore"):
        loss = -np.where(cells.truth, np.log(cells.p), np.log1p(-cells.p))
    return cells.average(loss, average)


def reliability(
    Y: Any, probabilities: Any, *, n_bins: int = 15, names: Names = None, sample_weight: Any = None
) -> Reliability:
    """Compare probabilities with the share of positives, in bins of equally many cells, all labels pooled.

    For one label give its column of Y and of the probabilities.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    probabilities : array-like of shape (n_samples, n_labels)
        Probability of every label.
    n_bins : int, default=15
        Number of bins; equal probabilities are never split between bins, so there may be fewer.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> from multimargin import metrics
    >>> curve = metrics.reliability([[1, 0], [1, 0], [0, 0], [1, 0]], [[0.8, 0.1]] * 4, n_bins=2)
    >>> curve.share.tolist()
    [0.0, 0.75]
    >>> round(curve.error, 3)
    0.075
    """
    cells = _read(Y, probabilities, names, sample_weight)
    return _bins(cells.p[cells.known], cells.truth[cells.known], cells.cell_weights[cells.known], n_bins)


def calibration_error(
    Y: Any,
    probabilities: Any,
    *,
    n_bins: int = 15,
    debiased: bool = False,
    names: Names = None,
    sample_weight: Any = None,
) -> float:
    r"""Mean distance between probabilities and shares of positives, in bins of equally many cells.

    .. math:: \sum_b \frac{n_b}{n} |\bar y_b - \bar p_b|

    A model that always says the frequency of a label has almost no calibration error: never rank models by it alone,
    but beside their log-loss.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    probabilities : array-like of shape (n_samples, n_labels)
        Probability of every label.
    n_bins : int, default=15
        Number of bins.
    debiased : bool, default=False
        Whether to give the squared error less the noise of the bins, :attr:`Reliability.debiased_squared_error`,
        whose expectation is 0 for perfect probabilities.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.calibration_error([[1], [0], [0], [0]], [[0.5]] * 4), 3)
    0.25
    """
    found = reliability(Y, probabilities, n_bins=n_bins, names=names, sample_weight=sample_weight)
    return found.debiased_squared_error if debiased else found.error


def calibration_error_at_k(
    Y: Any, probabilities: Any, k: int = 5, *, n_bins: int = 15, names: Names = None, sample_weight: Any = None
) -> float:
    """Calibration error of the k most likely labels of each row: of the probabilities that are looked at.

    With many rare labels almost all cells have a probability near 0 and are calibrated; these are not.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    probabilities : array-like of shape (n_samples, n_labels)
        Probability of every label.
    k : int, default=5
        Labels per row; all if there are fewer.
    n_bins : int, default=15
        Number of bins.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> round(metrics.calibration_error_at_k([[1, 0], [0, 0]], [[0.5, 0.1], [0.5, 0.1]], k=1), 3)
    0.0
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        msg = f"k must be a number of labels, at least 1; got {k!r}. Use k=5."
        raise InputError(msg)
    cells = _read(Y, probabilities, names, sample_weight)
    order = np.argsort(-np.where(cells.known, cells.p, -1.0), axis=1, kind="stable")[:, :k]
    taken = [
        np.take_along_axis(part, order, axis=1) for part in (cells.p, cells.truth, cells.cell_weights, cells.known)
    ]
    keep = taken[3].astype(bool)
    return _bins(taken[0][keep], taken[1][keep], taken[2][keep], n_bins).error


@dataclass(frozen=True, eq=False)
class _Cells:
    p: Floats
    truth: NDArray[np.bool_]
    known: NDArray[np.bool_]
    cell_weights: Floats

    def average(self, loss: Floats, average: str | None) -> Any:
        if average is not None and average not in AVERAGES:
            msg = f"average must be 'macro', 'micro' or None; got {average!r}."
            raise InputError(msg)
        loss = np.where(self.cell_weights > 0, loss, 0.0)
        sums, weights = (self.cell_weights * loss).sum(axis=0), self.cell_weights.sum(axis=0)
        if average == "micro":
            return float(ratio(sums.sum(), weights.sum()))
        values = ratio(sums, weights)
        return values if average is None else mean(values).value


def _read(Y: Any, probabilities: Any, names: Names, sample_weight: Any) -> _Cells:
    labels: LabelMatrix = read_labels(Y, names=names)
    p = np.asarray(read_scores(probabilities, labels), dtype=np.float64)
    if p.size and (p.min() < 0 or p.max() > 1):
        found = f"they go from {p.min():.3g} to {p.max():.3g}"
        msg = f"probabilities must lie between 0 and 1; {found}. Calibrate the scores first."
        raise InputError(msg)
    weights = read_weights(sample_weight, labels.n_samples)
    known = np.ones(p.shape, dtype=bool) if labels.missing is None else ~labels.missing.toarray().astype(bool)
    rows = np.ones(len(p)) if weights is None else weights
    return _Cells(p, labels.positives.toarray().astype(bool), known, np.where(known, rows[:, None], 0.0))


def _bins(p: Floats, truth: NDArray[Any], weights: Floats, n_bins: Any) -> Reliability:
    if isinstance(n_bins, bool) or not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        msg = f"n_bins must be a number of bins, at least 1; got {n_bins!r}. Use 15."
        raise InputError(msg)
    if not weights.sum() > 0:
        msg = "Y holds no known label, so no probability can be compared with it. Give at least one known cell."
        raise InputError(msg)
    order = np.argsort(p, kind="stable")
    p, truth, weights = p[order], truth[order].astype(np.float64), weights[order]
    share_before = (np.cumsum(weights) - weights) / weights.sum()
    bins = np.minimum((share_before * n_bins).astype(np.int64), n_bins - 1)
    first = np.concatenate([[0], np.flatnonzero(p[1:] != p[:-1]) + 1])
    bins = np.repeat(bins[first], np.diff(np.concatenate([first, [len(p)]])))  # equal probabilities, one bin
    _, bins = np.unique(bins, return_inverse=True)
    size = np.bincount(bins, weights=weights)
    filled = size > 0
    total = np.asarray(size[filled], dtype=np.float64)
    probability = np.bincount(bins, weights=weights * p)[filled] / total
    share = np.bincount(bins, weights=weights * truth)[filled] / total
    z = norm.ppf(0.95)
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    spread = z / (1 + z * z / total) * np.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return Reliability(probability, share, total, np.maximum(centre - spread, 0), np.minimum(centre + spread, 1))

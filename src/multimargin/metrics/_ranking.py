"""Metrics of label scores."""

from __future__ import annotations

from typing import Any

from multimargin.metrics._pairs import Names, Undefined
from multimargin.metrics._ranks import ranking_metric


def ranking_loss(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over rows of the share of label pairs in the wrong order.

    .. math:: \frac{1}{n} \sum_i \frac{|\{(l, m): y_{il} = 1, y_{im} = 0, f_{il} \le f_{im}\}|}
              {|Y_i| (L - |Y_i|)}

    Undefined for a row with no label or with all of them.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.ranking_loss(Y, scores), 3)
    0.5
    """
    return ranking_metric("ranking-loss", Y, scores, names, sample_weight, undefined)


def coverage(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over rows of how far down the ranking all true labels are found.

    .. math:: \frac{1}{n} \sum_i \max_{l \in Y_i} |\{m: f_{im} \ge f_{il}\}|

    Counted from 1, so the best value is the mean number of labels per row; some authors subtract 1. Undefined
    for a row without labels.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.coverage(Y, scores), 3)
    2.0
    """
    return ranking_metric("coverage", Y, scores, names, sample_weight, undefined)


def one_error(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Share of rows whose best-scored label is wrong.

    Labels tied for the best score share the decision equally. Undefined for a row without labels.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.one_error(Y, scores), 3)
    0.5
    """
    return ranking_metric("one-error", Y, scores, names, sample_weight, undefined)


def lrap(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Label ranking average precision: share of true labels among those ranked as high, averaged.

    .. math:: \frac{1}{n} \sum_i \frac{1}{|Y_i|} \sum_{l \in Y_i}
              \frac{|\{m \in Y_i: f_{im} \ge f_{il}\}|}{|\{m: f_{im} \ge f_{il}\}|}

    Undefined for a row without labels.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.lrap(Y, scores), 3)
    0.792
    """
    return ranking_metric("lrap", Y, scores, names, sample_weight, undefined)


def precision_at_k(Y: Any, scores: Any, k: int, *, names: Names = None, sample_weight: Any = None) -> float:
    r"""Mean over rows of the share of true labels among the k with the best scores.

    A row without labels counts as 0. Where fewer than k labels of a row are known, all known ones count.
    Labels tied at rank k share the remaining places.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    k : int
        How many labels are looked at, at most the number of labels.
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
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.precision_at_k(Y, scores, 2), 3)
    0.5
    """
    return ranking_metric(f"precision@{k}", Y, scores, names, sample_weight, "skip")


def ndcg_at_k(
    Y: Any,
    scores: Any,
    k: int,
    *,
    names: Names = None,
    sample_weight: Any = None,
    undefined: Undefined = "skip",
) -> float:
    r"""Mean over rows of the normalised discounted cumulative gain of the best k scores.

    .. math:: \frac{1}{n} \sum_i \sum_{r=1}^{k} \frac{[r\text{-th label is true}]}{\log_2(r + 1)} \Big/
              \sum_{r=1}^{\min(k, |Y_i|)} \frac{1}{\log_2(r + 1)}

    Undefined for a row without labels.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    k : int
        How many labels are looked at, at most the number of labels.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.ndcg_at_k(Y, scores, 2), 3)
    0.693
    """
    return ranking_metric(f"ndcg@{k}", Y, scores, names, sample_weight, undefined)


def macro_roc_auc(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over labels of the area under the ROC curve.

    .. math:: \frac{1}{P_l N_l} \sum_{i: y_{il} = 1} \sum_{j: y_{jl} = 0}
              \left([f_{il} > f_{jl}] + \tfrac12 [f_{il} = f_{jl}]\right)

    Undefined for a label that is constant in Y.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.macro_roc_auc(Y, scores), 3)
    1.0
    """
    return ranking_metric("macro-roc-auc", Y, scores, names, sample_weight, undefined)


def micro_roc_auc(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Area under the ROC curve of all cells pooled.

    As if the cells of Y were the rows of one label. Undefined if all of them are equal.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.micro_roc_auc(Y, scores), 3)
    0.778
    """
    return ranking_metric("micro-roc-auc", Y, scores, names, sample_weight, undefined)


def macro_average_precision(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Mean over labels of the average precision.

    .. math:: \frac{1}{P_l} \sum_{i: y_{il} = 1}
              \frac{|\{j: y_{jl} = 1, f_{jl} \ge f_{il}\}|}{|\{j: f_{jl} \ge f_{il}\}|}

    Undefined for a label that is constant in Y.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.macro_average_precision(Y, scores), 3)
    1.0
    """
    return ranking_metric("macro-average-precision", Y, scores, names, sample_weight, undefined)


def micro_average_precision(
    Y: Any, scores: Any, *, names: Names = None, sample_weight: Any = None, undefined: Undefined = "skip"
) -> float:
    r"""Average precision of all cells pooled.

    As if the cells of Y were the rows of one label. Undefined if all of them are equal.

    Parameters
    ----------
    Y : labels in any form
        True labels; NaN cells are left out.
    scores : array-like of shape (n_samples, n_labels)
        Larger means more likely, as ``decision_function`` gives them.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out, counted as worst, or counted as perfect.

    Returns
    -------
    float

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [[1, 0, 0], [0, 1, 1]]
    >>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
    >>> round(metrics.micro_average_precision(Y, scores), 3)
    0.806
    """
    return ranking_metric("micro-average-precision", Y, scores, names, sample_weight, undefined)

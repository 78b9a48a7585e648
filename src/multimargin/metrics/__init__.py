"""Multi-label metrics: one report, plain functions, and scorers for scikit-learn's searches.

Y and predictions come in every form :func:`multimargin.labels.read_labels` takes, and sparse ones stay
sparse. Scores are dense, of shape (n_samples, n_labels), larger meaning more likely; the metrics of the best k
labels (P@k, nDCG@k, PSP@k) also take what ``predict_top(X, k)`` returns.

Conventions
-----------
Undefined values
    These are 0/0: a label's precision without a prediction, its recall without a positive row, its F1 without
    either; the AUC and average precision of a label that is constant in Y; the ranking loss, coverage,
    one-error, LRAP and nDCG of a row without labels, and the ranking loss of a row with all of them. With
    ``undefined="skip"`` they are left out of the averages, and the report counts them; with ``undefined=1``
    they count as perfect, with ``undefined=0`` as worst. For precision, recall and F1 these are
    scikit-learn's ``zero_division`` nan, 1 and 0; for ranking loss and LRAP ``undefined=1`` is scikit-learn's
    convention.
Rows
    A row without labels for which none is predicted is predicted perfectly: its precision, recall and F1 are
    1. Otherwise 0/0 is 0 in a row.
Ties between scores
    Count against the prediction in ranking loss, coverage, LRAP and average precision, as in scikit-learn.
    P@k, one-error, nDCG@k and AUC are the expectation over random orders of the tied labels.
Unknown cells
    NaN cells of Y are dropped from every metric, as if the label did not exist for that row.
Averages
    Macro is the mean over labels, weighted the mean over labels weighted by their positive rows, micro pools
    all cells, samples is the mean over rows.

Examples
--------
>>> from multimargin import metrics
>>> Y = [[1, 0, 0], [0, 1, 1]]
>>> round(metrics.hamming_loss(Y, [[1, 0, 0], [0, 0, 1]]), 3)
0.167
>>> round(metrics.macro_f1(Y, [[1, 0, 0], [0, 0, 1]]), 3)
0.667
>>> scores = [[0.9, 0.2, 0.1], [0.8, 0.7, 0.3]]
>>> round(metrics.ranking_loss(Y, scores), 3), round(metrics.ndcg_at_k(Y, scores, 2), 3)
(0.5, 0.693)
"""

from multimargin.metrics._calibration import (
    Reliability,
    brier_score,
    calibration_error,
    calibration_error_at_k,
    log_loss,
    reliability,
)
from multimargin.metrics._categories import (
    harmonic_mean_accuracy,
    harmonic_mean_scorer,
    per_class_accuracy,
    per_class_scorer,
)
from multimargin.metrics._of_labels import (
    example_f1,
    hamming_loss,
    macro_f1,
    micro_f1,
    subset_accuracy,
    weighted_f1,
)
from multimargin.metrics._of_scores import (
    coverage,
    lrap,
    macro_average_precision,
    macro_roc_auc,
    micro_average_precision,
    micro_roc_auc,
    ndcg_at_k,
    one_error,
    precision_at_k,
    ranking_loss,
)
from multimargin.metrics._propensities import propensities, psp_at_k
from multimargin.metrics._report import Report, report
from multimargin.metrics._scorers import Scorer, scorer, scorers

__all__ = [
    "Reliability",
    "Report",
    "Scorer",
    "brier_score",
    "calibration_error",
    "calibration_error_at_k",
    "coverage",
    "example_f1",
    "hamming_loss",
    "harmonic_mean_accuracy",
    "harmonic_mean_scorer",
    "log_loss",
    "lrap",
    "macro_average_precision",
    "macro_f1",
    "macro_roc_auc",
    "micro_average_precision",
    "micro_f1",
    "micro_roc_auc",
    "ndcg_at_k",
    "one_error",
    "per_class_accuracy",
    "per_class_scorer",
    "precision_at_k",
    "propensities",
    "psp_at_k",
    "ranking_loss",
    "reliability",
    "report",
    "scorer",
    "scorers",
    "subset_accuracy",
    "weighted_f1",
]

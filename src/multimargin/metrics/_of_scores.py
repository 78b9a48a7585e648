"""Metrics of label scores."""

from __future__ import annotations

import numpy as np

from multimargin.metrics._pairs import Floats, Mean, Undefined, fill, mean, ratio
from multimargin.metrics._ranks import Ranking, RowRanks
from multimargin.metrics._registry import of_best, of_scores


@of_scores("ranking-loss", loss=True)
def ranking_loss(ranking: Ranking, undefined: Undefined) -> Mean:
    r"""Mean over rows of the share of label pairs in the wrong order.

    .. math:: \frac{1}{n} \sum_i \frac{|\{(l, m): y_{il} = 1, y_{im} = 0, f_{il} \le f_{im}\}|}
              {|Y_i| (L - |Y_i|)}

    Undefined for a row with no label or with all of them.
    """
    rows = ranking.rows
    wrong = rows.per_row(rows.reach - rows.hits)
    loss = ratio(wrong, rows.present * (rows.known - rows.present))
    return ranking.average_rows(fill(loss, undefined, best=0.0, worst=1.0))


@of_scores("coverage", loss=True)
def coverage(ranking: Ranking, undefined: Undefined) -> Mean:
    r"""Mean over rows of how far down the ranking all true labels are found.

    .. math:: \frac{1}{n} \sum_i \max_{l \in Y_i} |\{m: f_{im} \ge f_{il}\}|

    Counted from 1, so the best value is the mean number of labels per row; some authors subtract 1. Undefined
    for a row without labels.
    """
    rows = ranking.rows
    depth = np.full(len(rows.present), np.nan)
    if len(rows.row):
        labelled = rows.present > 0
        starts = np.cumsum(rows.present) - rows.present
        depth[labelled] = np.maximum.reduceat(rows.reach, starts[labelled])
    return ranking.average_rows(fill(depth, undefined, best=0.0, worst=rows.known))


@of_scores("one-error", loss=True)
def one_error(ranking: Ranking, undefined: Undefined) -> Mean:
    """Share of rows whose best-scored label is wrong.

    Labels tied for the best score share the decision equally. Undefined for a row without labels.
    """
    error = np.where(ranking.rows.present > 0, 1.0 - _in_top(ranking.rows, 1), np.nan)
    return ranking.average_rows(fill(error, undefined, best=0.0, worst=1.0))


@of_scores("lrap")
def lrap(ranking: Ranking, undefined: Undefined) -> Mean:
    r"""Label ranking average precision: share of true labels among those ranked as high, averaged.

    .. math:: \frac{1}{n} \sum_i \frac{1}{|Y_i|} \sum_{l \in Y_i}
              \frac{|\{m \in Y_i: f_{im} \ge f_{il}\}|}{|\{m: f_{im} \ge f_{il}\}|}

    Undefined for a row without labels.
    """
    rows = ranking.rows
    return ranking.average_rows(fill(ratio(rows.per_row(rows.hits / rows.reach), rows.present), undefined))


@of_scores("macro-average-precision")
def macro_average_precision(ranking: Ranking, undefined: Undefined) -> Mean:
    r"""Mean over labels of the average precision.

    .. math:: \frac{1}{P_l} \sum_{i: y_{il} = 1}
              \frac{|\{j: y_{jl} = 1, f_{jl} \ge f_{il}\}|}{|\{j: f_{jl} \ge f_{il}\}|}

    Undefined for a label that is constant in Y.
    """
    return mean(fill(ranking.labels.average_precision, undefined))


@of_scores("micro-average-precision")
def micro_average_precision(ranking: Ranking, undefined: Undefined) -> Mean:
    """Average precision of all cells pooled.

    As if the cells of Y were the rows of one label. Undefined if all of them are equal.
    """
    return Mean(float(fill(ranking.pool.average_precision, undefined)[0]))


@of_scores("macro-roc-auc")
def macro_roc_auc(ranking: Ranking, undefined: Undefined) -> Mean:
    r"""Mean over labels of the area under the ROC curve.

    .. math:: \frac{1}{P_l N_l} \sum_{i: y_{il} = 1} \sum_{j: y_{jl} = 0}
              \left([f_{il} > f_{jl}] + \tfrac12 [f_{il} = f_{jl}]\right)

    Undefined for a label that is constant in Y.
    """
    return mean(fill(ranking.labels.roc_auc, undefined))


@of_scores("micro-roc-auc")
def micro_roc_auc(ranking: Ranking, undefined: Undefined) -> Mean:
    """Area under the ROC curve of all cells pooled.

    As if the cells of Y were the rows of one label. Undefined if all of them are equal.
    """
    return Mean(float(fill(ranking.pool.roc_auc, undefined)[0]))


@of_best("precision@k")
def precision_at_k(ranking: Ranking, undefined: Undefined, k: int) -> Mean:
    """Mean over rows of the share of true labels among the k with the best scores.

    A row without labels counts as 0. Where fewer than k labels of a row are known, all known ones count.
    Labels tied at rank k share the remaining places.
    """
    return ranking.average_rows(ratio(_in_top(ranking.rows, k), np.minimum(k, ranking.rows.known)))


@of_best("ndcg@k")
def ndcg_at_k(ranking: Ranking, undefined: Undefined, k: int) -> Mean:
    r"""Mean over rows of the normalised discounted cumulative gain of the best k scores.

    .. math:: \frac{1}{n} \sum_i \sum_{r=1}^{k} \frac{[r\text{-th label is true}]}{\log_2(r + 1)} \Big/
              \sum_{r=1}^{\min(k, |Y_i|)} \frac{1}{\log_2(r + 1)}

    Undefined for a row without labels.
    """
    rows = ranking.rows
    gains = 1 / np.log2(np.arange(2, ranking.truth.n_labels + 2))
    gains[k:] = 0.0
    total = np.r_[0.0, np.cumsum(gains)]
    got = rows.per_row((total[rows.reach] - total[rows.above]) / (rows.reach - rows.above))
    return ranking.average_rows(fill(ratio(got, total[rows.present]), undefined))


def _in_top(rows: RowRanks, k: int) -> Floats:
    """Return the expected number of true labels among the best k of each row."""
    return rows.per_row(np.clip((k - rows.above) / (rows.reach - rows.above), 0.0, 1.0))

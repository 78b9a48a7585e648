"""Ranking SVM with a learned threshold."""

from __future__ import annotations

from typing import Any

from multimargin import _core
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.baselines._rank_svm_interior import RankProposal, solve_rank_interior
from multimargin.baselines._ranking import RankingModel, RankTask

__all__ = ["RankSVM"]


class RankSVM(RankingModel):
    r"""Ranking SVM of Elisseeff and Weston: each row's labels above the labels it lacks, then a learned threshold.

    Minimises, over the weights :math:`w_1, \dots, w_L` of the labels,

    .. math::

        \tfrac12 \sum_k |w_k|^2 + \sum_i \frac{c_i}{|y_i|\,|\bar y_i|} \sum_{k \in y_i,\, l \in \bar y_i}
        \max\big(0,\; 1 - (w_k - w_l)^\top x_i\big)

    where :math:`y_i` are the labels of row i, :math:`\bar y_i` those it lacks, and
    :math:`c_i = C \cdot \text{weight}_i`. A threshold is then learned; labels with scores above it are predicted.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    max_iter : int, default=1000
        Largest number of passes over the data. On small data, steps of an interior-point method follow where passes
        take long, as on badly scaled inputs.
    n_jobs : int, optional
        Has no effect; the solver runs on one thread.

    Attributes
    ----------
    certificate_ : Certificate
        Of the ranking problem. The ranking weights are those of the decisions less their mean: the best ones sum to
        zero.

    Notes
    -----
    There is no ``class_weight``: an error belongs to a label the row has and to one it lacks, so that weights of the
    two classes would multiply each other, as another C does; what decides between them is the threshold.

    References
    ----------
    A. Elisseeff, J. Weston. A kernel method for multi-labelled classification. NIPS 14 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import RankSVM
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = RankSVM(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.0, 0.9], [0.9, 0.0]])
    [('sea',), ('sun',)]
    """

    def __init__(
        self,
        C: float | str = "scale",
        *,
        threshold: str = "least-squares",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.threshold = threshold
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _visit_rows(self, task: RankTask, limits: _core.Limits) -> RankProposal:
        problem = task.problem
        found = _core.fit_rank_svm(rows=problem.rows, labels=problem.cells, bias=task.ranking.bias, limits=limits)
        return RankProposal(found.weights[task.varies], found.alpha, found.result.passes, found.result.status)

    def _solve_interior(self, ranking: RankProblem, limits: _core.Limits) -> RankProposal:
        return solve_rank_interior(ranking, limits)

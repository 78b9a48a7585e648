"""Ranking of labels by the worst pair of each row, or by a perceptron, with a learned threshold."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from multimargin import _core
from multimargin.baselines._category_certifier import CategoryProblem
from multimargin.baselines._category_interior import solve_category_interior
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.baselines._rank_svm_interior import RankProposal
from multimargin.baselines._ranking import RankingModel, RankTask
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Interval, Model, Problem, StrOptions, WarmStart
from multimargin.estimators.monitor import Monitor

__all__ = ["CategoryRanking"]


class CategoryRanking(RankingModel):
    r"""Category ranking of Crammer and Singer: every label of a row above every label it lacks, then a threshold.

    ``solver="batch"`` minimises, over the weights :math:`w_1, \dots, w_L` of the labels,

    .. math::

        \tfrac12 \sum_k |w_k|^2 + \sum_i c_i \max\Big(0,\; 1 + \max_{l \in \bar y_i} w_l^\top x_i -
        \min_{k \in y_i} w_k^\top x_i\Big)

    where :math:`y_i` are the labels of row i, :math:`\bar y_i` those it lacks, and :math:`c_i = C \cdot
    \text{weight}_i`: the loss of a row is that of its worst pair, while :class:`RankSVM` takes the mean over its pairs.
    Where every row has one label it is the multi-class SVM of Crammer and Singer. Rows with all labels or none have no
    loss.

    ``solver="perceptron"`` is their online algorithm, with averaged weights: a row with wrong pairs :math:`E` of a
    label it has and one it lacks, the first scoring no higher, changes the weights by multiples of :math:`x_i` which
    add up to :math:`|E| / (|y_i| |\bar y_i|)` over its labels, and to the opposite over the others. It has no objective
    and no certificate.

    A threshold is then learned; labels with scores above it are predicted.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder; without effect on the perceptron. ``"scale"`` is one
        over the mean squared length of the rows, by their weights: 1 where rows have length 1.
    solver : {"batch", "perceptron"}, default="batch"
        Problem with a certificate, or online algorithm.
    update : {"uniform", "max"}, default="uniform"
        What a row changes in the perceptron: all labels of wrong pairs, each as often as it is in one, or only its
        lowest label and the highest one it lacks.
    epochs : int, default=10
        Passes of the perceptron over the rows.
    max_iter : int, default=1000
        Largest number of passes of the batch solver. On small data, steps of an interior-point method follow where
        passes take long, as on badly scaled inputs.
    n_jobs : int, optional
        Has no effect; the solvers run on one thread.

    Attributes
    ----------
    certificate_ : Certificate
        Of the ranking problem; a perceptron has none. The ranking weights are those of the decisions less their mean:
        the best ones sum to zero.

    References
    ----------
    K. Crammer, Y. Singer. A family of additive online algorithms for category ranking. Journal of Machine Learning
    Research 3 (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import CategoryRanking
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = CategoryRanking(C=10, threshold="least-squares").fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.0, 0.9], [0.9, 0.0]])
    [('sea',), ('sun',)]
    """

    _ranking: ClassVar[type[RankProblem]] = CategoryProblem
    _optional_attributes: ClassVar[frozenset[str]] = RankingModel._optional_attributes | {"certificate_"}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingModel._parameter_constraints,
        "solver": [StrOptions({"batch", "perceptron"})],
        "update": [StrOptions({"uniform", "max"})],
        "epochs": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        solver: str = "batch",
        threshold: str = "auto",
        update: str = "uniform",
        epochs: int = 10,
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
        self.solver = solver
        self.threshold = threshold
        self.update = update
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _solve(self, task: RankTask, last: WarmStart | None, monitor: Monitor) -> Model:
        return super()._solve(task, last, monitor) if self.solver == "batch" else self._perceptron(task, monitor)

    def _visit_rows(self, task: RankTask, limits: _core.Limits) -> RankProposal:
        problem, varies = task.problem, task.varies
        found = _core.fit_category_ranking(
            rows=problem.rows, labels=problem.cells, bias=task.ranking.bias, limits=limits
        )
        return RankProposal(found.weights[varies], found.dual[:, varies], found.result.passes, found.result.status)

    def _solve_interior(self, ranking: RankProblem, limits: _core.Limits) -> RankProposal:
        return solve_category_interior(ranking, limits)

    def _perceptron(self, task: RankTask, monitor: Monitor) -> Model:
        problem = task.problem
        found = _core.fit_category_perceptron(
            rows=problem.rows,
            labels=problem.cells,
            bias=task.ranking.bias,
            worst=self.update == "max",
            limits=self._limits(problem, monitor, max_iter=self.epochs),
        )
        fitted = self._fitted(task, found.weights[task.varies] / problem.C, np.dtype(problem.dtype))
        return Model(fitted, Bounds(0.0, 0.0), found.result.passes)

    def _attributes(self, problem: Problem, model: Model, monitor: Monitor) -> dict[str, Any]:
        fitted = super()._attributes(problem, model, monitor)
        if self.solver == "perceptron":
            fitted["history_"] = Monitor(None, 0, "").history()
            del fitted["certificate_"]
        return fitted

    def _bounds(self, problem: Problem) -> Bounds:
        if not hasattr(self, "certificate_"):
            msg = 'The perceptron solves no problem of which there is a certificate. Fit with solver="batch".'
            raise InputError(msg)
        return super()._bounds(problem)

    def _warn_unless_converged(self, model: Model) -> None:
        if self.solver == "batch":
            super()._warn_unless_converged(model)

"""The cutting-plane method of SVM-struct on the problem of M3L."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin.baselines._one_slack import SlackProblem, SlackProposal, solve_one_slack
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import LinearModel, Model, Problem, Status, WarmStart
from multimargin.estimators.m3l.base import M3LTask
from multimargin.estimators.m3l.linear_problem import linear_problem
from multimargin.estimators.monitor import Monitor
from multimargin.weights import unit_margins

__all__ = ["CuttingPlaneM3L"]


class CuttingPlaneM3L(LinearModel):
    r"""The problem of :class:`~multimargin.LinearM3L` without a prior, solved by the cutting plane of SVM-struct.

    For comparison: it minimises the same

    .. math::

        \tfrac12 \sum_l |z_l|^2 + \sum_{i,l} c_{il} \max(0,\; 1 - y_{il}\, z_l^\top x_i)

    as a structured SVM does, with a constraint for every labelling of the rows and one slack :math:`\xi` for all of
    them: :math:`\tfrac12 |Z|^2 + \xi`, :math:`\xi \ge b_k - \langle G_k, Z \rangle`. Each pass adds the plane of the
    labelling that is violated most, found label by label, and solves the dual over the planes so far.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        As in :class:`~multimargin.LinearM3L`.
    max_iter : int, default=1000
        Largest number of planes.
    n_jobs : int, optional
        Has no effect; products of matrices use the threads of BLAS.
    random_state : int, RandomState or None, optional
        Has no effect; nothing is random.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.

    Notes
    -----
    Memory: some arrays of ``n_samples x n_labels`` numbers, and for every plane ``n_features x n_labels`` numbers and a
    bit for each cell of Y; planes without weight for 50 passes are dropped. A pass costs two products of X and a matrix
    with a column per label, and products of the new plane with the others.

    References
    ----------
    T. Joachims, T. Finley, C.-N. Yu. Cutting-plane training of structural SVMs. Machine Learning 77 (2009).
    https://doi.org/10.1007/s10994-009-5108-8

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import CuttingPlaneM3L
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = CuttingPlaneM3L(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.certificate_.converged
    True
    """

    warm_start = False

    def __init__(
        self,
        C: float | str = "scale",
        *,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _solve(self, problem: Problem, last: WarmStart | None, monitor: Monitor) -> Model:
        found = solve_one_slack(self._slack_problem(problem), self._limits(problem, monitor))
        fitted, bounds = self._proposed(problem, found)
        if found.status == Status.converged and not bounds.within(self.tol):  # as far as single precision goes
            limits = self._limits(problem, monitor, tol=0.5 * self.tol, passes=found.passes)
            found = solve_one_slack(self._slack_problem(problem.in_double()), limits)
            fitted, bounds = self._proposed(problem.in_double(), found)
        return Model(fitted, bounds, found.passes, found.status, {"beta": found.beta})

    def _slack_problem(self, problem: Problem) -> SlackProblem:
        """Cells as arrays; unknown ones and those of labels left out cost nothing."""
        labels, costs = problem.labels, problem.costs
        positive = labels.positives.toarray().astype(bool)
        cost = costs.row[:, None] * np.where(positive, costs.positive, costs.negative)
        if costs.cells is not None:
            cost *= costs.cells
        if labels.missing is not None:
            cost[labels.missing.nonzero()] = 0.0
        sign = np.where(positive, 1, -1).astype(problem.dtype)
        return SlackProblem(problem.X, self._constant_feature(), sign, cost.astype(problem.dtype))

    def _proposed(self, problem: Problem, found: SlackProposal) -> tuple[dict[str, Any], Bounds]:
        """Attributes of a model of these weights, and what the certifier of M3L says of them."""
        coef = np.ascontiguousarray(found.weights[:-1].T, dtype=problem.dtype)
        intercept = np.asarray(self._constant_feature() * found.weights[-1], dtype=problem.dtype)
        return {"coef_": coef, "intercept_": intercept}, self._certified(problem, coef, intercept, found.beta)

    def _certified(
        self, problem: Problem, coef: NDArray[Any], intercept: NDArray[Any], beta: NDArray[np.float64] | None
    ) -> Bounds:
        weights = np.column_stack([coef, intercept]).astype(np.float64)
        weights[problem.constant] = 0.0
        native = linear_problem(M3LTask(problem, unit_margins(problem.labels.n_labels)), self._constant_feature())
        primal, dual = _core.certify_linear_m3l(native, weights, beta, problem.n_jobs)
        return Bounds(primal, None if beta is None else dual)

    def _bounds(self, problem: Problem) -> Bounds:
        state = self._kept_state(problem)
        return self._certified(problem, self.coef_, self.intercept_, None if state is None else state["beta"])

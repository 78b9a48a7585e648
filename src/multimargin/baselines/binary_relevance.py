"""One linear classifier for each label, with a choice of losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multimargin.baselines._inputs import Inputs
from multimargin.baselines._smooth_losses import SMOOTH_LOSSES, SmoothProblem
from multimargin.estimators import LinearM3L
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import LinearModel, Model, Problem, Status, StrOptions, WarmStart
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks

__all__ = ["BinaryRelevance"]


class BinaryRelevance(LinearModel):
    r"""Binary relevance (one-vs-all): a linear classifier for each label, trained without regard to the others.

    Minimises, over the weights :math:`w_1, \dots, w_L` of the labels,

    .. math:: \sum_l \Big( \tfrac12 |w_l|^2 + \sum_i c_{il}\, \phi(y_{il}\, w_l^\top x_i) \Big)

    where :math:`y_{il} \in \{-1, 1\}` says whether row i has label l, :math:`c_{il} = C \cdot \text{weights}` is the
    cost of a cell (0 for an unknown label), and :math:`\phi(m)` is :math:`\max(0, 1 - m)`, its square, or
    :math:`\log(1 + e^{-m})`.

    The hinge loss is that of :class:`multimargin.LinearM3L` without a prior, and solved by its native solver. The
    others are minimised by Newton's method, in double precision, for all labels together.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        The loss of a margin.
    class_weight : None, "balanced", dict, list of dicts or LabelFrequencies, default=None
        As in :class:`multimargin.LinearM3L`.
    max_iter : int, default=1000
        Largest number of passes over the data; of Newton steps for smooth losses.
    n_jobs : int, optional
        Threads of the native solver; None is 1 and -1 all cores. The result does not depend on it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    certificate_ : Certificate
        Of the sum over the labels. For smooth losses the dual variables are the derivatives of the losses at the
        returned weights, so that :func:`multimargin.certify` finds both values again from the model alone.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import BinaryRelevance
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = BinaryRelevance(C=10, loss="logistic").fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.certificate_.converged
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "loss": [StrOptions({"hinge", *SMOOTH_LOSSES})],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        loss: str = "hinge",
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
        self.loss = loss
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
        if self.loss == "hinge":
            hinge = self._with_hinge()
            return hinge._solve(hinge._prepare(problem), None, monitor)
        n_labels, d = problem.labels.n_labels, problem.X.shape[1]
        coef, intercept = np.zeros((n_labels, d)), np.zeros(n_labels)
        blocks = list(self._label_blocks(problem))
        passes, status = 0, Status.converged
        for labels in blocks:
            limits = self._limits(problem, monitor, max_iter=passes + int(self.max_iter), passes=passes)
            W, passes, ended = self._smooth(problem, labels).solve(limits, report=len(blocks) == 1)
            coef[labels], intercept[labels] = W[:, :-1], self._constant_feature() * W[:, -1]
            status = ended if ended != Status.converged else status
            if ended == Status.stopped:
                break
        return Model(
            {"coef_": coef, "intercept_": intercept}, self._smooth_bounds(problem, coef, intercept), passes, status
        )

    def _bounds(self, problem: Problem) -> Bounds:
        if self.loss != "hinge":
            return self._smooth_bounds(problem, self.coef_, self.intercept_)
        model = self._with_hinge()
        model.coef_, model.intercept_ = self.coef_, self.intercept_
        return model._bounds(problem)

    def _with_hinge(self) -> LinearM3L:
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "loss"}
        return LinearM3L(**parameters)

    def _smooth_bounds(self, problem: Problem, coef: NDArray[Any], intercept: NDArray[Any]) -> Bounds:
        bias, primal, dual = self._constant_feature(), 0.0, 0.0
        for labels in self._label_blocks(problem):
            constant = intercept[labels] / bias if bias else np.zeros(len(labels))
            bounds = self._smooth(problem, labels).bounds(np.column_stack([coef[labels], constant]).astype(np.float64))
            assert bounds.dual is not None
            primal, dual = primal + bounds.primal, dual + bounds.dual
        return Bounds(primal, dual)

    @staticmethod
    def _label_blocks(problem: Problem) -> Iterator[NDArray[np.intp]]:
        """Labels that take part, so few at a time that arrays over rows and labels are small."""
        varies = np.flatnonzero(~problem.constant)
        for part in row_blocks(len(varies), problem.labels.n_samples):
            yield varies[part]

    def _smooth(self, problem: Problem, labels: NDArray[np.intp]) -> SmoothProblem:
        """Return the problem of some of the labels."""
        has = problem.labels.positives[:, labels].toarray().astype(bool)
        costs = problem.costs
        cost = costs.row[:, None] * np.where(has, costs.positive[labels], costs.negative[labels])
        if costs.cells is not None:
            cost *= costs.cells[:, labels]
        if problem.labels.missing is not None:
            cost[problem.labels.missing[:, labels].toarray().astype(bool)] = 0.0
        inputs = Inputs(problem.X, self._constant_feature())
        return SmoothProblem(inputs, np.where(has, 1.0, -1.0), cost, SMOOTH_LOSSES[self.loss])

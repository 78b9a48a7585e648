"""Maximum margin output coding."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import KFold
from sklearn.utils.extmath import safe_sparse_dot

from multimargin.baselines._inputs import Inputs
from multimargin.baselines._links import LinkSettings, fit_links
from multimargin.baselines._mean_field import mean_field
from multimargin.baselines._metric_oracles import MOST_LABELS, BoxOracle, MetricOracle, SetOracle
from multimargin.baselines._output_metric import MetricProblem
from multimargin.baselines._ridge import RidgeProblem
from multimargin.baselines._whole_label_sets import refuse_unknown_labels, varying_labels
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.cliques.graph import compiled
from multimargin.estimators.contract import Interval, LinearModel, Model, Problem, StrOptions, WarmStart
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.fitted_rules import Rule, array_of

__all__ = ["MMOC"]

Array = NDArray[np.float64]

SMALLEST_EIGENVALUE = 1e-6
ORACLE_SHARE = 0.1
"""Share of the tolerance that may be lost where maxima over the box are not exact."""


@dataclass(frozen=True)
class CodingTask:
    """A problem, the columns of the labels that vary, and these as numbers 0 and 1."""

    problem: Problem
    varies: NDArray[np.intp]
    Y: sp.csr_array


class MMOC(LinearModel):
    r"""Maximum margin output coding: a metric in which predictions are nearer to their label sets than to others.

    Let :math:`r_i` be the prediction of ridge regression for row i, and :math:`c_i = C \cdot \text{weight}_i`.
    Minimises, over positive semidefinite matrices :math:`Q = V V^\top`,

    .. math::

        \tfrac12 |Q|_F^2 + \sum_i c_i\,
        \max_y \big( \Delta(y, y_i) - |V^\top (r_i - y)|^2 + |V^\top (r_i - y_i)|^2 \big)

    with the Hamming distance :math:`\Delta`: label sets are coded as :math:`V^\top y`, and codes of other sets are to
    be far from the prediction. With the variances :math:`\sigma_k^2` of the errors of the codes on the training rows
    and the probabilities p of logistic regressions, label by label, the label set with the least

    .. math:: \tfrac12 \sum_k \big( v_k^\top (y - r(x)) \big)^2 / \sigma_k^2 - \sum_l y_l \operatorname{logit} p_l(x)

    is predicted; for ``decoding="nearest"``, the one with the least :math:`|V^\top (y - r(x))|`. A label's score is
    the difference between the least value of a set without it and that of one with it.

    The authors' equations were not at hand: this is the simplest problem with the properties they describe. All label
    sets are searched, which limits it to 20 labels. With more, y is any point of the box :math:`[0, 1]^L` in training
    (over-generating inference): every row then has a concave maximum, the objective is an upper bound of the one above,
    and the certificate is of this relaxed problem. Training takes rows x labels squared steps, some dozens of times for
    each plane: seconds for a hundred labels and a thousand rows, about a minute for ten thousand.

    Parameters
    ----------
    C : float, default=0.1
        Cost of an error of the metric.
    regression_C : float, default=1.0
        Cost of an error of the regressions; 1/regression_C is the ridge.
    decoding : {"combined", "nearest"}, default="combined"
        Whether codes are used together with label classifiers, or alone.
    folds : int, default=0
        Folds for predictions r of rows that were held out; 0 takes those of the training rows themselves, which say
        little where features are many.
    inference : {"auto", "exact", "box"}, default="auto"
        Whether all label sets are searched in training, or the box around them; ``"auto"`` searches all sets of up to
        20 labels that vary. Predictions search all sets where at most 20 labels have weights in pairs. With more, they
        are those of the mean field, and a score is the log-odds of a label in it.
    max_iter : int, default=200
        Largest number of cutting planes.

    Attributes
    ----------
    metric_ : ndarray of shape (n_labels, n_labels)
        Q; zero for constant labels.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the labels, as signs 1 and -1, in the value of a label set.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the labels.
    pair_weights_ : ndarray of shape (n_labels, n_labels)
        Symmetric: weights of products of two signs in the value of a label set.
    certificate_ : Certificate
        Of the problem of the metric. ``oracle_exact`` is the share of the rows whose maximum at the returned metric is
        proved to be that of a label set, which in the box it need not be.

    References
    ----------
    Y. Zhang, J. Schneider. Maximum margin output coding. ICML (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import MMOC
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = MMOC(C=1, regression_C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _weighs_cells: ClassVar[bool] = False
    random_state = 0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
        "regression_C": [Interval(Real, 0, None, closed="neither")],
        "decoding": [StrOptions({"combined", "nearest"})],
        "folds": [Interval(Integral, 0, None, closed="left")],
        "inference": [StrOptions({"auto", "exact", "box"})],
    }

    def __init__(
        self,
        C: float = 0.1,
        *,
        regression_C: float = 1.0,
        decoding: str = "combined",
        folds: int = 0,
        inference: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 200,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.regression_C = regression_C
        self.decoding = decoding
        self.folds = folds
        self.inference = inference
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def _prepare(self, problem: Problem) -> CodingTask:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        varies = np.flatnonzero(~problem.constant)
        if self.inference == "exact" and len(varies) > MOST_LABELS:
            msg = (
                f'inference="exact" searches all label sets and takes at most {MOST_LABELS} labels that vary; got '
                f'{len(varies)}. Choose inference="box", which searches the box around them.'
            )
            raise InputError(msg)
        if self.folds == 1 or self.folds > problem.labels.n_samples:
            msg = f"folds must be 0, or between 2 and the number of rows, {problem.labels.n_samples}; got {self.folds}."
            raise InputError(msg)
        return CodingTask(problem, varies, varying_labels(problem))

    def _solve(self, task: CodingTask, last: WarmStart | None, monitor: Monitor) -> Model:
        problem, truth = task.problem, task.Y.toarray()
        if not len(task.varies):
            return Model(
                self._fitted(task, np.zeros((0, 0)), np.zeros((0, problem.X.shape[1] + 1))), Bounds(0.0, 0.0), 0
            )
        metric = self._metric(task)
        Q, bounds, passes, status = metric.solve(self._limits(problem, monitor))
        W = self._ridge(problem.X, truth, problem.costs.row)
        return Model(self._fitted(task, Q, W), bounds, passes, status)

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._prepare(problem)
        if not len(task.varies):
            return Bounds(0.0, 0.0)
        _, _, primal, exact = self._metric(task).plane(self.metric_[np.ix_(task.varies, task.varies)])
        return Bounds(primal, None, exact)

    def _metric(self, task: CodingTask) -> MetricProblem:
        problem, truth = task.problem, task.Y.toarray()
        predicted = np.empty_like(truth)
        whole = np.arange(len(truth))
        splits = KFold(self.folds).split(truth) if self.folds else [(whole, whole)]
        for train, test in splits:
            W = self._ridge(problem.X[train], truth[train], problem.costs.row[train])
            predicted[test] = Inputs(problem.X[test], 1.0).scores(W)
        return MetricProblem(predicted, truth, problem.costs.row, self._oracle(len(task.varies), problem.n_jobs))

    def _oracle(self, n_labels: int, threads: int) -> MetricOracle:
        if self.inference == "box" or n_labels > MOST_LABELS:
            return BoxOracle(ORACLE_SHARE * self.tol)
        return SetOracle(n_labels, threads)

    def _ridge(self, X: Any, truth: Array, cost: Array) -> Array:
        """Weights of the regression of the labels; rows count by their weights."""
        return RidgeProblem(Inputs(X, 1.0), cost * (self.regression_C / float(self.C)), truth).solve(1e-8)

    def _fitted(self, task: CodingTask, Q: Array, W: Array) -> dict[str, Any]:
        """Return the value of a label set as a function of signs, linear in the inputs."""
        problem, varies = task.problem, task.varies
        n_labels, d = problem.labels.n_labels, problem.X.shape[1]
        A, alone = self._precision(task, Q, W)
        field = 0.5 * A @ W
        field[:, -1] -= 0.25 * A.sum(axis=1)
        if len(varies) and (self.decoding == "combined" or alone):
            none: list[list[int]] = [[] for _ in varies]
            settings = LinkSettings(self.regression_C, "logistic", 1e-6)
            logits = fit_links(problem.X, task.Y, none, range(len(varies)), settings, problem.costs.row / float(self.C))
            field += 0.5 * np.column_stack([logits.coef, logits.intercept])
        fitted = {
            "coef_": np.zeros((n_labels, d)),
            "intercept_": np.zeros(n_labels),
            "metric_": np.zeros((n_labels, n_labels)),
            "pair_weights_": np.zeros((n_labels, n_labels)),
        }
        fitted["coef_"][varies], fitted["intercept_"][varies] = field[:, :-1], field[:, -1]
        fitted["metric_"][np.ix_(varies, varies)] = Q
        fitted["pair_weights_"][np.ix_(varies, varies)] = -0.25 * (A - np.diag(np.diag(A)))
        return fitted

    def _precision(self, task: CodingTask, Q: Array, W: Array) -> tuple[Array, bool]:
        """Return the matrix of the quadratic term, and whether there is none."""
        values, vectors = np.linalg.eigh(Q)
        kept = values > SMALLEST_EIGENVALUE * values.max(initial=0.0)
        if len(Q) and not kept.any():
            warnings.warn(f"The metric is zero at C={self.C!r}: label classifiers alone decide. Raise C.", stacklevel=4)
        if self.decoding == "nearest":
            return Q, not kept.any()
        V = vectors[:, kept] * np.sqrt(values[kept])
        errors = (task.Y - Inputs(task.problem.X, 1.0).scores(W)) @ V
        weight = task.problem.costs.row
        variance = weight @ errors**2 / weight.sum()
        variance = np.maximum(variance, 1e-12 * values[kept])
        return (V / variance) @ V.T, not kept.any()

    def _scores(self, X: Any) -> NDArray[Any]:
        n_labels = len(self.label_names_)
        first, second = np.nonzero(np.triu(self.pair_weights_, k=1))
        pairs = [*((k,) for k in range(n_labels)), *((int(a), int(b)) for a, b in zip(first, second, strict=True))]
        ends, weights = np.column_stack([first, second]), self.pair_weights_[first, second]
        relaxed = len(np.unique(ends)) > MOST_LABELS
        inference = None if relaxed else compiled(n_labels, pairs, "auto", MOST_LABELS)
        scores = np.empty((X.shape[0], n_labels))
        for rows in row_blocks(X.shape[0], len(pairs)):
            single = safe_sparse_dot(X[rows], self.coef_.T, dense_output=True) + self.intercept_
            if inference is None:
                scores[rows] = mean_field(np.asarray(single, dtype=np.float64), ends, weights[None])
            else:
                theta = np.empty((len(single), len(pairs)))
                theta[:, :n_labels], theta[:, n_labels:] = single, weights
                scores[rows] = inference.max_marginals(theta, 1)
        return scores

    def _fitted_rules(self) -> dict[str, Rule]:
        square = array_of("labels labels")
        return {**super()._fitted_rules(), "metric_": square, "pair_weights_": square}

"""Label sets as the classes of a multi-class SVM."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.baselines._crammer_singer import CrammerSingerProblem
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._label_sets import class_columns, distinct_sets
from multimargin.baselines._whole_label_sets import refuse_unknown_labels
from multimargin.baselines.binary_relevance import BinaryRelevance
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Model, MultilabelClassifier, Problem, Status, StrOptions, WarmStart
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.fitted_rules import Rule, array_of
from multimargin.labels import read_labels

__all__ = ["LabelPowerset"]


@dataclass(frozen=True)
class PowersetTask:
    """A problem, its distinct label sets, and which of them each row has."""

    problem: Problem
    sets: NDArray[np.bool_]
    code: NDArray[np.intp]


class LabelPowerset(MultilabelClassifier):
    r"""Label power set: a multi-class SVM whose classes are the label sets of the training rows.

    Let :math:`k_i` be the class of row i. Minimises, over the weights :math:`w_k` of the classes,

    .. math::

        \tfrac12 \sum_k |w_k|^2 + \sum_i c_i \max\Big(0,\; \max_{k \ne k_i}\, 1 - (w_{k_i} - w_k)^\top x_i\Big)

    for ``strategy="crammer_singer"``, and for ``"ovr"`` the squared hinge losses of each class against all others,

    .. math::

        \sum_k \Big( \tfrac12 |w_k|^2 + \sum_i c_i \max(0,\; 1 - s_{ik}\, w_k^\top x_i)^2 \Big), \qquad
        s_{ik} = \pm 1 \text{ for } k = k_i \text{ or not},

    with :math:`c_i = C \cdot \text{weight}_i`. The set with the largest score is predicted: always one that was seen in
    training. A label's score is the largest of the sets with it less the largest of those without it.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    strategy : {"crammer_singer", "ovr"}, default="crammer_singer"
        The multi-class SVM. The first is solved natively, row by row; the second by Newton's method for all classes
        together.
    random_state : int, RandomState or None, default=None
        Order in which rows are visited.

    Attributes
    ----------
    sets_ : ndarray of shape (n_sets, n_labels)
        The label sets of the training rows, each once.
    counts_ : ndarray of shape (n_sets,)
        How many training rows have each.
    coef_ : ndarray of shape (n_sets, n_features)
        Weights of the sets.
    intercept_ : ndarray of shape (n_sets,)
        Intercepts of the sets.

    References
    ----------
    K. Crammer, Y. Singer. On the algorithmic implementation of multiclass kernel-based vector machines. Journal of
    Machine Learning Research 2 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import LabelPowerset
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> Y = [{"sea"}, {"sun"}, {"sea", "sun"}, set()]
    >>> model = LabelPowerset(C=10).fit(np.vstack([X, X + 0.1]), Y + Y)
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "strategy": [StrOptions({"crammer_singer", "ovr"})],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        strategy: str = "crammer_singer",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.strategy = strategy
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _prepare(self, problem: Problem) -> PowersetTask:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        sets, code = distinct_sets(problem.labels.positives)
        if len(sets) > max(len(code) // 2, 2):
            msg = (
                f"{len(sets)} of {len(code)} training rows differ in their label sets: most sets have a single row to "
                "learn from, and new rows will often have other sets. RAkEL learns parts of the sets."
            )
            warnings.warn(msg, stacklevel=3)
        return PowersetTask(problem, sets, code)

    def _solve(self, task: PowersetTask, last: WarmStart | None, monitor: Monitor) -> Model:
        found = self._one_vs_rest(task, monitor) if self.strategy == "ovr" else self._crammer_singer(task, monitor)
        counts = np.bincount(task.code, minlength=len(task.sets))
        return replace(found, fitted={**found.fitted, "sets_": task.sets, "counts_": counts})

    def _one_vs_rest(self, task: PowersetTask, monitor: Monitor) -> Model:
        return self._binary()._solve(_classes_as_labels(task), None, monitor)

    def _crammer_singer(self, task: PowersetTask, monitor: Monitor) -> Model:
        svm, bias, classes = self._svm(task), self._constant_feature(), _classes_as_labels(task)
        if len(task.sets) < 2:
            W, alpha = np.zeros((1, task.problem.X.shape[1] + 1)), np.zeros((len(task.code), 1))
            passes, status = 0, Status.converged
        else:
            limits = self._limits(task.problem, monitor)
            found = _core.fit_category_ranking(rows=classes.rows, labels=classes.cells, bias=bias, limits=limits)
            W, alpha, passes, status = found.weights, found.dual, found.result.passes, found.result.status
        fitted = {"coef_": W[:, :-1].copy(), "intercept_": bias * W[:, -1]}
        return Model(fitted, Bounds(svm.primal(self._weights(fitted)), svm.dual(alpha)), passes, status)

    def _bounds(self, problem: Problem) -> Bounds:
        sets, code = distinct_sets(problem.labels.positives)
        task = PowersetTask(problem, sets, code)
        if self.strategy == "crammer_singer":
            return Bounds(self._svm(task).primal(self._weights(vars(self))), None)
        model = self._binary()
        model.coef_, model.intercept_ = self.coef_, self.intercept_
        return model._bounds(_classes_as_labels(task))

    def _svm(self, task: PowersetTask) -> CrammerSingerProblem:
        inputs = Inputs(task.problem.X, self._constant_feature())
        return CrammerSingerProblem(inputs, task.code, len(task.sets), task.problem.costs.row)

    def _weights(self, fitted: Mapping[str, Any]) -> NDArray[np.float64]:
        bias, intercept = self._constant_feature(), fitted["intercept_"]
        return np.column_stack([fitted["coef_"], intercept / bias if bias else np.zeros(len(intercept))])

    def _binary(self) -> BinaryRelevance:
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "strategy"}
        return BinaryRelevance(loss="squared_hinge", **parameters)

    def _scores(self, X: Any) -> NDArray[Any]:
        scores = np.empty((X.shape[0], self.sets_.shape[1]))
        for rows in row_blocks(X.shape[0], len(self.sets_)):
            of_sets = safe_sparse_dot(X[rows], self.coef_.T, dense_output=True) + self.intercept_
            for label, has in enumerate(self.sets_.T):
                if has.all() or not has.any():
                    scores[rows, label] = 1.0 if has.all() else -1.0
                else:
                    scores[rows, label] = of_sets[:, has].max(axis=1) - of_sets[:, ~has].max(axis=1)
        return scores

    def _fitted_rules(self) -> dict[str, Rule]:
        rules = {
            "sets_": array_of("sets labels", 0, 1, "b1"),
            "counts_": array_of("sets", 0, 2**62, "i8"),
            "coef_": array_of("sets features"),
            "intercept_": array_of("sets"),
        }
        return {**super()._fitted_rules(), **rules}

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        """Nothing to do: the sets say it."""


def _classes_as_labels(task: PowersetTask) -> Problem:
    """Return the problem whose labels are the classes; none is constant, unless it is the only one."""
    problem, n_classes = task.problem, len(task.sets)
    labels = read_labels(class_columns(task.code, n_classes))
    costs = replace(problem.costs, positive=np.ones(n_classes), negative=np.ones(n_classes))
    return replace(problem, labels=labels, costs=costs, constant=labels.constant)

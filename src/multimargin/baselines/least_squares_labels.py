"""Ridge regression of the labels, or of codes of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin.baselines._inputs import Inputs
from multimargin.baselines._matching_pursuit import matching_pursuit
from multimargin.baselines._ridge import RidgeProblem
from multimargin.baselines._whole_label_sets import refuse_unknown_labels, varying_labels
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Interval, LinearModel, Model, Problem, StrOptions, WarmStart
from multimargin.estimators.cost_scale import C_CONSTRAINTS
from multimargin.estimators.monitor import Monitor
from multimargin.fitted_rules import Rule, array_of, count

__all__ = ["LeastSquaresLabels"]


@dataclass(frozen=True)
class CodingTask:
    """A problem, the labels that take part as numbers 0 and 1, and the matrix of their codes, if there is one."""

    problem: Problem
    Y: sp.csr_array
    codes: NDArray[np.float64] | None


class LeastSquaresLabels(LinearModel):
    r"""Least squares: ridge regression of the labels, or compressed sensing, regression of a few random codes of them.

    Minimises, over a linear map W from inputs to codes,

    .. math:: \tfrac12 |W|^2 + \tfrac12 \sum_i c_i\, |A y_i - W x_i|^2

    where :math:`y_i \in \{0, 1\}^L` and :math:`c_i = C \cdot \text{weight}_i`, in closed form. Without codes A is the
    identity, and labels with a prediction above 1/2 are predicted. With ``n_codes=m``, A has m random rows, and the
    prediction :math:`W x` is written as a sum of few columns of A by orthogonal matching pursuit; labels whose column
    has a coefficient above 1/2 are predicted. Few labels of each row are then needed: a code holds what is sparse.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; 1/C is the ridge. With ``"scale"`` that is the mean squared length of the rows, by their
        weights.
    n_codes : int or None, default=None
        Number m of codes; None regresses the labels themselves.
    code : {"hadamard", "gaussian", "bernoulli"}, default="hadamard"
        Entries of A: m different rows of a Hadamard matrix, normal numbers, or random signs; each over the root of m.
    sparsity : int or None, default=None
        Largest number of columns of A in the sum; None is the mean number of labels of a row, rounded up.
    random_state : int, RandomState or None, default=None
        Which codes are drawn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights; those of the codes, (n_codes, n_features), if there are codes.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts, less the 1/2 that predictions must exceed; those of the codes, (n_codes,), if there are codes.
    codes_ : ndarray of shape (n_codes, n_labels)
        A; only with codes.
    sparsity_ : int
        Largest number of columns in a sum; only with codes.
    half_ : ndarray of shape (n_labels,)
        What a coefficient must exceed; only with codes.
    certificate_ : Certificate
        ``primal`` and ``dual`` of the ridge regression; their difference is rounding.

    References
    ----------
    D. Hsu, S. M. Kakade, J. Langford, T. Zhang. Multi-label prediction via compressed sensing. NIPS 22 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import LeastSquaresLabels
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = LeastSquaresLabels(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    tol = 1e-6
    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
        "n_codes": [Interval(Integral, 1, None, closed="left"), None],
        "code": [StrOptions({"hadamard", "gaussian", "bernoulli"})],
        "sparsity": [Interval(Integral, 1, None, closed="left"), None],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        n_codes: int | None = None,
        code: str = "hadamard",
        sparsity: int | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
    ):
        self.C = C
        self.n_codes = n_codes
        self.code = code
        self.sparsity = sparsity
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state

    def _prepare(self, problem: Problem) -> CodingTask:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        Y = varying_labels(problem)
        if self.n_codes is None:
            return CodingTask(problem, Y, None)
        return CodingTask(problem, Y, self._drawn_codes(Y.shape[1], np.random.default_rng(problem.seed)))

    def _drawn_codes(self, n_labels: int, rng: np.random.Generator) -> NDArray[np.float64]:
        m = int(self.n_codes)  # type: ignore[arg-type]
        if self.code == "gaussian":
            codes = rng.normal(size=(m, n_labels))
        elif self.code == "bernoulli":
            codes = rng.choice([-1.0, 1.0], size=(m, n_labels))
        else:
            order = 2 ** ceil(log2(max(n_labels, 1)))
            if m > order:
                msg = (
                    f"n_codes must be at most {order}, the rows of the Hadamard matrix for {n_labels} labels that "
                    f"vary; got n_codes={m}. Lower it, or use code='gaussian' or 'bernoulli'."
                )
                raise InputError(msg)
            rows = np.sort(rng.choice(order, m, replace=False))
            common = np.bitwise_count(rows[:, None] & np.arange(n_labels))
            codes = 1.0 - 2.0 * (common % 2)
        return np.asarray(codes / np.sqrt(m))

    def _solve(self, task: CodingTask, last: WarmStart | None, monitor: Monitor) -> Model:
        ridge = self._ridge(task)
        W = ridge.solve(0.1 * self.tol)
        bounds = ridge.bounds(W)
        monitor(1, 0.0, bounds.primal, bounds.dual)
        coef, intercept = W[:, :-1], self._constant_feature() * W[:, -1]
        n_labels, varies = task.problem.labels.n_labels, ~task.problem.constant
        if task.codes is not None:
            codes = np.zeros((len(task.codes), n_labels))
            codes[:, varies] = task.codes
            cardinality = int(np.ceil(task.Y.sum() / task.Y.shape[0]))
            sparsity = max(cardinality, 1) if self.sparsity is None else int(self.sparsity)
            half = np.full(n_labels, 0.5)
            fitted = {"coef_": coef.copy(), "intercept_": intercept, "codes_": codes, "half_": half}
            return Model({**fitted, "sparsity_": sparsity}, bounds, 1)
        fitted = {"coef_": np.zeros((n_labels, coef.shape[1])), "intercept_": np.zeros(n_labels)}
        fitted["coef_"][varies] = coef
        fitted["intercept_"][varies] = intercept - 0.5
        return Model(fitted, bounds, 1)

    def _bounds(self, problem: Problem) -> Bounds:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        varies = ~problem.constant
        coef, intercept, codes = self.coef_, self.intercept_, None
        if self.n_codes is None:
            coef, intercept = coef[varies], intercept[varies] + 0.5
        else:
            codes = self.codes_[:, varies]
        bias = self._constant_feature()
        constant = intercept / bias if bias else np.zeros(len(intercept))
        return self._ridge(CodingTask(problem, varying_labels(problem), codes)).bounds(
            np.column_stack([coef, constant])
        )

    def _ridge(self, task: CodingTask) -> RidgeProblem:
        targets = task.Y.toarray() if task.codes is None else np.asarray(task.Y @ task.codes.T)
        inputs = Inputs(task.problem.X, self._constant_feature())
        return RidgeProblem(inputs, task.problem.costs.row, targets)

    def _scores(self, X: Any) -> NDArray[Any]:
        predicted = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        if self.n_codes is None:
            return np.asarray(predicted)
        coefficients = matching_pursuit(self.codes_, np.asarray(predicted, np.float64), self.sparsity_)
        return np.asarray(coefficients - self.half_)

    def _fitted_rules(self) -> dict[str, Rule]:
        if self.n_codes is None:
            return super()._fitted_rules()
        rules = {
            "coef_": array_of("codes features"),
            "intercept_": array_of("codes"),
            "codes_": array_of("codes labels", -1e3, 1e3),
            "half_": array_of("labels"),
            "sparsity_": count(1),
        }
        return {**super()._fitted_rules(), **rules}

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        if self.n_codes is None:
            super()._set_constant(fitted, constant, value)
        else:
            fitted["half_"][constant] = -value[constant]

    def _advice(self, limit: str) -> str:
        return "Scale the features, or lower C."

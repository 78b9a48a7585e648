"""Principal label space transformation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import ceil
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._ridge import RidgeProblem
from multimargin.baselines._whole_label_sets import refuse_unknown_labels, varying_labels
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Interval, LinearModel, Model, Problem, WarmStart
from multimargin.estimators.monitor import Monitor
from multimargin.fitted_rules import Rule, array_of, number

__all__ = ["PLST"]

Array = NDArray[np.float64]

EQUAL = 1e-10
"""Eigenvalues that differ by this share of the largest are taken for equal."""


@dataclass(frozen=True)
class LabelSpace:
    """A problem, the labels that take part as numbers 0 and 1, and the share of the row weights that have each."""

    problem: Problem
    Y: sp.csr_array
    frequencies: Array

    def codes(self, V: Array) -> Array:
        """Coordinates of the centred signs of the labels, ``2 (y - p)``, along the columns of V; Y is not centred."""
        return np.asarray(2.0 * (self.Y @ V - self.frequencies @ V))


class PLST(LinearModel):
    r"""PLST: ridge regression of the principal components of the label sets, and their signs after decoding.

    Let :math:`s_i \in \{-1, 1\}^L` be the labels of row i, :math:`\mu` their mean, and V the first M right singular
    vectors of the matrix with rows :math:`s_i - \mu`. Minimises, over a linear map W from inputs to M codes,

    .. math:: \tfrac12 |W|^2 + \tfrac12 \sum_i c_i\, |V^\top (s_i - \mu) - W x_i|^2,

    :math:`c_i = C \cdot \text{weight}_i`, in closed form, and predicts the labels with :math:`(V W x + \mu)_l > 0`.
    With as many codes as labels it is ridge regression. ``conditional=True`` (CPLST) takes the leading eigenvectors of
    :math:`(S - \mu)^\top H (S - \mu)` for V, with the hat matrix H of the ridge regression on the inputs without a
    constant feature: directions that can be predicted, not only those that hold much.

    Parameters
    ----------
    C : float, default=10.0
        Cost of an error; 1/C is the ridge, 0.1 as in the authors' code.
    n_codes : int, float or None, default=None
        Number M of codes, at most one for each label that is not constant; a number below 1 is the share of these
        labels, rounded up, and None is half of them.
    conditional : bool, default=False
        Whether codes are to be predictable from the inputs.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights after decoding, V W.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts after decoding.
    codes_ : ndarray of shape (n_labels, n_codes)
        V; zero for constant labels.
    discarded_ : float
        Sum of the squared singular values of :math:`S - \mu` that V leaves out. The training Hamming loss is at most
        this plus the squared errors of the codes, over the number of cells.
    certificate_ : Certificate
        ``primal`` and ``dual`` of the ridge regression; their difference is rounding.

    References
    ----------
    F. Tai, H.-T. Lin. Multilabel classification with principal label space transformation. Neural Computation 24
    (2012). https://doi.org/10.1162/NECO_a_00320

    Y.-N. Chen, H.-T. Lin. Feature-aware label space dimension reduction for multi-label classification. NIPS 25 (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import PLST
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = PLST(n_codes=2).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    tol = 1e-6
    random_state = 0
    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_codes": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, 1, closed="neither"), None],
        "conditional": ["boolean"],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        n_codes: float | None = None,
        conditional: bool = False,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
    ):
        self.C = C
        self.n_codes = n_codes
        self.conditional = conditional
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def _prepare(self, problem: Problem) -> LabelSpace:
        refuse_unknown_labels(type(self).__name__, problem.labels)
        if isinstance(self.n_codes, Integral) and self.n_codes > problem.labels.n_labels:
            msg = (
                f"n_codes must not be above the number of labels, {problem.labels.n_labels}; got {self.n_codes}. Lower "
                "it, or give a share of the labels."
            )
            raise InputError(msg)
        Y, weight = varying_labels(problem), problem.costs.row
        return LabelSpace(problem, Y, np.asarray(Y.T @ weight) / weight.sum())

    def _solve(self, task: LabelSpace, last: WarmStart | None, monitor: Monitor) -> Model:
        problem = task.problem
        n_labels, varies = problem.labels.n_labels, ~problem.constant
        V, discarded = self._directions(task)
        ridge = self._ridge(task, V)
        W = ridge.solve(0.1 * self.tol)
        bounds = ridge.bounds(W)
        monitor(1, 0.0, bounds.primal, bounds.dual)
        decoded = V @ W
        coef, intercept = np.zeros((n_labels, problem.X.shape[1])), np.zeros(n_labels)
        codes = np.zeros((n_labels, V.shape[1]))
        coef[varies] = decoded[:, :-1]
        intercept[varies] = self._constant_feature() * decoded[:, -1] + 2.0 * task.frequencies - 1.0
        codes[varies] = V
        fitted = {"coef_": coef, "intercept_": intercept, "codes_": codes, "discarded_": discarded}
        return Model(fitted, bounds, 1)

    def _bounds(self, problem: Problem) -> Bounds:
        task, varies, bias = self._prepare(problem), ~problem.constant, self._constant_feature()
        V = self.codes_[varies]
        constant = (self.intercept_[varies] - 2.0 * task.frequencies + 1.0) / bias if bias else np.zeros(varies.sum())
        W = V.T @ np.column_stack([self.coef_[varies], constant])
        return self._ridge(task, V).bounds(W)

    def _directions(self, task: LabelSpace) -> tuple[Array, float]:
        """Eigenvectors V, the leading first, and what they leave out."""
        n_labels = task.Y.shape[1]
        wanted = min(self._wanted(n_labels), n_labels)
        if not wanted:
            return np.zeros((0, 0)), 0.0
        energy = self._energy(task, task.problem.costs.row / float(self.C))
        matrix = self._predictable(task) if self.conditional else energy
        first = max(n_labels - wanted - 1, 0)
        values, vectors = interruptible(scipy.linalg.eigh, matrix, subset_by_index=(first, n_labels - 1))
        if wanted < n_labels and values[1] - values[0] <= EQUAL * abs(values[-1]):
            msg = (
                f"The directions of codes {wanted} and {wanted + 1} hold equally much: which of them n_codes={wanted} "
                "keeps is arbitrary. Choose another n_codes."
            )
            warnings.warn(msg, stacklevel=5)
        V = np.ascontiguousarray(vectors[:, ::-1][:, :wanted])
        return V, max(float(np.trace(energy) - np.sum(V * (energy @ V))), 0.0)

    def _wanted(self, n_labels: int) -> int:
        if self.n_codes is None or not isinstance(self.n_codes, Integral):
            return ceil(round((0.5 if self.n_codes is None else float(self.n_codes)) * n_labels, 9))
        return int(self.n_codes)

    @staticmethod
    def _energy(task: LabelSpace, weight: Array) -> Array:
        """Sum over the rows of weight (s - mu)(s - mu)'."""
        p = task.frequencies
        together = (task.Y.T @ task.Y.multiply(weight[:, None]).tocsr()).toarray()
        return np.asarray(4.0 * (together - weight.sum() * np.outer(p, p)))

    def _predictable(self, task: LabelSpace) -> Array:
        """Return (S - mu)' H (S - mu), with rows weighted by their costs."""
        cost = task.problem.costs.row
        targets = task.codes(np.eye(task.Y.shape[1]))
        inputs = Inputs(task.problem.X, 0.0)
        B = RidgeProblem(inputs, cost, targets).solve(0.1 * self.tol)
        matrix = B @ inputs.combined(cost[:, None] * targets).T
        return np.asarray(0.5 * (matrix + matrix.T))

    def _ridge(self, task: LabelSpace, V: Array) -> RidgeProblem:
        return RidgeProblem(Inputs(task.problem.X, self._constant_feature()), task.problem.costs.row, task.codes(V))

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "codes_": array_of("labels codes", -2, 2), "discarded_": number(0)}

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        super()._set_constant(fitted, constant, value)
        fitted["codes_"][constant] = 0.0

    def _advice(self, limit: str) -> str:
        return "Scale the features, or lower C."

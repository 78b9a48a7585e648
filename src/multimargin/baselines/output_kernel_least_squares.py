"""Kernel ridge regression on the features of a label kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import (
    Interval,
    Model,
    MultilabelClassifier,
    Problem,
    StrOptions,
    WarmStart,
)
from multimargin.estimators.cost_scale import C_CONSTRAINTS
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.predictor import row_blocks
from multimargin.estimators.separation.problem import check_finite_kernel
from multimargin.fitted_rules import Rule, array_of
from multimargin.kernels import KERNELS, POSITIVE_DATA, check_kernel, make_kernel, resolve_gamma
from multimargin.kernels.support import support_rules
from multimargin.label_kernels import LabelKernel, check_label_kernel

__all__ = ["OutputKernelLeastSquares"]


@dataclass(frozen=True)
class LeastSquaresTask:
    """A problem, the gamma of its kernel, and the kernel between label sets."""

    problem: Problem
    gamma: float
    label_kernel: LabelKernel


class OutputKernelLeastSquares(MultilabelClassifier):
    r"""Least squares with an output kernel (LS-K): ridge regression of label-set features on the inputs.

    Minimises, over a linear map W from inputs to the features :math:`\phi` of a label kernel :math:`\kappa`,

    .. math::

        \tfrac12 |W|^2 + \tfrac12 \sum_i c_i\, |\phi(y_i) - W x_i|^2

    in closed form. The score of label l is the kernel between its feature and the prediction,
    :math:`\hat s_l(x) = \phi(1_l)^\top W x`. For polynomial kernels :math:`\kappa(y, 1_l)` is the sum of the weights if
    y has the label, so that the scores are those of ordinary ridge regression times that sum, whatever the degree:
    only ``decision="preimage"`` uses the kernel.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; 1/C is the ridge. With ``"scale"`` that is the mean of K(x, x), by the weights of the rows.
    label_kernel, label_degree, label_weights
        Kernel between label sets, as in :class:`multimargin.OutputKernelClassifier`.
    decision : {"ridge", "paper", "preimage"}, default="ridge"
        ``"ridge"`` predicts labels with :math:`\hat s_l > \kappa(1_l, 1_l) / 2`, ``"paper"`` those with
        :math:`\hat s_l > 1/2`, ``"preimage"`` the training label set whose feature is nearest to the prediction.
    kernel, gamma, degree, coef0
        Kernel of the inputs, as in :class:`multimargin.OutputKernelClassifier`.
    fit_intercept : bool, default=True
        Whether to add a constant feature. Its weight is regularised like the others.
    intercept_scaling : float, default=1.0
        Value of the constant feature.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_samples, n_labels)
        Coefficients of the training rows in the label scores.
    support_ : ndarray of shape (n_support,)
        Training rows with a weight.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Their inputs; not for ``kernel="precomputed"``.
    set_coef_ : ndarray of shape (n_support, n_sets)
        Coefficients in the scores of the label sets; ``decision="preimage"`` only.
    sets_ : ndarray of shape (n_sets, n_labels)
        Those label sets.
    set_norm_ : ndarray of shape (n_sets,)
        Kernel of each of these sets with itself.
    half_ : ndarray of shape (n_labels,)
        What the score of a label must exceed.
    gamma_ : float
        gamma of the kernel.
    certificate_ : Certificate
        ``primal`` and ``dual`` of the ridge regressions the model consists of, one for each label, or for each label
        set with ``decision="preimage"``: their difference is rounding.

    References
    ----------
    Y. Guo, D. Schuurmans. Multi-label classification with output kernels. ECML PKDD (2013).
    https://doi.org/10.1007/978-3-642-40991-2_27

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import OutputKernelLeastSquares
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = OutputKernelLeastSquares(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    tol = 1e-6
    random_state = 0
    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
        "label_kernel": "no_validation",  # type: ignore[dict-item]
        "label_degree": [Interval(Integral, 1, None, closed="left")],
        "label_weights": ["array-like", None],
        "decision": [StrOptions({"ridge", "paper", "preimage"})],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        label_kernel: Any = "poly",
        label_degree: int = 2,
        label_weights: Any = None,
        decision: str = "ridge",
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
    ):
        self.C = C
        self.label_kernel = label_kernel
        self.label_degree = label_degree
        self.label_weights = label_weights
        self.decision = decision
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel in POSITIVE_DATA
        return tags

    def _prepare(self, problem: Problem) -> LeastSquaresTask:
        label_kernel = check_label_kernel(self.label_kernel, self.label_degree, self.label_weights)
        if problem.labels.missing is not None:
            msg = (
                f"{type(self).__name__} needs the whole label set of every row; Y has {problem.labels.missing.nnz} "
                "unknown cells (NaN). Fill them in, or use an estimator that masks them, such as LinearM3L."
            )
            raise InputError(msg)
        used = problem.costs.row > 0
        gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, gamma, self.degree, self.coef0, problem.seed)
        return LeastSquaresTask(problem, gamma, label_kernel)

    def _solve(self, task: LeastSquaresTask, last: WarmStart | None, monitor: Monitor) -> Model:
        problem, kernel = task.problem, task.label_kernel
        varies, n_labels = np.flatnonzero(~problem.constant), problem.labels.n_labels
        support = np.flatnonzero(problem.costs.row > 0)
        Y = _label_sets(problem, varies, support)
        X, cost = problem.X[support], problem.costs.row[support]
        fitted: dict[str, Any] = {"support_": support, "gamma_": task.gamma}
        if self.kernel != "precomputed":
            fitted["support_vectors_"] = X
        K = self._kernel_values(X, fitted)
        check_finite_kernel(K, self.kernel, support)
        units = sp.csr_array(sp.identity(len(varies), format="csr"))
        coef, half = np.zeros((len(support), n_labels)), np.full(n_labels, 0.5)
        if len(varies):
            coef[:, varies] = _ridge(K, cost, kernel(Y, units))
        if self.decision != "paper":
            half[varies] = 0.5 * _own(kernel, units)
        fitted |= {"dual_coef_": coef, "half_": half}
        if self.decision == "preimage":
            distinct = sp.csr_array(np.unique(Y.toarray(), axis=0))
            sets = np.zeros((distinct.shape[0], n_labels), dtype=bool)
            sets[:, varies] = distinct.toarray() > 0
            fitted |= {
                "sets_": sets,
                "set_coef_": _ridge(K, cost, kernel(Y, distinct)),
                "set_norm_": _own(kernel, distinct),
            }
        bounds = self._bounds_of(fitted, problem, kernel)
        monitor(1, 0.0, bounds.primal, bounds.dual)
        return Model(fitted, bounds, 1)

    def _bounds(self, problem: Problem) -> Bounds:
        kernel = check_label_kernel(self.label_kernel, self.label_degree, self.label_weights)
        return self._bounds_of(vars(self), problem, kernel)

    def _bounds_of(self, fitted: Mapping[str, Any], problem: Problem, kernel: LabelKernel) -> Bounds:
        """Values of the ridge regressions the model consists of, one for each label, or for each set it chooses from.

        Along a vector of label features, the problem is a ridge regression of its own. Its coefficients are its dual
        variables too; the values differ by half the sum of the squared residuals of the linear system, times costs.
        """
        varies, support = np.flatnonzero(~problem.constant), fitted["support_"]
        cost = problem.costs.row[support]
        Y = _label_sets(problem, varies, support)
        if self.decision == "preimage":
            vectors, coef = sp.csr_array(fitted["sets_"][:, varies].astype(np.float64)), fitted["set_coef_"]
        else:
            vectors, coef = sp.csr_array(sp.identity(len(varies), format="csr")), fitted["dual_coef_"][:, varies]
        lengths = _own(kernel, vectors)
        share = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)  # the empty set has no vector
        targets = kernel(Y, vectors)
        predicted = self._kernel_values(problem.X[support], fitted) @ coef
        norms = np.einsum("ij,ij->j", coef, predicted)
        errors = cost @ (targets - predicted) ** 2
        dual = np.einsum("ij,ij->j", coef, targets) - 0.5 * norms - 0.5 * (1.0 / cost) @ coef**2
        return Bounds(float(share @ (0.5 * norms + 0.5 * errors)), float(share @ dual))

    def _advice(self, limit: str) -> str:
        return "Scale the features, or lower C."

    def _kernel_values(self, X: Any, fitted: Mapping[str, Any]) -> NDArray[np.float64]:
        """Kernel between rows and the training rows, constant feature included."""
        constant = self._constant_feature() ** 2
        if self.kernel == "precomputed":
            values = X[:, fitted["support_"]]
            return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64) + constant
        rows, gamma = fitted["support_vectors_"], fitted["gamma_"]
        kernel = make_kernel(self.kernel, rows, np.float64, gamma, self.degree, self.coef0)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(kernel.values(kernel.prepare(X)) + constant)

    def _scores(self, X: Any) -> NDArray[Any]:
        blocks = row_blocks(X.shape[0], len(self.support_))
        scores = [self._kernel_values(X[rows], vars(self)) @ self.dual_coef_ for rows in blocks]
        return np.asarray(np.vstack(scores) - self.half_)

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        if self.decision != "preimage":
            return super()._positives(X, scores)
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.support_)):
            distance = self.set_norm_ - 2 * self._kernel_values(X[rows], vars(self)) @ self.set_coef_
            blocks.append(sp.csr_array(self.sets_[distance.argmin(axis=1)]))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _fitted_rules(self) -> dict[str, Rule]:
        rules = {**super()._fitted_rules(), **support_rules(self, np.float64), "half_": array_of("labels")}
        if self.decision == "preimage":
            rules |= {
                "sets_": array_of("sets labels", 0, 1, "b1"),
                "set_coef_": array_of("support sets"),
                "set_norm_": array_of("sets"),
            }
        return rules

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        fitted["dual_coef_"][:, constant] = 0.0
        fitted["half_"][constant] = -value[constant]
        if self.decision == "preimage":
            fitted["sets_"][:, constant] = value[constant] > 0


def _label_sets(problem: Problem, varies: NDArray[np.intp], rows: NDArray[np.intp]) -> sp.csr_array:
    """Label sets of some rows, without the labels that are left out."""
    return sp.csr_array(problem.labels.positives[rows][:, varies]).astype(np.float64)


def _ridge(K: NDArray[np.float64], cost: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve ``(K + 1 / cost) coef = targets``, with one step of refinement."""
    system = K + np.diag(1.0 / cost)
    try:
        factor = interruptible(scipy.linalg.cho_factor, system)
    except np.linalg.LinAlgError:
        msg = (
            f"The kernel matrix plus the ridge, 1 / C, must be positive definite, and with values of K up to "
            f"{np.abs(K).max():.3g} and a ridge of {1 / cost.max():.3g} it is not, up to rounding. Scale the features, "
            "lower C, or use a kernel that is positive semidefinite."
        )
        raise InputError(msg) from None
    coef = scipy.linalg.cho_solve(factor, targets)
    return np.asarray(coef + scipy.linalg.cho_solve(factor, targets - system @ coef))


def _own(kernel: LabelKernel, sets: sp.csr_array) -> NDArray[np.float64]:
    """Kernel of each set with itself."""
    return np.array([kernel(sets[[j]], sets[[j]])[0, 0] for j in range(sets.shape[0])])

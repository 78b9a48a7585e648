"""Kernel ridge regression on the features of a label kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._interrupt import interruptible
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import Interval, MultilabelClassifier, Problem, Solution, StrOptions, row_blocks
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.separation.problem import check_finite_kernel, known_labels
from multimargin.kernels import KERNELS, POSITIVE_DATA, check_kernel, make_kernel, resolve_gamma
from multimargin.label_kernels import LabelKernel, check_label_kernel

__all__ = ["OutputKernelLeastSquares"]


class OutputKernelLeastSquares(MultilabelClassifier):
    r"""Least squares with an output kernel (LS-K): ridge regression of label-set features on the inputs.

    Minimises, over a linear map W from inputs to the features :math:`\phi` of a label kernel :math:`\kappa`,

    .. math::

        \tfrac12 |W|^2 + \tfrac12 \sum_i c_i\, |\phi(y_i) - W x_i|^2

    in closed form. The score of label l is the kernel between its feature and the prediction,
    :math:`\hat s_l(x) = \phi(1_l)^\top W x`. For polynomial kernels :math:`\kappa(y, 1_l)` is the sum of the weights if
    y has the label, so that the scores are those of ordinary ridge regression times that sum, whatever the degree:
    only ``rule="preimage"`` uses the kernel.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; 1/C is the ridge.
    label_kernel, degree, weights
        Kernel between label sets, as in :class:`multimargin.OutputKernelClassifier`.
    rule : {"ridge", "paper", "preimage"}, default="ridge"
        ``"ridge"`` predicts labels with :math:`\hat s_l > \kappa(1_l, 1_l) / 2`, ``"paper"`` those with
        :math:`\hat s_l > 1/2`, ``"preimage"`` the training label set whose feature is nearest to the prediction.
    kernel, gamma, kernel_degree, coef0
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
        Coefficients in the scores of the label sets; ``rule="preimage"`` only.
    sets_ : ndarray of shape (n_sets, n_labels)
        Those label sets.
    certificate_ : Certificate
        ``primal`` and ``dual`` of the ridge regressions the model consists of, one for each label, or for each label
        set with ``rule="preimage"``: their difference is rounding.

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
    callback = None
    verbose = 0
    n_jobs = None
    random_state = 0
    warm_start = False
    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "label_kernel": "no_validation",  # type: ignore[dict-item]
        "degree": [Interval(Integral, 1, None, closed="left")],
        "weights": ["array-like", None],
        "rule": [StrOptions({"ridge", "paper", "preimage"})],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "kernel_degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        label_kernel: Any = "poly",
        degree: int = 2,
        weights: Any = None,
        rule: str = "ridge",
        kernel: Any = "linear",
        gamma: Any = "scale",
        kernel_degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
    ):
        self.C = C
        self.label_kernel = label_kernel
        self.degree = degree
        self.weights = weights
        self.rule = rule
        self.kernel = kernel
        self.gamma = gamma
        self.kernel_degree = kernel_degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel in POSITIVE_DATA
        return tags

    def _check_problem(self, problem: Problem) -> None:
        check_label_kernel(self.label_kernel, self.degree, self.weights)
        if problem.labels.missing is not None:
            msg = (
                "Y has unknown labels (NaN), but least squares needs the whole label set of a row. Fill them in, or "
                "use another estimator."
            )
            raise InputError(msg)
        used = problem.costs.row > 0
        self._gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, self._gamma, self.kernel_degree, self.coef0, problem.seed)

    def _solve(self, problem: Problem, monitor: Monitor) -> Solution:
        varies = np.flatnonzero(~problem.constant)
        cost = problem.exact_costs.row
        self.support_ = np.flatnonzero(cost > 0)
        Y = sp.csr_array(known_labels(problem, varies)[0][self.support_]).astype(np.float64)
        X = problem.X[self.support_]
        self.gamma_ = self._gamma
        del self._gamma
        if self.kernel != "precomputed":
            self.support_vectors_ = X
        K = self._kernel_values(X)
        check_finite_kernel(K, self.kernel, self.support_)
        cost = cost[self.support_]
        kernel = check_label_kernel(self.label_kernel, self.degree, self.weights)
        units = sp.csr_array(sp.identity(len(varies), format="csr"))
        self.dual_coef_ = np.zeros((len(self.support_), problem.labels.n_labels))
        self.half_ = np.full(problem.labels.n_labels, 0.5)
        if len(varies):
            self.dual_coef_[:, varies] = _ridge(K, cost, kernel(Y, units))
        if self.rule != "paper":
            self.half_[varies] = 0.5 * _own(kernel, units)
        if self.rule == "preimage":
            distinct = sp.csr_array(np.unique(Y.toarray(), axis=0))
            self.sets_ = np.zeros((distinct.shape[0], problem.labels.n_labels), dtype=bool)
            self.sets_[:, varies] = distinct.toarray() > 0
            self.set_coef_ = _ridge(K, cost, kernel(Y, distinct))
            self.set_norm_ = _own(kernel, distinct)
        bounds = self._bounds(problem)
        monitor(1, 0.0, bounds.primal, bounds.dual)
        return Solution(bounds.primal, float(bounds.dual or 0.0), 1, "converged")

    def _bounds(self, problem: Problem) -> Bounds:
        """Values of the ridge regressions the model consists of, one for each label, or for each set it chooses from.

        Along a vector of label features, the problem is a ridge regression of its own. Its coefficients are its dual
        variables too; the values differ by half the sum of the squared residuals of the linear system, times costs.
        """
        varies = np.flatnonzero(~problem.constant)
        cost = problem.exact_costs.row[self.support_]
        Y = sp.csr_array(known_labels(problem, varies)[0][self.support_]).astype(np.float64)
        kernel = check_label_kernel(self.label_kernel, self.degree, self.weights)
        if self.rule == "preimage":
            vectors, coef = sp.csr_array(self.sets_[:, varies].astype(np.float64)), self.set_coef_
        else:
            vectors, coef = sp.csr_array(sp.identity(len(varies), format="csr")), self.dual_coef_[:, varies]
        lengths = _own(kernel, vectors)
        share = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)  # the empty set has no vector
        targets = kernel(Y, vectors)
        predicted = self._kernel_values(problem.X[self.support_]) @ coef
        norms = np.einsum("ij,ij->j", coef, predicted)
        errors = cost @ (targets - predicted) ** 2
        dual = np.einsum("ij,ij->j", coef, targets) - 0.5 * norms - 0.5 * (1.0 / cost) @ coef**2
        return Bounds(float(share @ (0.5 * norms + 0.5 * errors)), float(share @ dual))

    def _advice(self, limit: str) -> str:
        return "Scale the features, or lower C."

    def _kernel_values(self, X: Any) -> NDArray[np.float64]:
        """Kernel between rows and the training rows, constant feature included."""
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        if self.kernel == "precomputed":
            values = X[:, self.support_]
            return np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64) + bias**2
        kernel = make_kernel(
            self.kernel, self.support_vectors_, np.float64, self.gamma_, self.kernel_degree, self.coef0
        )
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(kernel.values(kernel.prepare(X)) + bias**2)

    def _scores(self, X: Any) -> NDArray[Any]:
        blocks = [self._kernel_values(X[rows]) @ self.dual_coef_ for rows in row_blocks(X.shape[0], len(self.support_))]
        return np.asarray(np.vstack(blocks) - self.half_)

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        if self.rule != "preimage":
            return super()._positives(X, scores)
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.support_)):
            distance = self.set_norm_ - 2 * self._kernel_values(X[rows]) @ self.set_coef_
            blocks.append(sp.csr_array(self.sets_[distance.argmin(axis=1)]))
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        self.dual_coef_[:, constant] = 0.0
        self.half_[constant] = -value[constant]
        if self.rule == "preimage":
            self.sets_[:, constant] = value[constant] > 0


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

"""M3L with kernels: one Gram matrix for all labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import fingerprint
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import (
    LARGEST_SINGLE,
    SMALLEST_SINGLE,
    Interval,
    Model,
    Problem,
    Status,
    StrOptions,
    WarmStart,
    threads,
)
from multimargin.estimators.m3l.base import M3L, M3LTask, Prior
from multimargin.estimators.m3l.kernel_certifier import KernelCertifier
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.native_scores import NativeScores
from multimargin.fitted_rules import Rule, array_of
from multimargin.kernels import (
    BLOCK_BYTES,
    KERNELS,
    POSITIVE_DATA,
    check_kernel,
    check_not_negative,
    for_blocks,
    gram_matrix,
    gram_rows,
    kernel_scorer,
    largest_value,
    make_kernel,
    resolve_gamma,
)
from multimargin.kernels.support import support_rules
from multimargin.priors import LowRankPrior
from multimargin.priors._forms import PriorForms

__all__ = ["KernelM3L"]

SINGLE_PRECISION_TOL = 1e-5
SINGLE_PRECISION_TOL_COUPLED = 1e-3  # R and the Gram matrix, rounded, move the optimum by a part of a smaller gap
MIN_CACHED_ROWS = 64
MOST_ATTEMPTS = 4  # of solver and certifier to agree
MIB = 2**20


@dataclass(frozen=True)
class KernelTask(M3LTask):
    """The same with a kernel: its gamma, and the precision in which to begin."""

    gamma: float
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class KeptGram:
    """The Gram matrix of a fit, for its certificate and for a warm start on the same rows with the same kernel.

    Attributes
    ----------
    key : tuple
        What it is made of.
    matrix : ndarray
        As the solver takes it.
    values : ndarray of float64, or None
        All values of a kernel that is a function, so that none is computed twice.
    """

    key: tuple[Any, ...]
    matrix: NDArray[Any]
    values: NDArray[np.float64] | None = None


class KernelM3L(M3L, NativeScores):
    r"""Max-margin multi-label classifier with a kernel and a prior R on label correlations.

    Scores are :math:`z_l(x) = \sum_i (k(x_i, x) + s^2)\, (\beta R)_{il}`, and the signed dual variables
    :math:`\beta_{il} = y_{il} b_{il}` solve

    .. math::

        \max_{0 \le b_{il} \le c_{il}} \; \sum_{i,l} m_{il} b_{il}
            - \tfrac12 \sum_{i,j} (k(x_i, x_j) + s^2)\, \beta_i^\top R\, \beta_j

    the dual of :math:`\tfrac12 \|z\|^2 + \sum_{il} c_{il} \max(0, m_{il} - y_{il} z_l(x_i))`, where
    :math:`y_{il} \in \{-1, 1\}` says whether row i has label l, :math:`c_{il} = C \cdot \text{weights}` is the cost of
    a cell (0 for an unknown label), :math:`m_{il}` its margin, ``margin`` for the Hamming loss, and s is
    ``intercept_scaling``.
    With ``prior=None``, R is the identity and the model is a kernel machine per label, but the Gram matrix is computed
    once for all of them.

    Training stops when the duality gap, which bounds the distance to the optimum, is at most ``tol`` times the
    objective.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean of K(x, x), by the
        weights of the rows: 1 for RBF, Laplacian and chi2 kernels.
    kernel : {"rbf", "poly", "linear", "laplacian", "chi2", "additive_chi2", "precomputed"} or callable, default="rbf"
        ========================  =======================================================================
        ``"rbf"``                 :math:`\exp(-\gamma |x - z|^2)`
        ``"poly"``                :math:`(\gamma\, x \cdot z + \text{coef0})^{\text{degree}}`
        ``"linear"``              :math:`x \cdot z`
        ``"laplacian"``           :math:`\exp(-\gamma \sum_d |x_d - z_d|)`
        ``"chi2"``                :math:`\exp(-\gamma \sum_d (x_d - z_d)^2 / (x_d + z_d))`, features not negative
        ``"additive_chi2"``       :math:`\sum_d 2 x_d z_d / (x_d + z_d)`, features not negative
        ``"precomputed"``         X is the Gram matrix; for prediction, its rows against the training rows
        callable                  ``kernel(A, B)`` returns the values between the rows of A and of B
        ========================  =======================================================================

        A kernel that is not positive semidefinite on a sample of the rows is refused, with its smallest eigenvalue;
        that is the usual fate of ``"sigmoid"``, :math:`\tanh(\gamma\, x \cdot z + \text{coef0})`.
    gamma : {"scale", "auto"} or float, default="scale"
        ``"scale"`` is ``1 / (n_features * X.var())`` over the rows with some weight and some known label, ``"auto"`` is
        ``1 / n_features``.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1.0
        Constant of the polynomial kernel.
    loss : {"hamming", "prior"}, default="hamming"
        ``"prior"`` asks for larger margins where a row agrees with the prior, :math:`m_{il} = y_{il} (R y_i)_l`; R must
        then be diagonally dominant.
    fit_intercept : bool, default=True
        Whether to add the constant :math:`s^2` to the kernel, which gives every label a regularised intercept.
    intercept_scaling : float, default=1.0
        s. Larger values regularise the intercept less.
    cache_size : float, default=1024
        MiB for the Gram matrix. If it does not fit, as many of its rows as do are kept, the least recently used making
        room; the answer is the same. The values of a function are computed once if they fit too, in double precision;
        otherwise those of the rows in use twice, for the certificate again.
    tol : float, default=1e-3
        Relative duality gap at which training stops. From 1e-5 on (with a prior, 1e-3) the Gram matrix is kept in
        single precision, below in double; also where rounding turns out to hide the gap, as with very large C.
    max_iter : int, default=10000
        Largest number of rounds. A round works on 1024 rows, for all labels.
    random_state : int, RandomState or None, default=None
        Choice of rows.
    callback : callable, optional
        Called once per round with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three
        None in rounds where they were not evaluated). Returning True stops training cleanly.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Numbers of the training rows the model needs.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        Those rows. Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_support, n_labels)
        :math:`\beta R` of those rows: scores are ``k(x, support_vectors_) @ dual_coef_ + intercept_``.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    gamma_ : float
        The gamma used.
    n_iter_ : int
        Rounds.

    Notes
    -----
    ``warm_start=True`` keeps the Gram matrix, too: a path over C computes it once.

    Memory: ``cache_size``, X, four to eight numbers per row and label, and room to work on blocks of rows (with 30,000
    rows, 70 to 170 MiB). Prediction copies the support rows and their coefficients, and takes kernel values in blocks
    that stay in the cache. Its scores have the precision of ``dual_coef_``. The authors' C is half of ours.

    References
    ----------
    B. Hariharan, S. V. N. Vishwanathan, M. Varma. Efficient max-margin multi-label classification with applications to
    zero-shot learning. Machine Learning 88 (2012). https://doi.org/10.1007/s10994-012-5291-x

    Examples
    --------
    Rings are out of reach of a linear model:

    >>> import numpy as np
    >>> from multimargin import KernelM3L
    >>> angle = np.linspace(0, 6, 40)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)]) * np.repeat([1.0, 2.0], 20)[:, None]
    >>> Y = [{"inner"} if i < 20 else {"outer"} for i in range(40)]
    >>> model = KernelM3L(C=10).fit(X, Y)
    >>> model.predict_sets([[0.0, 1.0], [0.0, -2.0]])
    [('inner',), ('outer',)]
    >>> model.certificate_.converged
    True
    """

    _rows_to_look_at: ClassVar[int] = 200
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **M3L._parameter_constraints,
        "kernel": [
            StrOptions(set(KERNELS)),
            callable,
        ],  # sigmoid: refused where it is no kernel, with the number
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    support_: NDArray[np.int64]
    support_vectors_: Any
    dual_coef_: NDArray[Any]
    intercept_: NDArray[Any]

    def __init__(
        self,
        C: float | str = "scale",
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        prior: Any = None,
        loss: str = "hamming",
        margin: Any = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        cache_size: float = 1024,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.prior = prior
        self.loss = loss
        self.margin = margin
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel in POSITIVE_DATA
        return tags

    def _prepare(self, problem: Problem) -> KernelTask:
        task = super()._prepare(problem)
        problem = task.problem
        used = _used_rows(problem)
        gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, gamma, self.degree, self.coef0, problem.seed)
        dtype = self._working_dtype(task, gamma)
        held = self._cached_rows(problem, dtype)
        if held < min(MIN_CACHED_ROWS, problem.X.shape[0]):
            needed = MIN_CACHED_ROWS * _row_bytes(problem, dtype) / MIB
            msg = (
                f"cache_size={self.cache_size} MiB holds {held} rows of the Gram matrix; training needs at least "
                f"{MIN_CACHED_ROWS}. Set cache_size to {needed:.3g} or more."
            )
            raise InputError(msg)
        return KernelTask(problem, task.margins, gamma, dtype)

    def _solve(self, task: KernelTask, last: WarmStart | None, monitor: Monitor) -> Model:
        dtype, tol, passes = task.dtype, float(self.tol), 0
        start, gram = self._start(last, task.problem.C, dtype), None if last is None else last.state["gram"]
        for _ in range(MOST_ATTEMPTS):
            gram = self._gram(task, dtype, gram)
            limits = self._limits(task.problem, monitor, tol=tol, passes=passes)
            found = self._run(task, dtype, start, limits, gram)
            passes, status = found.result.passes, found.result.status
            if status != Status.imprecise or passes >= self.max_iter:
                fitted, bounds = self._certified(task, found, dtype, None if gram is None else gram.values)
                if bounds.within(self.tol) or status != Status.converged or passes >= self.max_iter:
                    break
            # refused: go on from here, in double precision or to a smaller gap
            start = np.ascontiguousarray(found.dual_beta, dtype=np.float64)
            tol = tol if dtype == np.float32 else 0.5 * tol
            dtype = np.dtype(np.float64)
        return Model(fitted, bounds, passes, status, {"beta": found.dual_beta, "gram": gram})

    def _gram(self, task: KernelTask, dtype: np.dtype[Any], last: KeptGram | None) -> KeptGram | None:
        """Gram matrix in this precision, if it fits: that of the last fit if nothing it is made of has changed."""
        problem = task.problem
        if self._cached_rows(problem, dtype) < problem.X.shape[0]:
            return None
        of_rows = fingerprint(problem.X) if self.warm_start else ()
        key = (of_rows, self.kernel, task.gamma, self.degree, self.coef0)
        known = last if last is not None and last.key == key else None
        if known is not None and known.matrix.dtype == dtype:
            return known
        values = None if known is None else known.values
        if values is None and callable(self.kernel) and self._holds_values(problem, dtype):
            function = make_kernel(self.kernel, problem.X, np.float64, task.gamma, self.degree, self.coef0)
            values = gram_rows(function, problem.X, problem.n_jobs)(np.arange(function.n, dtype=np.int32))
        name, X = (self.kernel, problem.X) if values is None else ("precomputed", values)
        kernel = make_kernel(name, X, dtype, task.gamma, self.degree, self.coef0)
        return KeptGram(key, gram_matrix(kernel, X, problem.n_jobs), values)

    def _run(
        self,
        task: KernelTask,
        dtype: np.dtype[Any],
        start: NDArray[Any] | None,
        limits: _core.Limits,
        gram: KeptGram | None,
    ) -> _core.KernelM3LFit:
        """Run rounds in one precision."""
        problem, compute = task.problem, None
        if gram is None:
            kernel = make_kernel(self.kernel, problem.X, dtype, task.gamma, self.degree, self.coef0)
            compute = gram_rows(kernel, problem.X, problem.n_jobs)
        fit = _core.fit_kernel_m3l_float32 if dtype == np.float32 else _core.fit_kernel_m3l_float64
        return fit(
            gram=None if gram is None else gram.matrix,
            compute=compute,
            capacity=self._cached_rows(problem, dtype),
            labels=problem.cells,
            margins=task.margins.native(),
            factor=_factor(problem.prior, dtype),
            bias=self._constant_feature() ** 2,
            start=start,
            limits=limits,
        )

    def _certified(
        self, task: KernelTask, found: _core.KernelM3LFit, dtype: np.dtype[Any], values: NDArray[np.float64] | None
    ) -> tuple[dict[str, Any], Bounds]:
        """Support rows and their coefficients, in the precision of X if that is enough for the certificate."""
        problem = task.problem
        beta, duals = found.beta.astype(np.float64), found.dual_beta.astype(np.float64)
        intercept = found.intercept.astype(np.float64)
        if problem.prior is not None:
            factor = _factor(problem.prior, dtype)
            assert factor is not None
            beta = PriorForms(problem.prior).apply(beta)
            intercept = self._constant_feature() ** 2 * (factor.astype(np.float64) @ intercept)
        used = np.flatnonzero(beta.any(axis=1) | duals.any(axis=1))
        certifier = self._certifier(task, used, values)
        for kind in dict.fromkeys([problem.dtype, np.dtype(np.float64)]):
            coef, constant = beta.astype(kind), intercept.astype(kind)
            certified = certifier.bounds(coef[used], constant, duals[used])
            exact = np.array_equal(coef, beta) and np.array_equal(constant, intercept)
            if exact or certified.within(self.tol):
                break
        support = np.flatnonzero(beta.any(axis=1))
        fitted = {
            "support_": support,
            "support_vectors_": np.empty((0, 0), problem.dtype) if self.kernel == "precomputed" else problem.X[support],
            "dual_coef_": np.ascontiguousarray(coef[support]),
            "intercept_": constant,
            "gamma_": task.gamma,
        }
        return fitted, certified

    def _certifier(
        self, task: KernelTask, used: NDArray[np.int64], given: NDArray[np.float64] | None = None
    ) -> KernelCertifier:
        X = task.problem.X
        if self.kernel == "precomputed" or given is not None:
            gram: Any = X if given is None else given

            def values(rows: NDArray[np.int64], first: int, room: NDArray[np.float64]) -> Any:
                values = gram[np.ix_(rows, used[first:])]
                return np.ascontiguousarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)

            symmetric = False
        else:
            kernel = make_kernel(self.kernel, X[used], np.float64, task.gamma, self.degree, self.coef0)
            symmetric = kernel.symmetric

            def values(rows: NDArray[np.int64], first: int, room: NDArray[np.float64]) -> Any:
                return kernel.values(kernel.prepare(X[rows]), first, room)

        return KernelCertifier(task.problem, values, symmetric, used, self._constant_feature() ** 2, task.margins)

    def _bounds(self, problem: Problem) -> Bounds:
        coef = np.zeros(problem.shape)
        coef[self.support_] = self.dual_coef_
        intercept = np.where(problem.constant, 0.0, self.intercept_.astype(np.float64))
        state = self._kept_state(problem)
        duals = state["beta"] if state is not None else coef if problem.prior is None else None
        used = np.flatnonzero(coef.any(axis=1) | (False if duals is None else duals.any(axis=1)))
        task = KernelTask(problem, self._margins(problem), self.gamma_, problem.dtype)
        return self._certifier(task, used).bounds(coef[used], intercept, None if duals is None else duals[used])

    def _scorer(self) -> _core.Scorer:
        if self.kernel == "precomputed":  # a linear model of the columns
            weights = np.zeros((self.n_features_in_, len(self.intercept_)), dtype=self.dual_coef_.dtype)
            weights[self.support_] = self.dual_coef_
            return _core.linear_scorer(weights.T, self.intercept_)
        assert isinstance(self.kernel, str)
        constants = (self.gamma_, self.degree, self.coef0)
        return kernel_scorer(self.kernel, self.support_vectors_, self.dual_coef_, self.intercept_, *constants)

    def _is_native(self) -> bool:
        return not callable(self.kernel) and super()._is_native()

    def _new_rows(self, X: Any) -> Any:
        X = super()._new_rows(X)
        if self.kernel in POSITIVE_DATA:
            check_not_negative(self.kernel, X)
        return X

    def _computed_scores(self, X: Any) -> tuple[NDArray[Any], bool]:
        if self._is_native():
            return super()._computed_scores(X)
        dtype = self.dual_coef_.dtype
        out = np.empty((X.shape[0], len(self.intercept_)), dtype=dtype)
        out[...] = self.intercept_
        if not len(self.support_):
            return out, True
        kernel = make_kernel(self.kernel, self.support_vectors_, dtype, self.gamma_, self.degree, self.coef0)
        weights = _core.linear_scorer(self.dual_coef_.T, self.intercept_)
        size = max(1, BLOCK_BYTES // (len(self.support_) * dtype.itemsize))

        def score(rows: slice) -> None:
            weights.scores(_core.scored_rows(kernel.values(X[rows])), out[rows], 1)

        blocks = (slice(a, min(a + size, X.shape[0])) for a in range(0, X.shape[0], size))
        for_blocks(score, blocks, threads(self.n_jobs))
        return out, bool(np.isfinite(out).all())

    def _set_constant(self, fitted: dict[str, Any], constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        fitted["dual_coef_"][:, constant] = 0.0
        fitted["intercept_"][constant] = value[constant]

    def _fitted_rules(self) -> dict[str, Rule]:
        coef = getattr(self, "dual_coef_", None)
        own = support_rules(self, np.float64 if coef is None else coef.dtype)
        if self.kernel == "precomputed":
            own["support_vectors_"] = array_of("0 0")
        return {**super()._fitted_rules(), "intercept_": array_of("labels"), **own}

    def _working_dtype(self, task: M3LTask, gamma: float) -> np.dtype[Any]:
        problem = task.problem
        enough = SINGLE_PRECISION_TOL if self.prior is None else SINGLE_PRECISION_TOL_COUPLED
        largest = largest_value(self.kernel, problem.X, gamma, self.degree, self.coef0)
        cost = problem.costs.extent()[1]
        least, margin = task.margins.extent()
        safe = max(largest, cost, largest * cost, margin) <= LARGEST_SINGLE and least >= SMALLEST_SINGLE
        return np.dtype(np.float32 if self.tol >= enough and safe else np.float64)

    def _holds_values(self, problem: Problem, dtype: np.dtype[Any]) -> bool:
        """Whether the cache holds all values of a function in double, beside the Gram matrix."""
        in_double = _row_bytes(problem, np.dtype(np.float64))
        return bool(problem.X.shape[0] * (in_double + _row_bytes(problem, dtype)) <= self.cache_size * MIB)

    def _cached_rows(self, problem: Problem, dtype: np.dtype[Any]) -> int:
        return min(int(problem.X.shape[0]), int(self.cache_size * MIB // _row_bytes(problem, dtype)))


def _row_bytes(problem: Problem, dtype: np.dtype[Any]) -> int:
    return int(_core.gram_stride(problem.X.shape[0])) * dtype.itemsize


def _factor(prior: Prior, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """P with R = P P', without the directions R does not reach."""
    if prior is None:
        return None
    if isinstance(prior, LowRankPrior):
        if not np.any(prior.diagonal):
            return np.ascontiguousarray(prior.factor, dtype=dtype)
        prior = prior.toarray()
    values, vectors = np.linalg.eigh(np.asarray(prior, dtype=np.float64))
    kept = values > 8 * np.finfo(dtype).eps * values[-1]
    return np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]), dtype=dtype)


def _used_rows(problem: Problem) -> NDArray[np.bool_]:
    """Rows with at least one cell that costs something."""
    costs, missing = problem.costs, problem.labels.missing
    used = costs.row > 0
    if costs.cells is not None:
        used &= costs.cells.any(axis=1)
    if missing is not None:
        used &= np.diff(missing.indptr) < missing.shape[1]
    return np.asarray(used)

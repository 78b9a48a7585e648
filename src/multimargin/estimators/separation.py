"""Calibrated separation ranking, and its extension to kernels between label sets."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from multimargin.errors import InputError
from multimargin.estimators._base import Interval, MultilabelClassifier, Problem, Solution, StrOptions, row_blocks
from multimargin.estimators._monitor import Monitor
from multimargin.estimators._separation import Limits, SeparationProblem, known_labels, solve_separation
from multimargin.grams import gram_matrix
from multimargin.kernels import KERNELS, POSITIVE_DATA, Kernel, check_kernel, make_kernel, resolve_gamma
from multimargin.label_kernels import LabelAtoms, check_label_kernel, label_atoms, single_labels

__all__ = ["CalibratedSeparationClassifier", "OutputKernelClassifier"]

MOST_ROWS = 20_000  # for kernels of the inputs


class _SeparationModel(MultilabelClassifier):
    """What the two estimators share: everything but their atoms."""

    kernel: Any
    gamma: Any
    kernel_degree: float
    coef0: float
    fit_intercept: bool
    intercept_scaling: float
    fallback: str
    solver: str

    _weighs_cells: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MultilabelClassifier._parameter_constraints,
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "kernel_degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, None, closed="neither")],
        "fallback": [StrOptions({"none", "top1"})],
        "solver": [StrOptions({"auto", "rows", "admm"})],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.positive_only = isinstance(self.kernel, str) and self.kernel in POSITIVE_DATA
        return tags

    def threshold_function(self, X: Any) -> NDArray[Any]:
        """Compute the reference score of each row; a label is predicted where its own score is above it.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            The label scores themselves are ``decision_function(X) + threshold_function(X)[:, None]``.
        """
        check_is_fitted(self)
        return self._linear_part(self._check_X(X), self.threshold_coef_[:, None], self.threshold_intercept_)[:, 0]

    def _atoms(self, positives: sp.csr_array, negatives: sp.csr_array, weight: NDArray[np.float64]) -> LabelAtoms:
        raise AssertionError

    def _decision_scale(self, atoms: LabelAtoms) -> NDArray[np.float64]:
        """Return what label scores are divided by before they are compared with the reference score."""
        return atoms.a[: atoms.n_labels]

    def _check_problem(self, problem: Problem) -> None:
        n_rows = problem.X.shape[0]
        used = problem.costs.row > 0
        self._gamma = resolve_gamma(self.gamma, problem.X if used.all() else problem.X[used], self.kernel)
        check_kernel(self.kernel, problem.X, self._gamma, self.kernel_degree, self.coef0, problem.seed)
        if self.kernel != "linear" and n_rows > MOST_ROWS:
            msg = (
                f"kernel={self.kernel!r} needs the matrix of kernel values between all {n_rows} training rows "
                f"({n_rows**2 * 8 / 2**30:.1f} GiB); at most {MOST_ROWS} rows are allowed. Use kernel='linear', "
                "approximate the kernel (sklearn.kernel_approximation), or train on fewer rows."
            )
            raise InputError(msg)
        if self.fallback == "top1" and problem.labels.n_labels == 1:
            msg = "fallback='top1' would predict the only label everywhere. Use fallback='none' for a single label."
            raise InputError(msg)
        last = getattr(self, "_dual", None)
        if self.warm_start and last is not None and last[1] != problem.labels.positives.shape:
            msg = (
                f"warm_start=True continues on the same rows and labels: the last fit had shape {last[1]}, this one "
                f"has {problem.labels.positives.shape}. Set warm_start=False, or fit a clone."
            )
            raise InputError(msg)

    def _solve(self, problem: Problem, monitor: Monitor) -> Solution:
        varies = np.flatnonzero(problem.costs.positive > 0)
        positives, negatives = known_labels(problem, varies)
        cost = problem.costs.row.astype(np.float64)
        informative = np.diff(positives.indptr) + np.diff(negatives.indptr) > 0
        rows = np.flatnonzero((cost > 0) & informative)
        self.gamma_ = self._gamma
        del self._gamma
        bias = float(self.intercept_scaling) if self.fit_intercept else 0.0
        if not len(rows):
            empty = np.zeros((0, problem.labels.n_labels))
            self._set_model(problem, np.zeros(0, dtype=np.intp), empty, np.zeros(0), bias)
            self.n_atoms_ = 0
            monitor(1, 0.0, 0.0, 0.0)
            return Solution(0.0, 0.0, 1, "converged")
        positives, negatives, cost = positives[rows], negatives[rows], cost[rows]
        atoms = self._atoms(positives, negatives, cost / self.C)
        X, K = self._inputs(problem, rows, bias)
        D, solution = solve_separation(
            SeparationProblem(X, K, bias, positives, negatives, cost, atoms),
            self.solver,
            Limits(self.tol, self.max_iter, self.time_limit, problem.n_jobs, problem.seed),
            monitor,
            self._start(D_shape=(len(rows), len(atoms))),
        )
        mass = np.asarray(D.sum(axis=1)).ravel()
        decision = np.zeros((len(rows), problem.labels.n_labels))
        scaled = atoms.label_scores() @ sp.diags_array(1.0 / self._decision_scale(atoms))
        decision[:, varies] = (D @ scaled).toarray() + mass[:, None]
        self._set_model(problem, rows, decision, -mass, bias)
        self.n_atoms_ = len(atoms)
        if self.warm_start:
            self._dual = (D, problem.labels.positives.shape, self.C)
        return solution

    def _kernel(self, Z: Any) -> Kernel:
        """Input kernel with fixed rows Z."""
        return make_kernel(self.kernel, Z, np.float64, self.gamma_, self.kernel_degree, self.coef0)

    def _inputs(self, problem: Problem, rows: NDArray[np.intp], bias: float) -> tuple[Any, NDArray[np.float64] | None]:
        X = problem.X[rows]
        if self.kernel == "linear":
            return X, None
        if self.kernel == "precomputed":
            X = X[:, rows]
        K = gram_matrix(self._kernel(X), X, problem.n_jobs)[:, : len(rows)]
        K += bias**2
        return None, K

    def _start(self, D_shape: tuple[int, int]) -> sp.csr_array | None:
        """Dual variables of the last fit; the ones at their bound move with it when C changes."""
        last = getattr(self, "_dual", None)
        if not self.warm_start or last is None or last[0].shape != D_shape:
            return None
        return sp.csr_array(last[0] * (self.C / last[2]))

    def _set_model(
        self,
        problem: Problem,
        rows: NDArray[np.intp],
        decision: NDArray[np.float64],
        threshold: NDArray[np.float64],
        bias: float,
    ) -> None:
        """Keep the coefficients of the decisions and of the reference score."""
        dtype = problem.dtype
        self.intercept_ = (bias**2 * decision.sum(axis=0)).astype(dtype)
        self.threshold_intercept_ = float(bias**2 * threshold.sum())
        for name in ("coef_", "support_", "support_vectors_", "dual_coef_"):
            self.__dict__.pop(name, None)  # of an earlier fit with another kernel
        if self.kernel == "linear":
            X = problem.X[rows]
            self.coef_ = np.ascontiguousarray(safe_sparse_dot(X.T, decision, dense_output=True).T, dtype=dtype)
            self.threshold_coef_ = np.asarray(X.T @ threshold, dtype=dtype)
            return
        used = (decision != 0).any(axis=1) | (threshold != 0)
        self.support_ = rows[used]
        self.dual_coef_ = decision[used].astype(dtype)
        self.threshold_coef_ = threshold[used].astype(dtype)
        if self.kernel != "precomputed":
            self.support_vectors_ = problem.X[self.support_]

    def _linear_part(self, X: Any, coefficients: NDArray[Any], intercept: Any) -> NDArray[Any]:
        if self.kernel == "linear":
            return np.asarray(safe_sparse_dot(X, coefficients, dense_output=True) + intercept)
        if self.kernel == "precomputed":
            return np.asarray(safe_sparse_dot(X[:, self.support_], coefficients, dense_output=True) + intercept)
        scores = np.zeros((X.shape[0], coefficients.shape[1]))
        if len(self.support_):
            kernel = self._kernel(self.support_vectors_)
            for rows in row_blocks(X.shape[0], len(self.support_)):
                scores[rows] = kernel.values(kernel.prepare(X[rows])) @ coefficients
        return np.asarray(scores + intercept)

    def _scores(self, X: Any) -> NDArray[Any]:
        coefficients = self.coef_.T if self.kernel == "linear" else self.dual_coef_
        return self._linear_part(X, coefficients, self.intercept_)

    def _set_constant(self, constant: NDArray[np.bool_], value: NDArray[np.float64]) -> None:
        if self.kernel == "linear":
            self.coef_[constant] = 0.0
        else:
            self.dual_coef_[:, constant] = 0.0
        self.intercept_[constant] = value[constant]

    def _positives(self, X: Any) -> sp.csr_array:
        if self.fallback == "none":
            return super()._positives(X)
        varies = ~np.isin(self.label_names_, self.constant_labels_)
        blocks = []
        for rows in row_blocks(X.shape[0], len(self.label_names_)):
            scores = self._scores(X[rows])
            predicted = scores > 0
            empty = np.flatnonzero(~predicted.any(axis=1))
            if varies.any():
                predicted[empty, np.where(varies, scores[empty], -np.inf).argmax(axis=1)] = True
            blocks.append(sp.csr_array(predicted))
        return sp.csr_array(sp.vstack(blocks, format="csr"))


class CalibratedSeparationClassifier(_SeparationModel):
    r"""Calibrated separation ranking: each row's labels above a reference score, the other labels below it.

    Minimises, over weights :math:`w_l` of the L labels and :math:`u` of the reference score,

    .. math::

        \tfrac12 \Big(|u|^2 + \sum_l |w_l|^2\Big)
        + \sum_i c_i \Big[\max\big(0, \max_{l \in y_i} 1 + (u - w_l)^\top x_i\big)
        + \max\big(0, \max_{l \notin y_i} 1 + (w_l - u)^\top x_i\big)\Big]

    where :math:`c_i = C \cdot \text{weight}_i`. A row pays for its worst present and its worst absent label, not for
    every wrong cell as in :class:`LinearM3L`. A label is predicted where its score is above the reference. At the
    optimum :math:`u = -\sum_l w_l`.

    An unknown label (NaN) is neither among the present nor among the absent ones of its row.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; the authors' alpha is 1/C. Larger C fits the training labels harder.
    kernel : str or callable, default="linear"
        Kernel of the inputs, as in :class:`KernelM3L`: ``"linear"``, ``"rbf"``, ``"poly"``, ``"sigmoid"``,
        ``"laplacian"``, ``"chi2"``, ``"additive_chi2"``, ``"precomputed"`` (X is the matrix of values) or a function of
        two blocks of rows. All but ``"linear"`` hold the matrix of values between training rows.
    gamma : "scale", "auto" or float, default="scale"
        ``"scale"`` is ``1 / (n_features * X.var())``, ``"auto"`` is ``1 / n_features``.
    kernel_degree : float, default=3
        Degree of the polynomial kernel of the inputs.
    coef0 : float, default=1.0
        Its constant.
    fit_intercept : bool, default=True
        Whether to add a constant feature. Its weight is regularised like the others. Centred inputs need one.
    intercept_scaling : float, default=1.0
        Value of the constant feature. Larger values regularise the intercept less.
    fallback : {"none", "top1"}, default="none"
        ``"top1"`` predicts the label with the highest score where no label is above the reference.
    solver : {"auto", "rows", "admm"}, default="auto"
        ``"rows"`` visits row after row and takes any number of them; ``"admm"`` works with whole matrices, for up to
        about 2000 rows, and minds bad scaling less. ``"auto"`` begins with the first, and on small data goes on with
        the second if 2000 passes were not enough. Both reach the same optimum.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    max_iter : int, default=5000
        Largest number of passes over the data.
    time_limit : float, optional
        Seconds after which training stops, with what it has.
    n_jobs : int, optional
        Threads; None is 1 and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order in which rows are visited.
    verbose : int, default=0
        Whether to print progress to standard error.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C changed.
    callback : callable, optional
        Called once per pass with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three None
        on passes where they were not evaluated). Returning True stops training cleanly.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the decisions, scores above the reference; ``kernel="linear"`` only.
    support_ : ndarray of shape (n_support,)
        Training rows the model uses; other kernels only.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Their inputs; not for ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (n_support, n_labels)
        Their coefficients in the decisions.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the decisions.
    threshold_coef_ : ndarray of shape (n_features,) or (n_support,)
        Weights, or coefficients of the support, of the reference score.
    threshold_intercept_ : float
        Its intercept.
    gamma_ : float
        The gamma of the kernel.
    n_atoms_ : int
        Number of label sets with dual variables.
    certificate_ : Certificate
        ``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``, ``oracle_exact``.
    history_ : History
        Arrays ``time``, ``pass_``, ``primal``, ``dual``.
    n_iter_ : int
        Passes over the data.
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    constant_labels_ : ndarray
        Labels with a single value in training; they are predicted to be constant and left out of the problem.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Feature names, if X was a DataFrame.

    Notes
    -----
    A pass of ``"rows"`` costs a multiply-add per entry of X and label that is near its margin; every few passes, one
    per entry of X and label. There is no 1/n in front of the loss: with twice the rows, half the C gives the same
    model. Weights of single cells and ``class_weight`` have no meaning here, since a row pays for its worst label only.

    References
    ----------
    Y. Guo, D. Schuurmans. Multi-label classification with output kernels. ECML PKDD (2013).
    https://doi.org/10.1007/978-3-642-40991-2_27

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import CalibratedSeparationClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = CalibratedSeparationClassifier(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.certificate_.converged
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "linear",
        gamma: Any = "scale",
        kernel_degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        fallback: str = "none",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 5000,
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
        self.kernel_degree = kernel_degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.fallback = fallback
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def _atoms(self, positives: sp.csr_array, negatives: sp.csr_array, weight: NDArray[np.float64]) -> LabelAtoms:
        return single_labels(positives.shape[1])


class OutputKernelClassifier(_SeparationModel):
    r"""Calibrated separation of label sets under a kernel between label sets (large-margin output kernel, LM-K).

    Every label, every label set of a training row and every set of labels a row lacks is an atom :math:`s_j`, with the
    feature vector :math:`\phi(s_j)` of the label kernel :math:`\kappa`. With v the mean vector of the atoms (duplicates
    counted), :math:`a_j = v^\top \phi(s_j)`, and the score :math:`f_j(x) = \phi(s_j)^\top W x`, this minimises

    .. math::

        \tfrac12 (|W|^2 + |u|^2)
        + \sum_i c_i \Big[\max\big(0, \max_{s_j \subseteq y_i} 1 + u^\top x_i - f_j(x_i) / a_j\big)
        + \max\big(0, \max_{s_j \subseteq \bar y_i} 1 + f_j(x_i) / a_j - u^\top x_i\big)\Big]

    where :math:`\bar y_i` are the labels row i lacks and :math:`c_i = C \cdot \text{weight}_i`. Labels that occur, or
    are absent, together so share strength. With the linear label kernel this is
    :class:`CalibratedSeparationClassifier`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; the authors' alpha is 1/C. Larger C fits the training labels harder.
    label_kernel : {"poly", "cosine", "exp", "jaccard"}, LabelKernel or callable, default="poly"
        Kernel between label sets; see :mod:`multimargin.label_kernels`. It must be positive exactly for sets that share
        a label: RBF kernels, and polynomials with a constant, are refused.
    degree : int, default=2
        Degree of the polynomial label kernel.
    weights : sequence of float, optional
        Weights of its powers 1, ..., degree. By default all equal, with sum 1.
    rule : {"consistent", "paper"}, default="consistent"
        What is compared with the reference score: label scores on the scale on which margins were trained, or as they
        are, as in the paper. For polynomials they differ by the sum of the weights; with sum 1 not at all.
    kernel : str or callable, default="linear"
        Kernel of the inputs, as in :class:`KernelM3L`: ``"linear"``, ``"rbf"``, ``"poly"``, ``"sigmoid"``,
        ``"laplacian"``, ``"chi2"``, ``"additive_chi2"``, ``"precomputed"`` (X is the matrix of values) or a function of
        two blocks of rows. All but ``"linear"`` hold the matrix of values between training rows.
    gamma : "scale", "auto" or float, default="scale"
        ``"scale"`` is ``1 / (n_features * X.var())``, ``"auto"`` is ``1 / n_features``.
    kernel_degree : float, default=3
        Degree of the polynomial kernel of the inputs.
    coef0 : float, default=1.0
        Its constant.
    fit_intercept : bool, default=True
        Whether to add a constant feature. Its weight is regularised like the others. Centred inputs need one.
    intercept_scaling : float, default=1.0
        Value of the constant feature. Larger values regularise the intercept less.
    fallback : {"none", "top1"}, default="none"
        ``"top1"`` predicts the label with the highest score where no label is above the reference.
    solver : {"auto", "rows", "admm"}, default="auto"
        ``"rows"`` visits row after row and takes any number of them; ``"admm"`` works with whole matrices, for up to
        about 2000 rows, and minds bad scaling less. ``"auto"`` begins with the first, and on small data goes on with
        the second if 2000 passes were not enough. Both reach the same optimum.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    max_iter : int, default=5000
        Largest number of passes over the data.
    time_limit : float, optional
        Seconds after which training stops, with what it has.
    n_jobs : int, optional
        Threads; None is 1 and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order in which rows are visited.
    verbose : int, default=0
        Whether to print progress to standard error.
    warm_start : bool, default=False
        Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C changed.
    callback : callable, optional
        Called once per pass with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three None
        on passes where they were not evaluated). Returning True stops training cleanly.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the decisions, scores above the reference; ``kernel="linear"`` only.
    support_ : ndarray of shape (n_support,)
        Training rows the model uses; other kernels only.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Their inputs; not for ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (n_support, n_labels)
        Their coefficients in the decisions.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the decisions.
    threshold_coef_ : ndarray of shape (n_features,) or (n_support,)
        Weights, or coefficients of the support, of the reference score.
    threshold_intercept_ : float
        Its intercept.
    gamma_ : float
        The gamma of the kernel.
    n_atoms_ : int
        Number of label sets with dual variables.
    certificate_ : Certificate
        ``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``, ``oracle_exact``.
    history_ : History
        Arrays ``time``, ``pass_``, ``primal``, ``dual``.
    n_iter_ : int
        Passes over the data.
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    constant_labels_ : ndarray
        Labels with a single value in training; they are predicted to be constant and left out of the problem.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Feature names, if X was a DataFrame.

    Notes
    -----
    Polynomials of degree up to 2 with a linear input kernel keep one row of ``n_features`` weights per label and per
    pair of labels that occurs together, and scale to tens of thousands of rows. Other label kernels hold an
    ``n_atoms x n_atoms`` matrix. A row of weight 2 is two rows, also in the mean v.

    With the paper's rule, weights with a larger sum lower the threshold and predict more labels; much of the published
    gain over calibrated separation is that shift. Compare at equal thresholds.

    References
    ----------
    Y. Guo, D. Schuurmans. Multi-label classification with output kernels. ECML PKDD (2013).
    https://doi.org/10.1007/978-3-642-40991-2_27

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import OutputKernelClassifier
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = OutputKernelClassifier(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.n_atoms_
    3
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SeparationModel._parameter_constraints,
        "label_kernel": "no_validation",  # type: ignore[dict-item]
        "degree": [Interval(Integral, 1, None, closed="left")],
        "weights": ["array-like", None],
        "rule": [StrOptions({"consistent", "paper"})],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        label_kernel: Any = "poly",
        degree: int = 2,
        weights: Any = None,
        rule: str = "consistent",
        kernel: Any = "linear",
        gamma: Any = "scale",
        kernel_degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        fallback: str = "none",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 5000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
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
        self.fallback = fallback
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def _check_problem(self, problem: Problem) -> None:
        super()._check_problem(problem)
        check_label_kernel(self.label_kernel, self.degree, self.weights)

    def _atoms(self, positives: sp.csr_array, negatives: sp.csr_array, weight: NDArray[np.float64]) -> LabelAtoms:
        kernel = check_label_kernel(self.label_kernel, self.degree, self.weights)
        return label_atoms(positives, negatives, kernel, weight)

    def _decision_scale(self, atoms: LabelAtoms) -> NDArray[np.float64]:
        return super()._decision_scale(atoms) if self.rule == "consistent" else np.ones(atoms.n_labels)

"""Calibrated separation ranking, and its extension to kernels between label sets."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.estimators.contract import Interval, Problem, StrOptions
from multimargin.estimators.separation.model import SeparationModel, SeparationTask
from multimargin.estimators.separation.problem import labels_lacked
from multimargin.label_kernels import LabelAtoms, LabelKernel, check_label_kernel, label_atoms, single_labels

__all__ = ["CalibratedSeparationClassifier", "OutputKernelClassifier"]


class CalibratedSeparationClassifier(SeparationModel):
    r"""Calibrated separation ranking: each row's labels above a reference score, the other labels below it.

    Minimises, over weights :math:`w_l` of the L labels and :math:`u` of the reference score,

    .. math::

        \tfrac12 \Big(|u|^2 + \sum_l |w_l|^2\Big)
        + \sum_i c_i \Big[b_i \max\big(0, \max_{l \in y_i} 1 + (u - w_l)^\top x_i\big)
        + a_i \max\big(0, \max_{l \notin y_i} 1 + (w_l - u)^\top x_i\big)\Big]

    where :math:`c_i = C \cdot \text{weight}_i`, and :math:`a_i = b_i = 1` without ``class_weight``. A row pays for its
    worst present and its worst absent label, not for every wrong cell as in :class:`LinearM3L`. A label is predicted
    where its score is above the reference. At the optimum :math:`u = -\sum_l w_l`.

    An unknown label (NaN) is neither among the present nor among the absent ones of its row.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; the authors' alpha is 1/C. Larger C fits the training labels harder. ``"scale"`` is one over
        the mean of K(x, x), the squared length of a row for the linear kernel, by the weights of the rows.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the decisions, scores above the reference; ``kernel="linear"`` only.

    Notes
    -----
    A pass of ``"rows"`` costs a multiply-add per entry of X and label that is near its margin; every few passes, one
    per entry of X and label. There is no 1/n in front of the loss: with twice the rows, half the C gives the same
    model. Weights of single cells are refused, since a row pays for its worst label only.

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
        C: float | str = "scale",
        *,
        class_weight: Any = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        fallback: str | None = None,
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
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
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

    def _atoms(self, positives: sp.csr_array, missing: sp.csr_array | None, weight: NDArray[np.float64]) -> LabelAtoms:
        return single_labels(positives.shape[1])


class OutputKernelClassifier(SeparationModel):
    r"""Calibrated separation of label sets under a kernel between label sets (large-margin output kernel, LM-K).

    Every label, every label set of a training row and every set of labels a row lacks is an atom :math:`s_j`, with the
    feature vector :math:`\phi(s_j)` of the label kernel :math:`\kappa`. With v the mean vector of the atoms (duplicates
    counted), :math:`a_j = v^\top \phi(s_j)`, and the score :math:`f_j(x) = \phi(s_j)^\top W x`, this minimises

    .. math::

        \tfrac12 (|W|^2 + |u|^2)
        + \sum_i c_i \Big[b_i \max\big(0, \max_{s_j \subseteq y_i} 1 + u^\top x_i - f_j(x_i) / a_j\big)
        + \bar b_i \max\big(0, \max_{s_j \subseteq \bar y_i} 1 + f_j(x_i) / a_j - u^\top x_i\big)\Big]

    where :math:`\bar y_i` are the labels row i lacks, :math:`c_i = C \cdot \text{weight}_i`, and
    :math:`b_i = \bar b_i = 1` without ``class_weight``. Labels that occur, or are absent, together so share strength.
    With the linear label kernel this is :class:`CalibratedSeparationClassifier`.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; the authors' alpha is 1/C. Larger C fits the training labels harder. ``"scale"`` is one over
        the mean of K(x, x), the squared length of a row for the linear kernel, by the weights of the rows.
    label_kernel : {"poly", "cosine", "exp", "jaccard"}, LabelKernel or callable, default="poly"
        Kernel between label sets; see :mod:`multimargin.label_kernels`. It must be positive exactly for sets that share
        a label: RBF kernels, and polynomials with a constant, are refused.
    label_degree : int, default=2
        Degree of the polynomial label kernel.
    label_weights : sequence of float, optional
        Weights of its powers 1, ..., label_degree. By default all equal, with sum 1.
    decision : {"consistent", "paper"}, default="consistent"
        What is compared with the reference score: label scores on the scale on which margins were trained, or as they
        are, as in the paper. For polynomials they differ by the sum of the weights; with sum 1 not at all.

    Attributes
    ----------
    set_coef_ : ndarray of shape (n_sets, n_features)
        Weights of the larger label sets, for :func:`multimargin.certify`; predictions do not need them. After
        ``"rows"``, or with another kernel, ``set_dual_coef_`` has the coefficients of the rows instead.
    set_intercept_ : ndarray of shape (n_sets,)
        Their intercepts.
    set_dual_coef_ : csr_array of shape (n_samples, n_sets)
        Coefficients of the training rows in the larger label sets.

    Notes
    -----
    Polynomials of degree up to 2 with a linear input kernel keep one row of ``n_features`` weights per label and per
    pair of labels that occurs together, and scale to tens of thousands of rows. Other label kernels hold an
    ``n_atoms x n_atoms`` matrix. A row of weight 2 is two rows, also in the mean v.

    With the paper's decision, weights with a larger sum lower the threshold and predict more labels; much of the
    published gain over calibrated separation is that shift. Compare at equal thresholds.

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
        **SeparationModel._parameter_constraints,
        "label_kernel": "no_validation",  # type: ignore[dict-item]
        "label_degree": [Interval(Integral, 1, None, closed="left")],
        "label_weights": ["array-like", None],
        "decision": [StrOptions({"consistent", "paper"})],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        label_kernel: Any = "poly",
        label_degree: int = 2,
        label_weights: Any = None,
        decision: str = "consistent",
        class_weight: Any = None,
        kernel: Any = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        fallback: str | None = None,
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
        self.label_degree = label_degree
        self.label_weights = label_weights
        self.decision = decision
        self.class_weight = class_weight
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
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

    def _prepare(self, problem: Problem) -> SeparationTask:
        self._label_kernel()
        return super()._prepare(problem)

    def _label_kernel(self) -> LabelKernel:
        return check_label_kernel(self.label_kernel, self.label_degree, self.label_weights)

    def _atoms(self, positives: sp.csr_array, missing: sp.csr_array | None, weight: NDArray[np.float64]) -> LabelAtoms:
        return label_atoms(positives, labels_lacked(positives, missing), self._label_kernel(), weight)

    def _decision_scale(self, atoms: LabelAtoms) -> NDArray[np.float64]:
        return super()._decision_scale(atoms) if self.decision == "consistent" else np.ones(atoms.n_labels)

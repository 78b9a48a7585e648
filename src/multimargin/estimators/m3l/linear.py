"""Linear M3L."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multimargin import _core
from multimargin._memory import parse_bytes
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import (
    LARGEST_SINGLE,
    SMALLEST_SINGLE,
    Interval,
    LinearModel,
    Model,
    Problem,
    Status,
    WarmStart,
    suits_single,
)
from multimargin.estimators.m3l.base import M3L, M3LTask, Prior, blas_for_prior
from multimargin.estimators.m3l.label_blocks import Found, Pruning, bounds_in_blocks, check_room, solve_in_blocks
from multimargin.estimators.m3l.linear_problem import linear_problem
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.native_scores import dense_weights
from multimargin.fitted_rules import Rule, array_of, exactly
from multimargin.labels import LabelMatrix
from multimargin.priors import LowRankPrior

__all__ = ["LinearM3L"]

NEWTON_PATIENCE: float | None = None
"""Passes before a Newton finish takes over; None: by the size of the problem (core/m3l/linear_fit.hpp)."""

LEAST_TOL_SINGLE = 1e-5
"""Relative gap that work in single precision mostly reaches; below it float64 rows are solved in double at once."""


class LinearM3L(M3L, LinearModel):
    r"""Linear max-margin multi-label classifier with a prior R on label correlations.

    Minimises, over the weights :math:`Z = (z_1, \dots, z_L)` of the L labels,

    .. math::

        P(Z) = \tfrac12 \operatorname{tr}(Z R^+ Z^\top)
               + \sum_{i,l} c_{il} \max(0,\; m_{il} - y_{il}\, z_l^\top x_i)

    where :math:`y_{il} \in \{-1, 1\}` says whether row i has label l, :math:`c_{il} = C \cdot \text{weights}` is the
    cost of a cell (0 for an unknown label), and :math:`m_{il}` its margin: ``margin`` for the Hamming loss, times
    :math:`y_{il} (R y_i)_l` for ``loss="prior"``. With ``prior=None``, R is the identity and the model is one-vs-all:
    ``LinearSVC(loss="hinge", C=C)`` label by label.

    Training stops when the duality gap, which bounds the distance to the optimum, is at most ``tol`` times the
    objective.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. Larger C fits the training labels harder. ``"scale"`` is one over the mean squared length of
        the rows, by their weights: 1 where rows have length 1.
    loss : {"hamming", "prior"}, default="hamming"
        ``"prior"`` asks for larger margins where a row agrees with the prior; R must then be diagonally dominant.
    prune : float or None, default=None
        Weights smaller than this in absolute value are set to 0 after training, and ``coef_`` is a CSR array: for
        models of many labels. The threshold is absolute, in units of scores (whose margin is 1) per unit of a feature:
        a weight that is dropped moves a score by less than ``prune`` times the feature. Relative to the weights of its
        label it would keep those of labels that have learned next to nothing, which are most of a large model. 0.01 is
        usual for rows of unit length. Needs ``prior=None``.
    memory_limit : int, str or None, default=None
        Memory that training may take beside X and Y, the weights included: bytes, or a text such as ``"4 GiB"``. Labels
        are then trained in as few blocks as fit, one after the other. Needs ``prior=None`` and ``warm_start=False``;
        ``max_iter`` is that of each block, ``n_iter_`` and ``history_`` count the passes of all. Labels that
        ``time_limit`` did not reach have weights 0.

    Attributes
    ----------
    coef_ : ndarray or csr_array of shape (n_labels, n_features)
        Weights; sparse after ``prune``.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    pruning_ : Pruning
        After ``prune``: ``threshold``, ``kept`` weights of how many ``weights``, ``objective_before`` and
        ``objective_after``. The certificate is that of the pruned weights: ``certificate_.converged`` is False, and a
        warning says so, where pruning costs more of the objective than ``tol`` leaves.

    Notes
    -----
    A pass costs one multiply-add per stored entry of X and label, plus :math:`L^2` per row for a dense prior or
    :math:`rL` for a :class:`~multimargin.priors.LowRankPrior`. R is never inverted. Memory: X, and
    ``n_samples x n_labels`` + ``3 x n_features x n_labels`` numbers in single precision.

    The solver works in single precision, on float64 rows, too, which are read as they are; the certificate is computed
    in double from the rows as they are. Where rounding keeps it above ``tol``, training goes on in double precision,
    with a copy of float32 rows. Numbers beyond the range of single precision, and float64 rows with a ``tol`` below
    1e-5 or a prior of low rank without a diagonal, are solved in double from the start. The weights are float64 if the
    rows are, or if double was needed; scores have the precision of the weights. Prediction takes a copy of the weights,
    and the same bits come out for any ``n_jobs`` and any division of the rows.

    A block of labels within ``memory_limit`` is trained to the bits of a fit of these labels alone, and each ends at a
    gap of ``tol`` of its own: the sums of their bounds are within ``tol``, too.

    The authors' C is half of ours.

    References
    ----------
    B. Hariharan, S. V. N. Vishwanathan, M. Varma. Efficient max-margin multi-label classification with applications to
    zero-shot learning. Machine Learning 88 (2012). https://doi.org/10.1007/s10994-012-5291-x

    A. Chambolle, T. Pock. A first-order primal-dual algorithm for convex problems with applications to imaging. Journal
    of Mathematical Imaging and Vision 40 (2011). https://doi.org/10.1007/s10851-010-0251-1

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = LinearM3L(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    >>> model.certificate_.converged
    True
    """

    pruning_: Pruning

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **M3L._parameter_constraints,
        "prune": [Interval(Real, 0, None, closed="left"), None],
        "memory_limit": [Interval(Real, 0, None, closed="neither"), str, None],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        prior: Any = None,
        loss: str = "hamming",
        margin: Any = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        prune: float | None = None,
        memory_limit: int | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        callback: Any = None,
    ):
        self.C = C
        self.prior = prior
        self.loss = loss
        self.margin = margin
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.prune = prune
        self.memory_limit = memory_limit
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.callback = callback

    def _checked_prior(self, labels: LabelMatrix, y: Any, *, reset: bool) -> Prior:
        for name in ("prune", "memory_limit"):
            if getattr(self, name) is not None and self.prior is not None:
                msg = (
                    f"{name} treats labels one by one, and a prior ties them together; got {name}="
                    f"{getattr(self, name)!r} and a prior. Give prior=None, or {name}=None."
                )
                raise InputError(msg)
        if self.memory_limit is not None and self.warm_start:
            msg = (
                f"warm_start=True keeps a dual variable for each of the {labels.n_samples} rows and {labels.n_labels} "
                f"labels, which memory_limit={self.memory_limit!r} is to spare. Give one of the two."
            )
            raise InputError(msg)
        return super()._checked_prior(labels, y, reset=reset)

    def _prepare(self, problem: Problem) -> M3LTask:
        limit = self._memory()
        task = super()._prepare(problem)
        if limit is not None:
            check_room(task, limit, pruned=self.prune is not None)
        return task

    def _memory(self) -> int | None:
        return None if self.memory_limit is None else parse_bytes(self.memory_limit)

    def _solve(self, task: M3LTask, last: WarmStart | None, monitor: Monitor) -> Model:
        with blas_for_prior(task.problem.prior, task.problem.labels.n_labels):
            return solve_in_blocks(
                task,
                lambda part, told: self._solve_labels(part, last, told),
                monitor,
                bias=self._constant_feature(),
                limit=self._memory(),
                prune=self.prune,
                time_limit=self.time_limit,
            )

    def _solve_labels(self, task: M3LTask, last: WarmStart | None, monitor: Monitor) -> Found:
        problem = task.problem
        imprecise_at = 0.0 if last is None else last.state.get("imprecise_at", 0.0)
        single = self._in_single(task) and (problem.dtype == np.float32 or self.tol > imprecise_at)
        dtype = np.float32 if single else np.float64
        found = _core.fit_linear_m3l(
            linear_problem(task, self._constant_feature()),
            self._limits(problem, monitor),
            beta=self._start(last, problem.C, dtype),
            weights=None if last is None else self._nearby(task, dense_weights(self.coef_), self.intercept_, dtype),
            after_newton=last is not None and last.state["newton"],
            keep_beta=self.warm_start,
            patience=NEWTON_PATIENCE,
            single=single,
        )
        passes = found.result.passes
        if found.result.status == Status.imprecise and single and passes < self.max_iter:
            task, imprecise_at = replace(task, problem=problem.in_double()), float(self.tol)
            assert found.beta is not None
            found = _core.fit_linear_m3l(
                linear_problem(task, self._constant_feature()),
                self._limits(problem, monitor, passes=passes),
                beta=found.beta.astype(np.float64),
                weights=self._nearby(task, found.weights[:, :-1], found.weights[:, -1], np.float64),
                after_newton=found.newton,
                keep_beta=self.warm_start,
                patience=NEWTON_PATIENCE,
                single=False,
            )
        result = found.result
        state = {"beta": found.beta, "newton": found.newton, "imprecise_at": imprecise_at}
        return Found(found.weights, result.primal, result.dual, result.passes, result.status, state)

    def _bounds(self, problem: Problem) -> Bounds:
        state = self._kept_state(problem)
        beta = None if state is None else state["beta"].astype(np.float64)
        task, bias = self._prepare(problem), self._constant_feature()
        if problem.prior is None:
            return bounds_in_blocks(task, self.coef_, self.intercept_, bias, beta)
        weights = np.column_stack([self.coef_, self.intercept_]).astype(np.float64)
        weights[problem.constant] = 0.0
        primal, dual = _core.certify_linear_m3l(linear_problem(task, bias), weights, beta, problem.n_jobs)
        return Bounds(primal, None if beta is None else dual)

    def _fitted_rules(self) -> dict[str, Rule]:
        if self.prune is None:
            return super()._fitted_rules()
        weights = array_of("labels features", sparse=True)
        return {**super()._fitted_rules(), "coef_": weights, "pruning_": exactly(Pruning)}

    def _shortfall(self, model: Model) -> str | None:
        pruning, certificate = getattr(self, "pruning_", None), self.certificate_
        if pruning is None or not Bounds(pruning.objective_before, certificate.dual).within(self.tol):
            return super()._shortfall(model)
        return None if certificate.converged else pruning.told(certificate, self.tol)

    def _advice(self, limit: str) -> str:
        advice = super()._advice(limit)
        untrained = limit == "time_limit" and self.memory_limit is not None
        return f"{advice} Labels that time did not reach have weights 0." if untrained else advice

    def _in_single(self, task: M3LTask) -> bool:
        """Whether to work in single precision, at first."""
        problem, (smallest, largest) = task.problem, task.margins.extent()
        if problem.dtype == np.float32:
            return True
        if isinstance(problem.prior, LowRankPrior) and not np.any(problem.prior.diagonal):
            return False  # weights in the range of such a prior, as exactly as the rows deserve
        margins = SMALLEST_SINGLE <= smallest <= largest <= LARGEST_SINGLE
        return self.tol >= LEAST_TOL_SINGLE and margins and suits_single(problem.X, *problem.costs.extent())

    def _nearby(self, task: M3LTask, coef: NDArray[Any], intercept: NDArray[Any], dtype: Any) -> NDArray[Any] | None:
        """Weights of a solution nearby, those of the constant feature last, if a Newton finish may start from them."""
        X = task.problem.X
        if coef.shape[1] != X.shape[1] or not _core.newton_may_serve(X.shape[0], X.shape[1]):
            return None
        scale = self._constant_feature()
        constant = intercept / scale if scale else np.zeros_like(intercept)
        return np.ascontiguousarray(np.column_stack([coef, constant]), dtype=dtype)

"""Ranking SVM with a learned threshold."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.baselines._rank_svm_interior import RankProposal, rank_fits_interior, solve_rank_interior
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import LinearModel, Model, Problem, Status, WarmStart
from multimargin.estimators.interior_point import passes_before
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.separation.problem import known_labels, labels_lacked
from multimargin.fitted_rules import LARGEST, Rule, array_of

__all__ = ["RankSVM", "threshold_targets"]

ATTEMPTS = 3  # to reach a gap which the solver sees and the certifier does not
MOST_SCALE = 1e5  # measured: docs/label_set_kernels.md


@dataclass(frozen=True)
class RankTask:
    """A problem, the labels that take part, by number, and what the certifier knows of their ranking."""

    problem: Problem
    varies: NDArray[np.intp]
    ranking: RankProblem


class RankSVM(LinearModel):
    r"""Ranking SVM of Elisseeff and Weston: each row's labels above the labels it lacks, then a learned threshold.

    Minimises, over the weights :math:`w_1, \dots, w_L` of the labels,

    .. math::

        \tfrac12 \sum_k |w_k|^2 + \sum_i \frac{c_i}{|y_i|\,|\bar y_i|} \sum_{k \in y_i,\, l \in \bar y_i}
        \max\big(0,\; 1 - (w_k - w_l)^\top x_i\big)

    where :math:`y_i` are the labels of row i, :math:`\bar y_i` those it lacks, and
    :math:`c_i = C \cdot \text{weight}_i`. A threshold, linear in the L scores, is then fitted by least squares to the
    values that split each training row with the fewest errors; labels with scores above it are predicted.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error. Larger C fits the training labels harder.
    max_iter : int, default=1000
        Largest number of passes over the data. On small data, steps of an interior-point method follow where passes
        take long, as on badly scaled inputs.
    n_jobs : int, optional
        Has no effect; the solver runs on one thread.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the decisions, scores above the threshold.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts of the decisions.
    threshold_ : ndarray of shape (n_labels + 1,)
        Threshold as a function of the scores; the last entry is its constant.
    certificate_ : Certificate
        Of the ranking problem: ``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``. The ranking weights are
        those of the decisions less their mean: the best ones sum to zero.

    Notes
    -----
    There is no ``class_weight``: an error belongs to a label the row has and to one it lacks, so that weights of the
    two classes would multiply each other, as another C does; what decides between them is the threshold.

    References
    ----------
    A. Elisseeff, J. Weston. A kernel method for multi-labelled classification. NIPS 14 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import RankSVM
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = RankSVM(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.0, 0.9], [0.9, 0.0]])
    [('sea',), ('sun',)]
    """

    warm_start = False
    _weighs_cells: ClassVar[bool] = False

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ):
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _prepare(self, problem: Problem) -> RankTask:
        varies = np.flatnonzero(~problem.constant)
        positives, missing = known_labels(problem, varies)
        negatives = labels_lacked(positives, missing)
        ranking = RankProblem(problem.X, self._constant_feature(), positives, negatives, problem.costs.row)
        largest = float(ranking.cost.max()) * float(ranking.squares().max())
        if not largest <= LARGEST:
            msg = (
                f"The largest C |x|^2 must not be above {LARGEST:g}; it is {largest:.3g} with C={self.C!r} and "
                f"intercept_scaling={self.intercept_scaling!r}. Scale the features, or lower C or intercept_scaling."
            )
            raise InputError(msg)
        return RankTask(problem, varies, ranking)

    def _solve(self, task: RankTask, last: WarmStart | None, monitor: Monitor) -> Model:
        ranking, varies = task.ranking, task.varies
        scale = float(np.average(ranking.cost)) * float(ranking.squares().mean())
        visits, (n, d) = self.max_iter, ranking.X.shape
        if rank_fits_interior(ranking):
            visits = passes_before(self.max_iter, n, min(n, d + 1), len(varies))
        elif d + 1 < n and scale > MOST_SCALE:
            self._warn_scale(scale, float(ranking.squares().mean()))
        tol, passes = self.tol, 0
        for _ in range(ATTEMPTS):
            found = self._propose(task, tol, passes, visits, monitor)
            passes = found.passes
            dual = ranking.dual(found.alpha)
            for dtype in dict.fromkeys((np.dtype(task.problem.dtype), np.dtype(np.float64))):
                fitted = self._fitted(task, found.weights, dtype)
                bounds = Bounds(ranking.primal(fitted["coef_"][varies], fitted["intercept_"][varies]), dual)
                if bounds.within(self.tol):
                    break
            if bounds.within(self.tol) or found.status != Status.converged or passes >= self.max_iter:
                break
            tol *= 0.1
        return Model(fitted, bounds, passes, found.status, found.alpha)

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "threshold_": array_of("labels+1")}

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._prepare(problem)
        primal = task.ranking.primal(self.coef_[task.varies], self.intercept_[task.varies])
        alpha = self._kept_state(problem)
        return Bounds(primal, None if alpha is None else task.ranking.dual(alpha))

    def _warn_scale(self, scale: float, mean: float) -> None:
        msg = (
            f"C |x|^2 is {scale:.3g} on average: above {MOST_SCALE:g} training is not expected to converge. Scale the "
            f"features (sklearn.preprocessing.StandardScaler or Normalizer), or choose C around {1 / mean:.2g}."
        )
        warnings.warn(msg, stacklevel=4)

    def _propose(self, task: RankTask, tol: float, passes: int, visits: int, monitor: Monitor) -> RankProposal:
        """Rank by visits to the rows.

        Where these have not converged after many passes, as on badly scaled inputs, and the problem is small, an
        interior-point method goes on.
        """
        problem = task.problem
        most = min(passes + visits, self.max_iter)
        found = _core.fit_rank_svm(
            rows=problem.rows,
            labels=problem.cells,
            bias=task.ranking.bias,
            limits=self._limits(problem, monitor, tol=tol, max_iter=most, passes=passes),
        )
        result = found.result
        if result.status != Status.max_iter or result.passes >= self.max_iter:
            return RankProposal(found.weights[task.varies], found.alpha, result.passes, result.status)
        return solve_rank_interior(task.ranking, self._limits(problem, monitor, tol=tol, passes=result.passes))

    def _fitted(self, task: RankTask, weights: NDArray[np.float64], dtype: np.dtype[Any]) -> dict[str, Any]:
        problem, ranking, varies = task.problem, task.ranking, task.varies
        X = problem.X.astype(np.float64, copy=False)
        scores = np.asarray(safe_sparse_dot(X, weights[:, :-1].T, dense_output=True) + ranking.bias * weights[:, -1])
        threshold = _fit_threshold(scores, ranking.positives, ranking.negatives, ranking.cost > 0)
        above = weights - threshold[:-1] @ weights
        n_labels = problem.labels.n_labels
        coef = np.zeros((n_labels, problem.X.shape[1]), dtype=dtype)
        coef[varies] = above[:, :-1]
        intercept = np.zeros(n_labels, dtype=dtype)
        intercept[varies] = ranking.bias * above[:, -1] - threshold[-1]
        of_scores = np.zeros(n_labels + 1)
        of_scores[np.r_[varies, n_labels]] = threshold
        return {"coef_": coef, "intercept_": intercept, "threshold_": of_scores}


def threshold_targets(
    scores: NDArray[np.float64], positives: sp.csr_array, negatives: sp.csr_array
) -> NDArray[np.float64]:
    """For each row, the threshold that splits its labels with the fewest errors.

    It is the middle of the first best interval between two neighbouring scores; below all scores it is the smallest
    less one, above all scores the largest plus one.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_labels)
    positives, negatives : csr_array of shape (n_samples, n_labels)
        Labels which rows have, and labels they are known to lack.

    Returns
    -------
    ndarray of shape (n_samples,)
        NaN for a row of which nothing is known.
    """
    targets = np.full(len(scores), np.nan)
    for i, s in enumerate(scores):
        on = s[positives.indices[positives.indptr[i] : positives.indptr[i + 1]]]
        off = s[negatives.indices[negatives.indptr[i] : negatives.indptr[i + 1]]]
        cuts = np.unique(np.concatenate([on, off]))
        if not len(cuts):
            continue
        middle = np.concatenate([[cuts[0] - 1], (cuts[:-1] + cuts[1:]) / 2, [cuts[-1] + 1]])
        errors = np.searchsorted(np.sort(on), middle, side="right") + (
            len(off) - np.searchsorted(np.sort(off), middle, side="left")
        )
        targets[i] = middle[np.argmin(errors)]
    return targets


def _fit_threshold(
    scores: NDArray[np.float64], positives: sp.csr_array, negatives: sp.csr_array, used: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Least-squares coefficients of the threshold in the scores and a constant."""
    targets = threshold_targets(scores, positives, negatives)
    used = used & ~np.isnan(targets)
    if not used.any():
        return np.zeros(scores.shape[1] + 1)
    design = np.column_stack([scores[used], np.ones(used.sum())])
    return np.asarray(np.linalg.lstsq(design, targets[used], rcond=None)[0])

"""What rankings of labels with a threshold share: their data, their decisions, and how they are certified."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.baselines._rank_svm_certifier import RankProblem
from multimargin.baselines._rank_svm_interior import RankProposal, rank_fits_interior
from multimargin.baselines._rank_thresholds import RULES, fit_threshold
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import LinearModel, Model, Problem, Status, WarmStart
from multimargin.estimators.cost_scale import shown_C
from multimargin.estimators.interior_point import passes_before
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.separation.problem import known_labels, labels_lacked
from multimargin.fitted_rules import LARGEST, Rule, array_of

__all__ = ["RankTask", "RankingModel"]

ATTEMPTS = 3  # to reach a gap which the solver sees and the certifier does not
MOST_SCALE = 1e5  # measured: docs/label_set_kernels.md


@dataclass(frozen=True)
class RankTask:
    """A problem, the labels that take part, by number, and what the certifier knows of their ranking."""

    problem: Problem
    varies: NDArray[np.intp]
    ranking: RankProblem


class RankingModel(LinearModel):
    """A ranking of the labels with a threshold that is linear in their scores.

    A subclass provides ``_visit_rows``, a native solver, and ``_solve_interior``, a second method for small problems.

    Parameters
    ----------
    threshold : {"auto", "least-squares", "constant"}
        How the threshold between labels is learned. ``"least-squares"``: linear in the L scores, fitted to the values
        that split each training row with the fewest errors. ``"constant"``: the one value with the fewest errors over
        all training rows. ``"auto"``: least squares for more than 10 rows per label; with fewer it has too many
        coefficients, and the constant is taken.

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
    """

    threshold: str = "least-squares"
    warm_start = False
    _weighs_cells: ClassVar[bool] = False
    _ranking: ClassVar[type[RankProblem]] = RankProblem

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "threshold": [StrOptions(set(RULES))],
    }

    def _prepare(self, problem: Problem) -> RankTask:
        varies = np.flatnonzero(~problem.constant)
        positives, missing = known_labels(problem, varies)
        negatives = labels_lacked(positives, missing)
        ranking = self._ranking(problem.X, self._constant_feature(), positives, negatives, problem.costs.row)
        largest = float(ranking.cost.max()) * float(ranking.squares().max())
        if not largest <= LARGEST:
            msg = (
                f"The largest C |x|^2 must not be above {LARGEST:g}; it is {largest:.3g} with "
                f"{shown_C(self, problem.C)} and "
                f"intercept_scaling={self.intercept_scaling!r}. Scale the features, or lower C or intercept_scaling."
            )
            raise InputError(msg)
        return RankTask(problem, varies, ranking)

    def _solve(self, task: RankTask, last: WarmStart | None, monitor: Monitor) -> Model:
        ranking = task.ranking
        scale = float(np.average(ranking.cost)) * float(ranking.squares().mean())
        visits, (n, d) = self.max_iter, ranking.X.shape
        if rank_fits_interior(ranking):
            visits = passes_before(self.max_iter, n, min(n, d + 1), len(task.varies))
        elif d + 1 < n and scale > MOST_SCALE:
            self._warn_scale(scale, float(ranking.squares().mean()))
        tol, passes = self.tol, 0
        for _ in range(ATTEMPTS):
            found = self._propose(task, tol, passes, visits, monitor)
            passes = found.passes
            fitted, bounds = self._proposed(task, found.weights, ranking.dual(found.dual))
            if bounds.within(self.tol) or found.status != Status.converged or passes >= self.max_iter:
                break
            tol *= 0.1
        return Model(fitted, bounds, passes, found.status, found.dual)

    def _propose(self, task: RankTask, tol: float, passes: int, visits: int, monitor: Monitor) -> RankProposal:
        """Rank by visits to the rows.

        Where these have not converged after many passes, as on badly scaled inputs, and the problem is small, an
        interior-point method goes on.
        """
        most = min(passes + visits, self.max_iter)
        found = self._visit_rows(task, self._limits(task.problem, monitor, tol=tol, max_iter=most, passes=passes))
        if found.status != Status.max_iter or found.passes >= self.max_iter:
            return found
        return self._solve_interior(task.ranking, self._limits(task.problem, monitor, tol=tol, passes=found.passes))

    def _visit_rows(self, task: RankTask, limits: _core.Limits) -> RankProposal:
        """Rank natively, by visits to the rows."""
        msg = f"{type(self).__name__} has no _visit_rows(task, limits), which returns a RankProposal."
        raise TypeError(msg)

    def _solve_interior(self, ranking: RankProblem, limits: _core.Limits) -> RankProposal:
        """Rank by an interior-point method."""
        msg = f"{type(self).__name__} has no _solve_interior(ranking, limits), which returns a RankProposal."
        raise TypeError(msg)

    def _warn_scale(self, scale: float, mean: float) -> None:
        msg = (
            f"C |x|^2 is {scale:.3g} on average: above {MOST_SCALE:g} training is not expected to converge. Scale the "
            f"features (sklearn.preprocessing.StandardScaler or Normalizer), or choose C around {1 / mean:.2g}."
        )
        warnings.warn(msg, stacklevel=4)

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "threshold_": array_of("labels+1")}

    def _bounds(self, problem: Problem) -> Bounds:
        task = self._prepare(problem)
        primal = task.ranking.primal(self.coef_[task.varies], self.intercept_[task.varies])
        state = self._kept_state(problem)
        return Bounds(primal, None if state is None else task.ranking.dual(state))

    def _proposed(self, task: RankTask, weights: NDArray[np.float64], dual: float) -> tuple[dict[str, Any], Bounds]:
        """Attributes of a model of these ranking weights, and what they prove: in double if single does not do."""
        for dtype in dict.fromkeys((np.dtype(task.problem.dtype), np.dtype(np.float64))):
            fitted = self._fitted(task, weights, dtype)
            primal = task.ranking.primal(fitted["coef_"][task.varies], fitted["intercept_"][task.varies])
            bounds = Bounds(primal, dual)
            if bounds.within(self.tol):
                break
        return fitted, bounds

    def _fitted(self, task: RankTask, weights: NDArray[np.float64], dtype: np.dtype[Any]) -> dict[str, Any]:
        problem, ranking, varies = task.problem, task.ranking, task.varies
        X = problem.X.astype(np.float64, copy=False)
        scores = np.asarray(safe_sparse_dot(X, weights[:, :-1].T, dense_output=True) + ranking.bias * weights[:, -1])
        threshold = fit_threshold(self.threshold, scores, ranking.positives, ranking.negatives, ranking.cost > 0)
        above = weights - threshold[:-1] @ weights
        n_labels = problem.labels.n_labels
        coef = np.zeros((n_labels, problem.X.shape[1]), dtype=dtype)
        coef[varies] = above[:, :-1]
        intercept = np.zeros(n_labels, dtype=dtype)
        intercept[varies] = ranking.bias * above[:, -1] - threshold[-1]
        of_scores = np.zeros(n_labels + 1)
        of_scores[np.r_[varies, n_labels]] = threshold
        return {"coef_": coef, "intercept_": intercept, "threshold_": of_scores}

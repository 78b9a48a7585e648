"""C and the decision chosen together, out of fold, along a path of C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable
from sklearn.utils.validation import _check_method_params, check_is_fitted

from multimargin.decisions import _row_rules as rows
from multimargin.decisions._held_out import as_target, read_training_labels, response_of
from multimargin.decisions._lines import Calibration, fit_calibration
from multimargin.decisions._path import (
    Candidate,
    PathProgress,
    PathScores,
    Search,
    Selected,
    grid,
    mean_square,
    owner_of_C,
    with_parameters,
)
from multimargin.decisions._scoring import Scoring, read_scoring
from multimargin.decisions._stored import calibration_rule
from multimargin.decisions._wrapper import _whole_target
from multimargin.decisions.thresholds import check_rule, tune
from multimargin.decisions.tuner import ThresholdTuner
from multimargin.errors import InputError
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.fitted_rules import Rule, exactly, number
from multimargin.labels import LabelMatrix

__all__ = ["CPath", "PathScores"]


class CPath(ThresholdTuner):
    r"""Choose C and the decision together, for a metric, out of fold.

    On each fold the estimator is trained from the smallest C to the largest, each fit from the solution before. For
    every C the decision is tuned on all folds but one and judged on that one, in turn; the best C is taken,

    .. math:: \max_C \; \text{metric}\big(Y, \; [s_{il}(C) > t_l(C)]\big),

    and the estimator is trained on all rows with it: at most one fit more than folds times values, as
    :class:`~sklearn.model_selection.GridSearchCV` needs, each from a solution nearby, and the decision included.

    Parameters
    ----------
    estimator : classifier with a parameter C, or pipeline that ends in one
        The other steps of a pipeline are trained once per fold. A prior that is made from labels does not leak if it is
        a recipe, ``prior="labels"``.
    Cs : int or array, default=9
        So many values from 0.01 to 100, divided by the mean of K(x, x) (the mean squared length of a row, where there
        is no kernel); or the values themselves.
    scoring, rule, beta, shrinkage, costs, confidence
        See :func:`tune_thresholds`. Give the metric by which the predictions will be judged.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where scores come from; ``"auto"`` takes ``decision_function`` if there is one.
    cv : int, splitter or iterable, default=5
        An int gives :class:`~multimargin.model_selection.MultilabelStratifiedKFold`.
    patience : int, default=3
        End the path after so many values of C in a row that are worse than the best: large C take longest. None tries
        all.
    time_limit : float, optional
        Seconds for everything. The path ends early enough for the last fit.
    n_jobs : int, optional
        Threads, a fold each. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the folds.
    verbose : int, default=0
        Whether to print a line for each C.
    callback : callable, optional
        Called after every fit with a record of ``done``, ``total``, ``time``, ``time_left`` and ``C``. Returning True
        ends the path there.

    Attributes
    ----------
    estimator_ : classifier
        Trained on all rows with the best C.
    C_ : float
        The best C.
    path_ : PathScores
        Arrays ``C``, ``score``, ``std_error``, ``seconds``, ``converged``; it prints as a table.
    nested_score_ : float
        The metric where each fold is decided by the C and the rule that are best on the others: what to expect of new
        rows.
    calibrator_ : Calibration
        From scores to probabilities.
    thresholds_, best_threshold_, decision_, rule_, best_score_, n_positives_, rare_labels_, infeasible_labels_,
    calibration_
        As in :class:`ThresholdTuner`.
    classes_ : ndarray
        Label names; for a 1-D y its two classes.

    See Also
    --------
    ThresholdTuner : the decision alone, for an estimator whose C is known.
    TunedM3L : the kind of model chosen, too.
    plots.CPathDisplay : the path as a picture.

    Notes
    -----
    The rows of all folds are held at once, about as much memory as X for each fold.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multimargin import CPath, LinearM3L
    >>> X, Y = make_multilabel_classification(300, n_classes=6, random_state=0)
    >>> model = CPath(LinearM3L(), Cs=[1e-4, 1e-2, 1], scoring="micro-f1", random_state=0).fit(X, Y)
    >>> model.path_.C.tolist(), model.C_ in model.path_.C
    ([0.0001, 0.01, 1.0], True)
    """

    _optional_attributes: ClassVar[frozenset[str]] = ThresholdTuner._optional_attributes

    C_: float
    path_: PathScores
    calibrator_: Calibration

    def __init__(
        self,
        estimator: Any,
        *,
        Cs: Any = 9,
        scoring: Any = "macro-f1",
        rule: str = "auto",
        beta: float = 1.0,
        shrinkage: float = 30.0,
        costs: Any = None,
        confidence: float | None = None,
        response_method: str = "auto",
        cv: Any = 5,
        patience: int | None = 3,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[[PathProgress], object] | None = None,
    ):
        self.estimator = estimator
        self.Cs = Cs
        self.scoring = scoring
        self.rule = rule
        self.beta = beta
        self.shrinkage = shrinkage
        self.costs = costs
        self.confidence = confidence
        self.response_method = response_method
        self.cv = cv
        self.patience = patience
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        self._check_common()
        owner_of_C(self.estimator)
        self._check_search()
        labels = read_training_labels(X, y)
        scoring = read_scoring(self.scoring, labels.n_labels, self.beta, self.costs, self.confidence)
        check_rule(scoring, self.rule, self.shrinkage)
        Cs, relative = grid(self.Cs)
        candidates = [Candidate("", self.estimator, Cs / mean_square(self.estimator, X) if relative else Cs)]
        found = self._search(X, y, labels, scoring, params, candidates)
        self.path_ = found.paths[""]
        return self

    def _check_search(self) -> None:
        """Refuse parameters before any work."""
        if isinstance(self.cv, str):
            msg = (
                f"cv must hold rows out: a number of folds, a splitter or pairs (train, test); got {self.cv!r}. Use 5."
            )
            raise InputError(msg)
        for name in ("patience", "time_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                msg = f"{name} must be None or larger than 0; got {value!r}."
                raise InputError(msg)

    def _search(
        self, X: Any, y: Any, labels: LabelMatrix, scoring: Scoring, params: dict[str, Any], candidates: list[Candidate]
    ) -> Selected:
        """Find the best candidate and C, train on all rows, and write everything but the paths."""
        routed = self._routed(X, params)
        X, target = indexable(X, as_target(y, labels))
        fit_params = _check_method_params(X, routed.fit)
        method = response_of(candidates[0].estimator, self.response_method)
        search = Search(
            labels=labels,
            folds=self._folds(X, y, labels, routed.split),
            scoring=scoring,
            rule=self.rule,
            shrinkage=self.shrinkage,
            response_method=method,
            probabilities=method == "predict_proba",
            patience=self.patience,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
            callback=self._reporter(),
        )
        found = search.run(candidates, X, target, fit_params)
        cells = search.cells(found.scores)
        estimator = with_parameters(found.candidate.estimator, C=found.C, time_limit=self._time_left(search))
        with self._progress("all rows"):
            fit_for_scores(estimator, X, _whole_target(estimator, y, target), **fit_params)
        self.estimator_ = _as_given(estimator, found.candidate.estimator)
        self.response_method_ = method
        self.C_ = found.C
        self._learn_form(labels)
        self.decision_ = tune(cells, scoring, self.rule, self.shrinkage, search.probabilities)
        self.nested_score_ = found.nested_score
        self.calibrator_ = fit_calibration(cells, from_probabilities=search.probabilities)
        self._say(scoring)
        _warn_unless_converged(found)
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the labels, fitted out of fold, strictly between 0 and 1.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            After training on a 1-D y, of shape (n_samples, 2), for its two classes.
        """
        check_is_fitted(self)
        p = self.calibrator_.probabilities(rows.filled(self._scores(X)))
        return np.hstack([1.0 - p, p]) if self.label_form_.kind == "column" else p

    def _time_left(self, search: Search) -> float | None:
        """Seconds for the last fit: what is left, but enough for a model."""
        return None if self.time_limit is None else max(self.time_limit - search.elapsed, 0.1 * self.time_limit)

    def _reporter(self) -> Callable[[PathProgress], object] | None:
        if not self.verbose:
            return self.callback

        def report(progress: PathProgress) -> object:
            sys.stderr.write(
                f"{type(self).__name__}: fit {progress.done} of {progress.total}, C = {progress.C:.4g}, "
                f"{progress.time:.1f} s, about {progress.time_left:.0f} s left\n"
            )
            return self.callback is not None and self.callback(progress)

        return report

    def _fitted_rules(self) -> dict[str, Rule]:
        return {
            **super()._fitted_rules(),
            "C_": number(0.0),
            "path_": exactly(PathScores),
            "calibrator_": calibration_rule,
        }


def _as_given(estimator: Any, template: Any) -> Any:
    """Give a trained estimator back the time limit its user set."""
    names = [name for name in estimator.get_params() if name == "time_limit" or name.endswith("__time_limit")]
    return estimator.set_params(**{name: template.get_params()[name] for name in names})


def _warn_unless_converged(found: Selected) -> None:
    """Say so where fits on folds did not converge at the C that was chosen."""
    path = found.paths[found.candidate.name]
    share = float(path.converged[path.C == found.C][0])
    if share < 1:
        warnings.warn(
            f"At the best C = {found.C:.4g} only {share:.0%} of the fits on folds converged. Increase max_iter or "
            "time_limit, or scale the features.",
            ConvergenceWarning,
            stacklevel=6,
        )

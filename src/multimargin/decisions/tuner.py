"""Estimators whose decision is by thresholds: tuned out of fold for a metric, or given."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from multimargin.decisions import _row_rules as rows
from multimargin.decisions._cells import Cells
from multimargin.decisions._cuts import Cuts, find_cuts, label_objective
from multimargin.decisions._held_out import as_target, read_training_labels, response_of
from multimargin.decisions._lines import Calibration
from multimargin.decisions._nested import nested_predictions
from multimargin.decisions._scoring import Scoring, read_scoring
from multimargin.decisions._stored import any_number, thresholds_rule
from multimargin.decisions._wrapper import DecisionWrapper, _whole_target
from multimargin.decisions.thresholds import Thresholds, check_rule, tune
from multimargin.errors import InputError
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.fitted_rules import Rule, array_of

__all__ = ["FixedThresholds", "ThresholdTuner"]

Floats = NDArray[np.float64]

RARE = 5
"""Labels with fewer positives than this are called rare."""


class ThresholdTuner(DecisionWrapper):
    r"""Tune the decision of any multi-label classifier for a metric, out of fold.

    The estimator is trained on folds, every row is scored by a model that did not see it, and the thresholds
    :math:`t_l` (or the rule for a row) are chosen on these scores, as :func:`tune_thresholds` does:

    .. math:: \max_t \; \text{metric}(Y, [s_{il} > t_l])

    over every cut between two scores. Then the estimator is trained on all rows.

    Parameters
    ----------
    estimator : classifier
        With ``decision_function`` or ``predict_proba`` for several labels: ours, or scikit-learn's.
    scoring, rule, beta, shrinkage, costs, confidence
        See :func:`tune_thresholds`. Give the metric by which the predictions will be judged.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where scores come from; ``"auto"`` takes ``decision_function`` if there is one (scikit-learn's tuner prefers
        probabilities).
    cv : int, splitter, iterable or "prefit", default=5
        An int gives :class:`~multimargin.model_selection.MultilabelStratifiedKFold`. With ``"prefit"`` the estimator is
        taken as it is, and X, Y of ``fit`` must be rows it did not train on.
    refit : bool, default=True
        Whether to train on all rows in the end. False keeps the model of a single split ``cv=[(train, test)]``.
    n_jobs : int, optional
        Folds at once.
    random_state : int, RandomState instance or None, default=None
        For the folds.
    store_cv_results : bool, default=False
        Whether to keep ``cv_results_``.
    verbose : int, default=0
        Whether to print a line per fold.

    Attributes
    ----------
    estimator_ : classifier
        Trained on all rows.
    thresholds_ : ndarray of shape (n_labels,)
        In units of the scores; NaN with rules that look at a row as a whole.
    best_threshold_ : ndarray, or float after training on a 1-D y
        The same, under scikit-learn's name.
    decision_ : Thresholds
        The rule as a whole; it prints as a table.
    rule_ : str
        The rule that was used.
    best_score_ : float
        The metric on the out-of-fold scores the rule was tuned on: optimistic.
    nested_score_ : float
        The metric where each fold is decided by a rule tuned on the others: what to expect of new rows. Macro F is the
        mean over the labels with usable positives.
    n_positives_ : ndarray of shape (n_labels,)
        Positive cells that could be used: those in folds where their label was not constant in training.
    rare_labels_ : ndarray
        Names of labels with fewer than 5 of them. Their thresholds are little more than the quota.
    infeasible_labels_ : ndarray
        Names of labels that cannot reach the recall or precision asked for; they are never predicted.
    calibration_ : Calibration or None
        The lines to log-odds, for rules that compare labels.
    classes_ : ndarray
        Label names; for a 1-D y its two classes.
    cv_results_ : dict
        Of each label the ``thresholds`` and ``scores`` of all its cuts; only with ``store_cv_results``. Model files do
        not keep it.

    See Also
    --------
    tune_thresholds : the same for a bare matrix of scores.
    FixedThresholds : thresholds that are known.

    Notes
    -----
    A label that takes one value only in the training rows of a fold has no usable scores there; these cells are left
    out.
    ``sample_weight`` reaches the estimator, never the thresholds.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from multimargin import LinearM3L, ThresholdTuner
    >>> X, Y = make_multilabel_classification(300, n_classes=6, random_state=0)
    >>> model = ThresholdTuner(LinearM3L(C=0.1), scoring="macro-f1", random_state=0).fit(X, Y)
    >>> model.rule_
    'per-label'
    >>> bool(model.nested_score_ <= model.best_score_)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        scoring: Any = "macro-f1",
        rule: str = "auto",
        beta: float = 1.0,
        shrinkage: float = 30.0,
        costs: Any = None,
        confidence: float | None = None,
        response_method: str = "auto",
        cv: Any = 5,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        store_cv_results: bool = False,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.scoring = scoring
        self.rule = rule
        self.beta = beta
        self.shrinkage = shrinkage
        self.costs = costs
        self.confidence = confidence
        self.response_method = response_method
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.store_cv_results = store_cv_results
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        self._check_common()
        labels = read_training_labels(X, y)
        scoring = read_scoring(self.scoring, labels.n_labels, self.beta, self.costs, self.confidence)
        check_rule(scoring, self.rule, self.shrinkage)
        held_out = self._out_of_fold(X, y, labels, params)
        cells = Cells(held_out.scores, labels, np.ones(labels.n_samples))
        # a row that was in no test part has no scores: it does not count
        cells = cells.only(held_out.part_of_row >= 0)
        probabilities = self.response_method_ == "predict_proba"

        self.estimator_ = held_out.estimator
        self._learn_form(labels)
        self.decision_ = tune(cells, scoring, self.rule, self.shrinkage, probabilities)
        self.nested_score_ = self._nested(cells, scoring, held_out.part_of_row, probabilities)
        if self.store_cv_results:
            self.cv_results_ = _results(find_cuts(cells), scoring)
        self._say(scoring)
        return self

    @property
    def thresholds_(self) -> Floats:
        """Thresholds of the labels."""
        return self.decision_.values

    @property
    def best_threshold_(self) -> Floats | float:
        """The same, or the only one after training on a 1-D y."""
        return float(self.thresholds_[0]) if self.label_form_.kind == "column" else self.thresholds_

    @property
    def rule_(self) -> str:
        """The rule that was used."""
        return self.decision_.rule

    @property
    def best_score_(self) -> float:
        """Value of the metric on the scores the rule was tuned on."""
        return self.decision_.score

    @property
    def n_positives_(self) -> Floats:
        """Positive cells of the labels that could be used."""
        return self.decision_.n_positives

    @property
    def rare_labels_(self) -> NDArray[Any]:
        """Names of labels with few of them."""
        return np.asarray(self.label_names_[self.n_positives_ < RARE])

    @property
    def infeasible_labels_(self) -> NDArray[Any]:
        """Names of labels that cannot reach what was asked for."""
        return np.asarray(self.label_names_[self.decision_.infeasible])

    @property
    def calibration_(self) -> Calibration | None:
        """The lines to log-odds, if the rule needs them."""
        return self.decision_.calibration

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "decision_": thresholds_rule, "nested_score_": any_number}

    def _nested(self, cells: Cells, scoring: Scoring, part_of_row: NDArray[np.int64], probabilities: bool) -> float:
        """Decide each part by a rule tuned on the others, without training again."""
        if len(np.unique(part_of_row[part_of_row >= 0])) < 2:
            return float("nan")
        predicted, _ = nested_predictions(cells, scoring, self.rule, self.shrinkage, part_of_row, probabilities)
        return scoring.value(cells, predicted)

    def _say(self, scoring: Scoring) -> None:
        if self.verbose:
            sys.stderr.write(
                f"ThresholdTuner: {scoring.name} {self.nested_score_:.4f} nested, {self.best_score_:.4f} apparent, "
                f"rule {self.rule_!r}, {len(self.rare_labels_)} rare labels\n"
            )
        if len(self.infeasible_labels_):
            names = self.infeasible_labels_.tolist()
            shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            bound = ""
            if scoring.confidence is not None:
                bound = f" with confidence {scoring.confidence:g}, for which few positives are never enough"
            warnings.warn(
                f"No threshold reaches {scoring.name}{bound} for label {shown}: never predicted; see "
                "infeasible_labels_. Ask for less, or give more rows.",
                stacklevel=5,
            )

    def _predicted(self, scores: Any) -> sp.csr_array:
        return self.decision_.cells(scores)

    def _margins(self, scores: Any) -> Floats:
        return self.decision_.margins(scores)


class FixedThresholds(DecisionWrapper):
    r"""Predict the labels of any multi-label classifier by thresholds that are known.

    .. math:: \hat y_{il} = [s_{il} > t_l]

    Parameters
    ----------
    estimator : classifier
        With ``decision_function`` or ``predict_proba`` for several labels.
    thresholds : float, array of shape (n_labels,), mapping from label names, or Thresholds
        One for all labels, or one of each. A mapping may leave labels out: they keep the threshold of the estimator, 0
        for ``decision_function`` and 0.5 for ``predict_proba``.
    response_method : {"auto", "decision_function", "predict_proba"}, default="auto"
        Where scores come from; ``"auto"`` takes ``decision_function`` if there is one.

    Attributes
    ----------
    estimator_ : classifier
        Trained. Wrap a trained one in scikit-learn's ``FrozenEstimator`` to keep it.
    thresholds_ : ndarray of shape (n_labels,)
    classes_ : ndarray
        Label names; for a 1-D y its two classes.

    Examples
    --------
    >>> from multimargin import LinearM3L
    >>> from multimargin.decisions import FixedThresholds
    >>> X = [[0.0], [0.2], [0.8], [1.0]]
    >>> Y = [{"low"}, {"low"}, {"high"}, {"high"}]
    >>> model = FixedThresholds(LinearM3L(C=10), {"low": -5.0}).fit(X, Y)
    >>> model.predict_sets([[1.0]])
    [('high', 'low')]
    """

    def __init__(self, estimator: Any, thresholds: Any = 0.0, *, response_method: str = "auto"):
        self.estimator = estimator
        self.thresholds = thresholds
        self.response_method = response_method

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        self._check_common()
        labels = read_training_labels(X, y)
        checked = None if isinstance(self.thresholds, dict) else self._read(labels, 0.0)
        if isinstance(self.thresholds, dict):
            self._read(labels, 0.0)
        routed = self._routed(X, params)
        target = _whole_target(self.estimator, y, as_target(y, labels))
        self.estimator_ = fit_for_scores(clone(self.estimator), X, target, **routed.fit)
        self.response_method_ = response_of(self.estimator_, self.response_method)
        usual = 0.5 if self.response_method_ == "predict_proba" else 0.0
        self.thresholds_ = self._read(labels, usual) if checked is None else checked
        self._learn_form(labels)
        return self

    def _read(self, labels: Any, usual: float) -> Floats:
        given = self.thresholds
        n_labels = labels.n_labels
        if isinstance(given, Thresholds):
            if given._looks_at_rows:
                msg = f"The rule {given.rule!r} is more than a threshold per label. Use its predict, or another rule."
                raise InputError(msg)
            given = given.values
        if isinstance(given, dict):
            position = {name: label for label, name in enumerate(labels.names.tolist())}
            unknown = [name for name in given if name not in position]
            if unknown:
                msg = f"thresholds name the label {unknown[0]!r}, which Y does not have. Correct or drop it."
                raise InputError(msg)
            values = np.full(n_labels, usual)
            for name, value in given.items():
                values[position[name]] = value
            given = values
        try:
            values = np.broadcast_to(np.asarray(given, dtype=np.float64), (n_labels,)).copy()
        except (TypeError, ValueError):
            msg = f"thresholds must be a number, or {n_labels} numbers, one per label; got {given!r}."
            raise InputError(msg) from None
        if np.isnan(values).any():
            msg = "thresholds must not be NaN. A label that must never be predicted may have the threshold inf."
            raise InputError(msg)
        return values

    def _fitted_rules(self) -> dict[str, Rule]:
        return {**super()._fitted_rules(), "thresholds_": array_of("labels", -np.inf, np.inf, "f8")}

    def _predicted(self, scores: Any) -> sp.csr_array:
        return rows.above(scores, self.thresholds_)

    def _margins(self, scores: Any) -> Floats:
        check_is_fitted(self)
        scores = rows.filled(scores)
        with np.errstate(invalid="ignore"):
            return np.where(scores == -np.inf, -np.inf, scores - self.thresholds_)


def _results(cuts: Cuts, scoring: Scoring) -> dict[str, list[Floats]]:
    """Return all cuts of every label with what each is worth to it: its F, or the cost it saves."""
    kind = "macro" if scoring.kind in ("micro", "micro+macro", "example") else scoring.kind
    objective = label_objective(cuts, replace(scoring, kind=kind))
    ends = cuts.offsets[1:-1]
    return {"thresholds": np.split(cuts.thresholds, ends), "scores": np.split(objective, ends)}

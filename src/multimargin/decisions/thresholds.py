"""From scores to predicted labels: thresholds and rules that are best for a chosen metric."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from multimargin._tables import aligned
from multimargin.decisions import _row_rules as rows
from multimargin.decisions._cells import Cells, read_cells, read_score_matrix
from multimargin.decisions._cuts import Cuts, find_cuts, label_objective, per_label, shrunk
from multimargin.decisions._lines import Calibration, fit_calibration
from multimargin.decisions._scoring import RULES, Scoring, is_number, read_scoring
from multimargin.decisions._stored import any_number, thresholds_rule
from multimargin.decisions._wrapper import DecisionWrapper, _target, _whole_target, read_training_labels, response_of
from multimargin.errors import InputError
from multimargin.fitted_rules import Rule, array_of

__all__ = ["FixedThresholds", "ThresholdTuner", "Thresholds", "tune_thresholds"]

Floats = NDArray[np.float64]

RARE = 5
"""Labels with fewer positives than this are called rare."""
TRIED = {"example": ("offset", "at-least-one", "rcut", "decode"), "subset": ("seen-sets", "decode")}
"""Rules of which ``rule="auto"`` takes the best on the scores given."""
COMPARE = ("offset", "at-least-one", "rcut", "decode", "seen-sets")
"""Rules that compare labels, and so calibrate their scores first."""


@dataclass(frozen=True, eq=False, repr=False)
class Thresholds:
    """A decision rule for the scores of labels.

    Attributes
    ----------
    values : ndarray of shape (n_labels,)
        A label is predicted where its score is larger than this. NaN with the rules ``"rcut"`` and ``"decode"`` for the
        example F, which look at a row as a whole.
    rule : str
        The rule that was used.
    scoring : str
        The metric it was tuned for.
    score : float
        Value of the metric on the scores it was tuned on: better than on new rows.
    best : ndarray of shape (n_labels,)
        Best threshold of each label by itself, before rare labels were drawn towards the quota.
    weights : ndarray of shape (n_labels,)
        Weight of that threshold; the quota has the rest.
    n_positives : ndarray of shape (n_labels,)
        Positive cells that could be used.
    names : ndarray of shape (n_labels,)
        Label names.
    infeasible : ndarray of bool of shape (n_labels,)
        Labels that cannot reach the recall or precision that was asked for.
    calibration : Calibration or None
        For rules that compare labels: the lines from scores to log-odds.
    offset : float
        For ``"offset"`` and ``"at-least-one"``, the log-odds above which a label is predicted.
    size : int
        For ``"rcut"``, the number of labels of each row.
    beta_squared : float
        For ``"decode"``.
    sets : csr_array or None
        For ``"seen-sets"``, the label sets that may be predicted.
    score_coverage : float
        Share of the positive cells that have a score: with sparse scores, no rule can find more.
    """

    values: Floats
    rule: str
    scoring: str
    score: float
    best: Floats
    weights: Floats
    n_positives: Floats
    names: NDArray[Any]
    infeasible: NDArray[np.bool_]
    calibration: Calibration | None = None
    offset: float = np.nan
    size: int = 0
    beta_squared: float = 1.0
    sets: sp.csr_array | None = None
    score_coverage: float = 1.0

    def predict(self, scores: Any) -> Any:
        """Predict labels from scores.

        Parameters
        ----------
        scores : array or sparse matrix of shape (n_samples, n_labels)

        Returns
        -------
        ndarray of 0 and 1, or csr_array for sparse scores
        """
        cells = read_score_matrix(scores, len(self.values))
        predicted = self.cells(cells)
        return predicted.astype(np.int64) if sp.issparse(scores) else predicted.toarray().astype(np.int64)

    def cells(self, scores: Any) -> sp.csr_array:
        """Predicted cells of scores that have been checked."""
        if self.calibration is None or not self._looks_at_rows:
            return rows.above(scores, self.values)
        odds = self.calibration.log_odds(scores)
        if self.rule == "at-least-one":
            return rows.at_least_one(odds, self.offset)
        if self.rule == "rcut":
            return rows.top(odds, self.size)
        if self.sets is not None:
            return rows.seen_sets(odds, self.sets)
        return rows.expected_f_sets(odds, self.beta_squared)

    def margins(self, scores: Any) -> Floats:
        """Scores less thresholds, of scores that have been checked: positive where the label is predicted.

        Rules that calibrate give log-odds less their threshold. Where a rule looks at the row as a whole, the threshold
        of the row lies between its predicted and its other labels.
        """
        if sp.issparse(scores):
            scores = rows.filled(scores)
        scores = np.asarray(scores, dtype=np.float64)
        if self.calibration is None or (self.rule == "decode" and not self._looks_at_rows):
            with np.errstate(invalid="ignore"):
                margins = scores - self.values
            return np.where(scores == -np.inf, -np.inf, margins)
        odds = self.calibration.log_odds(scores)
        if self._looks_at_rows:
            return rows.row_margins(odds, self.cells(scores).toarray().astype(bool), self.offset)
        margins = odds - self.offset
        # thresholds are compared with scores: the sign is theirs, also where rounding of log-odds differs
        predicted = scores > self.values
        return np.asarray(np.where(predicted, np.maximum(margins, np.finfo(float).tiny), np.minimum(margins, 0.0)))

    @property
    def _looks_at_rows(self) -> bool:
        return self.rule in ("at-least-one", "rcut", "seen-sets") or (
            self.rule == "decode" and bool(np.isnan(self.values).all())
        )

    def table(self, max_labels: int | None = 20) -> str:
        """Return a table of the labels with the fewest positives first."""
        order = np.argsort(self.n_positives, kind="stable")[:max_labels]
        lines = [["label", "positives", "threshold", "weight"]]
        for label in order:
            lines.append(
                [
                    str(self.names[label]),
                    f"{self.n_positives[label]:g}",
                    f"{self.values[label]:.4g}",
                    f"{self.weights[label]:.2f}",
                ]
            )
        text = [aligned(lines)]
        if len(order) < len(self.names):
            text.append(f"... and {len(self.names) - len(order)} labels with more positives")
        text.append(f"rule {self.rule!r} for {self.scoring}: {self.score:.4f} on the scores it was tuned on")
        return "\n".join(text)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__


def tune_thresholds(
    scores: Any,
    Y: Any,
    scoring: Any = "macro-f1",
    *,
    rule: str = "auto",
    beta: float = 1.0,
    shrinkage: float = 30.0,
    sample_weight: Any = None,
    costs: Any = None,
    confidence: float | None = None,
) -> Thresholds:
    r"""Find the thresholds that are best for a metric, from a bare matrix of scores.

    The scores must come from rows the model did not train on; :class:`ThresholdTuner` sees to that. A label is
    predicted where :math:`s_{il} > t_l`. Every cut between two scores is examined, not a grid.

    Parameters
    ----------
    scores : array or sparse matrix of shape (n_samples, n_labels)
        Larger means more likely. A cell that a sparse matrix does not store is never predicted; a stored 0 is a score.
    Y : labels in any form
        NaN cells are left out.
    scoring : str or tuple, default="macro-f1"
        ``"macro-f1"``, ``"micro-f1"``, ``"weighted-f1"``, ``"example-f1"``, the same with ``-fbeta``,
        ``"micro+macro-f1"``, ``"hamming-loss"``, ``"cost"``, ``"subset-accuracy"``,
        ``("precision-at-recall", r)`` (per label, the best
        precision whose recall is at least r) and ``("recall-at-precision", p)``. Every metric needs its own rule: one
        tuned for macro-F1 lowers micro-F1.
    rule : str, default="auto"
        ``"per-label"``: the best threshold of each label; exact for macro, weighted and micro F, costs, and at a level;
        for the example F, a coordinate-wise optimum. ``"offset"``: one threshold for the calibrated probabilities of
        all labels, exact on these rows. ``"at-least-one"``: the same, and the best label of every row.
        ``"rcut"``: the same number of labels for each row. ``"seen-sets"``, for the subset accuracy: of the label sets
        in Y the one of largest sum of log-odds. ``"pcut"``: each label as often as in Y. ``"decode"``: the
        best set for the calibrated probabilities of the row. ``"auto"``: ``"per-label"`` for macro and weighted F and
        at a level, ``"offset"`` for micro F, ``"decode"`` for costs, and for the example F and the subset accuracy the
        best rule on these rows.
    beta : float, default=1.0
        For the scorings that end in ``-fbeta``: recall counts beta times as much as precision.
    shrinkage : float, default=30.0
        For macro and weighted F, ``"per-label"``: the threshold of a label with P positives is
        :math:`w t^{best} + (1 - w) t^{pcut}` with :math:`w = P / (P + \text{shrinkage})`. 0 takes the best one as it
        is.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.
    costs : pair of floats or arrays, optional
        For ``"cost"``: of a false positive and of a false negative, the same for all labels or one per label.
    confidence : float, optional
        For the scorings at a level: a recall or precision counts only as far as it is certain, by Wilson's one-sided
        bound.

    Returns
    -------
    Thresholds

    Examples
    --------
    >>> from multimargin.decisions import tune_thresholds
    >>> scores = [[-0.2, 0.1], [-0.4, 0.9], [-0.9, -0.3], [-1.2, 0.8]]
    >>> Y = [[1, 0], [1, 1], [0, 0], [0, 1]]
    >>> thresholds = tune_thresholds(scores, Y, shrinkage=0)
    >>> thresholds.values
    array([-0.65,  0.45])
    >>> thresholds.predict(scores).tolist()
    [[1, 0], [1, 1], [0, 0], [0, 1]]
    """
    cells = read_cells(scores, Y, sample_weight)
    read = read_scoring(scoring, cells.shape[1], beta, costs, confidence)
    check_rule(read, rule, shrinkage)
    found = tune(cells, read, rule, shrinkage)
    if found.score_coverage < 0.95:
        warnings.warn(
            f"Only {found.score_coverage:.1%} of the positive cells have a score: no threshold can find the others. "
            "Keep more scores per row.",
            stacklevel=2,
        )
    return found


def check_rule(scoring: Scoring, rule: Any, shrinkage: Any) -> None:
    """Refuse a rule that does not serve a scoring, before any work."""
    rules = ("auto", *RULES[scoring.kind])
    if rule not in rules:
        msg = f"rule must be one of {', '.join(map(repr, rules))} for scoring {scoring.name!r}; got {rule!r}."
        raise InputError(msg)
    if not is_number(shrinkage) or not shrinkage >= 0:
        msg = f"shrinkage must be a number of positives, at least 0; got {shrinkage!r}. Use 30, or 0 for none."
        raise InputError(msg)


def tune(cells: Cells, scoring: Scoring, rule: str, shrinkage: float, from_probabilities: bool = False) -> Thresholds:
    """Find the rule for cells that have been checked."""
    if rule == "auto" and scoring.kind in TRIED:
        calibration = fit_calibration(cells, from_probabilities=from_probabilities)
        tried = [_tuned(cells, scoring, name, shrinkage, calibration) for name in TRIED[scoring.kind]]
        return max(tried, key=lambda found: found.score)
    rule = RULES[scoring.kind][0] if rule == "auto" else rule
    compares = rule in COMPARE or (rule == "per-label" and scoring.kind == "example")
    lines = fit_calibration(cells, from_probabilities=from_probabilities) if compares else None
    return _tuned(cells, scoring, rule, shrinkage, lines)


def _tuned(cells: Cells, scoring: Scoring, rule: str, shrinkage: float, calibration: Calibration | None) -> Thresholds:
    positives, _ = cells.counts()
    n_labels = cells.shape[1]
    found = Thresholds(
        values=np.full(n_labels, np.nan),
        rule=rule,
        scoring=scoring.name,
        score=np.nan,
        best=np.full(n_labels, np.nan),
        weights=np.ones(n_labels),
        n_positives=positives,
        names=cells.labels.names,
        infeasible=np.zeros(n_labels, dtype=bool),
        calibration=calibration,
        beta_squared=scoring.beta_squared,
        score_coverage=_coverage(cells),
    )
    if calibration is None:
        found = _from_cuts(cells, scoring, found, shrinkage)
    else:
        found = _from_odds(cells, scoring, found, calibration)
    return replace(found, score=scoring.value(cells, found.cells(cells.scores)))


def _from_cuts(cells: Cells, scoring: Scoring, found: Thresholds, shrinkage: float) -> Thresholds:
    cuts = find_cuts(cells)
    if found.rule == "pcut":
        values = np.where(np.isnan(cuts.quota), -np.inf, cuts.quota)
        return replace(found, values=values, best=values, weights=np.zeros(len(values)))
    best, infeasible = per_label(cuts, scoring)
    values, weights = best, np.ones(len(best))
    if scoring.kind in ("macro", "weighted"):
        values, weights = shrunk(cuts, best, float(shrinkage))
    return replace(found, values=values, best=best, weights=weights, infeasible=infeasible & (found.n_positives > 0))


def _from_odds(cells: Cells, scoring: Scoring, found: Thresholds, calibration: Calibration) -> Thresholds:
    if scoring.costs is not None or (scoring.kind == "subset" and found.rule == "decode"):
        ratio = 1.0 if scoring.costs is None else scoring.costs[0] / scoring.costs[1]
        values = calibration.threshold(np.log(ratio))
        return replace(found, values=values, best=values)
    comparable = cells.with_scores(calibration.log_odds(cells.scores))
    if found.rule == "seen-sets":
        whole = cells.weights > 0
        if cells.labels.missing is not None:
            whole &= np.diff(cells.labels.missing.indptr) == 0
        if not whole.any():
            msg = "rule='seen-sets' needs a row whose labels are all known; Y has none. Use rule='decode'."
            raise InputError(msg)
        return replace(found, sets=rows.distinct_sets(cells.labels.positives[whole]))
    if found.rule == "rcut":
        return replace(found, size=rows.best_size(comparable, scoring))
    if found.rule == "decode":
        return found
    if scoring.kind == "micro":
        offset = float(per_label(find_cuts(comparable.pooled()), scoring)[0][0])
    else:
        offset = rows.best_offset(comparable, scoring, found.rule == "at-least-one")
    values = calibration.threshold(offset)
    if found.rule == "per-label":
        values = rows.coordinate_ascent(cells, scoring, values)
        return replace(found, values=values, best=values, calibration=None)
    return replace(found, offset=offset, values=values, best=values)


def _coverage(cells: Cells) -> float:
    if not cells.sparse:
        return 1.0
    present = cells.present
    stored = sp.csr_array((np.ones(cells.scores.nnz), cells.scores.indices, cells.scores.indptr), shape=cells.shape)
    return float(stored.multiply(present.astype(np.float64)).sum() / present.nnz) if present.nnz else 1.0


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
        parts = [part for part in np.unique(part_of_row) if part >= 0]
        if len(parts) < 2:
            return float("nan")
        predicted = sp.lil_array(cells.shape, dtype=bool).tocsr()
        for part in parts:
            inside = part_of_row == part
            found = tune(cells.only(~inside & (part_of_row >= 0)), scoring, self.rule, self.shrinkage, probabilities)
            guess = found.cells(cells.scores[inside])
            rows_of = np.flatnonzero(inside)
            spread = sp.csr_array(
                (np.ones(guess.nnz, dtype=np.int8), (rows_of[_row_of(guess)], guess.indices)), shape=cells.shape
            )
            predicted = predicted + spread
        return scoring.value(cells, sp.csr_array(predicted.astype(bool)))

    def _say(self, scoring: Scoring) -> None:
        if self.verbose:
            import sys

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
        target = _whole_target(self.estimator, y, _target(y, labels))
        self.estimator_ = clone(self.estimator).fit(X, target, **routed.fit)
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


def _row_of(cells: sp.csr_array) -> NDArray[np.int64]:
    return np.repeat(np.arange(cells.shape[0]), np.diff(cells.indptr))


def _results(cuts: Cuts, scoring: Scoring) -> dict[str, list[Floats]]:
    """Return all cuts of every label with what each is worth to it: its F, or the cost it saves."""
    kind = "macro" if scoring.kind in ("micro", "micro+macro", "example") else scoring.kind
    objective = label_objective(cuts, replace(scoring, kind=kind))
    ends = cuts.offsets[1:-1]
    return {"thresholds": np.split(cuts.thresholds, ends), "scores": np.split(objective, ends)}

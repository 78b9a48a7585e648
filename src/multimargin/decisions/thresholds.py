"""From scores to predicted labels: thresholds and rules that are best for a chosen metric."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._tables import aligned, html_table
from multimargin.decisions import _row_rules as rows
from multimargin.decisions._cells import Cells, read_cells, read_score_matrix
from multimargin.decisions._cuts import find_cuts, per_label, shrunk
from multimargin.decisions._lines import Calibration, fit_calibration
from multimargin.decisions._scoring import RULES, Scoring, is_number, read_scoring
from multimargin.errors import InputError

__all__ = ["Thresholds", "check_rule", "tune", "tune_thresholds"]

Floats = NDArray[np.float64]

TRIED = {"example": ("offset", "at-least-one", "rcut", "decode"), "subset": ("seen-sets", "decode")}
"""Rules of which ``rule="auto"`` takes the best on the scores given."""
WIDELY_TRIED = {**TRIED, "micro": ("offset", "decode"), "cost": ("decode", "seen-sets")}
"""Rules of which ``rule="best"`` does: those with at most one number to fit, which cannot be best by fitting most."""
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
        return "\n".join([aligned(self._rows(max_labels)), *self._words(max_labels)])

    def _repr_html_(self) -> str:
        return html_table(self._rows(20), note="; ".join(self._words(20)))

    def _rows(self, max_labels: int | None) -> list[list[str]]:
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
        return lines

    def _words(self, max_labels: int | None) -> list[str]:
        hidden = len(self.names) - len(self.names[:max_labels])
        more = [f"... and {hidden} labels with more positives"] if hidden else []
        return [*more, f"rule {self.rule!r} for {self.scoring}: {self.score:.4f} on the scores it was tuned on"]

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
        best rule on these rows. ``"best"``: the same, and the best rule on these rows for micro F (``"offset"`` or
        ``"decode"`` for the example F) and costs (``"decode"`` or ``"seen-sets"``), too.
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
    rules = ("auto", "best", *RULES[scoring.kind])
    if rule not in rules:
        msg = f"rule must be one of {', '.join(map(repr, rules))} for scoring {scoring.name!r}; got {rule!r}."
        raise InputError(msg)
    if not is_number(shrinkage) or not shrinkage >= 0:
        msg = f"shrinkage must be a number of positives, at least 0; got {shrinkage!r}. Use 30, or 0 for none."
        raise InputError(msg)


def tune(cells: Cells, scoring: Scoring, rule: str, shrinkage: float, from_probabilities: bool = False) -> Thresholds:
    """Find the rule for cells that have been checked."""
    several = {"auto": TRIED, "best": WIDELY_TRIED}.get(rule, {}).get(scoring.kind)
    if several is not None:
        calibration = fit_calibration(cells, from_probabilities=from_probabilities)
        tried = [_tuned(cells, scoring, name, shrinkage, calibration) for name in several]
        return (min if scoring.smaller_is_better else max)(tried, key=lambda found: found.score)
    rule = RULES[scoring.kind][0] if rule in ("auto", "best") else rule
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
    if found.rule == "decode" and scoring.kind in ("cost", "subset"):
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
    if scoring.kind == "micro" and found.rule == "offset":
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

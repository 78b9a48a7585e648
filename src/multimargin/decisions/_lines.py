"""From scores to log-odds: a line per label, or steps, fitted on scores the model did not train on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from multimargin import _core
from multimargin.decisions._cells import Cells, read_score_matrix

__all__ = ["Calibration", "fit_calibration", "log_odds_of"]

Floats = NDArray[np.float64]

EM_ROUNDS = 3
FEWEST_LABELS = 3
"""Fewer informative labels than this say nothing about how lines vary from label to label."""
ISOTONIC_POSITIVES = 50
LOWEST_SLOPE = 1e-6
START_CELLS = 2_000_000
EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Calibration:
    r"""Probabilities of labels from their scores, :math:`p = 1 / (1 + \exp(-(a_l s + b_l)))`.

    Attributes
    ----------
    lines : ndarray of shape (n_labels, 2)
        Slope and offset of the log-odds of each label.
    prior : tuple of four floats, or None
        With hierarchical pooling, the mean slope and offset over labels and their variances.
    steps : dict
        For labels calibrated by steps: label number to scores and probabilities between which to interpolate.
    from_probabilities : bool
        Whether the scores are themselves probabilities, of which the log-odds are taken first.
    """

    lines: Floats
    prior: tuple[float, float, float, float] | None = None
    steps: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    from_probabilities: bool = False

    def log_odds(self, scores: Any) -> Any:
        """Log-odds of scores, dense or sparse; NaN stays NaN, and -inf stays -inf.

        Parameters
        ----------
        scores : ndarray or csr_array of shape (n_samples, n_labels)

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_labels)
        """
        if sp.issparse(scores):
            odds = self._transform(scores.data.astype(np.float64), scores.indices)
            return sp.csr_array((odds, scores.indices, scores.indptr), shape=scores.shape)
        return self._transform(np.asarray(scores, dtype=np.float64), slice(None))

    def _transform(self, scores: Floats, labels: Any) -> Floats:
        values = log_odds_of(scores) if self.from_probabilities else scores
        odds = values * self.lines[labels, 0] + self.lines[labels, 1]
        for label, (x, p) in self.steps.items():
            at = (slice(None), label) if isinstance(labels, slice) else labels == label
            known = np.where(np.isfinite(values[at]), values[at], x[0])
            odds[at] = np.where(np.isfinite(values[at]), logit(np.interp(known, x, p)), values[at])
        return np.asarray(odds)

    def probabilities(self, scores: Any) -> Floats:
        """Probabilities, strictly between 0 and 1.

        Parameters
        ----------
        scores : array of shape (n_samples, n_labels)

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
        """
        cells = read_score_matrix(scores, len(self.lines))
        return inside(expit(self.log_odds(cells.toarray() if sp.issparse(cells) else cells)))

    def threshold(self, odds: Any) -> Floats:
        """Score of each label at which its log-odds are as given; only where all labels have lines."""
        with np.errstate(invalid="ignore"):
            scores = (odds - self.lines[:, 1]) / self.lines[:, 0]
        return np.asarray(expit(scores) if self.from_probabilities else scores)


def inside(p: Floats) -> Floats:
    """Keep probabilities off 0 and 1."""
    return np.asarray(np.clip(p, np.finfo(float).tiny, np.nextafter(1.0, 0.0)))


def log_odds_of(probabilities: Any) -> Floats:
    """Log-odds; probabilities of 0 and 1 count as almost that."""
    return np.asarray(logit(np.clip(np.asarray(probabilities, dtype=np.float64), EDGE, 1.0 - EDGE)))


def fit_calibration(
    cells: Cells, method: str = "sigmoid", pooling: str | None = "hierarchical", from_probabilities: bool = False
) -> Calibration:
    """Fit a calibration to cells the model did not train on."""
    if from_probabilities:
        scores = cells.scores
        if sp.issparse(scores):
            odds: Any = sp.csr_array((log_odds_of(scores.data), scores.indices, scores.indptr), shape=scores.shape)
        else:
            odds = log_odds_of(scores)
        cells = cells.with_scores(odds)
    fitted = _fit_lines(cells, method, pooling)
    if method == "isotonic":
        fitted = replace(fitted, steps=_fit_steps(cells))
    return replace(fitted, from_probabilities=from_probabilities)


def _fit_lines(cells: Cells, method: str, pooling: str | None) -> Calibration:
    n_labels = cells.shape[1]
    positives, known = cells.counts()
    scale = _scale(cells)
    if method == "temperature" or (pooling == "all" and method == "sigmoid"):
        line = _pooled(cells, scale, with_offset=method != "temperature")
        return Calibration(np.tile(line * [1 / scale, 1.0], (n_labels, 1)))
    informative = (positives > 0) & (known - positives > 0)
    prior = None
    if pooling == "hierarchical" and informative.sum() >= FEWEST_LABELS:
        lines, prior = _hierarchical(cells, scale, informative)
    else:
        smooth = np.stack([(positives + 1) / (positives + 2), 1 / (known - positives + 2)], axis=1)
        start = np.stack([np.ones(n_labels), np.zeros(n_labels)], axis=1)
        lines = _native(cells, scale, smooth, start)[0]
    lines = _repaired(cells, scale, lines, informative, prior, positives, known)
    if prior is not None:
        prior = (prior[0] / scale, prior[1], prior[2] / scale**2, prior[3])
    return Calibration(lines * [1 / scale, 1.0], prior)


def _hierarchical(
    cells: Cells, scale: float, informative: NDArray[np.bool_]
) -> tuple[Floats, tuple[float, float, float, float]]:
    """Lines drawn from a normal prior, whose means and variances are estimated from all labels (Laplace-EM)."""
    n_labels = cells.shape[1]
    slope, offset = _pooled(cells, scale)
    slope_variance, offset_variance = max(slope**2, 0.1), 4.0
    lines = np.tile([slope, offset], (n_labels, 1)).astype(np.float64)
    hard = np.tile([1.0, 0.0], (n_labels, 1))
    for _ in range(EM_ROUNDS):
        centre = np.tile([slope, offset], (n_labels, 1))
        precision = np.tile([1 / slope_variance, 1 / offset_variance], (n_labels, 1))
        lines, variances = _native(cells, scale, hard, lines, centre, precision)
        some, spread = lines[informative], variances[informative]
        slope, offset = some.mean(axis=0)
        slope_variance, offset_variance = np.maximum(((some - [slope, offset]) ** 2 + spread).mean(axis=0), 1e-4)
    return lines, (float(slope), float(offset), float(slope_variance), float(offset_variance))


def _repaired(
    cells: Cells,
    scale: float,
    lines: Floats,
    informative: NDArray[np.bool_],
    prior: tuple[float, float, float, float] | None,
    positives: Floats,
    known: Floats,
) -> Floats:
    """Give labels that cannot be fitted, or only with a falling line, a line of fixed slope and the right mean."""
    falling = informative & (lines[:, 0] < LOWEST_SLOPE)
    odd = falling | ~informative
    if not odd.any():
        return lines
    slope = LOWEST_SLOPE if prior is None else max(prior[0], LOWEST_SLOPE)
    # all positives, also those whose scores cannot be used, tell how frequent a label is
    everywhere = cells.per_label(cells.labels.positives)
    rows = cells.weights.sum() - (0 if cells.labels.missing is None else cells.per_label(cells.labels.missing))
    frequency = np.where(informative, positives / np.maximum(known, 1), (everywhere + 0.5) / (rows + 1))
    part = cells.some_labels(odd)
    frequency = frequency[odd]
    slopes = np.where(falling[odd], LOWEST_SLOPE, slope)
    start = np.stack([slopes, logit(np.clip(frequency, EDGE, 1 - EDGE)) - slopes * _means(part) / scale], axis=1)
    both = np.repeat(frequency[:, None], 2, axis=1)
    repaired = lines.copy()
    repaired[odd] = _native(part, scale, both, start, fixed=np.ones(len(start), dtype=bool))[0]
    return repaired


def _native(
    cells: Cells,
    scale: float,
    targets: Floats,
    start: Floats,
    centre: Floats | None = None,
    precision: Floats | None = None,
    fixed: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    n_labels = cells.shape[1]
    nothing = np.zeros((n_labels, 2))
    return _core.lines(
        cells.columns,
        cells.positives,
        cells.unknown,
        cells.weights,
        scale,
        np.ascontiguousarray(targets, dtype=np.float64),
        nothing if centre is None else np.ascontiguousarray(centre, dtype=np.float64),
        nothing if precision is None else np.ascontiguousarray(precision, dtype=np.float64),
        np.zeros(n_labels, dtype=np.uint8) if fixed is None else fixed.astype(np.uint8),
        np.ascontiguousarray(start, dtype=np.float64),
    )


def _pooled(cells: Cells, scale: float, with_offset: bool = True) -> Floats:
    """One line for the cells of all labels, on some of the rows if there are very many."""
    step = -(-cells.shape[0] * cells.shape[1] // START_CELLS)
    if step > 1:
        some = np.zeros(cells.shape[0], dtype=bool)
        some[::step] = True
        cells = cells.only(some)
        if not cells.sparse:
            labels = cells.labels
            part = replace(
                labels,
                positives=labels.positives[some],
                missing=None if labels.missing is None else labels.missing[some],
            )
            cells = Cells(np.ascontiguousarray(cells.scores[some]), part, cells.weights[some])
    one = cells.pooled()
    positives, known = one.counts()
    targets = np.array([[(positives[0] + 1) / (positives[0] + 2), 1 / (known[0] - positives[0] + 2)]])
    # an offset that must be 0 is one of which one is very sure
    precision = None if with_offset else np.array([[0.0, 1e12]])
    line = _native(one, scale, targets, np.array([[1.0, 0.0]]), precision=precision)[0][0]
    if line[0] < LOWEST_SLOPE:
        line = _native(one, scale, targets, np.array([[LOWEST_SLOPE, 0.0]]), fixed=np.array([True]))[0][0]
    return np.asarray(line if with_offset else [line[0], 0.0])


def _scale(cells: Cells) -> float:
    """Root mean square of the scores, so that priors mean the same for scores of every size."""
    values = cells.scores.data if cells.sparse else cells.scores[:: max(1, cells.scores.size // START_CELLS)]
    finite = values[np.isfinite(values)].astype(np.float64)
    largest = np.abs(finite).max(initial=0.0)
    return float(largest * np.sqrt(np.mean((finite / largest) ** 2))) if largest > 0 else 1.0


def _means(cells: Cells) -> Floats:
    """Mean score of every label, of the cells that have one."""
    columns = sp.csc_array(cells.scores) if cells.sparse else cells.scores
    means = np.zeros(cells.shape[1])
    for label in range(cells.shape[1]):
        values = columns.data[columns.indptr[label] : columns.indptr[label + 1]] if cells.sparse else columns[:, label]
        finite = values[np.isfinite(values)]
        means[label] = finite.mean() if len(finite) else 0.0
    return means


def _fit_steps(cells: Cells) -> dict[int, tuple[Floats, Floats]]:
    """Isotonic steps of the labels with enough positives."""
    steps = {}
    positives, known = cells.counts()
    columns = sp.csc_array(cells.scores) if cells.sparse else cells.scores
    present = sp.csc_array(cells.present)
    missing = None if cells.labels.missing is None else sp.csc_array(cells.labels.missing)
    for label in np.flatnonzero((positives >= ISOTONIC_POSITIVES) & (known - positives > 0)):
        span = slice(columns.indptr[label], columns.indptr[label + 1]) if cells.sparse else None
        scores = columns.data[span] if cells.sparse else columns[:, label]
        rows = columns.indices[span] if cells.sparse else np.arange(cells.shape[0])
        truth, usable = np.zeros(cells.shape[0]), cells.weights > 0
        truth[present.indices[present.indptr[label] : present.indptr[label + 1]]] = 1.0
        if missing is not None:
            usable[missing.indices[missing.indptr[label] : missing.indptr[label + 1]]] = False
        keep = np.isfinite(scores) & usable[rows]
        steps[int(label)] = isotonic_steps(
            scores[keep].astype(np.float64), truth[rows[keep]], cells.weights[rows[keep]]
        )
    return steps


def isotonic_steps(scores: Floats, truth: Floats, weights: Floats, smoothing: float = 1.0) -> tuple[Floats, Floats]:
    """Return the ends of the blocks of an isotonic regression, and probabilities drawn a little towards the mean.

    A block of weight m with share p becomes (m p + smoothing p0) / (m + smoothing), p0 = (P + 1) / (n + 2), so that no
    probability is 0 or 1.
    """
    distinct, group = np.unique(scores, return_inverse=True)
    weight = np.bincount(group, weights=weights)
    share = np.bincount(group, weights=weights * truth) / weight
    fitted = isotonic_regression(share, sample_weight=weight)
    start = np.flatnonzero(np.concatenate([[True], fitted[1:] != fitted[:-1]]))
    end = np.concatenate([start[1:], [len(fitted)]]) - 1
    mass = np.add.reduceat(weight, start)
    overall = (weights @ truth + 1) / (weights.sum() + 2)
    value = (mass * fitted[start] + smoothing * overall) / (mass + smoothing)
    value = isotonic_regression(value, sample_weight=mass + smoothing)  # smoothing may turn neighbours round
    x, first = np.unique(np.concatenate([distinct[start], distinct[end]]), return_index=True)
    return x, np.concatenate([value, value])[first]

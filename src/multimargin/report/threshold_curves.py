"""The F1 of a label as its threshold moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import metrics
from multimargin.decisions._held_out import scores_of
from multimargin.report.evidence import Evidence
from multimargin.report.layers import reaching

__all__ = ["Thresholded", "f1_curve", "thresholded"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Thresholded:
    """Scores as they are before thresholds, and the decisions with and without.

    Attributes
    ----------
    scores : ndarray of shape (n_samples, n_labels)
    usual : float
        The threshold that is used if none is tuned: 0, or 0.5 of probabilities.
    layer : wrapper or None
        The one that has the thresholds.
    before : Report or None
        Metrics of the usual threshold, if the model has others.
    """

    scores: Floats
    usual: float
    layer: Any
    before: metrics.Report | None


def thresholded(evidence: Evidence) -> Thresholded | None:
    """Return scores before thresholds; None if the model has no scores."""
    try:
        layer, rows = reaching(evidence.model, evidence.X, lambda one: hasattr(one, "thresholds_"))
    except LookupError:
        if evidence.scores is None:
            return None
        usual = 0.0 if hasattr(evidence.model, "decision_function") else 0.5
        return Thresholded(evidence.scores, usual, None, None)
    found = scores_of(layer.estimator_, rows, layer.response_method_, evidence.truth.n_labels)
    usual = 0.5 if layer.response_method_ == "predict_proba" else 0.0
    if sp.issparse(found):
        before = sp.csr_array(found > usual)
        found = np.where(_stored(found), found.toarray(), found.data.min(initial=0.0) - 1.0)
    else:
        before = sp.csr_array(found > usual)
    return Thresholded(np.asarray(found), usual, layer, metrics.report(evidence.truth, before))


def _stored(cells: sp.csr_array) -> NDArray[np.bool_]:
    return np.asarray(
        sp.csr_array((np.ones(cells.nnz, dtype=bool), cells.indices, cells.indptr), cells.shape).toarray()
    )


def f1_curve(scores: Floats, truth: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return every threshold between two scores, the lowest first, and the F1 above it.

    The first lies below all scores and the last above.

    Examples
    --------
    >>> import numpy as np
    >>> f1_curve(np.array([0.0, 1.0, 2.0]), np.array([False, True, True]))[1].round(2)
    array([0.8 , 1.  , 0.67, 0.  ])
    """
    values, group = np.unique(scores, return_inverse=True)
    positives = np.bincount(group, weights=truth, minlength=len(values))
    sizes = np.bincount(group, minlength=len(values))
    hits = np.append(np.cumsum(positives[::-1])[::-1], 0.0)
    predicted = np.append(np.cumsum(sizes[::-1])[::-1], 0)
    spread = max(float(values[-1] - values[0]), 1e-12)
    middle = values[:-1] + (values[1:] - values[:-1]) / 2
    thresholds = np.concatenate([[values[0] - 0.02 * spread], middle, [values[-1] + 0.02 * spread]])
    return thresholds, 2 * hits / np.maximum(hits[0] + predicted, 1)

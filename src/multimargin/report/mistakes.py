"""The rows a model is most wrong about, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from multimargin.errors import InputError
from multimargin.inspection import Explanation
from multimargin.inspection.explain import explain_rows
from multimargin.report.evidence import LARGEST, Evidence
from multimargin.report.layers import reaching

__all__ = ["Mistake", "worst_mistakes"]


@dataclass(frozen=True, eq=False)
class Mistake:
    """A row, its labels, those predicted, and the label it is most wrong about.

    Attributes
    ----------
    row : int
    name : str
        The row as its index calls it.
    true, predicted : ndarray of columns
    label : int
        The column of the worst label.
    margin : float
        Its score; the threshold is at 0, or at 0.5 of probabilities.
    explanation : Explanation or None
        Why the estimator inside scores the label as it does, where that is known.
    """

    row: int
    name: str
    true: NDArray[np.intp]
    predicted: NDArray[np.intp]
    label: int
    margin: float
    explanation: Explanation | None


def worst_mistakes(evidence: Evidence, most: int = 20) -> list[Mistake]:
    """Return the rows with the largest violation, the worst first.

    The violation of a wrong cell is how far its score lies on the wrong side; that of a row is its largest one. Without
    scores it is the number of wrong cells.
    """
    truth = evidence.truth.positives.toarray().astype(bool)
    predicted = evidence.predicted.toarray().astype(bool)
    wrong = (truth != predicted) & evidence.known
    margins = _margins(evidence)
    violation = np.where(wrong, np.abs(margins), 0.0)
    order = np.lexsort((-wrong.sum(axis=1), -violation.max(axis=1)))
    chosen = [row for row in order.tolist() if wrong[row].any()][:most]
    names = getattr(evidence.X, "index", None)
    labels = [int(np.argmax(violation[row] + wrong[row])) for row in chosen]
    explanations = _explanations(evidence, chosen, labels)
    return [
        Mistake(
            row=row,
            name=str(row if names is None else names[row]),
            true=np.flatnonzero(truth[row] & evidence.known[row]),
            predicted=np.flatnonzero(predicted[row]),
            label=label,
            margin=float(margins[row, label]),
            explanation=explanation,
        )
        for row, label, explanation in zip(chosen, labels, explanations, strict=True)
    ]


def _margins(evidence: Evidence) -> NDArray[np.float64]:
    """Scores from their threshold; infinite ones count as the largest finite one."""
    if evidence.scores is None:
        return np.zeros(evidence.predicted.shape)
    usual = 0.0 if hasattr(evidence.model, "decision_function") else 0.5
    finite = np.abs(evidence.scores) < LARGEST
    most = float(np.abs(evidence.scores[finite]).max(initial=0.0))
    return np.asarray(np.clip(evidence.scores, -most, most) - usual)


def _explanations(evidence: Evidence, rows: list[int], labels: list[int]) -> Sequence[Explanation | None]:
    estimator = evidence.estimator
    names = getattr(estimator, "label_names_", None)
    if names is None or not rows:
        return [None] * len(rows)

    def explained(layer: Any) -> bool:
        return layer is estimator or (isinstance(layer, Pipeline) and layer[-1] is estimator)

    model, X = reaching(evidence.model, _safe_indexing(evidence.X, rows), explained)
    try:
        return explain_rows(model, X, names[labels].tolist())
    except InputError:  # not one of the models whose scores are sums of parts
        return [None] * len(rows)

"""Scorers for scikit-learn's searches and cross-validation, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.metrics._pairs import is_sets
from multimargin.metrics._registry import DEFAULT_K, find_metric, metrics_at


@dataclass(frozen=True)
class Scorer:
    """A metric as scikit-learn's ``scoring=`` takes it: larger is better, so a loss is negated.

    Attributes
    ----------
    name : str
        Name of the metric, as in :attr:`Report.values`.
    """

    name: str

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Predict X and compare with the labels y."""
        # The labels of a few rows need not name all labels the estimator knows.
        classes = getattr(estimator, "classes_", None)
        names = classes if is_sets(y) and isinstance(classes, np.ndarray) else None
        metric = find_metric(self.name)
        given = _scores(estimator, X) if metric.of_scores else estimator.predict(X)
        value = metric.value(y, given, names, sample_weight)
        return -value if metric.loss else value


def scorer(name: str) -> Scorer:
    """Return the scorer of a metric, for ``scoring=`` in ``GridSearchCV`` or ``cross_validate``.

    Parameters
    ----------
    name : str
        A key of :data:`scorers`, or ``"precision@k"`` or ``"ndcg@k"`` with any k. Underscores may be
        hyphens.

    Returns
    -------
    Scorer

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from multimargin import metrics
    >>> X = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5
    >>> model = OneVsRestClassifier(LogisticRegression())
    >>> search = GridSearchCV(model, {"estimator__C": [0.1, 10]}, scoring=metrics.scorer("macro-f1"), cv=2)
    >>> float(search.fit(X, X).best_score_)
    1.0
    """
    return Scorer(find_metric(str(name).replace("_", "-").removeprefix("neg-")).name)


def _scores(estimator: Any, X: Any) -> NDArray[Any]:
    """Return decision values or probabilities of shape (n_samples, n_labels), or 1-D for one label."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X))
    if not hasattr(estimator, "predict_proba"):
        msg = (
            f"{type(estimator).__name__} has neither decision_function nor predict_proba, so its labels "
            "cannot be ranked. Score it by a metric of predicted labels, such as 'macro-f1'."
        )
        raise InputError(msg)
    probabilities = estimator.predict_proba(X)
    if isinstance(probabilities, list):  # scikit-learn's multi-output form: one (n_samples, 2) array per label
        classes = estimator.classes_
        columns = [_positive(p, c) for p, c in zip(probabilities, classes, strict=True)]
        return np.stack(columns, axis=1)
    cells = np.asarray(probabilities)
    classes = getattr(estimator, "classes_", None)
    one_label = isinstance(classes, np.ndarray) and np.ndim(classes) == 1 and len(classes) == 2
    return cells[:, 1] if one_label and _complementary(cells) else cells


def _positive(probabilities: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    if probabilities.shape[1] > 1:
        return probabilities[:, 1]
    return probabilities[:, 0] if classes[0] else 1 - probabilities[:, 0]


def _complementary(cells: NDArray[Any]) -> bool:
    return cells.shape[1] == 2 and bool(np.allclose(cells.sum(axis=1), 1.0))


class _Scorers(Mapping[str, Scorer]):
    """The scorer of every metric by its name in a report."""

    def __getitem__(self, name: str) -> Scorer:
        if name not in list(self):
            raise KeyError(name)
        return Scorer(name)

    def __iter__(self) -> Iterator[str]:
        return (metric.name for metric in metrics_at(DEFAULT_K))

    def __len__(self) -> int:
        return len(metrics_at(DEFAULT_K))


scorers = _Scorers()

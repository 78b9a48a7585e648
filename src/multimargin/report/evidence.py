"""What the report of a model is made of: its predictions for some rows beside their labels, computed once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from multimargin import metrics
from multimargin.decisions._held_out import scores_of
from multimargin.errors import InputError
from multimargin.estimators import LinearM3L
from multimargin.inspection import LabelDescription, describe
from multimargin.labels import LabelMatrix, read_labels
from multimargin.report.constants import best_constant_sets, label_frequencies
from multimargin.report.layers import first_with, fitted_label_names, model_name, preprocessing, trained

__all__ = ["LARGEST", "RARE", "Evidence", "Reference", "gather"]

Floats = NDArray[np.float64]

REFERENCE_SECONDS = 60.0
LARGEST = 1e300
"""Stands for infinite scores."""
RARE = 10
"""Labels with at most so many positives are called rare."""


@dataclass(frozen=True, eq=False)
class Reference:
    """One-vs-all on the same training rows: every label by itself."""

    report: metrics.Report
    C: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Evidence:
    """A model, rows, their labels and what the model says of them.

    Attributes
    ----------
    model : fitted classifier
    X : rows as given
    truth : LabelMatrix
        Their labels, in the order of the model's.
    predicted : csr_array of shape (n_samples, n_labels)
    scores, probabilities : ndarray of shape (n_samples, n_labels) or None
        What the model has of them. A label is predicted where its score is positive, if there is a
        ``decision_function``; otherwise scores are probabilities.
    train : pair of rows and LabelMatrix, or None
    reference : Reference or None
        Trained on the training rows, if they are given.
    data_name, train_name : str
        What to call the rows.
    feature_names : sequence or None
        Names of the columns of X, where the model does not know them.
    """

    model: Any
    X: Any
    truth: LabelMatrix
    predicted: sp.csr_array
    scores: Floats | None
    probabilities: Floats | None
    train: tuple[Any, LabelMatrix] | None
    reference: Reference | None
    data_name: str
    train_name: str
    feature_names: Sequence[Any] | None = field(default=None, repr=False)

    @cached_property
    def names(self) -> list[str]:
        """Label names as text."""
        return [str(name) for name in self.truth.names.tolist()]

    @cached_property
    def estimator(self) -> Any:
        """The estimator inside all wrappers and pipelines."""
        return trained(self.model)

    @cached_property
    def report(self) -> metrics.Report:
        """Every metric of the model."""
        return metrics.report(self.truth, self.predicted, self.scores)

    @cached_property
    def constants(self) -> dict[str, float]:
        """Of every metric the value of the best constant prediction; of scores, that of the label frequencies."""
        frequency = np.broadcast_to(label_frequencies(self.truth), self.predicted.shape)
        found = dict(metrics.report(self.truth, self.predicted, frequency).values)
        for name, chosen in best_constant_sets(self.truth).items():
            constant = sp.csr_array(np.broadcast_to(chosen, self.predicted.shape))
            found[name] = metrics.report(self.truth, constant)[name]
        found["log-loss"] = metrics.log_loss(self.truth, frequency)
        found["brier-score"] = metrics.brier_score(self.truth, frequency)
        return found

    @cached_property
    def values(self) -> dict[str, float]:
        """Every metric of the model by name, those of probabilities included."""
        values = dict(self.report.values)
        if self.probabilities is not None:
            values["log-loss"] = metrics.log_loss(self.truth, self.probabilities)
            values["brier-score"] = metrics.brier_score(self.truth, self.probabilities)
        return values

    @cached_property
    def description(self) -> LabelDescription:
        """What the labels of the rows are like."""
        return describe(self.truth, self.X if hasattr(self.X, "shape") and len(self.X.shape) == 2 else None)

    @cached_property
    def train_description(self) -> LabelDescription | None:
        """The same of the training labels."""
        return None if self.train is None else describe(self.train[1])

    @property
    def train_positives(self) -> NDArray[np.int64] | None:
        """Training rows that have each label."""
        return None if self.train is None else self.train[1].counts()[0]

    @cached_property
    def rare(self) -> NDArray[np.bool_]:
        """Labels with few positives, in the training rows if these are known."""
        known = self.train_positives
        return np.asarray((self.truth.counts()[0] if known is None else known) <= RARE)

    @cached_property
    def thresholds(self) -> Floats | None:
        """Thresholds of the labels, in units of the scores they are compared with, if the model has its own."""
        layer = first_with(self.model, "thresholds_")
        return None if layer is None else np.asarray(layer.thresholds_, dtype=np.float64)

    @cached_property
    def shrinkage(self) -> Floats | None:
        """Weights of the best thresholds, where rare labels were drawn towards the quota."""
        decision = getattr(first_with(self.model, "decision_"), "decision_", None)
        weights = getattr(decision, "weights", None)
        return None if weights is None or (np.asarray(weights) == 1).all() else np.asarray(weights, dtype=np.float64)

    @cached_property
    def log_loss_skill(self) -> Floats | None:
        """Of each label, one minus its log-loss over that of its frequency; NaN where the latter is 0."""
        if self.probabilities is None:
            return None
        own = metrics.log_loss(self.truth, self.probabilities, average=None)
        frequency = np.broadcast_to(label_frequencies(self.truth), self.predicted.shape)
        base = metrics.log_loss(self.truth, frequency, average=None)
        defined = base > 0
        return np.where(defined, 1 - own / np.where(defined, base, 1.0), np.nan)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which cells are known."""
        if self.truth.missing is None:
            return np.ones(self.predicted.shape, dtype=bool)
        return np.asarray(~self.truth.missing.toarray().astype(bool))

    @cached_property
    def title(self) -> str:
        """The model in one phrase."""
        return model_name(self.model)


def gather(
    model: Any,
    X: Any,
    Y: Any,
    *,
    train: tuple[Any, Any] | None = None,
    data_name: str = "",
    train_name: str = "",
    feature_names: Sequence[Any] | None = None,
) -> Evidence:
    """Predict, and train one-vs-all beside if training rows are given."""
    names = fitted_label_names(model)
    if isinstance(train, str) or (train is not None and len(train) != 2):
        msg = "train must be a pair (X, Y): the training rows and their labels."
        raise InputError(msg)
    truth = _labels(model, Y, names, "Y")
    if _n_rows(X) != truth.n_samples:
        msg = f"X has {_n_rows(X)} rows but Y has {truth.n_samples}. Every row needs its labels."
        raise InputError(msg)
    if truth.missing is not None and truth.missing.nnz == truth.n_samples * truth.n_labels:
        msg = "Y holds no known label, so there is nothing to report. Give at least one known cell."
        raise InputError(msg)
    seen = None if train is None else (train[0], _labels(model, train[1], names, "the Y of train"))
    if seen is not None and _n_rows(seen[0]) != seen[1].n_samples:
        msg = f"The X of train has {_n_rows(seen[0])} rows but its Y has {seen[1].n_samples}."
        raise InputError(msg)
    scores, probabilities = _scores(model, X, truth.n_labels), _probabilities(model, X, truth.n_labels)
    return Evidence(
        model=model,
        X=X,
        truth=truth,
        predicted=_labels(model, model.predict(X), names, "the prediction").positives,
        scores=probabilities if scores is None else scores,
        probabilities=probabilities,
        train=seen,
        reference=None if seen is None else _reference(model, X, truth, *seen),
        data_name=data_name,
        train_name=train_name,
        feature_names=feature_names,
    )


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _labels(model: Any, Y: Any, names: NDArray[Any] | None, subject: str) -> LabelMatrix:
    """Read labels in any form, in the order of the model's."""
    form = getattr(first_with(model, "label_form_"), "label_form_", None)
    if form is not None and form.kind == "column" and np.ndim(Y) == 1:
        values = np.asarray(Y)
        cells = (values == first_with(model, "label_form_").classes_[-1]).astype(np.float64)
        if values.dtype.kind == "f":
            cells[np.isnan(values)] = np.nan
        return replace(read_labels(cells[:, None], subject=subject), names=np.asarray(names))
    if names is None:
        return read_labels(Y, subject=subject)
    labels = read_labels(Y, names=None if hasattr(Y, "columns") else names, subject=subject)
    # a file names labels by text
    given, expected = list(map(str, labels.names.tolist())), list(map(str, names.tolist()))
    if given == expected:
        return replace(labels, names=names)
    unknown = next((name for name in given if name not in set(expected)), None)
    if unknown is not None or len(given) != len(expected):
        found = f"{len(given)} labels" if unknown is None else f"the label {unknown!r}"
        msg = f"{subject} must have the {len(expected)} labels of the model; it has {found}. Give the same labels."
        raise InputError(msg)
    position = {name: column for column, name in enumerate(given)}
    order = [position[name] for name in expected]
    missing = None if labels.missing is None else labels.missing[:, order]
    return replace(labels, positives=labels.positives[:, order], missing=missing, names=names)


def _scores(model: Any, X: Any, n_labels: int) -> Floats | None:
    """Scores as a table of finite numbers: a threshold may be infinite, and so is the score less it."""
    if not hasattr(model, "decision_function"):
        return None
    found = model.decision_function(X)
    dense = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float64).reshape(-1, n_labels)
    return np.asarray(np.clip(dense, -LARGEST, LARGEST))


def _probabilities(model: Any, X: Any, n_labels: int) -> Floats | None:
    if not hasattr(model, "predict_proba"):
        return None
    found = np.asarray(scores_of(model, X, "predict_proba", n_labels), dtype=np.float64)
    return np.asarray(np.clip(found, 0.0, 1.0))  # sums of probabilities may miss 0 and 1 by their rounding


def _reference(model: Any, X: Any, truth: LabelMatrix, X_train: Any, seen: LabelMatrix) -> Reference | None:
    """Train one-vs-all on the same rows, prepared in the same way."""
    inner = trained(model)
    if getattr(inner, "kernel", None) == "precomputed":
        return None
    C = inner.C if isinstance(inner, LinearM3L) else "scale"
    alone = LinearM3L(C=C, random_state=0, time_limit=REFERENCE_SECONDS)
    pipeline = make_pipeline(*(clone(before) for before in preprocessing(model)), alone)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said on the page
        warnings.filterwarnings("ignore", message=".*[Cc]onstant", category=UserWarning)
        pipeline.fit(X_train, seen)
    found = metrics.report(truth, pipeline.predict(X), pipeline.decision_function(X))
    return Reference(found, alone.C_, bool(alone.certificate_.converged))

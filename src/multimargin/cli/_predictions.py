"""Predictions and the files they go to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from multimargin import metrics
from multimargin.datasets import Dataset
from multimargin.decisions._held_out import scores_of
from multimargin.errors import InputError
from multimargin.estimators.predictor import best_labels
from multimargin.fitted_rules import last_step
from multimargin.labels import LabelMatrix, label_tuples, read_labels
from multimargin.metrics import Report

from ._decisions import trained

__all__ = [
    "Predictions",
    "Values",
    "behind_steps",
    "check_kind",
    "check_values",
    "judged",
    "predict",
    "predict_attributes",
    "predict_categories",
    "report_on",
    "write",
    "write_csv",
    "write_npz",
]

Values: TypeAlias = Literal["scores", "probabilities"]
"""Numbers that can be given beside or in place of 0 and 1."""

BATCH = 1024
VALUE: dict[Values, str] = {"scores": "score", "probabilities": "probability"}


@dataclass(frozen=True)
class Predictions:
    """Predicted labels, and numbers if they were asked for.

    Attributes
    ----------
    positives : csr_array of shape (n_samples, n_labels)
        True where the label is predicted.
    label_names : list of str
    kind : {"scores", "probabilities"} or None
        What the values are that go out.
    values : ndarray of shape (n_samples, n_labels) or None
        None also where those of the best labels are enough.
    best : ndarray of shape (n_samples, k) or None
        The k labels that were asked for, best first.
    best_values : ndarray of shape (n_samples, k) or None
    noun : {"label", "category"}
        What is predicted. A row has one category.
    """

    positives: Any
    label_names: list[str]
    kind: Values | None = None
    values: Any = None
    best: Any = None
    best_values: Any = None
    noun: Literal["label", "category"] = "label"

    def sets(self) -> list[tuple[str, ...]]:
        """Return the names of the predicted labels, row by row; in the order of their values if the best are given."""
        if self.best is not None:
            return [tuple(self.label_names[label] for label in row) for row in self.best.tolist()]
        return label_tuples(self.positives, np.array(self.label_names, dtype=object))

    def shown_values(self) -> Any:
        """Return the values of all labels, or of the best ones in their order."""
        return self.values if self.best is None else self.best_values


def check_values(model: Any, kind: Values | None, k: int | None) -> None:
    """Refuse what the model does not have before any work is done."""
    if kind == "probabilities" and not hasattr(model, "predict_proba"):
        msg = (
            f"--proba needs a model with probabilities; this {type(trained(model)).__name__} has scores only. "
            "Fit it with: multimargin fit --calibrate sigmoid"
        )
        raise InputError(msg)
    check_top(k, len(last_step(model).label_names_), "labels")


def check_top(k: int | None, most: int, what: str) -> None:
    """Refuse more of the best than there are."""
    if k is not None and not 1 <= k <= most:
        msg = f"--top takes a number of {what} from 1 to the {most} of the model; got {k}."
        raise InputError(msg)


def predict(
    model: Any, X: Any, kind: Values | None = None, k: int | None = None, *, all_values: bool = True
) -> Predictions:
    """Predict in one form, whichever form of Y the model was fitted with: its decision, or the k best labels.

    Of these, the values of all labels are kept only with ``all_values``.
    """
    model, X = behind_steps(model, X)
    names = model.label_names_
    given = [str(name) for name in names]
    if k is not None and kind != "probabilities" and not (kind and all_values):
        top = model.predict_top(X, k)
        return _best(top.indices.reshape(-1, k), top.data.reshape(-1, k), given, kind)
    if kind == "probabilities":
        values = scores_of(model, X, "predict_proba", len(names))
    elif kind is not None and k is not None:
        values = _as_matrix(model.decision_function(X))
    if k is not None:
        return _best(*best_labels(values, k), given, kind, values)
    if kind == "probabilities":
        labels = model.predict(X)
    else:
        labels, values = model.predict_with_scores(X) if kind else (model.predict(X), None)
    positives = read_labels(_as_matrix(labels), names=names, subject="the prediction").positives
    return Predictions(positives, given, kind, _as_matrix(values))


def _best(best: Any, best_values: Any, names: list[str], kind: Values | None, values: Any = None) -> Predictions:
    """Return predictions of the k labels of each row that were found best."""
    offsets = np.arange(0, best.size + 1, best.shape[1])
    shape = (len(best), len(names))
    chosen = sparse.csr_array((np.ones(best.size, dtype=bool), best.ravel(), offsets), shape=shape)
    chosen.sort_indices()
    return Predictions(chosen, names, kind, values, best, best_values)


def predict_categories(
    model: Any, X: Any, kind: Values | None = None, k: int | None = None, signatures: Any = None
) -> Predictions:
    """Predict one category per row, or the k best: of those of the model, or of others with signatures."""
    model, X = behind_steps(model, X)
    names = [str(name) for name in (model.classes_.tolist() if signatures is None else signatures)]
    check_top(k, len(names), "categories")
    values = model.decision_function(X, signatures)
    found = replace(_best(*best_labels(values, k or 1), names, kind, values), noun="category")
    return replace(found, best=None) if kind is not None and k is None else found


def predict_attributes(model: Any, X: Any, kind: Values | None = None, k: int | None = None) -> Predictions:
    """Predict the attributes by which a model knows categories."""
    model, X = behind_steps(model, X)
    names = [str(name) for name in model.attribute_names_.tolist()]
    check_top(k, len(names), "attributes")
    scores = model.attribute_scores(X)
    if k is not None:
        return _best(*best_labels(scores, k), names, kind, scores)
    return Predictions(sparse.csr_array(scores > 0), names, kind, scores)


def judged(model: Any, X: Any, truth: LabelMatrix) -> Report:
    """Compare the predictions of a model with the labels of the rows, in its order; unknown ones do not count."""
    found = predict(model, X, "scores")
    return metrics.report(truth, found.positives, scores=found.values)


def report_on(model: Any, data: Dataset) -> Report:
    """Judge a model on rows that were read with its training rows, and held out."""
    return judged(model, data.X, read_labels(data.Y, names=data.label_names))


def behind_steps(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the model at the end of a pipeline, and the rows as it is given them."""
    if not isinstance(model, Pipeline):
        return model, X
    for _, step in model.steps[:-1]:
        X = step.transform(X) if hasattr(step, "transform") else X
    return model[-1], X


def _as_matrix(values: Any) -> Any:
    """Return the predictions or scores of a single 1-D label as a column."""
    return values[:, None] if isinstance(values, np.ndarray) and values.ndim == 1 else values


def check_kind(path: Path | None) -> None:
    """Refuse an output file of an unknown kind before any work is done."""
    if path is not None and path.suffix not in (".csv", ".npz"):
        msg = f"Predictions are written as .csv or .npz; got {path.name!r}. Change the extension."
        raise InputError(msg)


def write(predictions: Predictions, path: Path) -> None:
    """Write predictions to a .csv or .npz file, which appears only when it is complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                write_csv(predictions, file)
        else:
            with temporary.open("wb") as binary:
                write_npz(predictions, binary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_npz(predictions: Predictions, file: BinaryIO) -> None:
    """Write predictions under the keys of scipy.sparse.save_npz, so that load_npz reads them."""
    matrix = sparse.csr_array(predictions.positives).astype(np.int8)
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    extra: dict[str, Any] = {"label_names": np.array(predictions.label_names)}
    if predictions.kind is not None:
        extra[predictions.kind] = predictions.values
    np.savez_compressed(file, format=b"csr", _is_array=True, **arrays, **extra)


def write_csv(predictions: Predictions, file: TextIO) -> None:
    """Write a header of names and one line per row; of the best ones their names, and values if asked for."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_header(predictions))
    sets = None if predictions.best is None else predictions.sets()
    values = None if predictions.kind is None else predictions.shown_values()
    for start in range(0, predictions.positives.shape[0], BATCH):
        rows = slice(start, start + BATCH)
        if values is None:
            cells = predictions.positives[rows].toarray().astype(np.int8).tolist() if sets is None else sets[rows]
        else:
            cells = [[f"{value:.9g}" for value in row] for row in values[rows].tolist()]
            if sets is not None:
                cells = [_side_by_side(names, row) for names, row in zip(sets[rows], cells, strict=True)]
        writer.writerows(cells)


def _header(predictions: Predictions) -> list[str]:
    if predictions.best is None:
        return predictions.label_names
    noun = predictions.noun
    words = (noun,) if predictions.kind is None else (noun, VALUE[predictions.kind])
    if noun == "category" and predictions.best.shape[1] == 1:
        return list(words)
    return [f"{word}_{rank}" for rank in range(1, predictions.best.shape[1] + 1) for word in words]


def _side_by_side(names: Sequence[str], values: Sequence[str]) -> list[str]:
    return [cell for pair in zip(names, values, strict=True) for cell in pair]

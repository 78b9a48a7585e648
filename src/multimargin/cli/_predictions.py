"""Predictions and the files they go to."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from scipy import sparse

from multimargin.errors import InputError
from multimargin.labels import label_tuples, read_labels

__all__ = ["Predictions", "check_kind", "predict", "write", "write_csv", "write_npz"]

BATCH = 1024


@dataclass(frozen=True)
class Predictions:
    """Predicted labels, and scores if they were asked for.

    Attributes
    ----------
    positives : csr_array of shape (n_samples, n_labels)
        True where the label is predicted.
    label_names : list of str
    scores : ndarray of shape (n_samples, n_labels) or None
    """

    positives: Any
    label_names: list[str]
    scores: Any

    def sets(self) -> list[tuple[str, ...]]:
        """Return the names of the predicted labels, row by row."""
        return label_tuples(self.positives, np.array(self.label_names, dtype=object))


def predict(model: Any, X: Any, scores: bool) -> Predictions:
    """Predict in one form, whichever form of Y the model was fitted with."""
    names = model.label_names_
    labels, values = model.predict_with_scores(X) if scores else (model.predict(X), None)
    positives = read_labels(_as_matrix(labels), names=names, subject="the prediction").positives
    return Predictions(positives, [str(name) for name in names], _as_matrix(values))


def _as_matrix(values: Any) -> Any:
    """Return the predictions or scores of a single 1-D label as a column."""
    return values[:, None] if isinstance(values, np.ndarray) and values.ndim == 1 else values


def check_kind(path: Path | None) -> None:
    """Refuse an output file of an unknown kind before any work is done."""
    if path is not None and path.suffix not in (".csv", ".npz"):
        msg = f"Predictions are written as .csv or .npz; got {path.name!r}. Change the extension."
        raise InputError(msg)


def write(predictions: Predictions, path: Path, scores: bool) -> None:
    """Write predictions to a .csv or .npz file, which appears only when it is complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        if path.suffix == ".csv":
            with temporary.open("w", newline="", encoding="utf-8") as file:
                write_csv(predictions, file, scores)
        else:
            with temporary.open("wb") as binary:
                write_npz(predictions, binary, scores)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_npz(predictions: Predictions, file: BinaryIO, scores: bool) -> None:
    """Write predictions under the keys of scipy.sparse.save_npz, so that load_npz reads them."""
    matrix = sparse.csr_array(predictions.positives).astype(np.int8)
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    extra = {"label_names": np.array(predictions.label_names)} | ({"scores": predictions.scores} if scores else {})
    np.savez_compressed(file, format=b"csr", _is_array=True, **arrays, **extra)


def write_csv(predictions: Predictions, file: TextIO, scores: bool) -> None:
    """Write a header of label names and one line per row."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(predictions.label_names)
    for start in range(0, predictions.positives.shape[0], BATCH):
        rows = slice(start, start + BATCH)
        if scores:
            writer.writerows([[f"{value:.9g}" for value in row] for row in predictions.scores[rows].tolist()])
        else:
            writer.writerows(predictions.positives[rows].toarray().astype(np.int8).tolist())

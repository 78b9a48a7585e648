"""Scores of rows by models that did not train on them, whatever the estimator and the form of its scores."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _num_samples

from multimargin.decisions._cells import read_score_matrix
from multimargin.errors import InputError
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.labels import LabelMatrix, read_labels

__all__ = [
    "Fold",
    "as_target",
    "assembled",
    "fit_and_score",
    "quietly",
    "read_training_labels",
    "response_of",
    "scores_of",
]

CONSTANT = (".*[Cc]onstant predictions", "Label .*is present in all training examples")


def as_target(y: Any, labels: LabelMatrix) -> Any:
    """Y as scikit-learn's estimators take it: label sets and label matrices become an indicator matrix."""
    if isinstance(y, LabelMatrix) or labels.form.kind == "sets":
        if labels.missing is not None:
            cells = labels.positives.toarray().astype(np.float64)
            cells[labels.missing.toarray()] = np.nan
            return cells
        return labels.positives.toarray().astype(np.int64)
    if labels.form.kind == "sparse":
        return y.tocsr()
    return y if labels.form.kind == "frame" else np.asarray(y)


@contextmanager
def quietly(*more: type[Warning]) -> Iterator[None]:
    """Leave out of the fits of folds what the last fit, on all rows, says once."""
    with warnings.catch_warnings():
        for message in CONSTANT:
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        for category in more:
            warnings.simplefilter("ignore", category)
        yield


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to train on and rows to score, taken apart once for however many models.

    Attributes
    ----------
    X_train, Y_train, X_test
    constant : ndarray of shape (n_labels,)
        Labels of one value in the training rows.
    params : dict
        What ``fit`` is given beside X and Y.
    """

    X_train: Any
    Y_train: Any
    X_test: Any
    n_test: int
    constant: NDArray[np.bool_]
    params: dict[str, Any]

    @classmethod
    def of(cls, X: Any, target: Any, labels: LabelMatrix, train: Any, test: Any, params: dict[str, Any]) -> Fold:
        """Take rows apart."""
        return cls(
            _safe_indexing(X, train),
            _safe_indexing(target, train),
            _safe_indexing(X, test),
            len(test),
            labels.part(train).constant,
            _check_method_params(X, params, indices=train),
        )

    def scores(self, estimator: Any, response_method: str) -> tuple[Any, Any]:
        """Train; return scores of the test rows, NaN for labels constant in training, and the model."""
        n_labels, constant = len(self.constant), self.constant
        scores = np.full((self.n_test, n_labels), np.nan)
        if constant.all():
            return scores, estimator
        kept = np.ones(n_labels, dtype=bool)
        try:
            fit_for_scores(estimator, self.X_train, self.Y_train, **self.params)
        except ValueError:
            if not constant.any():
                raise
            # some estimators refuse labels that are constant, as rare ones are in some folds
            kept = ~constant
            columns = _columns(self.Y_train, kept)
            estimator = fit_for_scores(clone(estimator), self.X_train, columns, **self.params)
        found = scores_of(estimator, self.X_test, response_of(estimator, response_method), int(kept.sum()))
        if sp.issparse(found):
            return _mask_stored(found, constant), estimator
        scores[:, kept] = found
        # an estimator that names the labels it predicts constant may know more of the others, through a prior
        named = getattr(estimator, "constant_labels_", None)
        if named is not None and getattr(estimator, "label_names_", None) is not None:
            constant = np.isin(np.asarray(estimator.label_names_), np.asarray(named))
        scores[:, constant] = np.nan
        return scores, estimator


def fit_and_score(
    estimator: Any,
    X: Any,
    target: Any,
    labels: LabelMatrix,
    train: Any,
    test: Any,
    params: dict[str, Any],
    response_method: str,
    progress: str,
) -> tuple[Any, Any]:
    """Scores of the test rows by a model of the training rows, and the model."""
    start = perf_counter()
    with quietly():
        found = Fold.of(X, target, labels, train, test, params).scores(estimator, response_method)
    if progress:
        sys.stderr.write(f"{progress} in {perf_counter() - start:.2f} s\n")
    return found


def _mask_stored(found: sp.csr_array, constant: NDArray[np.bool_]) -> sp.csr_array:
    values = np.where(constant[found.indices], np.nan, found.data)
    return sp.csr_array((values, found.indices, found.indptr), shape=found.shape)


def _columns(target: Any, kept: NDArray[np.bool_]) -> Any:
    if hasattr(target, "iloc"):
        return target.iloc[:, np.flatnonzero(kept)]
    return target[:, np.flatnonzero(kept)]


def assembled(parts: list[Any], tests: list[Any], labels: LabelMatrix) -> Any:
    if any(sp.issparse(part) for part in parts):
        rows = np.concatenate(tests)
        if len(rows) < labels.n_samples:
            msg = "Sparse scores need a cv that holds every row out once. Use a K-fold splitter."
            raise InputError(msg)
        return sp.csr_array(sp.vstack(parts, format="csr"))[np.argsort(rows)]
    scores = np.full((labels.n_samples, labels.n_labels), np.nan, dtype=np.result_type(*parts))
    for part, test in zip(parts, tests, strict=True):
        scores[test] = part
    return scores


def response_of(estimator: Any, response_method: str) -> str:
    """Return the method to ask for scores."""
    names = ("decision_function", "predict_proba") if response_method == "auto" else (response_method,)
    for name in names:
        if hasattr(estimator, name):
            return name
    msg = (
        f"{type(estimator).__name__} must have {' or '.join(names)}, so that its labels have scores; it has not. "
        "Choose another estimator or response_method."
    )
    raise InputError(msg)


def scores_of(estimator: Any, X: Any, method: str, n_labels: int) -> Any:
    """Scores of shape (n_samples, n_labels), dense or sparse, whatever the form in which the estimator gives them."""
    found = getattr(estimator, method)(X)
    if isinstance(found, list):  # scikit-learn's multi-output form: one (n_samples, 2) array per label
        columns = [_positive(np.asarray(p), c) for p, c in zip(found, estimator.classes_, strict=True)]
        found = np.stack(columns, axis=1)
    elif not sp.issparse(found):
        found = np.asarray(found)
        if n_labels == 1 and found.ndim == 2 and found.shape[1] == 2:
            found = found[:, 1]
    return read_score_matrix(found, n_labels)


def _positive(probabilities: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    if probabilities.shape[1] > 1:
        return probabilities[:, 1]
    return probabilities[:, 0] if classes[0] else 1 - probabilities[:, 0]


def read_training_labels(X: Any, y: Any) -> LabelMatrix:
    """Read the labels of the rows X."""
    labels = read_labels(y, n_samples=_num_samples(X))
    if labels.missing is not None and labels.missing.nnz == labels.n_samples * labels.n_labels:
        msg = "Y holds no known label at all: every cell is NaN. Give at least one known cell."
        raise InputError(msg)
    return labels

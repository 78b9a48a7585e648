"""Scores that the native core computes, in blocks of rows: all of them, the positive ones, or the best of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.estimators.predictor import MultilabelPredictor
from multimargin.estimators.threads import threads

__all__ = ["NativeScores", "dense_weights", "features_in_use", "linear_scorer", "only_features", "scored_rows"]

FEW_ENTRIES, FEW_FEATURES = 4, 0.5
"""Entries per feature, and the share of the features in use, below which a model is cut down to the rows it scores."""


class NativeScores(MultilabelPredictor):
    """An estimator whose scores are those of a native model, as long as no subclass has a ``_scores`` of its own."""

    n_jobs: int | None

    def _scorer(self) -> _core.Scorer:
        """Return the model as the core takes it; its arrays are not copied."""
        msg = f"{type(self).__name__} has no _scorer(), which returns a native model."
        raise TypeError(msg)

    def _scorer_of(self, X: Any) -> tuple[_core.Scorer, _core.ScoredRows]:
        """Return the native model, as much of it as these rows need, and the rows."""
        return self._scorer(), scored_rows(X)

    def _is_native(self) -> bool:
        """Whether the native scores are the scores."""
        return type(self)._scores is NativeScores._scores

    def _new_rows(self, X: Any) -> Any:
        return self._check_X(X, order=None if self._is_native() else "C")

    def _scores(self, X: Any) -> NDArray[Any]:
        return self._computed_scores(X)[0]

    def _finite_scores(self, X: Any) -> NDArray[Any]:
        if not self._is_native():
            return super()._finite_scores(X)
        scores, finite = self._computed_scores(X)
        self._expect_finite(finite, X)
        return scores

    def _computed_scores(self, X: Any) -> tuple[NDArray[Any], bool]:
        """Return the scores, and whether all of them are finite."""
        scorer, rows = self._scorer_of(X)
        scores = np.empty((X.shape[0], len(self.label_names_)), dtype=scorer.dtype)
        return scores, scorer.scores(rows, scores, threads(self.n_jobs))

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        by_sign = type(self)._decided is MultilabelPredictor._decided
        if scores is not None or not (by_sign and self._is_native()):
            return super()._positives(X, scores)
        scorer, rows = self._scorer_of(X)
        offsets, labels, finite = scorer.positives(rows, threads(self.n_jobs))
        self._expect_finite(finite, X)
        shape = (X.shape[0], len(self.label_names_))
        return sp.csr_array((np.ones(len(labels), dtype=bool), labels, offsets), shape=shape)

    def _top(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        if not self._is_native():
            return super()._top(X, k)
        scorer, rows = self._scorer_of(X)
        labels = np.empty((X.shape[0], k), dtype=np.int32)
        scores = np.empty((X.shape[0], k), dtype=scorer.dtype)
        self._expect_finite(scorer.top(rows, labels, scores, threads(self.n_jobs)), X)
        return labels, scores


def scored_rows(X: Any) -> _core.ScoredRows:
    """Dense rows in any layout or CSR rows for the native core, without a copy of the entries."""
    return _core.scored_rows(native_rows(X) if sp.issparse(X) else X)


def linear_scorer(coef: Any, intercept: NDArray[Any]) -> _core.Scorer:
    """Return the native model of the scores ``X @ coef.T + intercept``; the weights may be sparse."""
    dtype = np.result_type(coef.dtype, intercept.dtype)
    intercept = np.ascontiguousarray(intercept, dtype)
    if not sp.issparse(coef):
        return _core.linear_scorer(coef.astype(dtype, copy=False), intercept)
    by_feature = sp.csc_array(coef)
    return _core.sparse_linear_scorer(
        offsets=by_feature.indptr.astype(np.int64),
        labels=by_feature.indices.astype(np.int32, copy=False),
        weights=by_feature.data.astype(dtype, copy=False),
        intercept=intercept,
    )


def features_in_use(X: Any) -> NDArray[np.intp] | None:
    """Return the features that occur in sparse rows if most of them do not; otherwise None."""
    n_features = X.shape[1]
    if not sp.issparse(X) or X.nnz >= FEW_ENTRIES * n_features:
        return None
    occurs = np.zeros(n_features, dtype=bool)
    occurs[X.indices] = True
    used = np.flatnonzero(occurs)
    return used if len(used) < FEW_FEATURES * n_features else None


def only_features(X: Any, used: NDArray[np.intp]) -> Any:
    """Return sparse rows that know no other features than these, which are all they have."""
    place = np.empty(X.shape[1], dtype=X.indices.dtype)
    place[used] = np.arange(len(used))
    return sp.csr_array((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(used)))


def dense_weights(coef: Any) -> NDArray[Any]:
    """Return weights as an array, those of a pruned model with their zeros."""
    return np.asarray(coef.toarray() if sp.issparse(coef) else coef)

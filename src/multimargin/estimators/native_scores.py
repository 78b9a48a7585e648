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

__all__ = ["NativeScores", "dense_weights", "linear_scorer"]


class NativeScores(MultilabelPredictor):
    """An estimator whose scores are those of a native model, as long as no subclass has a ``_scores`` of its own."""

    n_jobs: int | None

    def _scorer(self) -> _core.Scorer:
        """Return the model as the core takes it; its arrays are not copied."""
        msg = f"{type(self).__name__} has no _scorer(), which returns a native model."
        raise TypeError(msg)

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
        scorer = self._scorer()
        scores = np.empty((X.shape[0], len(self.label_names_)), dtype=scorer.dtype)
        return scores, scorer.scores(scored_rows(X), scores, threads(self.n_jobs))

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        by_sign = type(self)._decided is MultilabelPredictor._decided
        if scores is not None or not (by_sign and self._is_native()):
            return super()._positives(X, scores)
        offsets, labels, finite = self._scorer().positives(scored_rows(X), threads(self.n_jobs))
        self._expect_finite(finite, X)
        shape = (X.shape[0], len(self.label_names_))
        return sp.csr_array((np.ones(len(labels), dtype=bool), labels, offsets), shape=shape)

    def _top(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        if not self._is_native():
            return super()._top(X, k)
        scorer = self._scorer()
        labels = np.empty((X.shape[0], k), dtype=np.int32)
        scores = np.empty((X.shape[0], k), dtype=scorer.dtype)
        self._expect_finite(scorer.top(scored_rows(X), labels, scores, threads(self.n_jobs)), X)
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


def dense_weights(coef: Any) -> NDArray[Any]:
    """Return weights as an array, those of a pruned model with their zeros."""
    return np.asarray(coef.toarray() if sp.issparse(coef) else coef)

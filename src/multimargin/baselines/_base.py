"""What baselines share: labels in any form in, the same form out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from multimargin.errors import InputError
from multimargin.labels import label_tuples, read_labels, write_labels

__all__ = ["Baseline"]


class Baseline(ClassifierMixin, BaseEstimator):
    """A subclass provides ``_fit(X, Y)`` and ``_scores(X)``; labels with a positive score are predicted."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : labels of the rows, in any form, all of them known

        Returns
        -------
        self
        """
        self._validate_params()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        labels = read_labels(y, n_samples=X.shape[0])
        if labels.missing is not None:
            msg = (
                f"{type(self).__name__} needs every label of every row; Y has {labels.missing.nnz} unknown cells "
                "(NaN). Fill them, or use an estimator that masks them, such as LinearM3L."
            )
            raise InputError(msg)
        self._fit(X, labels.positives)
        self.classes_ = labels.values
        self.label_names_ = labels.names
        self.label_form_ = labels.form
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of the labels; positive means the label is predicted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a 1-D y
        """
        check_is_fitted(self)
        scores = self._scores(self._check_X(X))
        return scores[:, 0] if self.label_form_.kind == "column" else scores

    def predict(self, X: Any) -> Any:
        """Predicted labels, in the form in which Y was given to :meth:`fit`.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        """
        check_is_fitted(self)
        index = getattr(X, "index", None)
        return write_labels(self._positives(X), self.label_form_, self.label_names_, self.classes_, index)

    def predict_sets(self, X: Any) -> list[tuple[Any, ...]]:
        """Predicted labels as a tuple of label names for every row.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        list of tuples
        """
        check_is_fitted(self)
        return label_tuples(self._positives(X), self.label_names_)

    def _positives(self, X: Any) -> sp.csr_array:
        return sp.csr_array(self._scores(self._check_X(X)) > 0)

    def _check_X(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)

    def _fit(self, X: Any, Y: sp.csr_array) -> None:
        raise AssertionError

    def _scores(self, X: Any) -> NDArray[Any]:
        raise AssertionError

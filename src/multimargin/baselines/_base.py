"""What baselines without a certificate share: they are trained on data with every label known."""

from __future__ import annotations

from typing import Any, Self

import scipy.sparse as sp

from multimargin.errors import InputError
from multimargin.estimators.predictor import MultilabelPredictor
from multimargin.labels import read_labels

__all__ = ["Baseline"]


class Baseline(MultilabelPredictor):
    """A subclass provides ``_fit(X, Y)``, which returns fitted attributes, and ``_scores(X)``."""

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
        X, columns = self._read_X(X)
        labels = read_labels(y, n_samples=X.shape[0])
        if labels.missing is not None:
            msg = (
                f"{type(self).__name__} needs every label of every row; Y has {labels.missing.nnz} unknown cells "
                "(NaN). Fill them, or use an estimator that masks them, such as LinearM3L."
            )
            raise InputError(msg)
        self._replace_fitted({**self._fit(X, labels.positives), **columns}, labels)
        return self

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        """Train; the attributes that make the model, by name."""
        msg = f"{type(self).__name__} has no _fit(X, Y), which returns fitted attributes."
        raise TypeError(msg)

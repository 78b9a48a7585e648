"""What baselines without a certificate share: they are trained on data with every label known."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.baselines._whole_label_sets import refuse_unknown_labels
from multimargin.estimators.contract import warn_constant
from multimargin.estimators.inherited_texts import with_inherited_texts
from multimargin.estimators.predictor import MultilabelPredictor
from multimargin.fitted_rules import Rule, Sizes, array_of, names
from multimargin.labels import LabelMatrix, read_labels

__all__ = ["Baseline", "VaryingLabelsBaseline"]


class Baseline(MultilabelPredictor):
    """A subclass provides ``_fit(X, Y)``, which returns fitted attributes, and ``_scores(X)``.

    Its docstring need not repeat the entries below.

    Attributes
    ----------
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Feature names, if X was a DataFrame.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the docstring from those of the bases."""
        super().__init_subclass__(**options)
        cls.__doc__ = with_inherited_texts(cls)

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
        refuse_unknown_labels(type(self).__name__, labels)
        self._replace_fitted({**self._fit_labels(X, labels), **columns}, labels)
        return self

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> dict[str, Any]:
        return self._fit(X, labels.positives)

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        """Train; the attributes that make the model, by name."""
        msg = f"{type(self).__name__} has no _fit(X, Y), which returns fitted attributes."
        raise TypeError(msg)


class VaryingLabelsBaseline(Baseline):
    """A baseline that constant labels would disturb: they are left out, and predicted as they were.

    A subclass provides ``_fit(X, Y)``, which is given at least one label and no constant ones, ``_varying_scores(X)``
    of those labels, and ``_varying_rules()`` of what ``_fit`` returned, where ``varying`` is the number of the labels.

    Attributes
    ----------
    constant_labels_ : ndarray
        Labels with a single value in training; they are predicted to be constant and left out.
    constant_signs_ : ndarray of shape (n_labels,)
        1 or -1 for constant labels, which is their score, and 0 for others.
    """

    constant_labels_: NDArray[Any]
    constant_signs_: NDArray[np.int8]

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> dict[str, Any]:
        constant = labels.constant
        if constant.any():
            warn_constant(labels, constant)
        fitted = {} if constant.all() else self._fit(X, labels.positives[:, np.flatnonzero(~constant)])
        signs = np.where(constant, labels.signs, 0.0).astype(np.int8)
        return {**fitted, "constant_labels_": labels.names[constant], "constant_signs_": signs}

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        msg = f"{type(self).__name__} has no _varying_scores(X), which returns scores of the labels that vary."
        raise TypeError(msg)

    def _varying_rules(self) -> dict[str, Rule]:
        return {}

    def _scores(self, X: Any) -> NDArray[Any]:
        varies = self.constant_signs_ == 0
        scores = np.tile(self.constant_signs_.astype(np.float64), (X.shape[0], 1))
        if varies.any():
            scores[:, varies] = self._varying_scores(X)
        return scores

    def _fitted_rules(self) -> dict[str, Rule]:
        def signs(value: Any, sizes: Sizes) -> None:
            array_of("labels", -1, 1, "i1")(value, sizes)
            sizes["varying"] = int(np.sum(value == 0))

        stored = getattr(self, "constant_signs_", None)
        varies = not isinstance(stored, np.ndarray) or bool(np.any(stored == 0))
        own = {"constant_labels_": names("constant", low=0), "constant_signs_": signs}
        return {**super()._fitted_rules(), **own, **(self._varying_rules() if varies else {})}

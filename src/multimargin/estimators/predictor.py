"""Labels in any form in, the same form out: what estimators and baselines share when they predict."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from multimargin.errors import InputError
from multimargin.fitted_rules import LARGEST, Rule, Sizes, count, expect, feature_names, names
from multimargin.labels import LabelForm, LabelMatrix, label_tuples, read_labels, write_labels

__all__ = [
    "MultilabelPredictor",
    "best_labels",
    "check_magnitude",
    "check_top",
    "largest_entry",
    "row_blocks",
    "top_array",
]

BLOCK_BYTES = 64 * 2**20
COLUMNS = ("n_features_in_", "feature_names_in_")


class MultilabelPredictor(ClassifierMixin, BaseEstimator):
    """Labels in any form in, the same form out. A subclass provides ``fit`` and ``_scores``."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    _storable: ClassVar[bool] = True
    """Whether model files can hold it: fitted attributes are numbers, names and arrays."""

    _optional_attributes: ClassVar[frozenset[str]] = frozenset({"feature_names_in_"})
    """Fitted attributes that a model may lack."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of the labels; positive means the label is predicted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Of shape (n_samples,) if the model was trained on a 1-D y, as scikit-learn's scorers expect.
        """
        check_is_fitted(self)
        return self._in_form(self._finite_scores(self._new_rows(X)))

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
        positives = self._positives(self._new_rows(X))
        return write_labels(positives, self.label_form_, self.label_names_, self.classes_, index)

    def predict_with_scores(self, X: Any) -> tuple[Any, NDArray[Any]]:
        """Predicted labels and scores, as :meth:`predict` and :meth:`decision_function`, computing each score once.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
        """
        check_is_fitted(self)
        index = getattr(X, "index", None)
        X = self._new_rows(X)
        scores = self._finite_scores(X)
        positives = self._positives(X, scores)
        labels = write_labels(positives, self.label_form_, self.label_names_, self.classes_, index)
        return labels, self._in_form(scores)

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
        return label_tuples(self._positives(self._new_rows(X)), self.label_names_)

    def predict_top(self, X: Any, k: int) -> sp.csr_array:
        """Return the k best labels of every row with their scores, without holding the scores of all labels.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        k : int
            Number of labels for each row; all of them if there are no more than k.

        Returns
        -------
        csr_array of shape (n_samples, n_labels)
            Scores as :meth:`decision_function` gives them, ``min(k, n_labels)`` in each row, also where they are 0 or
            negative. A row lists its best label first, and of labels with equal scores the one that comes first in
            ``label_names_``: ``top.indices.reshape(n_samples, -1)`` are the labels by rank, ``top.data`` in the same
            shape their scores. (``top.sort_indices()`` would sort them by label, in place.)

        Examples
        --------
        >>> import numpy as np
        >>> from multimargin import LinearM3L
        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
        >>> model = LinearM3L(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
        >>> model.label_names_[model.predict_top([[0.9, 0.1], [0.2, 0.9]], 1).indices]
        array(['sun', 'sea'], dtype=object)
        """
        check_is_fitted(self)
        n_labels = len(self.label_names_)
        width = min(check_top(k), n_labels)
        X = self._new_rows(X)
        return top_array(*self._top(X, width), n_labels)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Subset accuracy: share of rows whose labels are all predicted right. Unknown labels are not counted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : labels of the rows, in any form
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X = self._new_rows(X)
        if self.label_form_.kind == "column":
            right = np.asarray(y) == write_labels(
                self._positives(X), self.label_form_, self.label_names_, self.classes_
            )
        else:
            names = self.label_names_ if self.label_form_.kind == "sets" else None
            truth = read_labels(y, n_samples=X.shape[0], names=names)
            wrong = (truth.positives != self._positives(X)).astype(np.int8)
            if truth.missing is not None:
                wrong = wrong - wrong.multiply(truth.missing)
            right = np.asarray(wrong.sum(axis=1)).ravel() == 0
        return float(np.average(right, weights=sample_weight))

    def _new_rows(self, X: Any) -> Any:
        """Rows to predict, checked."""
        return self._check_X(X)

    def _check_X(self, X: Any, *, reset: bool = False, order: str | None = "C") -> Any:
        checked = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order=order, reset=reset)
        if sp.issparse(checked):
            check_csr(checked)
        check_magnitude(checked, getattr(self, "feature_names_in_", None))
        return checked

    def _finite_scores(self, X: Any) -> NDArray[Any]:
        scores = self._scores(X)
        self._expect_finite(bool(np.isfinite(scores).all()), X)
        return scores

    def _expect_finite(self, finite: bool, X: Any) -> None:
        if not finite:
            msg = (
                "X is so far from the training rows that scores leave the range of floating point: its largest entry "
                f"is {largest_entry(X):.3g}. Scale it as the training rows were."
            )
            raise InputError(msg)

    def _in_form(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Scores of a 1-D y as a 1-D array."""
        return scores[:, 0] if self.label_form_.kind == "column" else scores

    def _positives(self, X: Any, scores: NDArray[Any] | None = None) -> sp.csr_array:
        """Predicted cells; unless scores are at hand, in row blocks, so that those of all rows are never held at once.

        A subclass whose prediction is not `_decided` by scores alone ignores them.
        """
        if scores is not None:
            return sp.csr_array(self._decided(scores))
        rows_at_once = row_blocks(X.shape[0], len(self.label_names_))
        blocks = [sp.csr_array(self._decided(self._scores(X[rows]))) for rows in rows_at_once]
        return sp.csr_array(sp.vstack(blocks, format="csr"))

    def _decided(self, scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Which cells are predicted, by their scores."""
        return scores > 0

    def _top(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the k best labels of the rows, best first, and their scores; in row blocks."""
        rows_at_once = row_blocks(X.shape[0], len(self.label_names_))
        labels, scores = zip(*(best_labels(self._finite_scores(X[rows]), k) for rows in rows_at_once), strict=True)
        return np.concatenate(labels), np.concatenate(scores)

    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores of all labels, positive where a label is predicted."""
        msg = f"{type(self).__name__} has no _scores(X), which returns an array of shape (n_samples, n_labels)."
        raise TypeError(msg)

    def _stored_parameters(self) -> dict[str, Any]:
        """Parameters as model files hold them."""
        return dict(self.get_params(deep=False))

    def _fitted_rules(self) -> dict[str, Rule]:
        """Rules of the fitted attributes, to which model files are held (multimargin.fitted_rules)."""
        column = getattr(getattr(self, "label_form_", None), "kind", None) == "column"

        def form(value: Any, sizes: Sizes) -> None:
            expect(type(value) is LabelForm, "must be a LabelForm")
            expect(not column or sizes["labels"] == 1, "is that of one label")

        return {
            "n_features_in_": count(1, "features"),
            "feature_names_in_": feature_names,
            "label_names_": names("labels"),
            "label_form_": form,
            "classes_": names("classes", high=2) if column else names("labels"),
        }

    def _read_X(self, X: Any) -> tuple[Any, dict[str, Any]]:
        """Training rows, checked, and the attributes that say what their columns are."""
        reader = copy(self)  # scikit-learn's validate_data writes to it
        X = reader._check_X(X, reset=True)
        return X, {name: vars(reader)[name] for name in COLUMNS if name in vars(reader)}

    def _replace_fitted(self, fitted: dict[str, Any], labels: LabelMatrix) -> None:
        """Replace the attributes of an earlier fit: the only place that writes them."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self.__dict__.update(fitted, classes_=labels.values, label_names_=labels.names, label_form_=labels.form)


def check_top(k: Any) -> int:
    """Refuse a number of labels that is none."""
    if not isinstance(k, Integral) or isinstance(k, (bool, np.bool_)) or k < 1:
        msg = f"k is the number of labels to give for each row, a whole number from 1 on; got {k!r}. Give 1 or more."
        raise InputError(msg)
    return int(k)


def best_labels(scores: NDArray[Any], k: int) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return the k best labels of each row, best first, of equal ones the first; and their scores."""
    labels = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return labels.astype(np.int32), np.take_along_axis(scores, labels, axis=1)


def top_array(labels: NDArray[np.int32], scores: NDArray[Any], n_labels: int) -> sp.csr_array:
    """Return the best labels of rows as a sparse array that keeps their order."""
    n_rows, k = labels.shape
    offsets = np.arange(0, n_rows * k + 1, k)
    return sp.csr_array((scores.ravel(), labels.ravel(), offsets), shape=(n_rows, n_labels))


def row_blocks(n_rows: int, n_labels: int) -> Iterator[slice]:
    """Slices of rows whose scores fit in a few dozen megabytes."""
    size = max(1, BLOCK_BYTES // (8 * max(n_labels, 1)))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def check_csr(X: Any) -> None:
    """Refuse a CSR matrix that would make products read outside its arrays."""
    # SciPy does not look at offsets whose last is 0, nor at differences that overflow.
    sound = X.indptr[0] == 0 and X.indptr[-1] <= len(X.indices) and bool((X.indptr[1:] >= X.indptr[:-1]).all())
    try:
        if not sound:
            msg = "indptr must rise from 0 to the number of entries"
            raise ValueError(msg)
        X.check_format(full_check=True)
    except ValueError as error:
        msg = f"X is not a sound CSR matrix: {error}. Build it anew, for example from its triplets."
        raise InputError(msg) from None


def check_magnitude(X: Any, names: Any) -> None:
    """Refuse numbers whose squares leave the range of floating point."""
    if largest_entry(X) <= LARGEST:
        return
    columns = abs(X).max(axis=0)
    columns = columns.toarray().ravel() if sp.issparse(columns) else columns
    worst = int(np.argmax(columns))
    name = worst if names is None else names[worst]
    msg = (
        f"The features must not be larger than {LARGEST:g} in absolute value; column {name!r} of X reaches "
        f"{columns[worst]:.3g}. Rescale or drop it."
    )
    raise InputError(msg)


def largest_entry(X: Any) -> float:
    """Return the largest absolute value of an array or sparse matrix; 0 if it has no entries."""
    values = X.data if sp.issparse(X) else X
    return max(-float(values.min()), float(values.max())) if values.size else 0.0

"""What the wrappers around an estimator share: its scores on rows it did not train on, and labels in and out."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Bunch, _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted

from multimargin.decisions._held_out import as_target, assembled, fit_and_score, response_of, scores_of
from multimargin.errors import InputError
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.estimators.predictor import MultilabelPredictor, best_labels, check_top, row_blocks, top_array
from multimargin.fitted_rules import Rule, Sizes, expect, last_step
from multimargin.labels import LabelMatrix, label_tuples, write_labels
from multimargin.metrics import subset_accuracy
from multimargin.model_selection import MultilabelStratifiedKFold

__all__ = ["DecisionWrapper", "OutOfFold"]

RESPONSES = ("auto", "decision_function", "predict_proba")


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Scores of rows by models that did not see them.

    Attributes
    ----------
    scores : ndarray or csr_array of shape (n_samples, n_labels)
        NaN where a label took one value only in training, or a row was in no test part.
    part_of_row : ndarray of shape (n_samples,)
        The part, held out together, to which each row belongs; -1 for none.
    estimator : estimator
        Trained on all rows.
    """

    scores: Any
    part_of_row: NDArray[np.int64]
    estimator: Any


def _estimator_has(name: str) -> Any:
    def check(self: DecisionWrapper) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), name)

    return check


class DecisionWrapper(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Base of the wrappers: an estimator and a decision learned on its out-of-fold scores."""

    estimator: Any
    response_method: str = "auto"
    cv: Any = None
    refit: bool = True
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    _optional_attributes: ClassVar[frozenset[str]] = frozenset({"feature_names_in_", "n_features_in_"})
    """Fitted attributes that a model may lack."""

    # fit says more on what it refuses; a model file is held to these
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods("fit")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata such as ``sample_weight`` and ``groups`` reach the estimator and the splitter.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=type(self).__name__).add(
            estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )
        if hasattr(self.cv, "split"):
            router.add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Train the estimator, and learn the decision on scores of rows it did not train on.

        Parameters
        ----------
        X : rows, in any form the estimator takes
        y : labels Y of the rows, in any form
            A 0/1, boolean or -1/1 array, a sparse matrix or array, a DataFrame with a column per label, a list of
            label sets, or a 1-D array with two classes. NaN marks an unknown label, if the estimator takes it.
        **params
            ``sample_weight`` and what else the ``fit`` of the estimator takes, ``groups`` for the splitter; by
            scikit-learn's metadata routing if it is enabled. Weights reach the estimator, never the decision.

        Returns
        -------
        self
        """
        before = dict(vars(self))
        try:
            return self._fit(X, y, params)
        except BaseException:  # a fit that fails or is interrupted leaves the object as it was
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        msg = f"{type(self).__name__} has no _fit(X, y, params)."
        raise TypeError(msg)

    def _margins(self, scores: Any) -> Any:
        """Scores less thresholds; positive means the label is predicted."""
        msg = f"{type(self).__name__} has no _margins(scores)."
        raise TypeError(msg)

    def _predicted(self, scores: Any) -> sp.csr_array:
        msg = f"{type(self).__name__} has no _predicted(scores)."
        raise TypeError(msg)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores of the labels; positive means the label is predicted.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Of shape (n_samples,) after training on a 1-D y.
        """
        check_is_fitted(self)
        return self._checked_margins(self._scores(X))

    def predict(self, X: Any) -> Any:
        """Predicted labels, in the form in which Y was given to :meth:`fit`.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        """
        check_is_fitted(self)
        return self._in_form(self._predicted(self._scores(X)), X)

    def predict_with_scores(self, X: Any) -> tuple[Any, NDArray[Any]]:
        """Predicted labels and scores, as :meth:`predict` and :meth:`decision_function`, computing each score once.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        labels : ndarray, sparse matrix or array, DataFrame, list of sets, or 1-D ndarray
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
        """
        check_is_fitted(self)
        scores = self._scores(X)
        return self._in_form(self._predicted(scores), X), self._checked_margins(scores)

    def predict_sets(self, X: Any) -> list[tuple[Any, ...]]:
        """Predicted labels as a tuple of label names for every row.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        list of tuples
        """
        check_is_fitted(self)
        return label_tuples(self._predicted(self._scores(X)), self.label_names_)

    def predict_top(self, X: Any, k: int) -> sp.csr_array:
        """Return the k best labels of every row by :meth:`decision_function`, without holding its values for all rows.

        Parameters
        ----------
        X : rows, in any form the estimator takes
        k : int
            Number of labels for each row; all of them if there are no more than k.

        Returns
        -------
        csr_array of shape (n_samples, n_labels)
            ``min(k, n_labels)`` values in each row, of its best label first, and of equal ones that which comes first
            in ``label_names_``.
        """
        check_is_fitted(self)
        n_labels = len(self.label_names_)
        width = min(check_top(k), n_labels)
        blocks = (_safe_indexing(X, rows) for rows in row_blocks(_num_samples(X), n_labels))
        margins = (self._checked_margins(self._scores(block)).reshape(-1, n_labels) for block in blocks)
        labels, values = zip(*(best_labels(part, width) for part in margins), strict=True)
        return top_array(np.concatenate(labels), np.concatenate(values), n_labels)

    @available_if(_estimator_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the wrapped estimator, as it gives them.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        array, or list of arrays
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Subset accuracy: share of rows whose labels are all predicted right. Unknown labels are not counted.

        Parameters
        ----------
        X : rows, in any form the estimator takes
        y : labels of the rows, in any form
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        names = self.label_names_ if self.label_form_.kind == "sets" else None
        if self.label_form_.kind == "column":
            right = np.asarray(y) == self.predict(X)
            return float(np.average(right, weights=sample_weight))
        return subset_accuracy(y, self.predict(X), names=names, sample_weight=sample_weight)

    def _scores(self, X: Any) -> Any:
        return scores_of(self.estimator_, X, self.response_method_, len(self.label_names_))

    def _in_form(self, predicted: sp.csr_array, X: Any) -> Any:
        """Predicted cells in the form of Y."""
        return write_labels(predicted, self.label_form_, self.label_names_, self.classes_, getattr(X, "index", None))

    def _checked_margins(self, scores: Any) -> NDArray[Any]:
        margins = np.asarray(self._margins(scores))
        if np.isnan(margins).any():
            msg = "Scores of X leave the range of floating point. Scale it as the training rows were."
            raise InputError(msg)
        return margins[:, 0] if self.label_form_.kind == "column" else margins

    def _fitted_rules(self) -> dict[str, Rule]:
        """Rules of the fitted attributes, to which model files are held (multimargin.fitted_rules)."""

        def response(value: Any, sizes: Sizes) -> None:
            expect(value in RESPONSES[1:], f"must be one of {RESPONSES[1:]}; got {value!r}")
            expect(hasattr(self.estimator_, value), "must be a method of the estimator")

        def estimator(value: Any, sizes: Sizes) -> None:
            model, n_features = last_step(value), getattr(value, "n_features_in_", None)  # none if its rows are texts
            expect(isinstance(model, MultilabelPredictor | DecisionWrapper), "must be a multi-label estimator")
            expect(hasattr(model, "label_names_"), "must be fitted")
            expect(len(model.label_names_) == sizes["labels"], "must have the labels of the model")
            expect(n_features == getattr(self, "n_features_in_", None), "must have the features of the model")

        labels_and_features: Any = MultilabelPredictor._fitted_rules  # which all look at label_form_ alone
        return {**labels_and_features(self), "estimator_": estimator, "response_method_": response}

    def _learn_form(self, labels: LabelMatrix) -> None:
        """Remember names and form of Y, and what scikit-learn wants to know of X."""
        self.classes_ = labels.values
        self.label_names_ = labels.names
        self.label_form_ = labels.form
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    @contextmanager
    def _progress(self, what: str) -> Iterator[None]:
        """Print how long something took, if the user wants to know."""
        start = perf_counter()
        yield
        if self.verbose:
            sys.stderr.write(f"{type(self).__name__}: {what} in {perf_counter() - start:.2f} s\n")

    def _check_common(self) -> None:
        if self.response_method not in RESPONSES:
            msg = f"response_method must be one of {', '.join(map(repr, RESPONSES))}; got {self.response_method!r}."
            raise InputError(msg)
        if not hasattr(self.estimator, "fit"):
            msg = (
                f"estimator must be a classifier with multi-label scores, such as LinearM3L(); got {self.estimator!r}. "
                "For a bare matrix of scores use tune_thresholds or calibrate."
            )
            raise InputError(msg)

    def _routed(self, X: Any, params: dict[str, Any]) -> Bunch:
        """Split what was given to fit between the estimator and the splitter."""
        from sklearn import get_config

        if get_config().get("enable_metadata_routing", False):
            routed = process_routing(self, "fit", **params)
            return Bunch(fit=routed.estimator.fit, split=routed.splitter.split if "splitter" in routed else {})
        split = {name: value for name, value in params.items() if name == "groups" and value is not None}
        fit = {name: value for name, value in params.items() if name != "groups" and value is not None}
        signature = inspect.signature(self.estimator.fit).parameters
        takes_any = any(p.kind == p.VAR_KEYWORD for p in signature.values())
        for name in fit:
            if name not in signature and not takes_any:
                msg = (
                    f"{type(self.estimator).__name__}.fit takes no {name!r}. Leave it out, or enable scikit-learn's "
                    "metadata routing and say where it belongs."
                )
                raise InputError(msg)
        return Bunch(fit=fit, split=split)

    def _out_of_fold(self, X: Any, y: Any, labels: LabelMatrix, params: dict[str, Any]) -> OutOfFold:
        """Train on all rows, and score every row by a model that did not see it."""
        routed = self._routed(X, params)
        target = as_target(y, labels)
        if isinstance(self.cv, str) and self.cv == "prefit":
            return self._prefit(X, labels)
        X, target = indexable(X, target)
        folds = self._folds(X, y, labels, routed.split)
        fit_params = _check_method_params(X, routed.fit)
        jobs = [
            delayed(fit_and_score)(
                clone(self.estimator), X, target, labels, train, test, fit_params, self.response_method,
                f"{type(self).__name__}: fold {number} of {len(folds)}" if self.verbose else "",
            )
            for number, (train, test) in enumerate(folds, start=1)
        ]  # fmt: skip
        parts = Parallel(n_jobs=self.n_jobs)(jobs)
        part_of_row = np.full(labels.n_samples, -1)
        for number, (_, test) in enumerate(folds):
            part_of_row[test] = number
        scores = assembled([scores for scores, _ in parts], [test for _, test in folds], labels)
        if self.refit:
            with self._progress("all rows"):
                whole = _whole_target(self.estimator, y, target)
                estimator = fit_for_scores(clone(self.estimator), X, whole, **fit_params)
        else:
            estimator = parts[0][1]
        self.response_method_ = response_of(estimator, self.response_method)
        return OutOfFold(scores, part_of_row, estimator)

    def _prefit(self, X: Any, labels: LabelMatrix) -> OutOfFold:
        check_is_fitted(self.estimator)
        self.response_method_ = response_of(self.estimator, self.response_method)
        scores = scores_of(self.estimator, X, self.response_method_, labels.n_labels)
        part_of_row = np.zeros(labels.n_samples, dtype=np.int64)
        folds = min(5, labels.n_samples)
        if folds > 1:
            splitter = MultilabelStratifiedKFold(folds, random_state=0)
            for number, (_, test) in enumerate(splitter.split(None, labels)):
                part_of_row[test] = number
        return OutOfFold(scores, part_of_row, self.estimator)

    def _folds(self, X: Any, y: Any, labels: LabelMatrix, params: dict[str, Any]) -> list[tuple[Any, Any]]:
        n = labels.n_samples
        if isinstance(self.cv, (int, np.integer)) and not isinstance(self.cv, bool):
            if params:
                msg = "groups need a splitter that uses them; got cv as a number. Use cv=GroupKFold(5)."
                raise InputError(msg)
            if n < 2:
                msg = f"n_samples=1 (1 sample) is too few: {type(self).__name__} holds rows out. Give more rows."
                raise InputError(msg)
            splitter = MultilabelStratifiedKFold(min(int(self.cv), n), random_state=self.random_state)
            folds = list(splitter.split(None, labels))
        elif hasattr(self.cv, "split"):
            folds = list(self.cv.split(X, labels.positives if isinstance(y, LabelMatrix) else y, **params))
        elif isinstance(self.cv, Iterable) and not isinstance(self.cv, str):
            folds = [(np.asarray(train), np.asarray(test)) for train, test in self.cv]
        else:
            msg = f'cv must be a number of folds, a splitter, pairs (train, test) or "prefit"; got {self.cv!r}. Use 5.'
            raise InputError(msg)
        tested = np.zeros(n, dtype=np.int64)
        for _, test in folds:
            tested[test] += 1
        if not folds or tested.max(initial=0) > 1:
            msg = (
                f"cv must hold each row out at most once; row {int(tested.argmax())} is in "
                f"{int(tested.max(initial=0))} test parts. Use a K-fold splitter, such as MultilabelStratifiedKFold(5)."
            )
            raise InputError(msg)
        if not self.refit and len(folds) > 1:
            msg = f"refit=False needs a single split (train, test), whose model is kept; cv has {len(folds)}."
            raise InputError(msg)
        return folds


def _whole_target(estimator: Any, y: Any, target: Any) -> Any:
    """Y of all rows for an estimator: as the user gave it, with the names of labels, if the estimator is ours."""
    return y if isinstance(last_step(estimator), MultilabelPredictor | DecisionWrapper) else target

"""Categories never seen in training, recognised by their attributes.

An attribute is a label, a category a row of the signature matrix. The attributes are learnt from rows of the seen
categories; a row of an unseen one is recognised by the signature that fits its predicted attributes best.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_expit
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from multimargin import priors, weights
from multimargin.errors import InputError
from multimargin.estimators import LinearM3L, MultilabelClassifier
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, count, expect, last_step, names
from multimargin.labels import LabelMatrix, read_labels
from multimargin.metrics import (
    harmonic_mean_accuracy,
    harmonic_mean_scorer,
    per_class_accuracy,
    per_class_scorer,
)
from multimargin.model_selection import CategoryKFold
from multimargin.weights import frequencies_of

__all__ = [
    "CategoryKFold",
    "ZeroShotClassifier",
    "harmonic_mean_accuracy",
    "harmonic_mean_scorer",
    "per_class_accuracy",
    "per_class_scorer",
]

RULES = ("correlation", "hamming", "dap")
CALIBRATION_FOLDS = 5


@dataclass(frozen=True)
class _Signatures:
    """Categories, attributes, and which belongs to which."""

    categories: NDArray[Any]
    attributes: NDArray[Any]
    cells: NDArray[np.int8]  # 0/1

    @property
    def signs(self) -> NDArray[np.float64]:
        return np.asarray(2.0 * self.cells - 1.0, dtype=np.float64)

    def take(self, rows: NDArray[Any]) -> _Signatures:
        return _Signatures(self.categories[rows], self.attributes, self.cells[rows])


class ZeroShotClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Recognise categories that have no training rows, by way of their attributes.

    A multi-label estimator learns the attributes from the rows of the seen categories. With ``use_prior`` it is
    given what is known of the categories to recognise: :math:`R = \sum_c p(c)\, y_c y_c^\top` of their signatures
    (:func:`multimargin.priors.from_signatures`); with ``use_frequencies`` class weights turn the attribute frequencies
    of the training rows into theirs (:func:`multimargin.weights.class_weights`). A row is then given the category whose
    signature :math:`y_c \in \{-1, 1\}^L` fits its attribute scores z best:

    ===============  ======================================================================================
    ``correlation``  largest correlation of z and :math:`y_c` over the attributes
    ``hamming``      smallest number of attributes whose sign differs
    ``dap``          largest :math:`p(c) \prod_l p(a_l = y_{cl} \mid x) / p(a_l = y_{cl})`
    ===============  ======================================================================================

    Direct attribute prediction (``dap``) needs attribute probabilities: the scores are calibrated, attribute by
    attribute, on rows of categories left out of training in turn.

    Parameters
    ----------
    estimator : estimator, default=None
        Learns the attributes; a pipeline may be used. None is ``LinearM3L()``.
    signatures : DataFrame, mapping or array of shape (n_categories, n_attributes)
        The attributes of every category, seen and unseen, as 0/1, booleans or -1/1. The index of a DataFrame names the
        categories and its columns the attributes; a mapping gives for each category its row, or a mapping from its
        attributes, as :func:`multimargin.datasets.read_signatures` reads them from a file; the categories of an array
        are its row numbers.
    probabilities : mapping or array of shape (n_categories,), optional
        How likely each category of ``signatures`` is in use; equally likely by default.
    rule : {"correlation", "hamming", "dap"}, default="correlation"
        How signatures are compared with scores.
    candidates : {"unseen", "all"}, default="unseen"
        Categories that can be predicted: those without training rows, or all (generalised zero-shot learning). If every
        category has training rows, all can.
    use_prior : bool, default=True
        Whether the estimator's parameter ``prior`` is set from the signatures of the candidates.
    use_frequencies : bool, default=True
        Whether the estimator's parameter ``class_weight`` is set from the attribute frequencies of the candidates.
    warm_start : bool, default=False
        Whether ``fit`` continues from the last solution, on the same rows: new categories in ``signatures`` then cost
        little.

    Attributes
    ----------
    estimator_ : estimator
        The trained attribute model.
    classes_ : ndarray
        Categories that can be predicted.
    seen_categories_ : ndarray
        Categories with training rows; none if the attributes of the rows were given.
    attribute_names_ : ndarray
        Attributes.
    signatures_ : ndarray of shape (n_classes, n_attributes)
        0/1 signatures of ``classes_``.
    class_probabilities_ : ndarray of shape (n_classes,)
        Probabilities of ``classes_``.
    calibration_ : ndarray of shape (n_attributes, 2)
        Slope and offset of the log odds of each attribute; only with ``rule="dap"``.
    attribute_frequencies_ : ndarray of shape (n_attributes,)
        Attribute frequencies in training.
    n_features_in_ : int
        Number of features.

    References
    ----------
    B. Hariharan, S. V. N. Vishwanathan, M. Varma. Efficient max-margin multi-label classification with applications to
    zero-shot learning. Machine Learning 88 (2012). https://doi.org/10.1007/s10994-012-5291-x

    C. H. Lampert, H. Nickisch, S. Harmeling. Learning to detect unseen object classes by between-class attribute
    transfer. CVPR 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.datasets import load_digit_attributes
    >>> from multimargin.zero_shot import ZeroShotClassifier
    >>> digits = load_digit_attributes()
    >>> seen, unseen = digits.splits[4]
    >>> train, test = np.isin(digits.digit, seen), np.isin(digits.digit, unseen)
    >>> model = ZeroShotClassifier(signatures=digits.signatures).fit(digits.X[train], digits.digit[train])
    >>> model.classes_
    array([2, 4, 6])
    >>> model.score(digits.X[test], digits.digit[test]) > 0.7  # a third would be chance
    True
    """

    _parameters_of_estimator: ClassVar[tuple[str, ...]] = ("prior", "class_weight", "warm_start")

    _optional_attributes: ClassVar[frozenset[str]] = frozenset({"n_features_in_"})
    """Fitted attributes that a model may lack."""

    def __init__(
        self,
        estimator: Any = None,
        signatures: Any = None,
        *,
        probabilities: Any = None,
        rule: str = "correlation",
        candidates: str = "unseen",
        use_prior: bool = True,
        use_frequencies: bool = True,
        warm_start: bool = False,
    ):
        self.estimator = estimator
        self.signatures = signatures
        self.probabilities = probabilities
        self.rule = rule
        self.candidates = candidates
        self.use_prior = use_prior
        self.use_frequencies = use_frequencies
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the attributes from rows of the seen categories, or from rows with attributes of their own.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        y : array of shape (n_samples,), or label matrix of shape (n_samples, n_attributes)
            Categories of the rows; each needs a signature. Or the attributes of the rows, NaN where they are unknown,
            matched with those of ``signatures`` by name where both have names: no category counts as seen then.

        Returns
        -------
        self
        """
        _one_of("rule", self.rule, RULES)
        _one_of("candidates", self.candidates, ("unseen", "all"))
        known = _read_signatures(self.signatures)
        probabilities = _read_probabilities(self.probabilities, known)
        rows = None if _is_table(y) else _positions(y, known)
        Y = _attributes_of_rows(y, known) if rows is None else known.cells[rows]
        if len(Y) != _length(X):
            needed = "attributes" if rows is None else "category"
            msg = f"X has {_length(X)} rows but y has {len(Y)}: every row needs its {needed}."
            raise InputError(msg)
        seen = np.zeros(len(known.categories), dtype=bool)
        if rows is not None:
            seen[rows] = True
        chosen = np.flatnonzero(~seen if self.candidates == "unseen" and not seen.all() else np.ones_like(seen))
        targets, p = known.take(chosen), probabilities[chosen]
        if p.sum() <= 0:
            msg = "probabilities are 0 for every category that can be predicted. Give some of them a chance."
            raise InputError(msg)
        model = self._configured(Y, targets, p / p.sum())
        calibration = self._calibrate(model, X, Y, rows) if self.rule == "dap" else None
        named = isinstance(last_step(model), MultilabelClassifier)  # others may know no names
        fit_for_scores(model, X, read_labels(Y, names=known.attributes) if named else Y)

        self.estimator_ = model
        self.classes_ = targets.categories
        self.seen_categories_ = known.categories[seen]
        self.attribute_names_ = known.attributes
        self.signatures_ = targets.cells
        self.class_probabilities_ = p / p.sum()
        self.attribute_frequencies_ = frequencies_of(read_labels(Y))
        if calibration is not None:
            self.calibration_ = calibration
        if hasattr(model, "n_features_in_"):
            self.n_features_in_ = model.n_features_in_
        return self

    def decision_function(self, X: Any, signatures: Any = None, probabilities: Any = None) -> NDArray[np.float64]:
        """How well the signature of each category fits each row; larger is better.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        signatures : DataFrame, mapping or array, optional
            Other categories than the ones of ``fit``, without training anew.
        probabilities : mapping or array, optional
            How likely those categories are; used by ``rule="dap"``.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Correlations, shares of agreeing attributes, or logarithms of probabilities up to a constant.
        """
        return self._fits(X, *self._targets(signatures, probabilities))

    def predict(self, X: Any, signatures: Any = None, probabilities: Any = None) -> NDArray[Any]:
        """Predicted categories.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        signatures : DataFrame, mapping or array, optional
            Other categories than the ones of ``fit``, without training anew.
        probabilities : mapping or array, optional
            How likely those categories are; used by ``rule="dap"``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        targets, p = self._targets(signatures, probabilities)
        return np.asarray(targets.categories[self._fits(X, targets, p).argmax(axis=1)])

    def predict_attributes(self, X: Any) -> NDArray[np.int8]:
        """Predicted attributes, 0/1.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_attributes)
        """
        return (self.attribute_scores(X) > 0).astype(np.int8)

    def attribute_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the attributes; positive means the attribute is predicted.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_attributes)
        """
        check_is_fitted(self)
        return _scores(self.estimator_, X, len(self.attribute_names_))

    def _fitted_rules(self) -> dict[str, Rule]:
        """Rules of the fitted attributes, to which model files are held."""

        def estimator(value: Any, sizes: Sizes) -> None:
            model, n_features = last_step(value), getattr(value, "n_features_in_", None)  # none if its rows are texts
            expect(isinstance(model, MultilabelClassifier), "must be a multi-label estimator")
            expect(hasattr(model, "label_names_"), "must be fitted")
            expect(len(model.label_names_) == sizes["attributes"], "must have a label for every attribute")
            expect(n_features == getattr(self, "n_features_in_", None), "must have the features of the model")

        def categories(value: Any, sizes: Sizes) -> None:
            expect(self.rule in RULES, f"needs a rule of {RULES}; got {self.rule!r}")
            names("classes")(value, sizes)

        rules: dict[str, Rule] = {
            "n_features_in_": count(1, "features"),
            "classes_": categories,
            "seen_categories_": names("seen", 0),
            "attribute_names_": names("attributes"),
            "estimator_": estimator,
            "signatures_": array_of("classes attributes", 0, 1, "i1"),
            "class_probabilities_": array_of("classes", 0.0, 1.0),
            "attribute_frequencies_": array_of("attributes", 0.0, 1.0),
        }
        if self.rule == "dap":
            rules["calibration_"] = array_of("attributes 2", -LARGEST, LARGEST)
        return rules

    def _fits(self, X: Any, targets: _Signatures, p: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = self.attribute_scores(X)
        if self.rule == "correlation":
            return np.asarray(_standardised(scores) @ _standardised(targets.signs).T)
        if self.rule == "hamming":
            return np.asarray((np.where(scores > 0, 1.0, -1.0) @ targets.signs.T / scores.shape[1] + 1.0) / 2.0)
        return self._log_probabilities(scores, targets, p)

    def _log_probabilities(
        self, scores: NDArray[np.float64], targets: _Signatures, p: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        odds = scores * self.calibration_[:, 0] + self.calibration_[:, 1]
        present, absent = log_expit(odds), log_expit(-odds)
        # attributes seen always or never say nothing of themselves: their frequency is kept off 0 and 1
        frequency = np.clip(self.attribute_frequencies_, 1e-3, 1.0 - 1e-3)
        cells = targets.cells
        fit = (present - np.log(frequency)) @ cells.T + (absent - np.log1p(-frequency)) @ (1 - cells).T
        with np.errstate(divide="ignore"):
            return np.asarray(fit + np.log(p))

    def _targets(self, signatures: Any, probabilities: Any) -> tuple[_Signatures, NDArray[np.float64]]:
        check_is_fitted(self)
        if signatures is None:
            if probabilities is not None:
                msg = "probabilities were given without signatures. Give the signatures of the same categories."
                raise InputError(msg)
            own = _Signatures(self.classes_, self.attribute_names_, self.signatures_)
            return own, self.class_probabilities_
        targets = _read_signatures(signatures)
        order = _columns_of(self.attribute_names_, targets.attributes, "signatures", "the model was trained on")
        targets = _Signatures(targets.categories, self.attribute_names_, targets.cells[:, order])
        return targets, _read_probabilities(probabilities, targets)

    def _configured(self, Y: NDArray[Any], targets: _Signatures, p: NDArray[np.float64]) -> Any:
        """Return the estimator with prior and class weights of the candidates."""
        fresh = not self.warm_start or getattr(self, "estimator_", None) is None
        model = clone(LinearM3L() if self.estimator is None else self.estimator) if fresh else self.estimator_
        settings: dict[str, Any] = {}
        if self.use_prior:
            settings["prior"] = priors.LowRankPrior(np.ascontiguousarray((targets.signs * np.sqrt(p)[:, None]).T))
        if self.use_frequencies:
            settings["class_weight"] = weights.class_weights(Y, p @ targets.cells)
        if self.warm_start:
            settings["warm_start"] = True
        names = model.get_params()
        for name, value in settings.items():
            owners = [key for key in names if key == name or key.endswith(f"__{name}")]
            if len(owners) != 1:
                switch = {"prior": "use_prior", "class_weight": "use_frequencies"}.get(name, name)
                found = "none" if not owners else ", ".join(owners)
                msg = (
                    f"The estimator {type(model).__name__} must have one parameter {name!r}; found {found}. Use "
                    f"LinearM3L or KernelM3L, or set {switch}=False."
                )
                raise InputError(msg)
            model.set_params(**{owners[0]: value})
        return model

    def _calibrate(
        self, model: Any, X: Any, Y: NDArray[Any], categories: NDArray[np.intp] | None
    ) -> NDArray[np.float64]:
        """Log odds of each attribute as a line in its score, on categories left out in turn, or rows without one."""
        what, groups = ("rows", np.arange(len(Y))) if categories is None else ("categories", categories)
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            msg = f"rule='dap' calibrates on {what} left out of training; got {n_groups}. Use rule='correlation'."
            raise InputError(msg)
        n_folds = min(CALIBRATION_FOLDS, n_groups)
        folds: Any = CategoryKFold(n_folds, random_state=0)
        if categories is None:
            folds = KFold(n_folds, shuffle=True, random_state=0)
        scores = np.empty(Y.shape)
        rows = X.tocsr() if sp.issparse(X) else X
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Cc]onstant predictions", category=UserWarning)
            for train, test in folds.split(np.zeros(len(Y)), groups):
                part = fit_for_scores(clone(model), _take(rows, train), Y[train])
                scores[test] = _scores(part, _take(rows, test), Y.shape[1])
        return np.array([_line(scores[:, j], Y[:, j]) for j in range(Y.shape[1])])


def _read_signatures(signatures: Any) -> _Signatures:
    if signatures is None:
        msg = "signatures must be given: the attributes of every category, seen and unseen."
        raise InputError(msg)
    attributes = None
    if isinstance(signatures, Mapping):
        categories = _names(signatures)
        rows = list(signatures.values())
        if rows and all(isinstance(row, Mapping) for row in rows):
            attributes = _common_attributes(signatures)
            rows = [[row[name] for name in attributes] for row in rows]
        signatures = np.array([np.asarray(row) for row in rows])
    elif hasattr(signatures, "columns"):
        categories = _names(signatures.index)
    else:
        categories = np.arange(_length(signatures))
    labels = read_labels(signatures, names=attributes, subject="signatures")
    if labels.missing is not None:
        msg = "signatures must be complete; got NaN cells. Fill them, or leave the category out."
        raise InputError(msg)
    twice = [name for name, count in Counter(categories.tolist()).items() if count > 1]
    if twice:
        msg = f"signatures name the category {twice[0]!r} twice. Give every category one row."
        raise InputError(msg)
    return _Signatures(categories, labels.names, labels.positives.toarray().astype(np.int8))


def _common_attributes(signatures: Mapping[Any, Mapping[Any, Any]]) -> list[Any]:
    """Return the attributes of the first category, which all others must have, too."""
    first, *others = signatures
    attributes = list(signatures[first])
    for category in others:
        odd = [*(signatures[first].keys() ^ signatures[category].keys())]
        if odd:
            has, lacks = (category, first) if odd[0] in signatures[category] else (first, category)
            msg = (
                f"signatures must have the same attributes for every category; {has!r} has {odd[0]!r}, and {lacks!r} "
                f"has not. Add it, or leave it out everywhere."
            )
            raise InputError(msg)
    return attributes


def _columns_of(wanted: NDArray[Any], found: NDArray[Any], subject: str, others: str) -> list[int]:
    """Return where the attributes wanted are: by name, or in order where either side has numbers for names."""
    want, have = wanted.tolist(), found.tolist()
    if len(have) != len(want):
        msg = f"{subject} have {len(have)} attributes, but {others} {len(want)}. Give the same ones."
        raise InputError(msg)
    numbers = list(range(len(want)))
    if want == have or numbers in (want, have):
        return numbers
    position = {name: k for k, name in enumerate(have)}
    absent = [name for name in want if name not in position]
    if absent:
        msg = f"{subject} lack the attribute {absent[0]!r}, which {others}. Name the attributes alike."
        raise InputError(msg)
    return [position[name] for name in want]


def _is_table(y: Any) -> bool:
    """Whether y has columns: attributes of the rows rather than their categories."""
    return isinstance(y, LabelMatrix) or sp.issparse(y) or hasattr(y, "columns") or np.ndim(y) == 2


def _attributes_of_rows(y: Any, known: _Signatures) -> NDArray[Any]:
    """Return the attributes of the rows in the order of the signatures: 0, 1, and NaN where they are unknown."""
    labels = read_labels(y, subject="y")
    order = _columns_of(known.attributes, labels.names, "the columns of y", "signatures have")
    cells = labels.positives.toarray()[:, order].astype(np.int8)
    if labels.missing is None:
        return np.asarray(cells)
    return np.where(labels.missing.toarray()[:, order], np.nan, cells)


def _names(items: Any) -> NDArray[Any]:
    """Return names as a plain array of numbers or texts, in their order."""
    return np.asarray(list(items))


def _read_probabilities(probabilities: Any, known: _Signatures) -> NDArray[np.float64]:
    n = len(known.categories)
    if probabilities is None:
        return np.full(n, 1.0 / n)
    if isinstance(probabilities, Mapping):
        probabilities = [probabilities.get(name, 0.0) for name in known.categories.tolist()]
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != (n,) or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
        msg = (
            f"probabilities must be {n} non-negative numbers, one per category, not all zero; got shape {p.shape} with "
            f"minimum {p.min() if p.size else None}."
        )
        raise InputError(msg)
    return np.asarray(p / p.sum(), dtype=np.float64)


def _positions(y: Any, known: _Signatures) -> NDArray[np.intp]:
    """Rows of the signature matrix that belong to the categories y."""
    position = {name: k for k, name in enumerate(known.categories.tolist())}
    values = np.asarray(y)
    if values.ndim != 1:
        msg = f"y must be a 1-D array with the category of every row; got shape {values.shape}."
        raise InputError(msg)
    unknown = [name for name in np.unique(values).tolist() if name not in position]
    if unknown:
        msg = f"y has the category {unknown[0]!r}, which has no signature. Add a row for it to signatures."
        raise InputError(msg)
    return np.array([position[name] for name in values.tolist()], dtype=np.intp)


def _scores(model: Any, X: Any, n_attributes: int) -> NDArray[np.float64]:
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    return np.asarray(scores.reshape(-1, n_attributes))


def _standardised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows with mean 0 and length 1; constant ones become 0."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _line(scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[float, float]:
    """Platt's calibration: a logistic regression of the attribute on its score, never decreasing."""
    known = ~np.isnan(y)
    scores, y = scores[known], y[known]
    if not len(y) or y.min() == y.max():
        return 0.0, float(np.log((y.sum() + 1.0) / (len(y) - y.sum() + 1.0)))
    scale = float(scores.std()) or 1.0
    model = LogisticRegression(C=1.0).fit(scores[:, None] / scale, y)
    slope, offset = float(model.coef_[0, 0]) / scale, float(model.intercept_[0])
    if slope < 0:  # worse than nothing on unseen categories: fall back to the frequency
        return 0.0, float(np.log(y.mean() / (1.0 - y.mean())))
    return slope, offset


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _one_of(name: str, value: Any, options: Sequence[str]) -> None:
    if value not in options:
        msg = f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}."
        raise InputError(msg)

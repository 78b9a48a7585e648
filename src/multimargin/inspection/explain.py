"""Why a model scores a row as it does: parts that sum to the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from multimargin._tables import aligned, html_table
from multimargin.errors import InputError
from multimargin.estimators import CliqueClassifier, KernelM3L, SubmodularClassifier
from multimargin.estimators.contract import LinearModel
from multimargin.estimators.native_scores import dense_weights
from multimargin.inspection.contributions import NO_ROWS, NOTHING, Contributions, SupportContributions, contributions
from multimargin.kernels import make_kernel
from multimargin.priors import LowRankPrior, check_prior
from multimargin.priors._forms import PriorForms

__all__ = ["Explanation", "FeatureWeights", "explain", "explain_rows", "top_features"]

SHOWN = 5
EXPLAINED = "LinearM3L, KernelM3L, SubmodularClassifier, CliqueClassifier, or another linear model of this library"


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Why a label of a row has its score. ``print`` shows the largest parts.

    Two sums give the score, each up to rounding: ``own`` + ``borrowed`` + ``pairs`` + ``remainder``, and ``baseline`` +
    ``features`` + ``support`` + ``pairs``.

    Attributes
    ----------
    label : object
        Name of the label.
    score : float
        What is explained: the score by ``decision_function``. With pairs or cliques of labels, what the label adds to
        the score of the predicted set: the score with it minus the score without it, the other labels as predicted.
    decision : float
        The score by ``decision_function``. With pairs or cliques it is nearer to 0 than ``score``, because the other
        labels may change along with this one.
    baseline : float
        The part that does not depend on the row: the intercept, and with a background the score of its mean.
    features : Contributions
        Of linear models: weight times value, or its distance from the mean of the background; zeros are left out.
    support : SupportContributions
        Of kernel models: the part of each training row, by its number.
    own : float
        Evidence for the label itself: through a prior R, :math:`R_{ll} v_l(x)`; beside pairs or cliques, the part of
        the single label.
    borrowed : Contributions
        What the label gets through the prior from the evidence of each other label k, :math:`R_{lk} v_k(x)`.
    pairs : Contributions
        What it gets from being together, as predicted, with the other labels of each pair or clique subset; their
        names are tuples.
    remainder : float
        The score minus ``own``, ``borrowed`` and ``pairs``: rounding, of models in single precision that of 1e-7.
    threshold : float or None
        Above which score the label is predicted, where thresholds were tuned or given.

    Notes
    -----
    With a prior, scores are :math:`z(x) = R\, v(x)`, where :math:`v_k(x)` is the evidence of label k alone. A singular
    R leaves several v; here it is the smallest, :math:`R^+ z(x)`.

    The part of a training row is not what leaving it out would change.
    """

    label: Any
    score: float
    decision: float
    baseline: float
    own: float
    features: Contributions = NOTHING
    support: SupportContributions = NO_ROWS
    borrowed: Contributions = NOTHING
    pairs: Contributions = NOTHING
    threshold: float | None = None

    @property
    def remainder(self) -> float:
        """What own evidence, loans and pairs leave of the score."""
        return self.score - (self.own + self.borrowed.sum() + self.pairs.sum())

    def frame(self) -> Any:
        """Return all parts as a pandas DataFrame with the columns ``part``, ``name`` and ``value``."""
        import pandas as pd

        rows = [("baseline", None, self.baseline), ("own", None, self.own)]
        for part in ("features", "support", "borrowed", "pairs"):
            found: Contributions = getattr(self, part)
            rows += [(part, name, value) for name, value in found.items()]
        return pd.DataFrame([*rows, ("remainder", None, self.remainder)], columns=["part", "name", "value"])

    def __str__(self) -> str:
        return aligned(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    def _rows(self) -> list[list[str]]:
        own = ["own evidence", f"{self.own:.4g}"]
        inputs = [["= baseline", f"{self.baseline:.4g}"]]
        inputs += _shown("feature", self.features) + _shown("training row", self.support)
        rows = [[f"score of {self.label!r}", f"{self.score:.4g}"]]
        if len(self.pairs):
            rows += [["= own evidence", own[1]], *_shown("together with", self.pairs), own, *inputs]
            rows.append(["decision, if others may change along", f"{self.decision:.4g}"])
        else:
            rows += inputs
        if len(self.borrowed):
            rows += [["= own evidence", own[1]], *_shown("borrowed from", self.borrowed)]
        if self.threshold is not None:
            rows.append(["threshold", f"{self.threshold:.4g}"])
        return rows


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """The features that weigh most for a label. ``print`` shows them as a table.

    Attributes
    ----------
    label : object
        Name of the label.
    names : ndarray of shape (k,)
        Names of the features, or their numbers; the most important first.
    weights : ndarray of shape (k,)
        Their weights.
    importance : ndarray of shape (k,)
        What they are sorted by.
    measure : str
        ``"|weight| x standard deviation"`` if rows were given, otherwise ``"|weight|"``.
    """

    label: Any
    names: NDArray[Any]
    weights: NDArray[np.float64]
    importance: NDArray[np.float64]
    measure: str

    def frame(self) -> Any:
        """Return the features as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame({"feature": self.names, "weight": self.weights, "importance": self.importance})

    def __str__(self) -> str:
        return aligned(self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    def _rows(self) -> list[list[str]]:
        rows = [[f"label {self.label!r}", "weight", self.measure]]
        numbers = zip(self.names.tolist(), self.weights, self.importance, strict=True)
        return rows + [[str(name), f"{weight:.4g}", f"{size:.4g}"] for name, weight, size in numbers]


def explain(model: Any, x: Any, label: Any = None, *, background: Any = None) -> Explanation:
    """Explain the score of a label in a row.

    Parameters
    ----------
    model : fitted classifier
        :class:`LinearM3L`, :class:`KernelM3L`, :class:`SubmodularClassifier`, :class:`CliqueClassifier`, a pipeline
        that ends with one, or thresholds, calibration or a tuned model around it, whose ``estimator_`` is explained.
    x : array of shape (n_features,), or one row of an array, sparse matrix or DataFrame
        The row; a text, if that is what the pipeline takes.
    label : object, optional
        Name of the label; by default the one with the largest score.
    background : array, sparse matrix or DataFrame of shape (n_samples, n_features), optional
        Rows to compare with, such as those of training. The features of a linear model then contribute by their
        distance from the mean.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L
    >>> from multimargin.inspection import explain
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> Y = [{"sea"}, {"sun"}, {"sea", "sun"}, set()]
    >>> R = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> why = explain(LinearM3L(C=10, prior=R, tol=1e-8).fit(X, Y), [1.0, 0.9], "sea")
    >>> round(why.own, 2), {name: round(value, 2) for name, value in why.borrowed.items()}
    (0.4, {'sun': 0.4})
    >>> round(why.score, 2)
    0.8
    """
    return explain_rows(model, _one_row(x), [label], background=background)[0]


def explain_rows(model: Any, X: Any, labels: Sequence[Any], *, background: Any = None) -> list[Explanation]:
    """Explain the score of one label in each row; what does not depend on the row is prepared once.

    Parameters
    ----------
    model, background
        As in :func:`explain`.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        The rows.
    labels : sequence of length n_samples
        Name of the label to explain in each row; None for the one with the largest score.

    Returns
    -------
    list of Explanation
    """
    thresholds = getattr(model, "thresholds_", None)
    model, (given, others), names = _last_step(model, [X, background])
    wanted = [None if label is None else _label(model, label) for label in labels]
    if others is not None:
        if isinstance(model, KernelM3L):
            msg = "background is for linear models, whose features contribute; got a KernelM3L. Leave it out."
            raise InputError(msg)
        others = model._check_X(others)
    scores = np.asarray(model.decision_function(given), dtype=np.float64).reshape(len(labels), -1)
    columns = [int(np.argmax(row)) if column is None else column for row, column in zip(scores, wanted, strict=True)]
    rows = model._check_X(given).astype(np.float64)
    prior = check_prior(getattr(model, "prior_", None), model.label_names_)
    forms = None if prior is None else PriorForms(prior)
    sets = (
        model.predict_sets(given) if isinstance(model, (SubmodularClassifier, CliqueClassifier)) else [()] * len(labels)
    )
    found = [
        _explained(model, rows[[k]], scores[k], column, set(sets[k]), others, names, prior, forms)
        for k, column in enumerate(columns)
    ]
    if thresholds is None:
        return found
    cuts = [None if np.isnan(thresholds[column]) else float(thresholds[column]) for column in columns]
    return [replace(why, threshold=cut) for why, cut in zip(found, cuts, strict=True)]


def _explained(
    model: Any,
    row: Any,
    scores: NDArray[np.float64],
    column: int,
    present: set[Any],
    background: Any,
    names: NDArray[Any],
    prior: Any,
    forms: PriorForms | None,
) -> Explanation:
    found = Explanation(
        label=model.label_names_.tolist()[column],
        score=float(scores[column]),
        decision=float(scores[column]),
        baseline=float(model.intercept_[column]),
        own=float(scores[column]),
    )
    if isinstance(model, KernelM3L):
        support = _support(model, row, column)
        return replace(found, support=support, **_through_prior(model, scores, column, prior, forms))
    features, at_mean = _features(_weights(model, column), row, background, names)
    found = replace(found, features=features, baseline=found.baseline + at_mean)
    if isinstance(model, LinearModel):
        return replace(found, **_through_prior(model, scores, column, prior, forms))
    if isinstance(model, SubmodularClassifier) and found.label not in model.constant_labels_.tolist():
        found = replace(found, baseline=found.baseline + model.offset_)
    own = found.baseline + features.sum()
    pairs = (_attraction if isinstance(model, SubmodularClassifier) else _subsets)(model, row, column, present)
    return replace(found, own=own, pairs=pairs, score=own + pairs.sum())


def top_features(model: Any, label: Any, k: int = 10, *, X: Any = None) -> FeatureWeights:
    """Return the features that weigh most for a label.

    Parameters
    ----------
    model : fitted classifier
        A linear one of this library, or a pipeline that ends with one. Of :class:`SubmodularClassifier` and
        :class:`CliqueClassifier`, the weights of the single labels.
    label : object
        Name of the label.
    k : int, default=10
        Number of features.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features), optional
        Rows, such as those of training: weights are then compared after multiplication by the standard deviation of
        their feature. Without, by themselves, which is fair only if features have the same scale.

    Returns
    -------
    FeatureWeights

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L
    >>> from multimargin.inspection import top_features
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = LinearM3L(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> top_features(model, "sea", k=1).names
    array([1])
    """
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        msg = f"k must be a number of features, 1 or more; got {k!r}."
        raise InputError(msg)
    model, (rows,), names = _last_step(model, [X])
    if isinstance(model, KernelM3L):
        msg = "top_features needs weights of features, which a KernelM3L does not have. Use explain for its rows."
        raise InputError(msg)
    column = _label(model, label)
    weights = _weights(model, column)
    importance, measure = np.abs(weights), "|weight|"
    if rows is not None:
        importance, measure = importance * _deviation(model._check_X(rows)), "|weight| x standard deviation"
    best = np.argsort(-importance, kind="stable")[:k]
    return FeatureWeights(model.label_names_.tolist()[column], names[best], weights[best], importance[best], measure)


def _weights(model: Any, column: int) -> NDArray[np.float64]:
    """Weights of a label, also of a model with sparse ones."""
    return dense_weights(model.coef_[column : column + 1])[0].astype(np.float64)


def _last_step(model: Any, inputs: Sequence[Any]) -> tuple[Any, list[Any], NDArray[Any]]:
    """Return the model behind wrappers and a pipeline, its view of the inputs, and the names of its features."""
    names = None
    while hasattr(model, "estimator_"):
        model = model.estimator_
    if isinstance(model, Pipeline):
        before, model = model[:-1], model[-1]
        check_is_fitted(model)
        if len(before.steps):
            inputs = [None if given is None else before.transform(given) for given in inputs]
            try:
                names = before.get_feature_names_out()
            except (AttributeError, ValueError):  # a step that does not know them
                names = None
    if not isinstance(model, (LinearModel, KernelM3L, SubmodularClassifier, CliqueClassifier)):
        msg = f"The model must be {EXPLAINED}; got {type(model).__name__}. Give one of them, or a pipeline with one."
        raise InputError(msg)
    check_is_fitted(model)
    if names is None:
        names = getattr(model, "feature_names_in_", np.arange(model.n_features_in_))
    return model, list(inputs), np.asarray(names)


def _one_row(x: Any) -> Any:
    """Return x with two dimensions, if it is one row."""
    if isinstance(x, str):
        return [x]
    if hasattr(x, "to_frame"):  # a Series: a row of a DataFrame
        return x.to_frame().T
    row = x if hasattr(x, "shape") else np.asarray(x)
    if row.shape == (1,) and getattr(row.dtype, "kind", "O") in "UOT":
        return row  # a text
    if len(row.shape) == 1:
        return row.reshape(1, -1)
    if len(row.shape) != 2 or row.shape[0] != 1:
        msg = f"x must be one row; got shape {tuple(row.shape)}. Explain rows one by one."
        raise InputError(msg)
    return row


def _label(model: Any, label: Any) -> int:
    names = model.label_names_.tolist()
    if label not in names:
        msg = f"The model has no label {label!r}. It has {len(names)}, such as {names[0]!r}: see label_names_."
        raise InputError(msg)
    return int(names.index(label))


def _features(
    weights: NDArray[np.float64], row: Any, background: Any, names: NDArray[Any]
) -> tuple[Contributions, float]:
    """Return weights times values, from the mean of the background, and the part of that mean."""
    values, at_mean = row.toarray()[0] if sp.issparse(row) else row[0], 0.0
    if background is not None:
        mean = np.asarray(background.mean(axis=0), dtype=np.float64).reshape(-1)
        values, at_mean = values - mean, float(weights @ mean)
    present = np.flatnonzero(values)
    return contributions(names[present], weights[present] * values[present]), at_mean


def _support(model: KernelM3L, row: Any, column: int) -> SupportContributions:
    if not len(model.support_):
        values = np.zeros((1, 0))
    elif model.kernel == "precomputed":
        chosen = row[:, model.support_]
        values = chosen.toarray() if sp.issparse(chosen) else chosen
    else:
        kernel = make_kernel(model.kernel, model.support_vectors_, np.float64, model.gamma_, model.degree, model.coef0)
        values = np.asarray(kernel.values(kernel.prepare(row)))
    parts = values[0] * model.dual_coef_[:, column]
    used = np.flatnonzero(model.dual_coef_[:, column])
    return SupportContributions(model.support_[used], parts[used].astype(np.float64), values[0][used])


def _through_prior(
    model: Any, scores: NDArray[np.float64], column: int, prior: Any, forms: PriorForms | None
) -> dict[str, Any]:
    """Return the label's own evidence and what it borrows, if the model has a prior."""
    firm = np.isin(model.label_names_, model.constant_labels_)
    if forms is None or firm[column]:
        return {}
    evidence = forms.solve(np.where(firm, 0.0, scores)[:, None])[:, 0]
    if isinstance(prior, LowRankPrior):
        ties = prior.factor @ prior.factor[column]
        ties[column] += np.asarray(prior.diagonal)[column]
    else:
        ties = prior[column]
    parts = ties * evidence
    lenders = np.flatnonzero((ties != 0) & ~firm & (np.arange(len(ties)) != column))
    return {"own": float(parts[column]), "borrowed": contributions(model.label_names_[lenders], parts[lenders])}


def _attraction(model: SubmodularClassifier, row: Any, column: int, present: set[Any]) -> Contributions:
    names = model.label_names_.tolist()
    found = {}
    for (first, second), tie in zip(model.pairs_.tolist(), model.pair_coef_.tolist(), strict=True):
        if column in (first, second) and tie:
            other = names[second if first == column else first]
            found[(other,)] = tie if other in present else 0.0
    return contributions(list(found), list(found.values()))


def _subsets(model: CliqueClassifier, row: Any, column: int, present: set[Any]) -> Contributions:
    names = model.label_names_.tolist()
    chosen = [k for k, subset in enumerate(model.subsets_) if len(subset) > 1 and column in subset]
    strength = np.asarray(row @ model.subset_coef_[chosen].T).reshape(-1) + model.subset_intercept_[chosen]
    others = [tuple(names[k] for k in model.subsets_[t] if k != column) for t in chosen]
    signs = [np.prod([1.0 if name in present else -1.0 for name in subset]) for subset in others]
    return contributions(others, 2.0 * strength * np.array(signs))


def _deviation(X: Any) -> NDArray[np.float64]:
    if not sp.issparse(X):
        return np.asarray(X.std(axis=0, dtype=np.float64))
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).reshape(-1)
    square = np.asarray(X.astype(np.float64).power(2).mean(axis=0)).reshape(-1)
    return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))


def _shown(kind: str, parts: Contributions) -> list[list[str]]:
    largest = parts.top(SHOWN)
    rows = [[f"  + {kind} {_text(name)}", f"{value:.4g}"] for name, value in largest.items()]
    rest = len(parts) - len(largest)
    return [*rows, [f"  + {rest:,} more", f"{parts.sum() - largest.sum():.4g}"]] if rest else rows


def _text(name: Any) -> str:
    return ", ".join(map(str, name)) if isinstance(name, tuple) else str(name)

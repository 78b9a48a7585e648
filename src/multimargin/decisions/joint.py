"""The best label set of a row where labels depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_method_params, check_is_fitted

from multimargin import _core
from multimargin.decisions import _row_rules as rows
from multimargin.decisions._cells import Cells
from multimargin.decisions._held_out import as_target, read_training_labels
from multimargin.decisions._lines import inside, log_odds_of
from multimargin.decisions._scoring import read_scoring
from multimargin.decisions._stored import any_number
from multimargin.decisions._wrapper import DecisionWrapper, _whole_target
from multimargin.decisions.decoding import joint_sets
from multimargin.errors import InputError
from multimargin.estimators import CliqueClassifier
from multimargin.estimators.label_rates import fit_for_scores
from multimargin.fitted_rules import Rule, Sizes, expect, last_step, number
from multimargin.labels import LabelMatrix

__all__ = ["JointDecoder"]

Floats = NDArray[np.float64]

MOST_NEIGHBOURS = 16
BLOCK_BYTES = 64 * 2**20
SHARPNESS = (0.02, 5.0)


@dataclass(frozen=True, eq=False)
class LabelModel:
    """A distribution of label sets, p(y) ~ exp(sum_T theta_T chi_T(y)), ready for exact inference."""

    starts: NDArray[np.int64]
    members: NDArray[np.int64]
    order: NDArray[np.int64]

    @classmethod
    def of(cls, subsets: list[tuple[int, ...]], n_labels: int) -> LabelModel:
        """Prepare inference over these label subsets; refuse a graph that is too dense for it."""
        order, width = _elimination_order(subsets, n_labels)
        if width > MOST_NEIGHBOURS:
            msg = (
                f"The label graph is too dense for exact sums: a label has {width} neighbours when it is eliminated, "
                f"more than {MOST_NEIGHBOURS}. Learn fewer cliques (max_cliques), or tune the estimator by "
                "ThresholdTuner, which takes labels as independent."
            )
            raise InputError(msg)
        starts = np.cumsum([0, *map(len, subsets)]).astype(np.int64)
        return cls(starts, np.array([k for subset in subsets for k in subset], dtype=np.int64), order)

    def _elimination(self) -> _core.LabelElimination:
        return _core.LabelElimination(self.starts, self.members, self.order, MOST_NEIGHBOURS)

    def sizes(self, scores: Floats) -> Floats:
        """P(y_l = 1, |y| = k) of every row, of shape (n_samples, n_labels, n_labels), k from 1."""
        return _core.label_counts(self._elimination(), scores)

    def log_partition(self, scores: Floats) -> Floats:
        """Logarithm of the sum of exp over all label sets."""
        return _core.label_partition(self._elimination(), scores)

    def score(self, scores: Floats, labels: sp.csr_array) -> Floats:
        """sum_T theta_T chi_T(y) of label sets that are known."""
        signs = 2.0 * labels.toarray() - 1.0
        parities = np.multiply.reduceat(signs[:, self.members], self.starts[:-1], axis=1)
        return np.asarray((scores * parities).sum(axis=1))


class JointDecoder(DecisionWrapper):
    r"""Predict the label sets of largest expected F under the label dependence a CliqueClassifier has learned.

    The model's distribution of label sets, made less sharp by :math:`\tau`,

    .. math:: p(y \mid x) \propto \exp\Big(\tau \sum_T \theta_T(x) \chi_T(y)\Big),

    depends on which labels exclude or attract each other. :math:`\tau` maximises the likelihood of label sets out of
    fold. The set with the largest expected F of a row depends on it only through
    :math:`P(y_l = 1, |y| = k)`, which are computed exactly, by carrying counts through elimination; so it is found
    exactly, too.

    Parameters
    ----------
    estimator : CliqueClassifier
        With ``loss="softmax-margin"`` for probabilities it was trained for; the hinge loss works, too. A pipeline that
        ends in one is taken as well.
    beta : float, default=1.0
        Recall counts beta times as much as precision.
    cv : int, splitter or iterable, default=5
        As in :class:`ThresholdTuner`.
    n_jobs : None
        Folds are trained one after the other.
    random_state : int, RandomState instance or None, default=None
        For the folds.
    verbose : int, default=0
        Whether to print a line per fold.

    Attributes
    ----------
    estimator_ : CliqueClassifier
        Trained on all rows.
    sharpness_ : float
        :math:`\tau`; below 1 the model by itself is too sure.
    nested_score_ : float
        Example F on rows held out, :math:`\tau` fitted on the others.
    joint_log_loss_, raw_joint_log_loss_ : float
        Mean negative log-probability of the label sets of rows held out, with :math:`\tau` and without.
    classes_ : ndarray
        Label names.

    References
    ----------
    K. Dembczynski, W. Waegeman, W. Cheng, E. Hullermeier. An exact algorithm for F-measure maximization. NIPS 2011.

    Examples
    --------
    >>> from multimargin import CliqueClassifier
    >>> from multimargin.datasets import make_clique_labels
    >>> from multimargin.decisions import JointDecoder
    >>> data = make_clique_labels(n_samples=300, n_labels=5, random_state=0)
    >>> base = CliqueClassifier(loss="softmax-margin", graph="chow-liu", random_state=0)
    >>> model = JointDecoder(base, cv=3, random_state=0).fit(data.X, data.Y)
    >>> model.predict(data.X).shape
    (300, 5)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        beta: float = 1.0,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.beta = beta
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        self._check_common()
        labels = read_training_labels(X, y)
        scoring = read_scoring("example-fbeta", labels.n_labels, self.beta, None, None)
        routed = self._routed(X, params)
        target = as_target(y, labels)
        X, target = indexable(X, target)
        fit_params = _check_method_params(X, routed.fit)
        parts = []
        folds = self._folds(X, y, labels, routed.split)
        for k, (train, test) in enumerate(folds, start=1):
            with self._progress(f"fold {k} of {len(folds)}"):
                model = fit_for_scores(
                    clone(self.estimator),
                    _safe_indexing(X, train),
                    _safe_indexing(target, train),
                    **_check_method_params(X, fit_params, indices=train),
                )
                parts.append((*_distribution(model, _safe_indexing(X, test)), labels.part(test)))
        with self._progress("all rows"):
            whole = _whole_target(self.estimator, y, target)
            self.estimator_ = fit_for_scores(clone(self.estimator), X, whole, **fit_params)
        self._learn_form(labels)
        self.sharpness_ = _sharpness(parts)
        self.joint_log_loss_, self.raw_joint_log_loss_ = (_log_loss(parts, tau) for tau in (self.sharpness_, 1.0))
        self.nested_score_ = self._nested(parts, folds, labels, scoring)
        return self

    def _fitted_rules(self) -> dict[str, Rule]:
        shown = dict.fromkeys(("joint_log_loss_", "raw_joint_log_loss_", "nested_score_"), any_number)
        rules = {**super()._fitted_rules(), "sharpness_": number(*SHARPNESS), **shown}
        decoded = rules["estimator_"]

        def cliques(value: Any, sizes: Sizes) -> None:
            decoded(value, sizes)
            expect(isinstance(last_step(value), CliqueClassifier), "must be a CliqueClassifier")

        del rules["response_method_"]
        return {**rules, "estimator_": cliques}

    def _nested(self, parts: list[Any], folds: list[Any], labels: LabelMatrix, scoring: Any) -> float:
        chosen = np.zeros((labels.n_samples, labels.n_labels), dtype=bool)
        for k, ((model, scores, _), (_, test)) in enumerate(zip(parts, folds, strict=True)):
            others = [*parts[:k], *parts[k + 1 :]] or parts
            chosen[test] = self._decode(model, scores, _sharpness(others))[0]
        tested = np.zeros(labels.n_samples, dtype=bool)
        for _, test in folds:
            tested[test] = True
        cells = Cells(np.zeros(chosen.shape), labels, tested.astype(np.float64))
        return float(scoring.value(cells, sp.csr_array(chosen)))

    def _decode(self, model: LabelModel, scores: Floats, sharpness: float) -> tuple[NDArray[np.bool_], Floats]:
        """Best sets and marginal probabilities, in blocks of rows."""
        n_labels = len(model.order)
        step = max(1, BLOCK_BYTES // (8 * n_labels * n_labels))
        chosen = np.zeros((len(scores), n_labels), dtype=bool)
        p = np.zeros((len(scores), n_labels))
        for start in range(0, len(scores), step):
            part = slice(start, start + step)
            sizes = model.sizes(np.ascontiguousarray(sharpness * scores[part]))
            p[part] = sizes.sum(axis=2)
            chosen[part] = joint_sets(sizes, float(self.beta) ** 2)
        return chosen, p

    def _scores(self, X: Any) -> Any:
        return self._decode(*_distribution(self.estimator_, X), self.sharpness_)

    def _predicted(self, scores: Any) -> sp.csr_array:
        return sp.csr_array(scores[0])

    def _margins(self, scores: Any) -> Floats:
        chosen, p = scores
        return rows.row_margins(log_odds_of(p), chosen)

    def predict_proba(self, X: Any) -> Floats:
        """Marginal probabilities of the labels under the joint distribution with ``sharpness_``.

        Parameters
        ----------
        X : rows, in any form the estimator takes

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            After training on a 1-D y, of shape (n_samples, 2), for its two classes.
        """
        check_is_fitted(self)
        p = inside(self._scores(X)[1])
        return np.hstack([1.0 - p, p]) if self.label_form_.kind == "column" else p


def _distribution(model: Any, X: Any) -> tuple[LabelModel, Floats]:
    """Return the label subsets of a fitted model, and their scores for the rows X."""
    if hasattr(model, "steps"):
        X, model = model[:-1].transform(X), model[-1]
    needed = ("subsets_", "subset_coef_", "subset_intercept_", "temperature")
    if not all(hasattr(model, name) for name in needed):
        msg = f"estimator must be a CliqueClassifier, whose label sets have a distribution; got {type(model).__name__}."
        raise InputError(msg)
    table = np.asarray(X) if not sp.issparse(X) else X
    scores = safe_sparse_dot(table, model.subset_coef_.T, dense_output=True) + model.subset_intercept_
    scores = np.ascontiguousarray(scores / model.temperature, dtype=np.float64)
    return LabelModel.of(model.subsets_, len(model.label_names_)), scores


def _log_loss(parts: list[Any], sharpness: float) -> float:
    """Mean negative log-probability of the label sets; rows with unknown labels are left out."""
    total, count = 0.0, 0
    for model, scores, labels in parts:
        known = np.ones(labels.n_samples, dtype=bool)
        if labels.missing is not None:
            known = np.diff(labels.missing.indptr) == 0
        tempered = np.ascontiguousarray(sharpness * scores[known])
        if len(tempered):
            total += float((model.log_partition(tempered) - model.score(tempered, labels.positives[known])).sum())
            count += len(tempered)
    return total / count if count else float("nan")


def _sharpness(parts: list[Any]) -> float:
    """Return the sharpness of largest likelihood; the log-loss is convex in it."""
    if np.isnan(_log_loss(parts, 1.0)):
        return 1.0
    found = minimize_scalar(
        lambda tau: _log_loss(parts, tau), bounds=SHARPNESS, method="bounded", options={"xatol": 1e-3}
    )
    return float(found.x)


def _elimination_order(subsets: list[tuple[int, ...]], n_labels: int) -> tuple[NDArray[np.int64], int]:
    """Order that joins as few strangers as it can, one label after the other, and the most neighbours on the way."""
    neighbours: list[set[int]] = [set() for _ in range(n_labels)]
    for subset in subsets:
        for a in subset:
            neighbours[a].update(set(subset) - {a})
    left, order, width = set(range(n_labels)), [], 0

    def cost(v: int) -> tuple[int, int, int]:
        around = neighbours[v]
        strangers = sum(len(around - neighbours[a]) - 1 for a in around)
        return strangers, len(around), v

    while left:
        v = min(left, key=cost)
        around = neighbours[v]
        width = max(width, len(around))
        for a in around:
            neighbours[a] |= around - {a}
            neighbours[a].discard(v)
        left.remove(v)
        order.append(v)
    return np.array(order, dtype=np.int64), width

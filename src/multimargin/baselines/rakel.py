"""Random k-labelsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import comb
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.extmath import safe_sparse_dot

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._label_sets import distinct_sets
from multimargin.baselines.binary_relevance import BinaryRelevance
from multimargin.estimators.cost_scale import C_CONSTRAINTS
from multimargin.estimators.predictor import row_blocks
from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect, number

__all__ = ["RAkEL"]


class RAkEL(VaryingLabelsBaseline):
    r"""RAkEL: an ensemble of multi-class classifiers over random sets of k labels, which vote.

    Each member sees k labels; its classes are the combinations of them that occur in training. A label is predicted if
    more than ``threshold`` of the members that know it vote for it.

    Parameters
    ----------
    labelset_size : int, default=3
        The number k of labels of a member; all labels if there are fewer.
    n_models : int or None, default=None
        Number of members; None is twice the number of labels. There are no more members than sets of k labels.
    threshold : float, default=0.5
        Share of votes a label needs.
    C : float or "scale", default="scale"
        Cost of an error of a linear SVM; ``"scale"`` is one over the mean squared length of the rows.
    estimator : classifier or None, default=None
        Multi-class classifier of the members; None is a linear SVM with squared hinge loss, one class against the rest.
        A model of other classifiers cannot be kept in a model file.
    random_state : int, RandomState or None, default=None
        Which labelsets are drawn, and the seed of the members.

    Attributes
    ----------
    labelsets_ : ndarray of shape (n_models, k)
        Columns of the labels of each member, constant labels not counted.
    combinations_ : ndarray of shape (n_combinations, k)
        Combinations of these labels that occur in training, member after member: the classes.
    starts_ : ndarray of shape (n_models + 1,)
        Where the combinations of each member begin.
    columns_ : ndarray of shape (n_combinations,)
        Which binary classifier tells a combination from the others of its member. Members share those that separate the
        same rows. Linear members only.
    coef_ : ndarray of shape (n_classifiers, n_features)
        Weights of the binary classifiers. Linear members only.
    intercept_ : ndarray of shape (n_classifiers,)
        Their intercepts. Linear members only.
    C_ : float
        The cost of an error, C or the number that ``"scale"`` stood for. Linear members only.
    members_ : list
        The classifiers, if ``estimator`` is given.

    References
    ----------
    G. Tsoumakas, I. Katakis, I. Vlahavas. Random k-labelsets for multilabel classification. IEEE Transactions on
    Knowledge and Data Engineering 23 (2011). https://doi.org/10.1109/TKDE.2010.164

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import RAkEL
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = RAkEL(random_state=0).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "labelset_size": [Interval(Integral, 1, None, closed="left")],
        "n_models": [Interval(Integral, 1, None, closed="left"), None],
        "threshold": [Interval(Real, 0, 1, closed="both")],
        "C": C_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        labelset_size: int = 3,
        *,
        n_models: int | None = None,
        threshold: float = 0.5,
        C: float | str = "scale",
        estimator: Any = None,
        random_state: Any = None,
    ):
        self.labelset_size = labelset_size
        self.n_models = n_models
        self.threshold = threshold
        self.C = C
        self.estimator = estimator
        self.random_state = random_state

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        random = check_random_state(self.random_state)
        n_labels = Y.shape[1]
        k = min(self.labelset_size, n_labels)
        wanted = 2 * n_labels if self.n_models is None else self.n_models
        drawn: set[tuple[int, ...]] = set()
        while len(drawn) < min(wanted, comb(n_labels, k)):
            drawn.add(tuple(sorted(random.choice(n_labels, k, replace=False).tolist())))
        labelsets = np.array(sorted(drawn))
        columns = Y.tocsc()
        members = [distinct_sets(sp.csr_array(columns[:, labels])) for labels in labelsets]
        fitted = {
            "labelsets_": labelsets,
            "combinations_": np.vstack([combinations for combinations, _ in members]),
            "starts_": np.cumsum([0, *(len(combinations) for combinations, _ in members)]),
        }
        codes = [code for _, code in members]
        if self.estimator is not None:
            return {**fitted, "members_": [self._member(X, code, random) for code in codes]}
        return {**fitted, **self._linear_members(X, codes, fitted["starts_"])}

    def _linear_members(self, X: Any, codes: list[NDArray[np.intp]], starts: NDArray[np.intp]) -> dict[str, Any]:
        """Train a binary classifier for every set of rows that is a class of some member."""
        numbers: dict[bytes, int] = {}
        columns = np.empty(starts[-1], dtype=np.int64)
        rows: list[NDArray[np.intp]] = []
        for code, start in zip(codes, starts, strict=False):
            for k in range(code.max() + 1):
                own = np.flatnonzero(code == k)
                columns[start + k] = numbers.setdefault(own.tobytes(), len(numbers))
                if len(numbers) > len(rows):
                    rows.append(own)
        cells = (np.ones(sum(map(len, rows)), bool), np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
        classes = sp.csc_array(cells, shape=(X.shape[0], len(rows))).tocsr()
        svm = BinaryRelevance(C=self.C, loss="squared_hinge").fit(X, classes)
        return {"columns_": columns, "coef_": svm.coef_, "intercept_": svm.intercept_, "C_": svm.C_}

    def _member(self, X: Any, code: NDArray[np.intp], random: Any) -> Any:
        member = clone(self.estimator)
        if "random_state" in member.get_params():
            member.set_params(random_state=int(random.randint(2**31 - 1)))
        return member.fit(X, code)

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        n_labels = int(np.sum(self.constant_signs_ == 0))
        votes = np.zeros((X.shape[0], n_labels))
        voters = np.bincount(self.labelsets_.ravel(), minlength=n_labels)
        for rows in row_blocks(X.shape[0], len(self.combinations_)):
            for labels, start, code in zip(self.labelsets_, self.starts_, self._codes(X[rows]), strict=False):
                votes[rows, labels] += self.combinations_[start + code]
        return np.asarray(votes / np.maximum(voters, 1) - self.threshold)

    def _codes(self, X: Any) -> Iterator[NDArray[np.intp]]:
        """Classes that the members predict, one member after the other."""
        if self.estimator is not None:
            yield from (member.predict(X) for member in self.members_)
            return
        scores = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)
        for start, stop in pairwise(self.starts_):
            yield scores[:, self.columns_[start:stop]].argmax(axis=1)

    def _varying_rules(self) -> dict[str, Rule]:
        def starts(value: Any, sizes: Sizes) -> None:
            array_of("models+1", 0, LARGEST, "i8")(value, sizes)
            rises = value[0] == 0 and value[-1] == sizes["combinations"] and np.all(value[1:] > value[:-1])
            expect(rises, "must rise from 0 to the number of combinations")

        rules = {
            "labelsets_": array_of("models k", 0, "varying", "i8"),
            "combinations_": array_of("combinations k", 0, 1, "b1"),
            "starts_": starts,
        }
        if self.estimator is not None:
            return {**rules, "members_": lambda value, sizes: None}
        coef, intercept = array_of("classifiers features"), array_of("classifiers")
        columns = array_of("combinations", 0, "classifiers", "i8")
        return {**rules, "coef_": coef, "intercept_": intercept, "columns_": columns, "C_": number(0.0)}

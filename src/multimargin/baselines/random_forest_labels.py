"""A random forest for each label."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from multimargin.baselines._base import VaryingLabelsBaseline

__all__ = ["RandomForestLabels"]


class RandomForestLabels(VaryingLabelsBaseline):
    """Random forests: scikit-learn's ``RandomForestClassifier`` for each label.

    The score of a label is the share its forest gives it, less one half; labels with a positive score are predicted.
    Forests are not kept in model files.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees of a forest.
    max_depth : int or None, default=None
        Largest depth of a tree; None lets it grow.
    min_samples_leaf : int, default=1
        Fewest training rows in a leaf.
    n_jobs : int or None, default=None
        Threads; None is 1 and -1 all cores.
    random_state : int, RandomState or None, default=None
        Which rows and features trees see.

    Attributes
    ----------
    forests_ : list of RandomForestClassifier
        One for each label that is not constant.

    References
    ----------
    L. Breiman. Random forests. Machine Learning 45 (2001). https://doi.org/10.1023/A:1010933404324

    Examples
    --------
    >>> from multimargin.baselines import RandomForestLabels
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Y = [{"low"}, {"low"}, {"low"}, {"high"}, {"high"}, {"high"}]
    >>> RandomForestLabels(random_state=0).fit(X, Y).predict_sets([[0.05], [1.3]])
    [('low',), ('high',)]
    """

    _storable: ClassVar[bool] = False  # its trees are scikit-learn's
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = None,
        min_samples_leaf: int = 1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        random = check_random_state(self.random_state)
        columns = Y.tocsc()
        parameters = {name: value for name, value in self.get_params().items() if name != "random_state"}
        forests = []
        for label in range(Y.shape[1]):
            forest = RandomForestClassifier(random_state=int(random.randint(2**31 - 1)), **parameters)
            forests.append(forest.fit(X, columns[:, [label]].toarray().ravel()))
        return {"forests_": forests}

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        return np.column_stack([forest.predict_proba(X)[:, 1] for forest in self.forests_]) - 0.5

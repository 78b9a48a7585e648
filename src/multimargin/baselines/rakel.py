"""Random k-labelsets."""

from __future__ import annotations

from math import comb
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval

from multimargin.baselines._base import Baseline

__all__ = ["RAkEL"]


class RAkEL(Baseline):
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
    estimator : classifier or None, default=None
        Multi-class classifier of the members; None is a linear SVM.
    random_state : int, RandomState or None, default=None
        Which labelsets are drawn, and the seed of the members.

    Attributes
    ----------
    labelsets_ : list of ndarray
        Columns of the labels of each member.
    members_ : list of tuples
        Classifier of each member, None where there is one combination only, and the combinations, one per class.
    classes_ : ndarray
        Label names; for a 1-D y, its two classes.
    label_names_ : ndarray of shape (n_labels,)
        Label names.
    label_form_ : LabelForm
        The form Y had in training, which predictions take.
    n_features_in_ : int
        Number of features.

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

    _storable: ClassVar[bool] = False  # its members are any scikit-learn classifiers
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "labelset_size": [Interval(Integral, 1, None, closed="left")],
        "n_models": [Interval(Integral, 1, None, closed="left"), None],
        "threshold": [Interval(Real, 0, 1, closed="both")],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        labelset_size: int = 3,
        *,
        n_models: int | None = None,
        threshold: float = 0.5,
        estimator: Any = None,
        random_state: Any = None,
    ):
        self.labelset_size = labelset_size
        self.n_models = n_models
        self.threshold = threshold
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
        labelsets = [np.array(labels) for labels in sorted(drawn)]
        cells = Y.toarray().astype(np.int8)
        members = [self._member(X, cells[:, labels], random) for labels in labelsets]
        return {"labelsets_": labelsets, "members_": members}

    def _member(self, X: Any, Y: NDArray[np.int8], random: Any) -> tuple[Any, NDArray[np.int8]]:
        """Train a classifier of label combinations; there is none if only one combination occurs."""
        combinations, code = np.unique(Y, axis=0, return_inverse=True)
        if len(combinations) == 1:
            return None, combinations
        member = LinearSVC() if self.estimator is None else clone(self.estimator)
        if "random_state" in member.get_params():
            member.set_params(random_state=int(random.randint(2**31 - 1)))
        return member.fit(X, code.ravel()), combinations

    def _scores(self, X: Any) -> NDArray[Any]:
        n_labels = len(self.label_names_)
        votes, voters = np.zeros((X.shape[0], n_labels)), np.zeros(n_labels)
        for labels, (member, combinations) in zip(self.labelsets_, self.members_, strict=True):
            code = np.zeros(X.shape[0], dtype=np.intp) if member is None else member.predict(X)
            votes[:, labels] += combinations[code]
            voters[labels] += 1
        return np.asarray(votes / np.maximum(voters, 1) - self.threshold)

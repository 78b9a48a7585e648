"""Chains of linear classifiers."""

from __future__ import annotations

from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._links import Links, LinkSettings, fit_links
from multimargin.baselines._smooth_losses import SMOOTH_LOSSES
from multimargin.errors import InputError
from multimargin.estimators.cost_scale import C_CONSTRAINTS, cost_of_error
from multimargin.fitted_rules import Rule, Sizes, array_of, expect, number
from multimargin.labels import LabelMatrix

__all__ = ["ClassifierChain"]


class ClassifierChain(VaryingLabelsBaseline):
    r"""Classifier chains: each label from the inputs and all labels before it; several chains vote.

    The classifier of label l minimises

    .. math:: \tfrac12 |w_l|^2 + \tfrac12 |v_l|^2 + C \sum_i \phi\big(s_{il} (w_l^\top x_i + v_l^\top y_{i, <l})\big)

    with the true labels before it in training, :math:`y \in \{0, 1\}`, and the predicted ones in prediction. With
    several chains, a label is predicted if more than half of them predict it, and its score is that share less one
    half.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; ``"scale"`` is one over the mean squared length of the rows.
    loss : {"squared_hinge", "logistic"}, default="squared_hinge"
        The loss of a margin.
    order : "random", sequence of int or None, default=None
        Labels by column, in the order of the chain; None is the order of the columns. Constant labels are left out.
    n_chains : int, default=1
        Number of chains; more than one need ``order="random"``.
    tol : float, default=1e-3
        Relative duality gap at which the training of a classifier stops.
    random_state : int, RandomState or None, default=None
        Which orders are drawn.

    Attributes
    ----------
    orders_ : ndarray of shape (n_chains, n_varying)
        Labels that are not constant, by position among them, in the order of each chain.
    coef_ : ndarray of shape (n_chains, n_varying, n_features)
        Weights of the inputs.
    intercept_ : ndarray of shape (n_chains, n_varying)
        Intercepts.
    label_coef_ : ndarray of shape (n_chains, n_varying, n_varying)
        Row l of a chain: what a label before label l adds to its score.
    link_gap_ : float
        Largest relative duality gap of a classifier.
    C_ : float
        The cost of an error, C or the number that ``"scale"`` stood for.

    References
    ----------
    J. Read, B. Pfahringer, G. Holmes, E. Frank. Classifier chains for multi-label classification. Machine Learning 85
    (2011). https://doi.org/10.1007/s10994-011-5256-5

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import ClassifierChain
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = ClassifierChain(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
        "loss": [StrOptions(set(SMOOTH_LOSSES))],
        "order": [StrOptions({"random"}), "array-like", None],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        loss: str = "squared_hinge",
        order: Any = None,
        n_chains: int = 1,
        tol: float = 1e-3,
        random_state: Any = None,
    ):
        self.C = C
        self.loss = loss
        self.order = order
        self.n_chains = n_chains
        self.tol = tol
        self.random_state = random_state

    def _fit_labels(self, X: Any, labels: LabelMatrix) -> dict[str, Any]:
        if self.order is None or isinstance(self.order, str):
            if self.n_chains > 1 and self.order is None:
                msg = f"n_chains={self.n_chains} chains of the same order are one; give order='random', or one chain."
                raise InputError(msg)
            return super()._fit_labels(X, labels)
        order = np.asarray(self.order)
        if self.n_chains > 1 or order.dtype.kind not in "iu" or sorted(order.tolist()) != list(range(labels.n_labels)):
            msg = (
                f"order must name each of the columns 0 to {labels.n_labels - 1} of Y once, for a single chain; got "
                f"{self.order!r} and n_chains={self.n_chains}."
            )
            raise InputError(msg)
        position = np.cumsum(~labels.constant) - 1
        chain = copy(self)  # the constant labels leave the order, too
        chain.order = position[order[~labels.constant[order]]]
        return super(ClassifierChain, chain)._fit_labels(X, labels)

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        C = cost_of_error(self, X)
        settings = LinkSettings(C, self.loss, self.tol)
        chains = []
        for order in self._orders(Y.shape[1]):
            parents: list[list[int]] = [[] for _ in order]
            for position, label in enumerate(order):
                parents[label] = sorted(order[:position])
            chains.append(fit_links(X, Y, parents, order, settings))
        return {
            "orders_": np.array([links.order for links in chains]),
            "coef_": np.array([links.coef for links in chains]),
            "intercept_": np.array([links.intercept for links in chains]),
            "label_coef_": np.array([links.parents for links in chains]),
            "link_gap_": max(links.gap for links in chains),
            "C_": C,
        }

    def _orders(self, n_labels: int) -> list[list[int]]:
        if self.order is None:
            return [list(range(n_labels))]
        if not isinstance(self.order, str):
            return [list(self.order)]
        random = check_random_state(self.random_state)
        return [random.permutation(n_labels).tolist() for _ in range(self.n_chains)]

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        parts = zip(self.coef_, self.intercept_, self.label_coef_, self.orders_, strict=True)
        scores = [Links(*part).scores(X) for part in parts]
        return scores[0] if len(scores) == 1 else np.mean([part > 0 for part in scores], axis=0) - 0.5

    def _varying_rules(self) -> dict[str, Rule]:
        def orders(value: Any, sizes: Sizes) -> None:
            array_of("chains varying", 0, "varying", "i8")(value, sizes)
            expect(len(value) > 0, "must have a chain")
            expect(np.all(np.diff(np.sort(value, axis=1), axis=1) == 1), "must name every label once")

        return {
            "orders_": orders,
            "coef_": array_of("chains varying features"),
            "intercept_": array_of("chains varying"),
            "label_coef_": array_of("chains varying varying"),
            "link_gap_": number(),
            "C_": number(0.0),
        }

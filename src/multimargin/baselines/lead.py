"""Multi-label learning by exploiting label dependency."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from multimargin.baselines._base import VaryingLabelsBaseline
from multimargin.baselines._inputs import Inputs
from multimargin.baselines._label_network import best_network
from multimargin.baselines._links import Links, LinkSettings, fit_links
from multimargin.baselines._ridge import RidgeProblem
from multimargin.baselines._smooth_losses import SMOOTH_LOSSES
from multimargin.estimators.cost_scale import C_CONSTRAINTS, cost_of_error
from multimargin.fitted_rules import Rule, Sizes, array_of, expect, number

__all__ = ["LEAD"]


class LEAD(VaryingLabelsBaseline):
    r"""LEAD: a Bayesian network of the errors of regressions, then a classifier for each label and its parents.

    1. Each label is regressed on the inputs; :math:`e_{il} = y_{il} - f_l(x_i)` are the errors. What the inputs explain
       is gone from them, so that labels that depend on each other given the inputs have dependent errors.
    2. The network over the errors, taken for jointly normal, with the best Bayesian information criterion:

       .. math:: \sum_l \Big( -\tfrac n2 \log \sigma^2(e_l \mid e_{pa(l)}) - \tfrac{|pa(l)|}2 \log n \Big).

       Up to 20 labels it is the best of all; beyond, arrows are added greedily.
    3. For each label a linear classifier of the inputs and its parents' labels, which minimises

       .. math::

           \tfrac12 |w_l|^2 + \tfrac12 |v_l|^2
           + C \sum_i \phi\big(s_{il} (w_l^\top x_i + r\, v_l^\top y_{i, pa(l)})\big)

       with the squared hinge or the logistic loss and true parents' labels. In prediction they are the predicted ones.

    Networks that differ in the direction of some arrows may score alike; the one with the first order of the labels is
    taken. Labels without parents are predicted as by :class:`BinaryRelevance`.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error, of the classifiers and the regressions; ``"scale"`` is one over the mean squared length of the
        rows.
    max_parents : int, default=3
        Largest number of parents of a label.
    loss : {"squared_hinge", "logistic"}, default="squared_hinge"
        Loss of the classifiers.
    errors : {"ridge", "logistic"}, default="ridge"
        Which regressions leave the errors: ridge regression of the labels, or logistic regression, :math:`y - p`.
    parent_scale : float, default=1.0
        r, the value a parent's label has as an input; larger ones regularise its weight less.
    tol : float, default=1e-3
        Relative duality gap at which the training of a classifier stops.

    Attributes
    ----------
    order_ : ndarray of shape (n_varying,)
        Labels that are not constant, by position among them, parents before children.
    coef_ : ndarray of shape (n_varying, n_features)
        Weights of the inputs.
    intercept_ : ndarray of shape (n_varying,)
        Intercepts.
    parent_coef_ : ndarray of shape (n_varying, n_varying)
        Row l: what a predicted label adds to the score of label l; zero unless it is a parent.
    link_gap_ : float
        Largest relative duality gap of a classifier.
    C_ : float
        The cost of an error, C or the number that ``"scale"`` stood for.

    References
    ----------
    M.-L. Zhang, K. Zhang. Multi-label learning by exploiting label dependency. KDD (2010).
    https://doi.org/10.1145/1835804.1835930

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin.baselines import LEAD
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> model = LEAD(C=10).fit(X, [{"sea"}, {"sun"}, {"sea", "sun"}, set()])
    >>> model.predict_sets([[0.9, 0.1], [1.0, 0.9]])
    [('sun',), ('sea', 'sun')]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": C_CONSTRAINTS,
        "max_parents": [Interval(Integral, 0, None, closed="left")],
        "loss": [StrOptions(set(SMOOTH_LOSSES))],
        "errors": [StrOptions({"ridge", "logistic"})],
        "parent_scale": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float | str = "scale",
        *,
        max_parents: int = 3,
        loss: str = "squared_hinge",
        errors: str = "ridge",
        parent_scale: float = 1.0,
        tol: float = 1e-3,
    ):
        self.C = C
        self.max_parents = max_parents
        self.loss = loss
        self.errors = errors
        self.parent_scale = parent_scale
        self.tol = tol

    def _fit(self, X: Any, Y: sp.csr_array) -> dict[str, Any]:
        C = cost_of_error(self, X)
        order, parents = best_network(self._errors(X, Y, C), int(self.max_parents))
        settings = LinkSettings(C, self.loss, self.tol, self.parent_scale)
        links = fit_links(X, Y, parents, order, settings)
        return {
            "order_": links.order,
            "coef_": links.coef,
            "intercept_": links.intercept,
            "parent_coef_": links.parents,
            "link_gap_": links.gap,
            "C_": C,
        }

    def _errors(self, X: Any, Y: sp.csr_array, C: float) -> NDArray[np.float64]:
        truth = Y.toarray().astype(np.float64)
        if self.errors == "ridge":
            inputs = Inputs(X, 1.0)
            ridge = RidgeProblem(inputs, np.full(len(truth), C), truth)
            return np.asarray(truth - inputs.scores(ridge.solve(1e-6)))
        none: list[list[int]] = [[] for _ in range(Y.shape[1])]
        logistic = fit_links(X, Y, none, range(Y.shape[1]), LinkSettings(C, "logistic", self.tol))
        return np.asarray(truth - expit(logistic.scores(X)))

    def _varying_scores(self, X: Any) -> NDArray[Any]:
        return Links(self.coef_, self.intercept_, self.parent_coef_, self.order_).scores(X)

    def _varying_rules(self) -> dict[str, Rule]:
        def order(value: Any, sizes: Sizes) -> None:
            array_of("varying", 0, "varying", "i8")(value, sizes)
            expect(len(np.unique(value)) == len(value), "must name every label once")

        return {
            "order_": order,
            "coef_": array_of("varying features"),
            "intercept_": array_of("varying"),
            "parent_coef_": array_of("varying varying"),
            "link_gap_": number(),
            "C_": number(0.0),
        }

"""The certificate of a fit, and the check of it that anyone can run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from multimargin._tables import html_table
from multimargin.errors import InputError
from multimargin.estimators.label_rates import fit_for_scores

if TYPE_CHECKING:
    from multimargin.estimators.contract import MultilabelClassifier

__all__ = ["Bounds", "Certificate", "certify"]

# A dual value above the primal one by more than this share of it, or a thousandth of the tolerance, is no rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Bounds:
    """What a certifier computes, in double precision, from the data, a model and dual variables, and nothing else.

    Attributes
    ----------
    primal : float
        Objective of the model; where an oracle was not exact, with its upper bound.
    dual : float or None
        Value of the dual variables, moved into their feasible set; None where there are none.
    oracle_exact : float
        Share of the oracle calls that were proved exact.
    """

    primal: float
    dual: float | None
    oracle_exact: float = 1.0

    def within(self, tol: float) -> bool:
        """Whether the bounds prove a relative gap of at most ``tol``."""
        return self.dual is not None and Certificate.of(self.primal, self.dual, tol).converged


@dataclass(frozen=True)
class Certificate:
    """Proof of how close a solution is to the optimum.

    The numbers are computed after training, in double precision, from the data, the model as it is returned and
    feasible dual variables, not from what the solver kept; :func:`multimargin.certify` computes them again.

    Attributes
    ----------
    primal : float
        Objective of the returned model; an upper bound of the optimum.
    dual : float
        Value of a feasible dual point; a lower bound of the optimum.
    gap : float
        ``primal - dual``.
    relative_gap : float
        ``gap / primal``.
    converged : bool
        Whether ``relative_gap <= tol``; False for numbers that are not finite or a dual value above the primal one.
    oracle_exact : float
        Share of the oracle calls that were proved exact.
    proves : {"gap", "objective"}
        ``"objective"`` where no dual variables were at hand: ``primal`` is the model's objective, and ``dual`` only the
        value 0 that is never above the optimum.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    converged: bool
    oracle_exact: float = 1.0
    proves: Literal["gap", "objective"] = "gap"

    @classmethod
    def of(cls, primal: float, dual: float, tol: float, oracle_exact: float = 1.0) -> Certificate:
        """Certificate of a primal and a dual value."""
        gap = primal - dual
        relative = gap / primal if primal > 0 else abs(gap)
        converged = math.isfinite(primal) and math.isfinite(dual) and -max(ROUNDING, 1e-3 * tol) <= relative <= tol
        return cls(primal, dual, gap, relative, converged, oracle_exact)

    def _repr_html_(self) -> str:
        rows = [[field.name.replace("_", " "), _as_text(getattr(self, field.name))] for field in fields(self)]
        return html_table(rows, head=False)


def _as_text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def certify(model: Any, X: Any, y: Any, sample_weight: Any = None, *, refit: bool = False) -> Certificate:
    """Compute a model's certificate again, from the model and its training data.

    Parameters
    ----------
    model : fitted estimator
        Trained here or loaded from a file.
    X, y, sample_weight
        What the model was trained on, as given to ``fit``.
    refit : bool, default=False
        Whether to train a fresh copy for a lower bound of the optimum, where the model keeps no dual variables.

    Returns
    -------
    Certificate
        ``primal`` is the objective of the model on these data. ``dual`` comes from the dual variables the model keeps
        (kernel models; others after ``warm_start=True``, until they are saved) or, with ``refit``, from those of the
        fresh copy. Without either the objective alone can be checked: ``proves`` is then ``"objective"``.

    Examples
    --------
    >>> import numpy as np
    >>> from multimargin import LinearM3L, certify
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> Y = [{"sea"}, {"sun"}, {"sea", "sun"}, set()]
    >>> model = LinearM3L(C=10, warm_start=True).fit(X, Y)
    >>> certify(model, X, Y) == model.certificate_
    True
    """
    from multimargin.estimators.contract import MultilabelClassifier

    if not isinstance(model, MultilabelClassifier):
        msg = (
            f"certify takes an estimator with a certificate, such as LinearM3L; got {type(model).__name__}. "
            "Give the estimator inside a pipeline or a wrapper, and X as it reaches it."
        )
        raise InputError(msg)
    check_is_fitted(model)
    bounds = _bounds(model, X, y, sample_weight)
    dual = bounds.dual
    if dual is None and refit:
        fresh = clone(model).set_params(callback=None, verbose=0)
        fit_for_scores(fresh, X, y, sample_weight=sample_weight)
        dual = fresh.certificate_.dual
    if dual is None:
        certificate = Certificate.of(bounds.primal, 0.0, model.tol, bounds.oracle_exact)
        return Certificate(**{**vars(certificate), "converged": False, "proves": "objective"})
    return Certificate.of(bounds.primal, dual, model.tol, bounds.oracle_exact)


def _bounds(model: MultilabelClassifier, X: Any, y: Any, sample_weight: Any) -> Bounds:
    problem = model._problem(X, y, sample_weight, reset=False)
    names, trained = problem.labels.names.tolist(), model.label_names_.tolist()
    if names != trained:
        msg = (
            f"certify needs the data the model was trained on: its labels are {_shown(trained)}, those of y are "
            f"{_shown(names)}."
        )
        raise InputError(msg)
    return model._bounds(problem)


def _shown(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

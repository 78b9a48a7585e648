"""Attack the baselines written in Python as estimators.py attacks the estimators.

    python fuzz/baseline_estimators.py --seconds 300 --seed 7
    python fuzz/baseline_estimators.py --seed 7 --first 123 --cases 1       the case 123 of that run again

Where a baseline minimises something, its objective is computed again in plain NumPy, and the lower bound, too, where it
follows from the weights. Those that do not must have finite scores and keep them in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from estimators import Again, Attack, Families, common, main
from problems import Case, random_case
from scipy.optimize import minimize
from scipy.special import logsumexp

from multimargin.baselines import (
    LEAD,
    MMOC,
    PLEM,
    PLST,
    BinaryRelevance,
    BoosTexter,
    ClassifierChain,
    GroupSparseLogLinear,
    KNNLabels,
    LabelPowerset,
    LeastSquaresLabels,
    MLkNN,
    RAkEL,
)

__all__ = ["FAMILIES", "RELAXED"]


def whole_case(rng: np.random.Generator) -> Case:
    """Draw a problem of which all labels are known: all but BinaryRelevance want that."""
    while not (case := random_case(rng, most_rows=30, most_labels=5)).known.all():
        pass
    return case


def options_of(Estimator: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Draw those options common to all estimators that this one has."""
    known = Estimator().get_params()
    return {name: value for name, value in common(rng).items() if name in known}


def with_constant(model: Any, X: np.ndarray) -> np.ndarray:
    """Rows with the constant feature, which is 1 for those that do not choose it and 0 without an intercept."""
    return np.column_stack([X, np.full(len(X), constant_of(model))])


def constant_of(model: Any) -> float:
    """Return the constant feature of a model."""
    return model.intercept_scaling if getattr(model, "fit_intercept", True) else 0.0


def weights_of(model: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Weights with that of the constant feature."""
    bias = constant_of(model)
    return np.column_stack([coef, intercept / bias if bias else np.zeros(len(intercept))]).astype(float)


def _binary_relevance(rng: np.random.Generator) -> Attack:
    case = random_case(rng, cell_weights=True)
    model = BinaryRelevance(
        loss=str(rng.choice(["hinge", "squared_hinge", "logistic"])),
        class_weight=[None, "balanced"][int(rng.integers(2))],
        **options_of(BinaryRelevance, rng),
    )
    return Attack(model, case, _sum_of_losses)


def _sum_of_losses(model: Any, case: Case) -> Again:
    """Losses of margins; for smooth ones the gap is half the squared gradient."""
    varies = ~case.constant
    W = weights_of(model, model.coef_[varies], model.intercept_[varies])
    psi, sign = with_constant(model, case.dense), case.sign[:, varies]
    cost = case.costs(model.C, model.class_weight)[:, varies]
    margin = sign * (psi @ W.T)
    short = np.maximum(0.0, 1.0 - margin)
    loss = {"hinge": short, "squared_hinge": short**2, "logistic": np.logaddexp(0.0, -margin)}[model.loss]
    primal = 0.5 * np.sum(W**2) + np.sum(cost * loss)
    if model.loss == "hinge":
        return Again(primal, None)
    slope = {"squared_hinge": 2.0 * short, "logistic": 1.0 / (1.0 + np.exp(np.minimum(margin, 700.0)))}[model.loss]
    V = (cost * slope * sign).T @ psi
    dual = primal - 0.5 * np.sum((W - V) ** 2)
    return Again(primal, dual, (1e-9 * np.sum(W**2), 1e-9 * (np.sum(W**2) + abs(dual))))


def _least_squares(rng: np.random.Generator) -> Attack:
    def again(model: Any, case: Case) -> Again:
        varies = ~case.constant
        W = weights_of(model, model.coef_[varies], model.intercept_[varies] + 0.5)
        errors = (case.sign[:, varies] > 0) - with_constant(model, case.dense) @ W.T
        return Again(0.5 * np.sum(W**2) + 0.5 * model.C * np.sum(case.row_weight[:, None] * errors**2), None)

    return Attack(LeastSquaresLabels(**options_of(LeastSquaresLabels, rng)), whole_case(rng), again)


def _label_powerset(rng: np.random.Generator) -> Attack:
    def again(model: Any, case: Case) -> Again:
        scores = with_constant(model, case.dense) @ weights_of(model, model.coef_, model.intercept_).T
        own = np.array([np.flatnonzero((model.sets_ == row).all(axis=1))[0] for row in case.sign > 0])
        rows = np.arange(len(own))
        others = scores - scores[rows, own][:, None] + 1.0
        others[rows, own] = 0.0
        norm = np.sum(weights_of(model, model.coef_, model.intercept_) ** 2)
        return Again(0.5 * norm + model.C * case.row_weight @ others.max(axis=1), None)

    return Attack(LabelPowerset(**options_of(LabelPowerset, rng)), whole_case(rng), again)


def _log_linear(rng: np.random.Generator, likelihood: str = "full") -> Attack:
    def again(model: Any, case: Case) -> Again:
        varies = np.flatnonzero(~case.constant)
        if not len(varies):
            return Again(0.0, 0.0)
        psi = with_constant(model, case.dense)
        W = weights_of(model, model.coef_[varies], model.intercept_[varies])
        E = weights_of(model, model.edge_coef_, model.edge_intercept_)
        sets = np.array(list(product([-1.0, 1.0], repeat=len(varies))))
        places = [[int(np.flatnonzero(varies == label)[0]) for label in edge] for edge in model.edges_]

        def characters(signs: np.ndarray) -> np.ndarray:
            pairs = [signs[:, a] * signs[:, b] for a, b in places]
            return np.column_stack([signs, *pairs]) if pairs else signs

        theta, sign = psi @ np.vstack([W, E]).T, case.sign[:, varies]
        own = np.sum(theta * characters(sign), axis=1)
        if likelihood == "full":
            loss = logsumexp(theta @ characters(sets).T, axis=1) - own
        else:
            turned = [sign * np.where(np.arange(len(varies)) == k, -1.0, 1.0) for k in range(len(varies))]
            loss = sum(np.logaddexp(0.0, np.sum(theta * characters(other), axis=1) - own) for other in turned)
        cost = model.C * case.row_weight
        edges = model.edge_penalty * np.sqrt(np.sum(E**2, axis=1)).sum()
        return Again(0.5 * np.sum(W**2) + cost @ loss + cost.sum() * edges, None)

    penalty = 10.0 ** rng.uniform(-4, 0)
    options = options_of(GroupSparseLogLinear, rng)
    model = GroupSparseLogLinear(edge_penalty=penalty, likelihood=likelihood, **options)
    return Attack(model, whole_case(rng), again)


def _output_coding(rng: np.random.Generator, inference: str = "exact") -> Attack:
    def again(model: Any, case: Case) -> Again:
        varies = np.flatnonzero(~case.constant)
        Q, truth = model.metric_[np.ix_(varies, varies)], (case.sign[:, varies] > 0).astype(float)
        psi = np.column_stack([case.dense, np.ones(len(truth))])
        root = np.sqrt(model.regression_C * case.row_weight)[:, None]
        system = np.vstack([root * psi, np.eye(psi.shape[1])])
        target = np.vstack([root * truth, np.zeros((psi.shape[1], len(varies)))])
        predicted = psi @ np.linalg.lstsq(system, target, rcond=None)[0]
        own = predicted - truth
        worst = np.zeros(len(truth))
        for y in product([0.0, 1.0], repeat=len(varies)):
            other = predicted - np.array(y)
            value = np.abs(np.array(y) - truth).sum(axis=1) - np.sum(other @ Q * other, axis=1)
            worst = np.maximum(worst, value + np.sum(own @ Q * own, axis=1))
        if inference == "box" and len(varies):
            inside = [_box_maximum(Q, r, t) for r, t in zip(predicted, truth, strict=True)]
            worst = np.maximum(worst, np.array(inside) + np.sum(own @ Q * own, axis=1))
        primal = 0.5 * np.sum(Q**2) + model.C * case.row_weight @ worst
        return Again(primal, None, ((1e-6 if inference == "exact" else 0.2 * model.tol) * primal, 0.0))

    options = options_of(MMOC, rng)
    options["C"] = 10.0 ** rng.uniform(-4, 2)
    model = MMOC(regression_C=10.0 ** rng.uniform(-3, 3), inference=inference, **options)
    return Attack(model, whole_case(rng), again)


def _box_maximum(Q: np.ndarray, predicted: np.ndarray, truth: np.ndarray) -> float:
    """Return the most that the Hamming distance exceeds the distance of codes by, over the box, by a general solver."""

    def negative(y: np.ndarray) -> tuple[float, np.ndarray]:
        value = (1.0 - 2.0 * truth) @ y + truth.sum() - (predicted - y) @ Q @ (predicted - y)
        return -value, -((1.0 - 2.0 * truth) + 2.0 * Q @ (predicted - y))

    options = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 10_000}
    starts = (1.0 - truth, truth, np.full(len(truth), 0.5))  # its line search may give up at a corner
    inside = [(0.0, 1.0)] * len(truth)
    found = [minimize(negative, y, jac=True, method="L-BFGS-B", bounds=inside, options=options).fun for y in starts]
    return -float(min(found))


def _without_objective(*drawn: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], Attack]:
    def draw(rng: np.random.Generator) -> Attack:
        return Attack(drawn[int(rng.integers(len(drawn)))](rng), whole_case(rng), None)

    return draw


def _cost(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-4, 4))


FAMILIES: Families = {
    "binary-relevance": _binary_relevance,
    "least-squares-labels": _least_squares,
    "label-powerset": _label_powerset,
    "group-sparse-log-linear": _log_linear,
    "mmoc": _output_coding,
    "linked labels": _without_objective(
        lambda rng: LEAD(_cost(rng), max_parents=int(rng.integers(4))),
        lambda rng: PLEM(_cost(rng)),
        lambda rng: ClassifierChain(_cost(rng), random_state=0),
    ),
    "label sets and neighbours": _without_objective(
        lambda rng: RAkEL(int(rng.integers(1, 4)), C=_cost(rng), random_state=0),
        lambda rng: KNNLabels(int(rng.integers(1, 4))),
        lambda rng: MLkNN(int(rng.integers(1, 4))),
        lambda rng: BoosTexter(int(rng.integers(1, 30))),
    ),
    "plst": lambda rng: Attack(PLST(_cost(rng), n_codes=1, conditional=bool(rng.integers(2))), whole_case(rng), None),
}

# Apart, so that case k of the families above stays what it is.
RELAXED: Families = {
    "pseudo-likelihood": lambda rng: _log_linear(rng, "pseudo"),
    "mmoc in the box": lambda rng: _output_coding(rng, "box"),
}

if __name__ == "__main__":
    sys.exit(main({**FAMILIES, **RELAXED}, __doc__))

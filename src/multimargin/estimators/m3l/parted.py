"""Training LinearM3L on parts of the rows that a fleet holds: from their descriptions to a fitted estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from multimargin.errors import InputError
from multimargin.estimators.contract import Model, warn_constant
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.m3l.parts import BlockFacts, Plan, make_plan
from multimargin.estimators.m3l.rounds import LOCAL_PASSES_OF_DENSE_ROWS, Fleet, HeldBackRounds, Limits, RoundsResult
from multimargin.estimators.monitor import Monitor
from multimargin.weights import CellCosts

__all__ = ["local_passes", "train_on_parts"]


def train_on_parts(model: LinearM3L, fleet: Fleet, passes: int | None = None) -> None:
    """Fit an estimator on the rows of a fleet, which is closed at the end, whatever happens.

    Parameters
    ----------
    model : LinearM3L
        Its parameters count, and it is written to in the end.
    fleet : Fleet
    passes : int, optional
        Passes of a part over its rows in a round; by default :func:`local_passes`.
    """
    try:
        model._validate_params()
        if model.warm_start:
            msg = "warm_start=True needs the dual variables of the last fit, which parts do not keep. Set it to False."
            raise InputError(msg)
        facts = fleet.describe()
        plan = make_plan(model, facts)
        if plan.constant.any():
            warn_constant(plan.labels, plan.constant)
        monitor = Monitor(model.callback, int(model.verbose), type(model).__name__)
        limits = Limits(
            tol=float(model.tol),
            max_iter=int(model.max_iter),
            time_limit=model.time_limit,
            seed=int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max)),
            passes=passes or local_passes(facts),
        )
        squares, counts = fleet.open(plan)
        found = HeldBackRounds(plan, fleet, squares, counts, limits, monitor).run()
    finally:
        fleet.close()
    _write(model, plan, found, monitor)


def local_passes(facts: Sequence[BlockFacts]) -> int:
    """Return the passes of a part in a round: several pay where rows are dense and many beside the features."""
    entries, cells = (sum(of) for of in zip(*((f.n_entries, f.n_rows * f.n_features) for f in facts), strict=True))
    few = facts[0].n_features <= max(f.n_rows for f in facts) / 4
    return LOCAL_PASSES_OF_DENSE_ROWS if few and entries > 0.5 * cells else 1


def _write(model: LinearM3L, plan: Plan, found: RoundsResult, monitor: Monitor) -> None:
    weights = found.weights
    fitted: dict[str, Any] = {
        "coef_": np.ascontiguousarray(weights[:, :-1]),
        "intercept_": np.ascontiguousarray(weights[:, -1]),
    }
    none = CellCosts(np.empty(0), plan.positive, plan.negative, None)
    problem = plan.problem(np.empty((0, plan.n_features), plan.dtype), plan.labels, none)
    result = Model(fitted, found.bounds, found.rounds, found.status)
    model._write(model._attributes(problem, result, monitor), result, problem)
    model._warn_unless_converged(result)

"""Training LinearM3L on parts of the rows that a fleet holds: from their descriptions to a fitted estimator."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import chdtrc
from sklearn.utils import check_random_state

from multimargin.errors import InputError
from multimargin.estimators.contract import Model, Status, warn_constant
from multimargin.estimators.m3l.blocks import BlockFacts
from multimargin.estimators.m3l.linear import LinearM3L
from multimargin.estimators.m3l.newton_rounds import NewtonFleet, NewtonRounds, newton_pays
from multimargin.estimators.m3l.plans import Plan, make_plan
from multimargin.estimators.m3l.rounds import LOCAL_PASSES_OF_DENSE_ROWS, Fleet, HeldBackRounds, Limits, RoundsResult
from multimargin.estimators.monitor import ForecastMonitor, Monitor
from multimargin.weights import CellCosts

__all__ = ["local_passes", "open_rounds", "train_on_parts", "warn_unless_alike"]

# Of the test whether parts are alike: rows of a label to expect in a part, and the probability that says they are not.
LEAST_EXPECTED, UNLIKELY = 5, 1e-6


def train_on_parts(
    model: LinearM3L,
    fleet: Fleet,
    passes: int | None = None,
    newton: bool | None = None,
    monitor: ForecastMonitor | None = None,
) -> None:
    """Fit an estimator on the rows of a fleet, which is closed at the end, whatever happens.

    Parameters
    ----------
    model : LinearM3L
        Its parameters count, and it is written to in the end.
    fleet : Fleet
    passes : int, optional
        Passes of a part over its rows in a round; by default :func:`local_passes`.
    newton : bool, optional
        Whether to train in Newton rounds; by default where they pay and ``passes`` are not given.
    monitor : ForecastMonitor, optional
        Since when time counts, and who is told; by default since now.
    """
    try:
        model._validate_params()
        monitor = monitor or ForecastMonitor(model.callback, int(model.verbose), type(model).__name__, tol=model.tol)
        monitor.unit = "round" if fleet.at_once else "pass"
        if model.warm_start:
            msg = "warm_start=True needs the dual variables of the last fit, which parts do not keep. Set it to False."
            raise InputError(msg)
        if model.prune is not None:
            msg = f"prune must be None where rows come in parts; got {model.prune!r}. Zero small weights after."
            raise InputError(msg)
        facts = fleet.describe()
        plan = make_plan(model, facts)
        if plan.constant.any():
            warn_constant(plan.labels, plan.constant)
        warn_unless_alike(facts, plan)
        limits = Limits(
            tol=float(model.tol),
            max_iter=int(model.max_iter),
            time_limit=model.time_limit,
            seed=int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max)),
            passes=passes or local_passes(plan, facts, len(facts)),
        )
        if newton is None:
            newton = passes is None and isinstance(fleet, NewtonFleet) and newton_pays(plan, facts, len(facts))
        plan = replace(plan, newton=newton)
        if model.verbose and newton:
            sys.stderr.write(f"{type(model).__name__}: Newton rounds, for there are {plan.n_features} features\n")
        found = open_rounds(plan, fleet, limits, monitor).run()
        if found.status == Status.imprecise and found.rounds < limits.max_iter:
            plan, limits = replace(plan, dtype=np.dtype(np.float64)), replace(limits, rounds=found.rounds)
            found = open_rounds(plan, fleet, limits, monitor).run()
    finally:
        fleet.close()
    _write(model, plan, found, monitor)


def open_rounds(plan: Plan, fleet: Fleet, limits: Limits, monitor: Monitor) -> HeldBackRounds | NewtonRounds:
    """Open the fleet and return who drives it: with ``plan.newton`` in Newton rounds, else in held-back ones."""
    squares, counts = fleet.open(plan)
    if plan.newton and isinstance(fleet, NewtonFleet):
        return NewtonRounds(plan, fleet, limits, monitor)
    return HeldBackRounds(plan, fleet, squares, counts, limits, monitor)


def warn_unless_alike(facts: Sequence[BlockFacts], plan: Plan) -> None:
    """Warn where label frequencies of the parts differ by more than chance: a chi-square test for every label."""
    rows = np.array([one.n_rows for one in facts], dtype=np.float64)
    place = {name: j for j, name in enumerate(plan.labels.names.tolist())}
    found = np.zeros((len(facts), plan.labels.n_labels))
    for k, one in enumerate(facts):
        if plan.labels.form.kind != "column":
            found[k, [place[name] for name in one.names.tolist()]] = one.positive
    expected = np.outer(rows / rows.sum(), found.sum(axis=0))
    tested = expected.min(axis=0) >= LEAST_EXPECTED
    if len(facts) < 2 or not tested.any():
        return
    statistic = (np.square(found - expected)[:, tested] / expected[:, tested]).sum(axis=0)
    chance = chdtrc(len(facts) - 1, statistic.max()) * tested.sum()
    if chance < UNLIKELY:
        worst = plan.labels.names[tested].tolist()[int(np.argmax(statistic))]
        warnings.warn(
            f"The parts are not alike: the frequency of label {worst!r} differs between them by more than chance "
            f"(probability {chance:.0e}), and training takes more passes. Shuffle the rows over the parts.",
            stacklevel=4,
        )


def local_passes(plan: Plan, facts: Sequence[BlockFacts], n_parts: int) -> int:
    """Return the passes of a part in a round: several pay where rows are dense and many beside the features.

    How rows are cut into blocks must not matter, only how many parts are made of them.
    """
    few = plan.n_features <= plan.n_rows / n_parts / 4
    dense = sum(one.n_entries for one in facts) > 0.5 * plan.n_rows * plan.n_features
    return LOCAL_PASSES_OF_DENSE_ROWS if few and dense else 1


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

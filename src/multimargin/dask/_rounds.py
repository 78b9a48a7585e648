"""Layouts in which each worker holds a part of the rows: rounds over the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.dask._crew import Crew, Load
from multimargin.dask._facts import Facts, is_recipe, local_model
from multimargin.dask._fleet import DaskFleet
from multimargin.dask._layout import Layout, row_parts
from multimargin.dask._whole_rows import Told
from multimargin.estimators import LinearM3L
from multimargin.estimators.contract import Model, Monitor, Status, WarmStart
from multimargin.estimators.m3l.blocks import Block
from multimargin.estimators.m3l.newton_rounds import NewtonRounds
from multimargin.estimators.m3l.parted import local_passes, open_rounds, warn_unless_alike
from multimargin.estimators.m3l.plans import Plan, make_plan
from multimargin.estimators.m3l.rounds import HeldBackRounds, Limits
from multimargin.labels import LabelMatrix
from multimargin.priors import made_prior

__all__ = ["fit_in_rounds"]


def fit_in_rounds(
    crew: Crew, facts: Facts, model: Any, layout: Layout, seed: int, last: WarmStart | None, monitor: Monitor
) -> tuple[Told, Model]:
    """Train all parts together; ``model`` is the estimator on the cluster, whose parameters count."""
    plan = _with_prior(crew, facts, model) if is_recipe(model.prior) else facts.plan
    plan = replace(plan, newton=layout.newton)
    warn_unless_alike(facts.blocks, plan)
    limits = Limits(
        tol=float(model.tol),
        max_iter=int(model.max_iter),
        time_limit=model.time_limit,
        seed=seed,
        passes=local_passes(plan, facts.blocks, layout.rows)
        if model.local_passes == "auto"
        else int(model.local_passes),
    )
    beta = None if last is None else last.state["beta"] * (plan.C / last.C)
    fleet = DaskFleet(crew, facts, layout, model.n_jobs, beta, model.elastic)
    rounds = _opened(plan, fleet, limits, monitor)
    found = rounds.run()
    if found.status == Status.imprecise and found.rounds < limits.max_iter:
        plan, limits = replace(plan, dtype=np.dtype(np.float64)), replace(limits, rounds=found.rounds)
        rounds = _opened(plan, fleet, limits, monitor)
        found = rounds.run()
    fitted = {
        "coef_": np.ascontiguousarray(found.weights[:, :-1]),
        "intercept_": np.ascontiguousarray(found.weights[:, -1]),
    }
    state = None
    if model.warm_start:
        state = {"beta": fleet.betas(rounds.committed, rounds.theta), "newton": False}
    told = Told(plan.constant, plan.prior, plan.dtype, plan.C)
    return told, Model(fitted, found.bounds, found.rounds, found.status, state)


def _opened(plan: Plan, fleet: DaskFleet, limits: Limits, monitor: Monitor) -> HeldBackRounds | NewtonRounds:
    """Open the fleet and return who drives it, from the dual variables that its parts begin with."""
    rounds = open_rounds(plan, fleet, limits, monitor)
    if fleet.beta is not None:
        rounds.start(fleet.sum(0, None, np.zeros((plan.labels.n_labels, plan.n_features + 1))))
    return rounds


def _with_prior(crew: Crew, facts: Facts, model: LinearM3L) -> Plan:
    """Make the prior from the labels of all rows, which are brought here for it."""
    crew.plan([Load((cut,), only_labels) for cut in row_parts(facts.rows, 1)[0]])
    crew.load()
    positives = sp.csr_matrix(sp.vstack([positives for positives, _ in crew.told]), dtype=np.float64)
    unknown = [missing for _, missing in crew.told]
    if any(missing is not None for missing in unknown):
        shapes = [positive.shape for positive, _ in crew.told]
        rows = [sp.csr_array(s) if m is None else m for m, s in zip(unknown, shapes, strict=True)]
        positives = positives + sp.csr_matrix(sp.vstack(rows), dtype=np.float64) * np.nan
    plan = make_plan(local_model(model, made_prior(model.prior, positives)), facts.blocks)
    return replace(plan, labels=facts.plan.labels)


def only_labels(rows: Block) -> tuple[None, tuple[Any, Any]]:
    """Return the labels of a block; runs on a worker."""
    labels: LabelMatrix = rows.y
    return None, (labels.positives, labels.missing)

"""Labels trained in blocks within a limit of memory, and weights pruned: models of tens of thousands of labels.

Without a prior the problem is a sum of one problem per label. A block of labels is trained by the ordinary solver as if
there were no others, to the bits of a fit of these labels alone (blocks begin at multiples of the SIMD width, so that
labels keep their neighbours), and its weights are pruned before the next one begins. Each block ends at a gap of at
most tol times its own objective; objectives and lower bounds add up, and so the whole is within tol. The primal value
is that of the weights as they are returned: the certifier computes it again for those that were pruned. Labels that
time did not reach have weights 0, whose objective, the sum of their costs times margins, is added, and the bound 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._core import Status
from multimargin._memory import shown_bytes
from multimargin._tables import html_table
from multimargin.errors import InputError
from multimargin.estimators.certificate import Bounds, Certificate
from multimargin.estimators.contract import Model
from multimargin.estimators.m3l.base import M3LTask
from multimargin.estimators.m3l.linear_problem import linear_problem
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.native_scores import dense_weights

__all__ = ["Found", "Pruning", "bounds_in_blocks", "bytes_per_label", "check_room", "labels_of", "solve_in_blocks"]

LANES = 8
"""Labels of a SIMD register in single precision; a multiple of those in double."""
CELLS_AT_ONCE = 2**20
LABELS_AT_ONCE = 256
CERTIFIED_BYTES = 2**28
NEWTON_NUMBERS_A_CELL = 6
"""What a Newton finish keeps of a row and label."""


@dataclass(frozen=True)
class Pruning:
    """What pruning has left of the weights, and what it has cost.

    Attributes
    ----------
    threshold : float
        Weights smaller than this in absolute value were set to 0.
    kept, weights : int
        How many weights are left, of how many; intercepts are not among them.
    objective_before, objective_after : float
        Objective of the weights as they were trained, and as they are; the latter is ``certificate_.primal``.
    """

    threshold: float
    kept: int
    weights: int
    objective_before: float
    objective_after: float

    @property
    def loss(self) -> float:
        """Share by which the objective has risen."""
        rise = self.objective_after - self.objective_before
        return rise / self.objective_before if self.objective_before > 0 else rise

    def told(self, certificate: Certificate, tol: float) -> str:
        """Say why weights that were trained to the end are not within tol of the optimum any more."""
        trained = Certificate.of(self.objective_before, certificate.dual, tol).relative_gap
        return (
            f"LinearM3L was trained to a relative duality gap of {trained:.2e} <= tol {tol:.2e}, and pruned: of "
            f"{self.weights} weights the {self.kept} from prune={self.threshold:g} on are left, and the objective rose "
            f"from {self.objective_before:.6g} to {self.objective_after:.6g}, by {self.loss:.2%}. certificate_ is that "
            f"of the pruned weights, with a relative gap of {certificate.relative_gap:.2e}. Lower prune to lose less; "
            "longer training would change nothing."
        )

    def _repr_html_(self) -> str:
        rows = [
            ["weights kept", f"{self.kept} of {self.weights}, those of {self.threshold:g} or more"],
            ["objective before", f"{self.objective_before:.6g}"],
            ["objective after", f"{self.objective_after:.6g}"],
        ]
        return html_table(rows, head=False)


@dataclass(frozen=True)
class Found:
    """What the native solver found for some labels: weights of shape (n_labels, n_features + 1), intercepts last.

    They have the precision the solver worked in, which may be less than that of the rows.
    """

    weights: NDArray[Any]
    primal: float
    dual: float
    passes: int
    status: Status
    state: Any


def solve_in_blocks(
    task: M3LTask,
    solve: Callable[[M3LTask, Monitor], Found],
    monitor: Monitor,
    *,
    bias: float,
    limit: int | None,
    prune: float | None,
    time_limit: float | None,
) -> Model:
    """Train block by block, with the constant feature ``bias``; ``solve`` trains some labels."""
    problem = task.problem
    n_labels, n_features = problem.labels.n_labels, problem.X.shape[1]
    untrained = np.zeros(n_labels) if limit is None else _objective_of_zero(task)
    shape, dtype = (n_labels, n_features), problem.dtype
    kept: _Dense | _Pruned = _Dense(shape, dtype) if prune is None else _Pruned(shape, dtype, prune)
    primal = before = dual = 0.0
    passes, first, status, found = 0, 0, Status.converged, None
    while first < n_labels:
        if first and monitor.time_left(time_limit) == 0:
            status = Status.time_limit
        if status in (Status.time_limit, Status.stopped):
            break
        block = slice(first, first + _next_size(task, n_labels - first, limit, kept.nbytes))
        part = labels_of(task, block)
        rest = float(untrained[block.stop :].sum())
        found = solve(part, _BlockMonitor(monitor, block, n_labels, passes, primal + rest, dual))
        before += found.primal
        weights = found.weights
        if kept.take(block, weights):
            primal += _primal(part, weights, bias)
        else:
            primal += found.primal
        dual += found.dual
        passes += found.passes
        if found.status != Status.converged:
            status = found.status
        first = block.stop
    rest = float(untrained[first:].sum())
    fitted = kept.attributes()
    if prune is not None:
        n_kept = fitted["coef_"].nnz
        fitted["pruning_"] = Pruning(float(prune), n_kept, n_labels * n_features, before + rest, primal + rest)
    state = found.state if found is not None and len(found.weights) == n_labels else None
    return Model(fitted, Bounds(primal + rest, dual), passes, status, state)


def bounds_in_blocks(task: M3LTask, coef: Any, intercept: NDArray[Any], bias: float, beta: Any) -> Bounds:
    """Certify these weights, a block of labels at a time; ``beta`` are dual variables or None."""
    size = _whole_lanes(CERTIFIED_BYTES // (8 * (task.problem.X.shape[1] + 1)))
    primal = dual = 0.0
    for first in range(0, len(intercept), size):
        block = slice(first, min(first + size, len(intercept)))
        part = labels_of(task, block)
        weights = np.column_stack([dense_weights(coef[block]), intercept[block]]).astype(np.float64)
        weights[part.problem.constant] = 0.0
        values = None if beta is None else np.ascontiguousarray(beta[:, block], dtype=np.float64)
        found = _core.certify_linear_m3l(linear_problem(part, bias), weights, values, task.problem.n_jobs)
        primal, dual = primal + found[0], dual + found[1]
    return Bounds(primal, None if beta is None else dual)


def labels_of(task: M3LTask, block: slice) -> M3LTask:
    """Return the problem of some of the labels, without a copy of the rows."""
    problem, margins, labels, costs = task.problem, task.margins, task.problem.labels, task.problem.costs
    if block.start == 0 and block.stop >= labels.n_labels:
        return task
    missing = None if labels.missing is None else labels.missing[:, block]
    return M3LTask(
        problem=replace(
            problem,
            labels=replace(
                labels,
                positives=labels.positives[:, block],
                missing=missing if missing is not None and missing.nnz else None,
                names=labels.names[block],
                values=labels.values[block],
            ),
            costs=replace(
                costs,
                positive=costs.positive[block],
                negative=costs.negative[block],
                cells=_columns(costs.cells, block),
            ),
            constant=problem.constant[block],
        ),
        margins=replace(
            margins,
            positive=margins.positive[block],
            negative=margins.negative[block],
            cells=_columns(margins.cells, block),
        ),
    )


def check_room(task: M3LTask, limit: int, *, pruned: bool) -> None:
    """Refuse a limit in which the weights, unless they are pruned, and the smallest block do not fit."""
    problem = task.problem
    n_labels, n_features = problem.labels.n_labels, problem.X.shape[1]
    model = 0 if pruned else n_labels * n_features * 8
    need = model + _bytes_at_rest(task) + min(LANES, n_labels) * _bytes_per_label(task)
    if need <= limit:
        return
    remedy = "" if pruned or not model else f", {shown_bytes(model)} of them for the weights: prune them (prune=0.01)"
    msg = (
        f"memory_limit is {shown_bytes(limit)}, but training {n_labels} labels on {problem.X.shape[0]} rows and "
        f"{n_features} features takes at least {shown_bytes(need)}{remedy}, or raise memory_limit."
    )
    raise InputError(msg)


def _next_size(task: M3LTask, left: int, limit: int | None, taken: float) -> int:
    """Labels of the next block: of those left as many as fit, in blocks of about one size."""
    if limit is None:
        return left
    room = limit - taken - _bytes_at_rest(task)
    most = _whole_lanes(int(room // _bytes_per_label(task)))
    if most * _bytes_per_label(task) > room and most < left:
        msg = (
            f"memory_limit is {shown_bytes(limit)}, of which the pruned weights take {shown_bytes(taken)} with {left} "
            "labels still to train. Raise prune, or memory_limit."
        )
        raise InputError(msg)
    blocks = -(-left // most)
    return min(left, -(-left // (blocks * LANES)) * LANES)


def _whole_lanes(labels: int) -> int:
    return max(LANES, labels // LANES * LANES)


def _bytes_per_label(task: M3LTask) -> float:
    of_cells = task.problem.costs.cells is not None or task.margins.cells is not None
    return bytes_per_label(*task.problem.X.shape, single=task.problem.dtype == np.float32, of_cells=of_cells)


def bytes_per_label(n_rows: int, n_features: int, *, single: bool, of_cells: bool) -> float:
    """Memory to train a label: state, its centre, weights and dual variables; in double, should it need that."""
    row = 8 + (4 if single else 0) + 0.5
    if _core.newton_may_serve(n_rows, n_features):
        row += NEWTON_NUMBERS_A_CELL * 8
    if of_cells:
        row += 24
    return float(24 * (n_features + 1) + row * n_rows)


def _bytes_at_rest(task: M3LTask) -> float:
    """Memory that does not grow with the block: what the certifier keeps of 32 labels on each thread, and the rows."""
    n, columns = task.problem.X.shape[0], task.problem.X.shape[1] + 1
    return float(task.problem.n_jobs * 16 * 32 * columns + 32 * n + 16 * CELLS_AT_ONCE)


def _objective_of_zero(task: M3LTask) -> NDArray[np.float64]:
    """Cost times margin, summed over the known cells of each label: the objective of weights 0."""
    problem, margins = task.problem, task.margins
    labels, costs = problem.labels, problem.costs
    if costs.cells is None and margins.cells is None:
        present = labels.positives.T @ costs.row
        unknown = 0.0 if labels.missing is None else labels.missing.T @ costs.row
        absent = costs.row.sum() - unknown - present
        return np.asarray(present * costs.positive * margins.positive + absent * costs.negative * margins.negative)
    objective = np.empty(labels.n_labels)
    for first in range(0, labels.n_labels, LABELS_AT_ONCE):
        block = slice(first, min(first + LABELS_AT_ONCE, labels.n_labels))
        part = labels_of(task, block)
        some, cost = part.problem.labels, part.problem.costs
        present = some.positives.toarray()
        cells = cost.row[:, None] * np.where(present, cost.positive, cost.negative)
        cells *= part.margins.of(slice(None), present)
        if cost.cells is not None:
            cells *= cost.cells
        if some.missing is not None:
            cells[some.missing.toarray()] = 0.0
        objective[block] = cells.sum(axis=0)
    return objective


def _primal(task: M3LTask, weights: NDArray[Any], bias: float) -> float:
    native = linear_problem(task, bias)
    return _core.certify_linear_m3l(native, weights.astype(np.float64), None, task.problem.n_jobs)[0]


def _columns(cells: NDArray[Any] | None, block: slice) -> NDArray[Any] | None:
    return None if cells is None else np.ascontiguousarray(cells[:, block])


class _BlockMonitor(Monitor):
    """Tells of a block as of the whole: its bounds with those of the other labels, its passes after theirs."""

    def __init__(self, whole: Monitor, block: slice, n_labels: int, passes: int, primal: float, dual: float) -> None:
        super().__init__(whole.callback, whole.verbose, whole.name)
        self._start = whole._start
        self._whole, self._passes, self._primal, self._dual = whole, passes, primal, dual
        self._labels = "" if block == slice(0, n_labels) else f" labels {block.start + 1}-{block.stop} of {n_labels}"

    def __call__(
        self, pass_: int, time: float, primal: float | None, dual: float | None, iterate: tuple[Any, ...] | None = None
    ) -> bool:
        name, self._whole.name = self._whole.name, self._whole.name + self._labels
        try:
            evaluated = primal is not None and dual is not None
            bounds = (self._primal + primal, self._dual + dual) if evaluated else (None, None)  # type: ignore[operator]
            return self._whole(self._passes + pass_, time, *bounds)
        finally:
            self._whole.name = name


class _Dense:
    """Weights of all labels, as they are."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = shape, dtype
        self._coef: NDArray[Any] | None = None
        self._intercept = np.empty(0)

    @property
    def nbytes(self) -> float:
        """Memory that will be taken in the end."""
        return float(np.prod(self._shape)) * (8 if self._coef is None else self._coef.itemsize)

    def take(self, block: slice, weights: NDArray[Any]) -> bool:
        """Keep the weights of a block; False: as they are."""
        dtype = np.result_type(self._dtype, weights)
        if self._coef is None or self._coef.dtype != dtype:
            done, rest = slice(0, block.start), slice(block.stop, None)
            coef, intercept = np.empty(self._shape, dtype), np.zeros(self._shape[0], dtype)
            if self._coef is not None:
                coef[done], intercept[done] = self._coef[done], self._intercept[done]
            coef[rest] = 0
            self._coef, self._intercept, self._dtype = coef, intercept, dtype
        self._coef[block], self._intercept[block] = weights[:, :-1], weights[:, -1]
        return False

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        return {"coef_": self._coef, "intercept_": self._intercept}


class _Pruned:
    """Weights of all labels in CSR, without those that are smaller than a threshold."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any], threshold: float) -> None:
        self._shape, self._dtype, self._threshold = shape, dtype, np.float64(threshold)
        self._data: list[NDArray[Any]] = []
        self._indices: list[NDArray[np.int32]] = []
        self._counts = np.zeros(shape[0], dtype=np.int64)
        self._intercepts: list[NDArray[Any]] = []

    @property
    def nbytes(self) -> float:
        """Memory taken, and as much again: arrays are made one in the end, and predictions take a copy of them."""
        return 2.0 * sum(part.nbytes for parts in (self._data, self._indices) for part in parts)

    def take(self, block: slice, weights: NDArray[Any]) -> bool:
        """Set small weights to 0, in place, and keep the others; return whether there were small ones."""
        pruned, dtype = False, np.result_type(self._dtype, weights)
        step = max(1, CELLS_AT_ONCE // max(1, self._shape[1]))
        for first in range(0, len(weights), step):
            part = weights[first : first + step, :-1]
            keep = (np.abs(part) >= self._threshold) & (part != 0)
            dropped = ~keep & (part != 0)
            if dropped.any():
                part[dropped] = 0
                pruned = True
            at = block.start + first
            self._counts[at : at + len(part)] = keep.sum(axis=1)
            self._indices.append(np.nonzero(keep)[1].astype(np.int32))
            self._data.append(part[keep].astype(dtype, copy=False))
        self._intercepts.append(weights[:, -1].astype(dtype))
        return pruned

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        data, self._data = np.concatenate(self._data), []
        indices, self._indices = np.concatenate(self._indices), []
        offsets = np.concatenate([[0], np.cumsum(self._counts)])
        if offsets[-1] <= np.iinfo(np.int32).max:
            offsets = offsets.astype(np.int32)
        intercept = np.zeros(self._shape[0], dtype=data.dtype)
        known = np.concatenate(self._intercepts)
        intercept[: len(known)] = known
        return {"coef_": sp.csr_array((data, indices, offsets), shape=self._shape), "intercept_": intercept}

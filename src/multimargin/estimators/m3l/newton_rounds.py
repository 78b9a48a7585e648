r"""Newton rounds over parts of the rows, for few features and R = I: the driver's arithmetic.

The method of core/m3l/newton.hpp with its systems formed. Around the parts' dual variables :math:`\beta_k`, the centre,
phi(U) = :math:`\tfrac12 |U|^2` + the smoothed losses is minimised label by label; :math:`\beta(z)` are the dual
variables that its slope at the scores z = X U gives. An iteration is three rounds, each a sum over all rows:

- ``"value"`` at U: :math:`V = X^\top \beta(z)`, losses. Any U is a primal point; the best one of every label is kept.
  From the centre to :math:`\beta(z)` the dual is a parabola, of which the driver takes the best
  :math:`\theta \in [0, 1]`. Where it is above 1/2 the centre moves, and tau, by which losses are smoothed, falls.
- ``"system"``: V and :math:`H_l = \sum c\, x_i x_i^\top` over the cells strictly inside their box, about the centre as
  moved. The driver solves :math:`(I + H_l / \tau_l)\, d_l = V_l - U_l`.
- ``"search"``: the smoothed losses at U + a d for some lengths a, of which every label takes the best one.

The number of rounds depends neither on how the rows are cut nor on how many parts there are.

The running values decide when to look; what is published is summed afresh by the parts (:meth:`Fleet.sum`), with the
dual variables moved to the best points of the parabolas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from multimargin._core import Status
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.m3l.blocks import BlockFacts
from multimargin.estimators.m3l.parts import Part
from multimargin.estimators.m3l.plans import Plan
from multimargin.estimators.m3l.rounds import Fleet, FleetSums, Limits, RoundsResult, StateForms
from multimargin.estimators.monitor import Monitor
from multimargin.weights import cell_margins

__all__ = [
    "NewtonAnswer",
    "NewtonFleet",
    "NewtonOrder",
    "NewtonRounds",
    "NewtonTotals",
    "newton_bytes",
    "newton_part",
    "newton_pays",
]

MOST_FEATURES = 500
ROWS_PER_FEATURE = 4
DENSE = 0.5
MOST_BYTES_OF_A_PART, MOST_BYTES_OF_ALL = 2**28, 2**30
FIRST_TAU, USUAL_TAU, LEAST_TAU = 0.5, 0.1, 1e-8  # shares of the margin
LENGTHS: Array = np.ldexp(2.0, np.arange(0, -8, -1))
SHORTER = 1 / 64
MOVES = 0.5
REST = 0.3
MOST_IDLE = 15

Array = NDArray[np.float64]


def newton_pays(plan: Plan, facts: Sequence[BlockFacts], n_parts: int) -> bool:
    """Whether the problem is one for Newton rounds: no prior, few features, dense rows, and many of them."""
    of_part = newton_bytes(plan)
    return (
        plan.prior is None
        and plan.n_features <= min(MOST_FEATURES, plan.n_rows / ROWS_PER_FEATURE)
        and sum(one.n_entries for one in facts) > DENSE * plan.n_rows * plan.n_features
        and of_part <= MOST_BYTES_OF_A_PART
        and n_parts * of_part <= MOST_BYTES_OF_ALL
    )


def newton_bytes(plan: Plan) -> int:
    """Bytes of the systems of all labels, as a part sends them."""
    return int(_packed(plan.n_features + 1) * plan.labels.n_labels * plan.dtype.itemsize)


def _packed(n: int) -> int:
    return n * (n + 1) // 2


def _nothing() -> Array:
    return np.empty((0, 0))


@dataclass(frozen=True)
class NewtonOrder:
    """What the driver asks of all parts in a round.

    Attributes
    ----------
    ask : {"value", "system", "search"}
    number, committed : int
    theta : ndarray of shape (n_labels,) or None
        As of :class:`~multimargin.estimators.m3l.rounds.RoundOrder`; only a ``"value"`` leaves a change to settle.
    U : ndarray of shape (n_features + 1, n_labels)
    tau : ndarray of shape (n_labels,)
    marked : ndarray of shape (n_labels,)
        Labels whose systems are wanted.
    direction : ndarray of shape (n_features + 1, n_labels)
        To search along.
    """

    ask: str
    number: int
    committed: int
    theta: Array | None
    U: Array
    tau: Array
    marked: NDArray[np.bool_]
    direction: Array | None = None

    def of(self, labels: slice) -> NewtonOrder:
        """Return what is asked of some of the labels."""
        if labels == slice(0, len(self.tau)):
            return self
        return replace(
            self,
            theta=None if self.theta is None else np.ascontiguousarray(self.theta[labels]),
            U=np.ascontiguousarray(self.U[:, labels]),
            tau=np.ascontiguousarray(self.tau[labels]),
            marked=np.ascontiguousarray(self.marked[labels]),
            direction=None if self.direction is None else np.ascontiguousarray(self.direction[:, labels]),
        )


@dataclass(frozen=True)
class NewtonAnswer:
    """Sums over rows; what was not asked for is empty.

    Attributes
    ----------
    V : ndarray of shape (n_features + 1, n_labels)
    linear, hinge : ndarray of shape (n_labels,)
        Of a ``"value"`` and a ``"system"``.
    H : ndarray of shape (n_marked, (n_features + 1) (n_features + 2) / 2)
        Of a ``"system"``: upper triangles, row by row.
    losses : ndarray of shape (n_lengths, n_labels)
        Of a ``"search"``: by how much the smoothed losses change.
    """

    V: NDArray[Any] = field(default_factory=_nothing)
    linear: Array = field(default_factory=_nothing)
    hinge: Array = field(default_factory=_nothing)
    H: NDArray[Any] = field(default_factory=_nothing)
    losses: Array = field(default_factory=_nothing)


def newton_part(part: Part, order: NewtonOrder) -> NewtonAnswer | None:
    """Settle a part and do what is asked; None where it has missed a round."""
    if not part.settle(order.committed, order.theta):
        return None
    if order.ask == "search":
        return NewtonAnswer(losses=part.search(order.U, order.direction, order.tau, LENGTHS))
    if order.ask == "system":
        found = part.system(order.U, order.tau, order.marked)
    else:
        found = part.value(order.U, order.tau, number=order.number)
    H = _nothing() if found.H is None else found.H
    return NewtonAnswer(found.V, found.linear, found.hinge, H)


class NewtonTotals:
    """Sums over the answers of parts, in the order in which they are added, in double precision.

    Parameters
    ----------
    order : NewtonOrder
    """

    def __init__(self, order: NewtonOrder):
        shape = order.U.shape
        self.marked = order.marked
        self.V, self.linear, self.hinge = np.zeros(shape), np.zeros(shape[1]), np.zeros(shape[1])
        self.H = np.zeros((int(order.marked.sum()), _packed(shape[0]))) if order.ask == "system" else _nothing()
        self.losses = np.zeros((len(LENGTHS), shape[1])) if order.ask == "search" else _nothing()

    def add(self, found: NewtonAnswer, labels: slice) -> None:
        """Add what a part of these labels has found."""
        if self.losses.size:
            self.losses[:, labels] += found.losses
            return
        self.V[:, labels] += found.V
        self.linear[labels] += found.linear
        self.hinge[labels] += found.hinge
        if self.H.size:
            before, own = (int(self.marked[some].sum()) for some in (slice(0, labels.start), labels))
            self.H[before : before + own] += found.H

    def answer(self) -> NewtonAnswer:
        """Return the sums."""
        return NewtonAnswer(self.V, self.linear, self.hinge, self.H, self.losses)


@runtime_checkable
class NewtonFleet(Fleet, Protocol):
    """A fleet whose parts can be trained in Newton rounds, if they were opened with ``plan.newton``."""

    def newton(self, order: NewtonOrder) -> NewtonAnswer | None:
        """On every part: :func:`newton_part`. None if a part was lost, as in ``round``."""


class NewtonRounds:
    """The driver. After :meth:`run`, the parts hold the dual variables of its result.

    Parameters
    ----------
    plan : Plan
        With ``newton``.
    fleet : NewtonFleet
        Open.
    limits : Limits
        Its ``passes`` are not used.
    monitor : Monitor
        Is told of every iteration.
    """

    def __init__(self, plan: Plan, fleet: NewtonFleet, limits: Limits, monitor: Monitor):
        self.plan, self.fleet, self.limits, self.monitor = plan, fleet, limits, monitor
        n_labels = plan.labels.n_labels
        self.forms = StateForms(None, n_labels, plan.bias)
        shape = (plan.n_features + 1, n_labels)
        self.U, self.centre, self.centre_linear = np.zeros(shape), np.zeros(shape), np.zeros(n_labels)
        margins = cell_margins(plan.labels, plan.margin)
        typical = (margins.positive + margins.negative) / 2
        self.margins = np.where(typical > 0, typical, 1.0)
        self.tau = FIRST_TAU * self.margins
        self.shorter = np.ones(n_labels)
        self.best, self.best_primal = np.zeros(shape, dtype=plan.dtype), np.full(n_labels, np.inf)
        self.t = self.number = self.committed = 0
        self.theta: Array | None = None
        self.least, self.idle = np.inf, 0

    def run(self) -> RoundsResult:
        """Go on until the recomputed certificate holds, or a limit is reached."""
        tol = self.limits.tol
        while True:
            value = self._ask("value")
            status = self._ended(3)
            if value is not None:
                self._assess(value)
                status = status or self._stalled()
            elif status is None:
                self._recover()
                continue
            weights = bounds = None
            if status is not None or self.gap.sum() <= tol * self.best_primal.sum():
                weights, bounds = self._look(value is not None)
                if bounds.within(tol):
                    status = Status.converged
            stopped = self._tell(bounds)
            if status is None and stopped:
                status = Status.stopped
                if bounds is None:
                    weights, bounds = self._look(True)
            if status is not None and weights is not None and bounds is not None:
                return RoundsResult(weights, bounds, self.rounds, Status.converged if bounds.within(tol) else status)
            if bounds is None and value is not None:
                self._move_centre(value)
            self._newton_step()

    @property
    def rounds(self) -> int:
        """Rounds, those before included."""
        return self.limits.rounds + self.t

    def take(self, sums: FleetSums) -> None:
        """Go on from dual variables that were summed afresh."""
        self.centre, self.centre_linear = sums.V.copy(), sums.linear.copy()

    def start(self, sums: FleetSums) -> None:
        """Begin at the weights of given dual variables."""
        self.take(sums)
        self.U = self.centre.copy()

    def _ask(self, ask: str, **more: Any) -> NewtonAnswer | None:
        """Make a round; None if a part was lost."""
        self.number += 1
        marked = more.pop("marked", np.zeros(len(self.tau), dtype=bool))
        order = NewtonOrder(ask, self.number, self.committed, self.theta, self.U, self.tau, marked, **more)
        answer = self.fleet.newton(order)
        self.t += answer is not None
        return answer

    def _assess(self, value: NewtonAnswer) -> None:
        """Primal values at U, and the best steps from the centre to beta(z)."""
        V, centre = value.V, self.centre
        primal = 0.5 * self.forms.square(self.U) + value.hinge
        better = primal < self.best_primal
        self.best_primal[better] = primal[better]
        self.best[:, better] = self.U[:, better]
        step = V - centre
        rise = value.linear - self.centre_linear - self.forms.product(step, centre)
        curvature = self.forms.square(step)
        whole = curvature <= rise
        self.step = np.where(rise <= 0, 0.0, np.where(whole, 1.0, rise / np.where(curvature > 0, curvature, 1.0)))
        self.flat = curvature < 0.25 * rise
        dual = self.centre_linear - 0.5 * self.forms.square(centre)
        self.dual = dual + self.step * rise - 0.5 * self.step**2 * curvature
        self.gap = self.best_primal - self.dual
        total = max(float(self.gap.sum()), 0.0)  # below 0 it is rounding
        self.idle = 0 if total < 0.95 * self.least else self.idle + 1
        self.least = min(self.least, total)

    def _look(self, steps: bool) -> tuple[NDArray[Any], Bounds]:
        """Certify the best weights, with the dual variables moved as far as they rise."""
        if steps:
            self.committed, self.theta = self.number, self.step
        weights = self.forms.weights(self.best, self.plan.dtype)
        sums = self.fleet.sum(self.committed, self.theta, weights.astype(np.float64))
        self.take(sums)
        return weights, self.forms.bounds(weights, sums)

    def _move_centre(self, value: NewtonAnswer) -> None:
        """Move the centres of labels that are far along, and smooth their losses less."""
        moved = self.step > MOVES
        self.committed, self.theta = self.number, np.where(moved, self.step, 0.0)
        self.centre += self.theta * (value.V - self.centre)
        self.centre_linear = self.centre_linear + self.theta * (value.linear - self.centre_linear)
        least, usual = LEAST_TAU * self.margins, USUAL_TAU * self.margins
        tau = np.where(
            self.flat, np.maximum(least, self.tau / 4), np.maximum(np.minimum(self.tau, usual), self.tau / 2)
        )
        self.tau = np.where(moved, tau, self.tau)

    def _newton_step(self) -> None:
        """Form the systems of labels that are not done, solve them, and search along what comes out."""
        marked = self.gap > REST * self.limits.tol * self.best_primal
        if not marked.any():
            marked[:] = True
        system = self._ask("system", marked=marked)
        if system is None:
            return self._recover()
        if self._ended() is not None:
            return None
        direction = np.zeros_like(self.U)
        residual = system.V - self.U
        for k, H in zip(np.flatnonzero(marked), system.H, strict=True):
            direction[:, k] = self.shorter[k] * newton_direction(H, self.tau[k], residual[:, k])
        search = self._ask("search", direction=direction)
        if search is None:
            return self._recover()
        along, square = self.forms.product(self.U, direction), self.forms.square(direction)
        a = LENGTHS[:, None]
        change = search.losses + a * along + 0.5 * a**2 * square
        best = np.argmin(change, axis=0)
        falls = change[best, np.arange(len(best))] < 0
        self.U = self.U + np.where(falls, LENGTHS[best], 0.0) * direction
        self.shorter = np.where(falls | ~marked, 1.0, self.shorter * SHORTER)
        return None

    def _recover(self) -> None:
        """Parts were lost: go on from what is left."""
        weights = self.forms.weights(self.best, self.plan.dtype)
        self.take(self.fleet.sum(self.committed, self.theta, weights.astype(np.float64)))

    def _stalled(self) -> Status | None:
        """Whether rounding keeps the gap from falling."""
        return Status.imprecise if self.plan.dtype == np.float32 and self.idle > MOST_IDLE else None

    def _ended(self, ahead: int = 1) -> Status | None:
        """Whether a limit is reached, or would be passed by so many more rounds."""
        if self.monitor.time_left(self.limits.time_limit) <= 0:
            return Status.time_limit
        return Status.max_iter if self.rounds + ahead > self.limits.max_iter else None

    def _tell(self, bounds: Bounds | None) -> bool:
        """Report the iteration; True asks to stop."""
        found = bounds or Bounds(float(self.best_primal.sum()), float(self.dual.sum()))
        return self.monitor(self.rounds, self.monitor.elapsed, found.primal, found.dual)


def newton_direction(H: NDArray[Any], tau: float, r: Array) -> Array:
    """Solve (I + H / tau) d = r; ``H``: an upper triangle, row by row.

    Rounding can make H of badly scaled features indefinite: then more than I is added, for d is only a direction. There
    is none where numbers are too large for the precision of the rows; then the gap does not fall, and the rounds end.
    """
    n = len(r)
    A = np.zeros((n, n))
    A[np.triu_indices(n)] = H
    A /= tau
    diagonal = np.einsum("jj->j", A)
    diagonal += 1.0
    more = 1e-7 * float(diagonal.max())
    if not (np.isfinite(more) and np.all(np.isfinite(r))):
        return np.zeros(n)
    while True:
        try:
            return np.asarray(cho_solve(cho_factor(A, lower=False, check_finite=False), r, check_finite=False))
        except LinAlgError:
            diagonal += more
            more *= 10

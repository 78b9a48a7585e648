r"""Rounds over parts of the rows: the driver's arithmetic, in double precision, without any input or output.

Notation and signs as in core/m3l/linear.hpp. Part k owns rows :math:`X_k` and their dual variables :math:`\beta_k`;
:math:`W = \sum_k X_k^\top \beta_k`. A round holds back every feature j by :math:`k_j` (core/m3l/proximal_state.hpp):
with shares :math:`s_j = 1 / (1 + k_j)` and a centre C,

.. math:: V_j = s_j W_j + (1 - s_j) C_j

is what all parts are given. Each improves its own dual variables against a state that follows its own changes
:math:`U_k = X_k^\top \Delta\beta_k` alone, :math:`\sigma_j` times as much as they count. For the sum U of the changes
the dual of the held-back problem then grows by

.. math:: a \theta - \tfrac12 d\, \theta^2, \quad a = \text{target} \cdot \Delta\beta - \operatorname{tr}(V R U^\top),
    \quad d = \sum_j s_j |U_j|_R^2

and the driver takes the best :math:`\theta \in [0, 1]`, label by label where R = I. With :math:`\sigma_j` the number of
parts that have feature j, :math:`\theta = 1` would always do; the rounds measure what is needed and rely on
:math:`\theta` (``SAFETY``). Then :math:`W \leftarrow W + \theta U`, :math:`V \leftarrow V + s \theta U`, and the centre
moves to V.

:math:`k_j = \max(k_0, t/4) + \kappa q_j` in round t, with :math:`q_j = c \sum_i x_{ij}^2`, c the cost of a cell by its
margin, so that neither the scale of X nor that of the margins matters: features that all rows share
must be held back in proportion to their curvature, or all parts correct the same error at once. :math:`\kappa` is
balanced: held back too little the primal lags, too much the dual, by ``lead``.

Parts that are visited one after the other (``Fleet.at_once`` False) each see what the last one left: no
:math:`\sigma`, no :math:`\theta`; the rest is the same.

The running values decide when to look; what is published is summed afresh by the parts from the data, the weights and
the dual variables (:meth:`Fleet.sum`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from multimargin._core import Status
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.m3l.base import Prior
from multimargin.estimators.m3l.blocks import BlockFacts
from multimargin.estimators.m3l.parts import PartAnswer, PartSums
from multimargin.estimators.m3l.plans import Plan
from multimargin.estimators.monitor import Monitor
from multimargin.priors import LowRankPrior
from multimargin.priors._forms import PriorForms

__all__ = [
    "Fleet",
    "FleetSums",
    "HeldBackRounds",
    "Limits",
    "RoundAnswer",
    "RoundOrder",
    "RoundTotals",
    "RoundsResult",
    "StateForms",
]

HELD_BACK = {True: 4.0, False: 1.0}  # k_0, of parts at once and one after the other
GROWTH = 1 / 4
KAPPA, KAPPA_RANGE, KAPPA_STEP = 0.005, (1e-6, 1.0), 1.1
# Holding back a feature by more, as kappa would with more than 200,000 rows, costs passes before kappa has come down.
MOST_AT_FIRST = 1000.0
LEAD = 0.3
SAFETY = 3.0
FIRST_BALANCE = 3
SETTLED = 0.1
AFRESH = 32
FIRST_STALL = 64  # rounds; from there on the gap has to halve while their number doubles, in single precision
FIRST_LOOK = 16  # a look costs more than a pass
MARGIN = 0.9
LOCAL_PASSES_OF_DENSE_ROWS = 10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RoundOrder:
    r"""What the driver asks of all parts in a round.

    Attributes
    ----------
    number : int
        Of this round, from 1 on; never given twice.
    committed : int
        The round up to which parts are to be settled, 0 at first, and its step ``theta``: see
        :meth:`~multimargin.estimators.m3l.parts.Part.settle`, to be called first.
    theta : ndarray or None
    state : ndarray of shape (n_features + 1, width)
        V, in the precision of the plan; the constant feature last. A part is given the rows ``part.rows_of``.
    scale : ndarray of shape (n_features + 1,)
        :math:`s_j \sigma_j`.
    passes : int
        Over the rows of a part.
    seed : int
        Of this round; part k uses ``part_seed(k)``.
    time_limit : float
        Seconds that are left.
    """

    number: int
    committed: int
    theta: Array | None
    state: NDArray[Any]
    scale: Array
    passes: int
    seed: int
    time_limit: float

    def part_seed(self, k: int) -> int:
        """Seed of part k: a function of the fit's seed, the round and the part, not of who runs it."""
        return int(np.random.SeedSequence((self.seed, self.number, k)).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class RoundAnswer:
    """Sums over the parts, added in the order of the parts, in double precision.

    Attributes
    ----------
    change : ndarray of shape (n_features + 1, width)
        U, the sum of ``M3LVisit.change``.
    own : ndarray of shape (n_features + 1,)
        The sum of ``M3LVisit.own``.
    hinge, linear, change_linear : ndarray of shape (n_labels,), or (1,) with a prior
    complete : bool
        Whether every part has visited all of its rows; False where the time limit came first.
    local_gap : float
        As of the parts; only parts that are visited one after the other are asked for it.
    """

    change: Array
    own: Array
    hinge: Array
    linear: Array
    change_linear: Array
    complete: bool = True
    local_gap: float = 0.0


class RoundTotals:
    """Sums over the answers of parts, in the order in which they are added.

    Parameters
    ----------
    order : RoundOrder
    """

    def __init__(self, order: RoundOrder):
        self.change, self.own = np.zeros(order.state.shape), np.zeros(len(order.scale))
        self.hinge, self.linear, self.change_linear = (np.zeros(1) for _ in range(3))
        self.complete, self.local_gap = True, 0.0

    def add(self, rows: Any, found: PartAnswer) -> None:
        """Add what a part has found; ``rows``: its ``rows_of``."""
        self.change[rows] += found.change
        self.own[rows] += found.own
        self.hinge = self.hinge + found.hinge
        self.linear = self.linear + found.linear
        self.change_linear = self.change_linear + found.change_linear
        self.complete &= found.complete
        self.local_gap += found.local_gap

    def answer(self) -> RoundAnswer:
        """Return the sums."""
        sums = self.hinge, self.linear, self.change_linear
        return RoundAnswer(self.change, self.own, *sums, self.complete, self.local_gap)


@dataclass(frozen=True)
class FleetSums:
    """Sums over the parts, afresh: ``V`` of shape (n_features + 1, n_labels), ``linear``, ``hinge`` by label.

    :meth:`empty` begins, :meth:`add` adds a part, in place.
    """

    V: Array
    linear: Array
    hinge: Array

    @classmethod
    def empty(cls, weights: Array) -> FleetSums:
        """Return sums of 0, for weights of shape (n_labels, n_features + 1)."""
        n_labels, columns = weights.shape
        return cls(np.zeros((columns, n_labels)), np.zeros(n_labels), np.zeros(n_labels))

    def add(self, rows: Any, found: PartSums) -> None:
        """Add the sums of a part; ``rows``: its ``rows_of``."""
        self.V[rows] += found.V
        self.linear[...] += found.linear
        self.hinge[...] += found.hinge


class Fleet(Protocol):
    """Somebody who holds the parts. The driver calls ``describe``, ``open``, then rounds and sums, then ``close``.

    A fleet does what the methods of :class:`~multimargin.estimators.m3l.parts.Part` do, on every part, and adds up in
    the order of the parts, so that results do not depend on where parts live or who answers first. It scatters and
    gathers rows of states: part k sees the rows ``part.rows_of`` of everything that has a row per feature, the constant
    one last.

    Where parts were lost, :meth:`round` puts others in their place, with dual variables of zero (or of a checkpoint
    that belongs to ``order.committed``), and returns None: the round is void. The driver then calls :meth:`sum`, in
    which a part that is not settled up to ``committed`` begins again at zero (``Part.sum`` does that), and goes on from
    there. A part whose rows cannot be had again is an error: no certificate holds without them.

    Nothing may wait for ever: an interrupt raises out of every method, and ``order.time_limit`` ends the visits.
    """

    @property
    def at_once(self) -> bool:
        """Whether parts work side by side; if not, each begins where the last one has left the state."""

    def describe(self) -> Sequence[BlockFacts]:
        """Read every part and say what is in it (``describe_block``)."""

    def open(self, plan: Plan) -> tuple[Array, Array]:
        """Build the parts, with dual variables of zero; a second call begins anew, in another precision.

        Return the sum of ``part.squares`` and, for every feature, the number of parts that have it. Both have
        shape (n_features + 1,); the last entry of the latter, of the constant feature, is the number of parts.
        """

    def round(self, order: RoundOrder) -> RoundAnswer | None:
        """On every part: ``settle``, then ``visit``. None if a part was lost, or ``settle`` returned False."""

    def sum(self, committed: int, theta: Array | None, weights: Array) -> FleetSums:
        """On every part: ``Part.sum``, with its columns of ``weights`` (n_labels, n_features + 1)."""

    def close(self) -> None:
        """Let go of everything."""


class StateForms:
    """What the prior makes of states; sums by group: label by label where R = I, over all labels otherwise.

    Parameters
    ----------
    prior : None, ndarray or LowRankPrior
    n_labels : int
    bias : float
        Value of the constant feature.
    """

    def __init__(self, prior: Prior, n_labels: int, bias: float):
        self.prior, self.bias = prior, bias
        self.forms = None if prior is None else PriorForms(prior)
        pure = isinstance(prior, LowRankPrior) and not np.any(prior.diagonal)
        self.factor: Array | None = np.asarray(prior.factor) if pure else None  # type: ignore[union-attr]
        self.groups = n_labels if prior is None else 1
        self.width = n_labels if self.factor is None else self.factor.shape[1]

    def product(self, A: Array, B: Array) -> Array:
        """Tr(A R B') by group."""
        if self.prior is None:
            return np.asarray(np.einsum("jl,jl->l", A, B))
        return np.array([np.vdot(A if self.factor is not None or self.forms is None else self.forms.apply(A), B)])

    def square(self, A: Array, shares: Array | None = None) -> Array:
        """Sum over the features of their shares times |A_j|_R^2, by group."""
        scaled = A if shares is None else np.sqrt(shares)[:, None] * A
        return self.product(scaled, scaled)

    def weights(self, V: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """Z of shape (n_labels, n_features + 1), the last column the intercepts, rounded as it is returned."""
        V = np.asarray(V, dtype=np.float64)
        Z = V.copy() if self.forms is None else self.forms.apply(V) if self.factor is None else V @ self.factor.T
        Z[-1] *= self.bias
        return np.ascontiguousarray(Z.T, dtype=dtype)

    def state(self, V: Array) -> Array:
        """Return the state of X' beta."""
        return V if self.factor is None else V @ self.factor

    def bounds(self, weights: NDArray[Any], sums: FleetSums) -> Bounds:
        """Primal value of weights and dual value of the dual variables that were summed."""
        Z = weights.astype(np.float64)
        Z[:, -1] *= 1 / self.bias if self.bias else 0.0
        of_weights = float(np.vdot(Z, Z)) if self.forms is None else self.forms.inverse_square(Z)
        of_duals = float(np.vdot(sums.V, sums.V)) if self.forms is None else self.forms.square(sums.V)
        return Bounds(0.5 * of_weights + float(sums.hinge.sum()), float(sums.linear.sum()) - 0.5 * of_duals)


@dataclass(frozen=True)
class Limits:
    """When rounds end: relative gap, number of rounds, seconds; the seed; passes of a part in a round.

    ``rounds``: those that were made before, in another precision.
    """

    tol: float
    max_iter: int
    time_limit: float | None
    seed: int
    passes: int = 1
    rounds: int = 0


@dataclass(frozen=True)
class RoundsResult:
    """Weights (n_labels, n_features + 1), the last column the intercepts; their bounds, recomputed."""

    weights: NDArray[Any]
    bounds: Bounds
    rounds: int
    status: Status


class HeldBackRounds:
    """The driver. After :meth:`run`, the parts hold the dual variables of its result.

    Parameters
    ----------
    plan : Plan
    fleet : Fleet
        Open.
    squares, counts : ndarray of shape (n_features + 1,)
        What ``fleet.open`` returned.
    limits : Limits
    monitor : Monitor
        Is told of every round.
    """

    def __init__(self, plan: Plan, fleet: Fleet, squares: Array, counts: Array, limits: Limits, monitor: Monitor):
        self.plan, self.fleet, self.limits, self.monitor = plan, fleet, limits, monitor
        self.forms = StateForms(plan.prior, plan.labels.n_labels, plan.bias)
        self.counts = np.maximum(counts, 1.0)
        self.squares = squares * plan.scale
        self.coherence = self.counts.copy()
        shape = (plan.n_features + 1, self.forms.width)
        self.W, self.V, self.C = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.kappa = min(KAPPA, MOST_AT_FIRST / float(np.max(self.squares, initial=1.0)))
        self.t = self.number = self.committed = 0
        self.theta: Array | None = None
        self.shares = np.ones(plan.n_features + 1)
        self.best_primal = np.full(self.forms.groups, np.inf)
        self.best = np.zeros(shape, dtype=plan.dtype)
        self.optimism, self.next_look = 1.0, FIRST_LOOK
        self.gap_before, self.next_stall = np.inf, FIRST_STALL // 2

    def run(self) -> RoundsResult:
        """Go on until the recomputed certificate holds, or a limit is reached."""
        limits = self.limits
        while True:
            answer = self._round()
            status = self._ended(answer)
            if status is None and answer is None:  # parts were lost: on from what is left
                self._take(self._sums(self._candidate())[1])
                continue
            looks = status is not None or self._pays()
            bounds = weights = None
            if looks:
                weights = self._candidate()
                bounds, sums = self._sums(weights)
                if bounds.within(limits.tol):
                    self._tell(bounds, looks)
                    return RoundsResult(weights, bounds, self.rounds, Status.converged)
                self._judge(bounds)
                self._take(sums)
                status = status or self._stalled(bounds)
            stopped = self._tell(bounds, looks)
            if status is not None or stopped:
                if bounds is None or weights is None:
                    weights = self._candidate()
                    bounds, _ = self._sums(weights)
                reason = Status.converged if bounds.within(limits.tol) else status or Status.stopped
                return RoundsResult(weights, bounds, self.rounds, reason)

    @property
    def rounds(self) -> int:
        """Rounds, those before included."""
        return self.limits.rounds + self.t

    def start(self, sums: FleetSums) -> None:
        """Begin with dual variables that were summed."""
        self._take(sums)

    def _round(self) -> RoundAnswer | None:
        t, at_once = self.t, self.fleet.at_once
        held = np.zeros_like(self.shares) if t == 0 else max(HELD_BACK[at_once], GROWTH * t) + self.kappa * self.squares
        self.shares = 1 / (1 + held)
        self.C[...] = self.V
        self._follow()
        spread = np.clip(SAFETY * self.coherence, 1.0, self.counts) if at_once else 1.0
        self.number += 1
        order = RoundOrder(
            number=self.number,
            committed=self.committed,
            theta=self.theta,
            state=self.V.astype(self.plan.dtype),
            scale=self.shares * spread,
            passes=self.limits.passes,
            seed=self.limits.seed,
            time_limit=self.monitor.time_left(self.limits.time_limit),
        )
        answer = self.fleet.round(order)
        if answer is not None:
            self.t += 1
            self._note(answer, order.state)
            self._commit(answer)
        return answer

    def _follow(self) -> None:
        """Set V from W and the centre."""
        np.subtract(self.W, self.C, out=self.V)
        self.V *= self.shares[:, None]
        self.V += self.C

    def _note(self, answer: RoundAnswer, state: NDArray[Any]) -> None:
        """Primal and dual values at the point that was given to the parts, and whether to hold back more.

        Parts that are visited one after the other tell of their cells as they come to them, at states that move on.
        """
        lead = 0.5 * float(self.forms.square(self.W - self.V).sum())
        primal = 0.5 * self.forms.square(self.V) + answer.hinge
        dual = answer.linear - 0.5 * self.forms.square(self.W)
        if self.fleet.at_once:
            self.gap, self.primal = float((primal - dual).sum()), float(primal.sum())
        else:
            self.gap = answer.local_gap + lead
            self.primal = float(dual.sum()) + self.gap
        if self.fleet.at_once and answer.complete:
            better = primal < self.best_primal
            self.best_primal[better] = primal[better]
            if self.forms.groups == 1:
                self.best = state if better[0] else self.best
            else:
                self.best[:, better] = state[:, better]
        if self.t > FIRST_BALANCE and self.gap <= SETTLED * self.primal:
            factor = KAPPA_STEP if lead < LEAD * self.gap else 1 / KAPPA_STEP
            self.kappa = float(np.clip(self.kappa * factor, *KAPPA_RANGE))

    def _commit(self, answer: RoundAnswer) -> None:
        """Take the best step along the change of all parts."""
        U = answer.change
        if self.fleet.at_once:
            a = answer.change_linear - self.forms.product(self.V, U)
            d = self.forms.square(U, self.shares)
            theta = np.clip(np.divide(a, d, out=np.zeros_like(a), where=d > 0), 0.0, 1.0)
            squares = np.einsum("jl,jl->j", U, U)
            ratio = np.divide(squares, answer.own, out=self.coherence.copy(), where=answer.own > 0)
            self.coherence = ratio if self.t == 1 else (self.coherence + ratio) / 2
        else:
            theta = np.ones(self.forms.groups)
        self.theta, self.committed = theta, self.number
        self.linear = answer.linear + theta * answer.change_linear
        step = U * theta
        self.W += step
        step *= self.shares[:, None]
        self.V += step
        self.dual = float((self.linear - 0.5 * self.forms.square(self.W)).sum())

    def _pays(self) -> bool:
        """Whether to sum afresh now: the certificate is due, or it is likely to hold."""
        tol = self.limits.tol
        if self.fleet.at_once:
            primal = float(self.best_primal.sum())
            promising = self.t > 1 and primal - self.dual <= tol * primal
            return promising or self.t % AFRESH == 0
        promising = self.t > FIRST_BALANCE and self.optimism * self.gap <= MARGIN * tol * self.primal
        due = self.t >= self.next_look
        if due:
            self.next_look = 2 * self.next_look
        return promising or due

    def _judge(self, bounds: Bounds) -> None:
        """Of parts one after the other: how far the gap was from its estimate."""
        if not self.fleet.at_once and bounds.dual is not None:
            self.optimism = max((bounds.primal - bounds.dual) / self.gap, 0.1) if self.gap > 0 else 1.0

    def _stalled(self, bounds: Bounds) -> Status | None:
        """Whether rounding keeps the gap from falling, as in core/m3l/linear.hpp."""
        if self.plan.dtype != np.float32 or bounds.dual is None or self.t < self.next_stall:
            return None
        gap, before = bounds.primal - bounds.dual, self.gap_before
        self.gap_before, self.next_stall = gap, 2 * self.t
        return None if gap < 0.5 * before or self.t < FIRST_STALL else Status.imprecise

    def _candidate(self) -> NDArray[Any]:
        """Weights to certify: those of the best primal value, or the point that parts would be given next."""
        if self.fleet.at_once and np.isfinite(self.best_primal).all():
            return self.forms.weights(self.best, self.plan.dtype)
        return self.forms.weights(self.V, self.plan.dtype)

    def _sums(self, weights: NDArray[Any]) -> tuple[Bounds, FleetSums]:
        sums = self.fleet.sum(self.committed, self.theta, weights.astype(np.float64))
        return self.forms.bounds(weights, sums), sums

    def _take(self, sums: FleetSums) -> None:
        """Go on from W summed afresh."""
        self.W[...] = self.forms.state(sums.V)
        self._follow()

    def _ended(self, answer: RoundAnswer | None) -> Status | None:
        late = answer is not None and not answer.complete
        if late or self.monitor.time_left(self.limits.time_limit) <= 0:
            return Status.time_limit
        return Status.max_iter if self.rounds >= self.limits.max_iter else None

    def _tell(self, bounds: Bounds | None, looked: bool) -> bool:
        """Report the round; True asks to stop."""
        if bounds is not None:
            primal, dual = bounds.primal, bounds.dual
        elif self.fleet.at_once:
            primal, dual = float(self.best_primal.sum()), self.dual
        else:
            primal = dual = None  # type: ignore[assignment]
            self.monitor.estimate = self.optimism * self.gap / self.primal if self.primal > 0 else None
        return self.monitor(self.rounds, self.monitor.elapsed, primal, dual)

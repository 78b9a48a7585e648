r"""Clique models with a smoothed loss: softmax margin, and Newton steps for the hinge loss of small problems.

The maximum over labellings becomes :math:`\mu \log \sum_y \exp(\cdot / \mu)`; its derivatives are moments of a
distribution over labellings, by sum-product. With z = W / kappa and q from those moments, the duality gap of the
smoothed problem is exactly :math:`\tfrac12 \sum_T \kappa_T |z_T - q_T|^2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators._clique_graph import Clique, CliqueGraph
from multimargin.estimators._clique_scores import NO_RESIDUALS
from multimargin.estimators._clique_training import Active, CliqueData, Work, scaled_dual

__all__ = ["Newton", "SoftmaxMargin", "most_newton_weights"]

LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4)
ENOUGH = 0.1
"""A level of smoothing ends when its own gap is this part of mu per unit of cost."""
MOST_STEPS = 30
most_newton_weights = 2000


class SmoothedLoss:
    """Sum of the smoothed losses of all rows for one graph."""

    def __init__(self, data: CliqueData, graph: CliqueGraph, inference: _core.CliqueInference):
        self.data = data
        self.graph = graph
        self.inference = inference
        self.cost = data.labels["cost"]
        self.X = _with_constant(data.X, data.bias)
        self.chi = characters(data, graph.subsets)
        self.known = np.abs(self.chi)
        self.all_known = bool(self.known.all())
        self.lost = 0.5 * self.chi[:, : data.n_labels]
        self.half_loss = np.abs(self.lost).sum(axis=1)
        self.free = data.n_labels - 2.0 * self.half_loss

    def augmented(self, W: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores of all rows with the loss in them, and the score of the truth."""
        scores = np.asarray(safe_sparse_dot(self.X, W.T, dense_output=True), dtype=np.float64)
        if not self.all_known:
            scores *= self.known
        truth = np.einsum("it,it->i", scores, self.chi)
        scores[:, : self.data.n_labels] -= self.lost
        return np.ascontiguousarray(scores), truth

    def smoothed(self, W: NDArray[np.float64], mu: float) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Value, moments, and the scores they belong to."""
        scores, truth = self.augmented(W)
        log_sum, moments = self.inference.log_partition(scores / mu, self.data.threads)
        losses = self.half_loss + mu * (log_sum - self.free * np.log(2.0)) - truth
        return float(self.cost @ losses), moments * self.known, scores

    def exact(self, W: NDArray[np.float64]) -> tuple[float, float]:
        """Sum of the hinge losses, by their upper bounds, and the share of rows where those are proved."""
        scores, truth = self.augmented(W)
        _, _, bound, exact = self.inference.maximize(scores, self.data.threads)
        return float(self.cost @ np.maximum(bound + self.half_loss - truth, 0.0)), float(np.mean(exact))

    def residuals(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """``C_i (chi_T(y_i) - E_i chi_T)``."""
        return np.asarray(self.cost[:, None] * (self.chi - moments))

    def products(self, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """``q_T``, one row for each subset."""
        return np.asarray((self.X.T @ residuals).T if sp.issparse(self.X) else residuals.T @ self.X)

    def expected_loss(self, moments: NDArray[np.float64]) -> float:
        """Sum of the losses that the distributions expect."""
        wrong = self.half_loss - np.einsum("ik,ik->i", self.lost, moments[:, : self.data.n_labels])
        return float(self.cost @ wrong)


@dataclass(frozen=True)
class DenseResiduals:
    """Residuals of softmax distributions, for any subset of few labels."""

    loss: SmoothedLoss
    scores: NDArray[np.float64]
    mu: float

    @property
    def rows(self) -> NDArray[np.int64]:
        """All rows."""
        return np.arange(len(self.scores))

    def panel(self, subsets: Sequence[Clique]) -> NDArray[np.float64]:
        """One row for each row, one column for each subset."""
        loss, data = self.loss, self.loss.data
        graph = CliqueGraph(data.n_labels, tuple(t for t in (*loss.graph.subsets, *subsets) if len(t) > 1), True)
        scores = np.zeros((len(self.scores), len(graph.subsets)))
        scores[:, [graph.positions[t] for t in loss.graph.subsets]] = self.scores
        _, moments = graph.inference("exhaustive", data.n_labels).log_partition(scores / self.mu, data.threads)
        chi = characters(data, graph.subsets)
        wanted = [graph.positions[t] for t in subsets]
        return np.asarray(loss.cost[:, None] * (chi - moments * np.abs(chi))[:, wanted])


@dataclass(frozen=True)
class Newton:
    """The active problem with the hinge loss, by Newton steps on ever less smoothed losses."""

    data: CliqueData
    budget: int
    inference: str
    treewidth_limit: int
    fixed_eta: bool = False

    def solve(
        self, graph: CliqueGraph, eta: NDArray[np.float64], last: Active | None, tol: float, work: Work
    ) -> Active:
        """Solve to a relative gap, starting from the last solution, whatever its cliques were."""
        loss = SmoothedLoss(self.data, graph, graph.inference(self.inference, self.treewidth_limit))
        kappa = graph.kappa(eta)
        W = _carried_over(graph, kappa, last, loss.X.shape[1])
        best: Active | None = None
        dual, passes, status = 0.0, 0, "max_iter"
        moves_eta = not self.fixed_eta and self.budget < len(graph.cliques)
        for mu in LEVELS:
            for _ in range(MOST_STEPS):
                value, moments, scores = loss.smoothed(W, mu)
                passes += 1
                q = loss.products(loss.residuals(moments))
                gradient = W / kappa[:, None] - q
                own_gap = 0.5 * float(kappa @ np.einsum("td,td->t", gradient, gradient))
                if own_gap <= ENOUGH * mu * float(loss.cost.sum()):
                    break
                W = _newton_step(loss, kappa, W, gradient, mu, value, scores)
                if work.report(passes, 0.0, None, None) or passes >= work.passes_left or work.time_left <= 0:
                    break
            primal, candidate_dual, exact = self._bounds(loss, graph, eta, kappa, W, q, moments)
            dual = max(dual, candidate_dual)
            if best is None or primal < best.primal:
                expected = loss.expected_loss(moments)
                residuals = DenseResiduals(loss, scores, mu)
                best = Active(graph, eta, W, primal, dual, status, exact, expected, residuals, W)
            stop = work.report(passes, 0.0, best.primal, dual)
            if best.primal - dual <= tol * best.primal:
                status = "converged"
                break
            if stop or passes >= work.passes_left or work.time_left <= 0:
                break
            if moves_eta:
                squares = np.einsum("td,td->t", W / kappa[:, None], W / kappa[:, None])
                z = W / kappa[:, None]
                eta = np.maximum(_core.k_support(eta * np.sqrt(graph.scores(squares)), self.budget)[1], 1e-9)
                kappa = graph.kappa(eta)
                W = z * kappa[:, None]
        work.passes += passes
        assert best is not None
        return Active(**{**best.__dict__, "dual": dual, "status": work.exhausted or status})

    def _bounds(
        self,
        loss: SmoothedLoss,
        graph: CliqueGraph,
        eta: NDArray[np.float64],
        kappa: NDArray[np.float64],
        W: NDArray[np.float64],
        q: NDArray[np.float64],
        moments: NDArray[np.float64],
    ) -> tuple[float, float, float]:
        """Primal and dual value of the problem that is not smoothed."""
        K = graph.n_labels
        z = W / kappa[:, None]
        own, dual_squares = (np.einsum("td,td->t", v, v) for v in (z, q))
        norms = np.ascontiguousarray(eta * np.sqrt(graph.scores(own)))
        hinge, exact = loss.exact(W)
        primal = 0.5 * (0.5 * own[:K].sum() + _core.k_support(norms, self.budget)[0]) + hinge
        largest = np.sort(graph.scores(dual_squares))[::-1][: self.budget].sum()
        dual = scaled_dual(loss.expected_loss(moments), 0.5 * (0.5 * dual_squares[:K].sum() + largest))
        return float(primal), dual, exact


def _newton_step(
    loss: SmoothedLoss,
    kappa: NDArray[np.float64],
    W: NDArray[np.float64],
    gradient: NDArray[np.float64],
    mu: float,
    value: float,
    scores: NDArray[np.float64],
) -> NDArray[np.float64]:
    """One damped Newton step; blocks of the Hessian are covariances of characters."""
    T, D = W.shape
    _, covariances = loss.inference.covariances(scores / mu, loss.data.threads)
    covariances = covariances * (loss.cost / mu)[:, None, None]
    if not loss.all_known:
        covariances *= loss.known[:, :, None] * loss.known[:, None, :]
    H = np.zeros((T, D, T, D))
    X = loss.X.toarray() if sp.issparse(loss.X) else loss.X
    for s in range(T):
        # all blocks (s, t >= s) in one product
        weighted = (covariances[:, s, s:, None] * X[:, None, :]).reshape(len(X), -1)
        H[s, :, s:, :] = (X.T @ weighted).reshape(D, T - s, D)
    hessian = H.reshape(T * D, T * D)
    hessian[np.diag_indices(T * D)] += np.repeat(1.0 / kappa, D)
    factor = scipy.linalg.cho_factor(hessian, lower=False, overwrite_a=True, check_finite=False)
    step = -np.asarray(scipy.linalg.cho_solve(factor, gradient.ravel(), check_finite=False)).reshape(T, D)
    decrease = -float(np.sum(gradient * step))
    penalty = 0.5 * float(np.sum(W**2 / kappa[:, None]))
    length = 1.0
    while length > 1e-4:
        moved = W + length * step
        new_value = loss.smoothed(moved, mu)[0] + 0.5 * float(np.sum(moved**2 / kappa[:, None]))
        if new_value <= value + penalty - 0.1 * length * decrease:
            return moved
        length *= 0.5
    return W + length * step


@dataclass(frozen=True)
class SoftmaxMargin:
    """The softmax-margin problem on a fixed graph with fixed shares, by L-BFGS."""

    data: CliqueData
    temperature: float
    inference: str
    treewidth_limit: int

    def solve(
        self, graph: CliqueGraph, eta: NDArray[np.float64], last: Active | None, tol: float, work: Work
    ) -> Active:
        """Solve to a relative gap, starting from the last solution."""
        loss = SmoothedLoss(self.data, graph, graph.inference(self.inference, self.treewidth_limit))
        kappa = graph.kappa(eta)
        root = np.sqrt(kappa)[:, None]
        shape = (len(graph.subsets), loss.X.shape[1])
        best: dict[str, Any] = {"primal": np.inf, "dual": -np.inf, "W": np.zeros(shape)}
        passes = 0
        first = work.passes

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            nonlocal passes
            V = flat.reshape(shape)
            W = root * V
            value, moments, _ = loss.smoothed(W, self.temperature)
            q = loss.products(loss.residuals(moments))
            gradient = V - root * q
            primal = 0.5 * float(np.sum(V**2)) + value
            dual = primal - 0.5 * float(np.sum(gradient**2))
            best["dual"] = max(best["dual"], dual)
            if primal < best["primal"]:
                best.update(primal=primal, W=W)
            passes += 1
            work.passes = first + passes
            relative = (best["primal"] - best["dual"]) / best["primal"]
            stop = work.report(0, 0.0, best["primal"], best["dual"])
            if stop or relative <= tol or work.passes_left <= 0 or work.time_left <= 0:
                raise _Enough
            return primal, gradient.ravel()

        start = _carried_over(graph, kappa, last, shape[1]) / root
        options = {"maxiter": 10**6, "maxfun": 10**7, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
        with suppress(_Enough):
            scipy.optimize.minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        gap = best["primal"] - best["dual"]
        status = "converged" if gap <= tol * best["primal"] else work.exhausted or "max_iter"
        return Active(graph, eta, best["W"], best["primal"], best["dual"], status, 1.0, np.nan, NO_RESIDUALS, best["W"])


class _Enough(Exception):  # noqa: N818 -- not an error: ends the minimiser
    pass


def characters(data: CliqueData, subsets: Sequence[Clique]) -> NDArray[np.float64]:
    """``chi_T`` of the true labels of all rows; 0 where a label of T is not known. Single labels come first."""
    n, K = data.X.shape[0], data.n_labels
    indptr, indices = data.labels["positives"]
    chi = np.full((n, len(subsets)), -1.0)
    chi[np.repeat(np.arange(n), np.diff(indptr)), indices] = 1.0
    unknown = np.broadcast_to(data.labels["left_out"] != 0, (n, K)).copy()
    if data.labels["missing"] is not None:
        indptr, indices = data.labels["missing"]
        unknown[np.repeat(np.arange(n), np.diff(indptr)), indices] = True
    chi[:, :K][unknown] = 0.0
    for k, subset in enumerate(subsets[K:], start=K):
        chi[:, k] = np.prod(chi[:, list(subset)], axis=1)
    return chi


def _with_constant(X: Any, bias: float) -> Any:
    column = np.full((X.shape[0], 1), bias)
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([X.astype(np.float64), sp.csr_array(column)], format="csr"))
    return np.hstack([np.asarray(X, dtype=np.float64), column])


def _carried_over(
    graph: CliqueGraph, kappa: NDArray[np.float64], last: Active | None, width: int
) -> NDArray[np.float64]:
    """Weights to start from: those of the subsets that were there before, for the new shares."""
    W = np.zeros((len(graph.subsets), width))
    if last is None or not isinstance(last.start, np.ndarray):
        return W
    before = last.graph.kappa(last.eta)
    for k, subset in enumerate(last.graph.subsets):
        at = graph.positions.get(subset)
        if at is not None and before[k] > 0:
            W[at] = last.start[k] * (kappa[at] / before[k])
    return W

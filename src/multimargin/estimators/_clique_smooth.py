r"""Clique models with the softmax margin, which gives probabilities.

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
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from multimargin import _core
from multimargin.estimators._clique_graph import Clique, CliqueGraph
from multimargin.estimators._clique_scores import NO_RESIDUALS
from multimargin.estimators._clique_training import Active, CliqueData, Work

__all__ = ["SoftmaxMargin"]


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

    def smoothed(self, W: NDArray[np.float64], mu: float) -> tuple[float, NDArray[np.float64]]:
        """Value and moments."""
        scores, truth = self.augmented(W)
        log_sum, moments = self.inference.log_partition(scores / mu, self.data.threads)
        losses = self.half_loss + mu * (log_sum - self.free * np.log(2.0)) - truth
        return float(self.cost @ losses), moments * self.known

    def residuals(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """``C_i (chi_T(y_i) - E_i chi_T)``."""
        return np.asarray(self.cost[:, None] * (self.chi - moments))

    def products(self, residuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """``q_T``, one row for each subset."""
        return np.asarray((self.X.T @ residuals).T if sp.issparse(self.X) else residuals.T @ self.X)


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
            value, moments = loss.smoothed(W, self.temperature)
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
        return Active(graph, eta, best["W"], best["primal"], best["dual"], status, 1.0, np.nan, NO_RESIDUALS, None)


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
    if last is None:
        return W
    before = last.graph.kappa(last.eta)
    for k, subset in enumerate(last.graph.subsets):
        at = graph.positions.get(subset)
        if at is not None and before[k] > 0:
            W[at] = last.weights[k] * (kappa[at] / before[k])
    return W

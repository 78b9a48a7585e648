r"""Clique models with the softmax margin, which gives probabilities.

The maximum over labellings becomes :math:`\mu \log \sum_y \exp(\cdot / \mu)`; its derivatives are moments of a
distribution over labellings, by sum-product. With z = W / kappa and q from those moments, the duality gap of a model and
its own distributions is :math:`\tfrac12 \sum_T \kappa_T |z_T - q_T|^2`. Far from the optimum, distributions mixed with
the truth give a better lower bound, since the entropy is concave. The minimiser works on weights times the root of a bound
of the second derivatives, so that features of different scale need not slow it down.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from multimargin.estimators._clique_data import AugmentedRows, CliqueData
from multimargin.estimators._clique_frank_wolfe import Active, Work, carried_over
from multimargin.estimators._clique_graph import CliqueGraph
from multimargin.estimators._clique_scores import scaled_dual

__all__ = ["SoftmaxMargin"]


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
        data = self.data
        inference = graph.inference(self.inference, self.treewidth_limit)
        rows = AugmentedRows(data, graph.subsets)
        kappa = graph.kappa(eta)
        root = np.sqrt(kappa)[:, None]
        curvature = np.sqrt(1.0 + kappa[:, None] * (data.mean_squares() * len(data.cost) / self.temperature))
        best: dict[str, Any] = {"primal": np.inf, "dual": 0.0}

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            V = flat.reshape(curvature.shape) / curvature
            W = root * V
            loss, linear, q = rows.softmax(W[:, :-1], W[:, -1] * data.bias, self.temperature, inference, data.threads)
            primal = 0.5 * float(np.sum(V**2)) + loss
            dual = scaled_dual(linear, 0.5 * float(kappa @ np.einsum("td,td->t", q, q)))
            if primal - dual < best["primal"] - best["dual"]:
                best.update(primal=primal, dual=dual, weights=W)
            work.passes += 1
            stop = work.report(0, 0.0, best["primal"], best["dual"])
            if stop or primal - dual <= tol * primal or work.passes_left <= 0 or work.time_left <= 0:
                raise _Enough
            return primal, ((V - root * q) / curvature).ravel()

        start = carried_over(graph, kappa, last, curvature.shape[1]) / root * curvature
        options = {"maxiter": 10**6, "maxfun": 10**7, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
        with suppress(_Enough):
            scipy.optimize.minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
        gap = best["primal"] - best["dual"]
        status = "converged" if gap <= tol * best["primal"] else work.exhausted or "max_iter"
        return Active(graph, eta, best["weights"], best["primal"], best["dual"], status, None)


class _Enough(Exception):  # noqa: N818 -- not an error: ends the minimiser
    pass

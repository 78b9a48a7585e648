r"""Clique models with the softmax margin, which gives probabilities.

The maximum over labellings becomes :math:`\mu \log \sum_y \exp(\cdot / \mu)`; its derivatives are moments of a
distribution over labellings, by sum-product. With z = W / kappa and q from those moments, the duality gap of a model
and its own distributions is :math:`\tfrac12 \sum_T \kappa_T |z_T - q_T|^2`. Far from the optimum, distributions mixed
with the truth give a better lower bound, since the entropy is concave. The minimiser works on weights times the root of
the second derivatives, taken afresh now and then, so that features of different scale need not slow it down.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from multimargin._core import Status
from multimargin.estimators.cliques.allowance import Allowance
from multimargin.estimators.cliques.data import AugmentedRows, CliqueData
from multimargin.estimators.cliques.graph import CliqueGraph, divided
from multimargin.estimators.cliques.scores import scaled_dual
from multimargin.estimators.cliques.solution import Solution

__all__ = ["SoftmaxMargin"]

CALLS_PER_SCALE = 50


@dataclass(frozen=True)
class SoftmaxMargin:
    """The softmax-margin problem on a fixed graph with fixed shares, by L-BFGS."""

    data: CliqueData
    temperature: float

    def solve(
        self, graph: CliqueGraph, eta: NDArray[np.float64], last: Solution | None, tol: float, work: Allowance
    ) -> Solution:
        """Solve to a relative gap, starting from the last solution."""
        data = self.data
        rows = AugmentedRows(data, graph.subsets)
        kappa = graph.kappa(eta)
        root = np.sqrt(kappa)
        W = Solution.start(graph, eta, last, data.X.shape[1] + 1).weights
        scale = np.ones_like(W)
        best: dict[str, Any] = {"primal": np.inf, "dual": 0.0}

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            V = flat.reshape(scale.shape) / scale
            W = root * V
            coef, intercept = W[:, :-1], W[:, -1] * data.bias
            loss, linear, moments = rows.softmax(coef, intercept, self.temperature, graph.inference, data.threads)
            q = rows.products(moments)
            primal = 0.5 * float(np.sum(V**2)) + loss
            dual = scaled_dual(linear, 0.5 * float(np.sum(kappa * q**2)))
            if primal - dual < best["primal"] - best["dual"]:
                best.update(primal=primal, dual=dual, weights=W)
            if primal < best.get("lowest", np.inf):
                best.update(lowest=primal, next=W, moments=moments)
            work.passes += 1
            stop = work.report(work.passes, 0.0, best["primal"], best["dual"])
            if stop or primal - dual <= tol * primal or work.out_of_limits:
                raise _Enough
            return primal, ((V - root * q) / scale).ravel()

        with suppress(_Enough):
            objective(divided(W, root))
            while True:
                calls, lowest = work.passes, best["lowest"]
                scale = np.sqrt(1.0 + kappa * rows.spreads(best["moments"]) / self.temperature)
                start = divided(best["next"], root) * scale
                options = {"maxfun": CALLS_PER_SCALE, "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
                scipy.optimize.minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
                if best["lowest"] == lowest and work.passes < calls + CALLS_PER_SCALE:
                    break  # no step lowers the objective any more, to the precision of its numbers
        gap = best["primal"] - best["dual"]
        status = Status.converged if gap <= tol * best["primal"] else work.exhausted or Status.max_iter
        return Solution(graph, eta, best["weights"], best["primal"], best["dual"], status, None)


class _Enough(Exception):  # noqa: N818 -- not an error: ends the minimiser
    pass

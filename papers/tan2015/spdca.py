"""Algorithms 2 and 3 of the paper, SPDCA, as printed, beside the certified optimum of the problem they are meant for.

    (10)   min over w   lambda / 2 |u|^2 + lambda / 2 (sum_c |v_c|)^2
                        + 1/n sum_i max_y [loss(y, y_i) + F(x_i, y) - F(x_i, y_i)]

with one clique in each group, which is ``CliqueClassifier(budget=1)``. What is printed:

    pick i;  y = argmax of the loss-augmented score, xi its value;  delta = xi / (theta (|Phi|^2 / (lambda n) + nu))
    z = w + delta Phi;  w = the gradient of the conjugate of the smoothed regulariser at z (Algorithm 3)
    f_h = the mean xi of epoch h, with the regulariser;  theta is doubled when it has risen;
    the end is |f_h - f_(h-5)| <= epsilon f_(h-5)

It is softened where it cannot run: Phi is the difference of the features where the norm of the features is printed, the
truth is allowed as an answer of the oracle, and there is no step unless xi > 0. "accumulated" repairs what the theory
forbids: z is a dual variable of its own, moved by delta / (lambda n) with delta at most 1, and w follows from it.
Neither keeps dual variables that are feasible, so neither can have a certificate of its own: what is reported is the
objective (10) at their weights, without the smoothing, against the bounds of the certified solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import CliqueClassifier, datasets
from papers.measuring import Cell, Settings, Step, cell

__all__ = ["printed_solver"]

Array = NDArray[Any]

DIVERGED = 1e9
NO_GAIN = 1e-12


def printed_solver(settings: Settings, step: Step) -> list[Cell]:
    """Objective of the printed solver, and of a repaired one, after so many epochs, beside certified bounds."""
    data = datasets.make_clique_labels(settings["rows"], random_state=0)
    cells = []
    for lam in settings["lambda"]:
        name = f"lambda {lam:g}: "
        step(f"{name}certified")
        model = CliqueClassifier(
            1.0 / (lam * len(data.X)),
            budget=1,
            batch=1,
            stopping="limit",
            max_cliques=settings["cliques"],
            prune=0.0,
            tol=settings["tol"],
            max_iter=20_000,
            random_state=0,
        ).fit(data.X, data.Y)
        bounds = {"objective": lam * model.certificate_.primal, "lower bound": lam * model.certificate_.dual}
        cells += _line(f"{name}certified", " ", bounds)
        for variant, sigma in product(("printed", "accumulated"), settings["sigma"]):
            of = f"{name}{variant}, sigma = {sigma:g} lambda"
            step(of)
            solver = _Spdca(data.X, data.Y.astype(int), model.cliques_, lam, sigma, variant == "accumulated")
            run = solver.run(settings["epochs"], settings["epsilon"], np.random.default_rng(0))
            measured = {
                "objective": run.objective,
                "its own estimate f_h": run.estimate,
                "epochs": run.epochs,
                "sum of the norms of the cliques": run.norms,
                "theta at the end": solver.theta,
            }
            cells += _line(of, ": ", measured)
    return cells


def _line(row: str, between: str, measured: dict[str, float]) -> list[Cell]:
    return [cell(f"{row}{between}{column}", value, row=row, column=column) for column, value in measured.items()]


@dataclass(frozen=True)
class _Run:
    """Where a run ended: by its own rule, after all epochs, or beyond all bounds (infinite objective)."""

    objective: float
    estimate: float
    epochs: int
    norms: float


class _Spdca:
    """Indicators are rotated to products of signs, which leaves all norms as they are."""

    def __init__(
        self, X: Array, Y: Array, cliques: list[tuple[int, ...]], lam: float, sigma: float, accumulated: bool
    ) -> None:
        self.psi = np.column_stack([X, np.ones(len(X))])
        self.lam, self.sigma, self.accumulated = lam, sigma, accumulated
        self.every = np.array(list(product([-1.0, 1.0], repeat=Y.shape[1])))
        self.signs = 2.0 * Y - 1.0
        parts = [part for a, b in cliques for part in ([a], [b], [a, b])]

        def features(y: Array) -> Array:
            return np.column_stack([y / np.sqrt(2.0), *(np.prod(y[:, part], axis=1) / 2.0 for part in parts)])

        self.phi, self.truth = features(self.every), features(self.signs)
        self.n_labels, self.n_groups = Y.shape[1], len(cliques)
        self.w = np.zeros((self.phi.shape[1], self.psi.shape[1]))
        self.z = self.w.copy()
        self.theta = 2.0
        self.squares = np.einsum("ij,ij->i", self.psi, self.psi)

    def gains(self, i: int) -> Array:
        """Loss-augmented score of every labelling less the score of the truth."""
        scores = self.w @ self.psi[i]
        loss = 0.5 * (self.n_labels - self.every @ self.signs[i])
        return np.asarray(loss + self.phi @ scores - self.truth[i] @ scores)

    def norms(self) -> Array:
        return np.asarray(np.linalg.norm(self.w[self.n_labels :].reshape(self.n_groups, -1), axis=1))

    def regulariser(self) -> float:
        return float(0.5 * self.lam * (np.sum(self.w[: self.n_labels] ** 2) + self.norms().sum() ** 2))

    def objective(self) -> float:
        """Return (10) at the present weights."""
        return self.regulariser() + float(np.mean([self.gains(i).max() for i in range(len(self.psi))]))

    def conjugate_gradient(self, z: Array) -> Array:
        """Algorithm 3."""
        s = 1.0 / self.sigma
        blocks = s * z[self.n_labels :].reshape(self.n_groups, -1)
        sizes = np.linalg.norm(blocks, axis=1)
        ordered = np.sort(sizes)[::-1]
        level = s * np.cumsum(ordered) / (1.0 + s * np.arange(1, self.n_groups + 1))
        above = np.flatnonzero(ordered > level)
        cut = level[above[-1]] if len(above) else 0.0
        shrunk = blocks * (np.maximum(sizes - cut, 0.0) / np.maximum(sizes, 1e-300))[:, None]
        return np.vstack([z[: self.n_labels], shrunk.reshape(-1, z.shape[1])])

    def run(self, epochs: int, epsilon: float, rng: np.random.Generator) -> _Run:
        n = len(self.psi)
        estimates: list[float] = []
        for epoch in range(1, epochs + 1):
            total = 0.0
            for i in rng.integers(n, size=n).tolist():
                gains = self.gains(i)
                best = int(gains.argmax())
                if not gains[best] < DIVERGED:
                    return _Run(np.inf, np.inf, epoch, np.inf)
                if gains[best] > NO_GAIN:
                    total += gains[best]
                    self.move(i, self.truth[i] - self.phi[best], float(gains[best]))
            estimates.append(total / n + self.regulariser())
            if len(estimates) > 2 and estimates[-1] > estimates[-2]:
                self.theta *= 2.0
            if len(estimates) > 5 and abs(estimates[-1] - estimates[-6]) <= epsilon * estimates[-6]:
                break
        return _Run(self.objective(), estimates[-1], len(estimates), float(self.norms().sum()))

    def move(self, i: int, d: Array, xi: float) -> None:
        scale = self.lam * len(self.psi)
        delta = xi / (self.theta * (d @ d * self.squares[i] / scale + 1e-3))
        if self.accumulated:
            self.z += (min(delta, 1.0) / scale) * np.outer(d, self.psi[i])
            self.w = self.conjugate_gradient(self.z)
        else:
            self.w = self.conjugate_gradient(self.w + delta * np.outer(d, self.psi[i]))

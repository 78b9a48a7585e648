"""Objectives and dual values of the estimators, in plain NumPy: what a fit states must agree with these."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from problems import Case, class_weights, margins
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from multimargin import CalibratedSeparationClassifier
from multimargin.label_kernels import Polynomial, label_atoms

__all__ = ["LABEL_KERNEL", "ListedSets", "kernel_m3l", "label_pairs", "linear_m3l", "rank_svm", "separation"]

LABEL_KERNEL = (0.6, 0.9)
"""Weights of the powers of the label kernel which :func:`separation` knows."""


def prior_matrix(prior: Any, n_labels: int) -> np.ndarray:
    """R as a matrix."""
    if prior is None:
        return np.eye(n_labels)
    return prior.toarray() if hasattr(prior, "toarray") else np.asarray(prior, float)


def pseudo_inverse(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors and eigenvalues of R that are not zero."""
    values, vectors = np.linalg.eigh(R)
    kept = values > len(R) * np.finfo(float).eps * values.max()
    return vectors[:, kept], values[kept]


def left_out(case: Case, R: np.ndarray) -> np.ndarray:
    """Constant labels that R ties to no label of which something is known."""
    linked = np.linalg.matrix_power((np.abs(R) > 1e-12).astype(float), len(R)) > 0 if len(R) else R
    others = (linked & ~np.eye(len(R), dtype=bool)) if len(R) else linked
    known = case.known.any(axis=0)
    informed = (linked & known[None, :]).any(axis=1)
    return case.constant & (~others.any(axis=1) | ~informed)


def kernel_values(kernel: str, X: np.ndarray, gamma: float, degree: float, coef0: float) -> np.ndarray:
    """Kernel values between the rows."""
    if kernel == "precomputed":
        return X
    if kernel == "poly":
        return polynomial_kernel(X, degree=degree, gamma=gamma, coef0=coef0)
    if kernel == "linear":
        return linear_kernel(X)
    return {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[kernel](X, gamma=gamma)


def m3l_targets(model: Any, case: Case, R: np.ndarray) -> np.ndarray:
    """``y m`` of every cell."""
    target = case.sign if model.loss == "hamming" else np.where(case.known, case.sign, 0.0) @ R
    return target * margins(case.sign, getattr(model, "margin", 1.0))


def linear_m3l(model: Any, case: Case) -> tuple[float, float | None]:
    """P of the weights, D of the dual variables kept for a warm start."""
    R = prior_matrix(model.prior, case.sign.shape[1])
    cost = case.costs(model.C_, model.class_weight) * ~left_out(case, R)
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    coef, intercept = model.coef_.astype(float), model.intercept_.astype(float)
    out = left_out(case, R)
    coef, intercept = np.where(out[:, None], 0, coef), np.where(out, 0, intercept)
    Z = np.column_stack([coef, intercept / bias if bias else intercept])
    target = m3l_targets(model, case, R)
    scores = case.dense @ coef.T + intercept
    vectors, values = pseudo_inverse(R)
    primal = 0.5 * (np.square(vectors.T @ Z) / values[:, None]).sum()
    primal += (cost * np.maximum(0.0, case.sign * (target - scores))).sum()
    if model._last is None:
        return primal, None
    beta = np.clip(
        model._last.state["beta"].astype(float), np.minimum(0, case.sign * cost), np.maximum(0, case.sign * cost)
    )
    V = np.column_stack([case.dense, np.full(len(case.dense), bias)]).T @ beta
    return primal, (target * beta).sum() - 0.5 * np.sum(np.square(V @ vectors) * values)


def kernel_m3l(model: Any, case: Case) -> tuple[float, float | None]:
    """Return the same for kernels."""
    R = prior_matrix(model.prior, case.sign.shape[1])
    out = left_out(case, R)
    cost = case.costs(model.C_, model.class_weight) * ~out
    K = kernel_values(model.kernel, case.dense, model.gamma_, model.degree, model.coef0)
    bias = model.intercept_scaling**2 if model.fit_intercept else 0.0
    A = np.zeros(case.sign.shape)
    A[model.support_] = np.where(out, 0, model.dual_coef_.astype(float))
    w = np.where(out, 0.0, model.intercept_.astype(float))
    target = m3l_targets(model, case, R)
    vectors, values = pseudo_inverse(R)
    white = A @ vectors / np.sqrt(values)
    primal = 0.5 * np.sum(white * (K @ white))
    primal += 0.5 * np.sum(np.square(w @ vectors) / values) / bias if bias else 0.0
    primal += (cost * np.maximum(0.0, case.sign * (target - K @ A - w))).sum()
    beta = None if model._last is None else model._last.state["beta"]
    if beta is None:
        if model.prior is not None:
            return primal, None
        beta = A
    beta = np.clip(beta.astype(float), np.minimum(0, case.sign * cost), np.maximum(0, case.sign * cost))
    white = beta @ vectors * np.sqrt(values)
    quadratic = np.sum(white * (K @ white)) + bias * np.square(white.sum(axis=0)).sum()
    return primal, (target * beta).sum() - 0.5 * quadratic


class ListedSets:
    """The problem of a fitted SubmodularClassifier, with all its label sets."""

    def __init__(self, model: Any, X: Any, Y: np.ndarray, weight: np.ndarray | None) -> None:
        self.X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
        known = ~np.isnan(Y)
        one_valued = np.array([len(np.unique(y[k])) < 2 for y, k in zip(Y.T, known.T, strict=True)])
        weight = np.ones(len(Y)) if weight is None else weight
        self.cost = model.C_ * weight
        on, there = np.where(known, Y, 0.0), known.astype(float)
        a, b = model.pairs_.T
        together = (weight @ (on[:, a] * on[:, b])) / np.maximum(weight @ (there[:, a] * there[:, b]), 1e-300)
        self.factor = model.pair_scale * together
        self.known = known & ~one_valued
        self.truth = np.where(self.known, on, 0.0)
        self.free = ~one_valued
        self.bias = model.intercept_scaling if model.fit_intercept else 0.0
        self.a, self.b, self.loss = a, b, model.loss
        self.weight = class_weights(Y, model.class_weight)

    def losses(self, n: int, sets: np.ndarray) -> np.ndarray:
        """Losses of label sets on row n."""
        truth = self.truth[n]
        if self.loss == "hamming":
            return np.abs(sets - truth) @ self.weight[n]
        total = sets.sum(axis=1) + truth.sum()
        return np.where(total > 0, 1 - 2 * (sets @ truth) / np.maximum(total, 1), 0.0)

    def both(self, sets: np.ndarray) -> np.ndarray:
        """Which pairs of labels the sets hold."""
        return sets[:, self.a] * sets[:, self.b]

    def primal(self, model: Any) -> float:
        """Objective of a model."""
        coef, intercept = model.coef_[self.free], model.intercept_[self.free]
        theta = np.divide(model.pair_coef_, self.factor, where=self.factor > 0, out=np.zeros_like(self.factor))
        value = 0.5 * (np.sum(coef**2) + np.sum(theta**2))
        if self.bias:
            value += 0.5 * np.sum((intercept / self.bias) ** 2)
        for n, x in enumerate(self.X):
            u = model.coef_ @ x + model.intercept_
            sets = np.array(list(product(*[(0.0, 1.0) if k else (0.0,) for k in self.known[n]])))
            own = self.truth[n : n + 1]
            scores = sets @ u + self.both(sets) @ model.pair_coef_ + self.losses(n, sets)
            value += self.cost[n] * (scores.max() - (own @ u + self.both(own) @ model.pair_coef_)[0])
        return value

    def dual(self, planes: Any) -> float:
        """Value of the best multiple of these weights of label sets."""
        row, weight, offsets, labels = planes.row, planes.weight, planes.offsets, planes.labels
        features = np.column_stack([self.X, np.full(len(self.X), self.bias)])
        theta, v, loss = np.zeros((self.truth.shape[1], features.shape[1])), np.zeros(len(self.factor)), 0.0
        assert np.all(weight >= 0)
        assert np.all(np.bincount(row, weight, len(self.X)) <= 1 + 1e-12)
        for k, n in enumerate(row):
            y = np.zeros((1, self.truth.shape[1]))
            y[0, labels[offsets[k] : offsets[k + 1]]] = 1.0
            assert not np.any(y[0, ~self.known[n]])
            amount, own = self.cost[n] * weight[k], self.truth[n : n + 1]
            loss += amount * self.losses(n, y)[0]
            theta += amount * np.outer(own - y, features[n])
            v += amount * self.factor * (self.both(own) - self.both(y))[0]
        squares = np.sum(theta**2) + np.sum(np.maximum(v, 0) ** 2)
        way = min(1.0, loss / squares) if squares > 0 else 1.0
        return way * loss - 0.5 * way**2 * squares


def pair_features(sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Label features of 0.6 n + 0.9 n^2: labels, and pairs of labels."""
    pairs = [sets[:, a] * sets[:, b] for a in range(sets.shape[1]) for b in range(a)]
    return np.sqrt(sum(LABEL_KERNEL)) * sets, np.sqrt(2 * LABEL_KERNEL[1]) * np.array(pairs).reshape(-1, len(sets)).T


def separation(model: Any, X: Any, Y: np.ndarray, weight: np.ndarray) -> tuple[float, float, float, float]:
    """Primal and dual value, and the size of rounding in them: explicit label features, no blocks."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    varies = np.array([{0.0, 1.0} <= set(column) for column in Y.T])
    Y = Y[:, varies]
    rows = (weight > 0) & ~np.isnan(Y).all(axis=1)
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    cells = class_weights(Y, model.class_weight)[rows]
    Y, cost, Z = Y[rows], model.C_ * weight[rows], X[rows]
    linear = model.kernel == "linear"
    # inner products of coefficients: of features, or of rows
    K = np.eye(Z.shape[1])
    if not linear:
        inputs = Z[:, rows] if model.kernel == "precomputed" else Z
        K = kernel_values(model.kernel, inputs, model.gamma_, model.degree, model.coef0)
    values = Z if linear else K
    unit = isinstance(model, CalibratedSeparationClassifier)
    positive, negative = Y == 1, Y == 0
    if unit:
        sets, a = np.eye(Y.shape[1]), np.ones(Y.shape[1])
        single, pairs = sets, np.zeros((len(sets), 0))
    else:
        sets = label_atoms(sp.csr_array(positive), sp.csr_array(negative), Polynomial(LABEL_KERNEL)).sets.toarray()
        single, pairs = pair_features(sets)
        everything = np.vstack([np.eye(Y.shape[1]), positive, negative])
        m = np.concatenate([np.ones(Y.shape[1]), weight[rows], weight[rows]])
        common = sets @ everything.T
        a = (LABEL_KERNEL[0] * common + LABEL_KERNEL[1] * common**2) @ m / (weight[rows].sum() + 1)

    def expanded(coef: np.ndarray) -> np.ndarray:
        if linear:
            return coef.astype(np.float64)
        full = np.zeros((len(X), coef.shape[1]))
        full[model.support_] = coef
        return full[rows]

    def value_of(coef: np.ndarray, constant: np.ndarray) -> np.ndarray:
        return values @ coef + constant

    def norm_of(coef: np.ndarray, constant: np.ndarray) -> float:
        return np.sum(coef * (K @ coef)) + (np.sum((constant / bias) ** 2) if bias else 0.0)

    reference, u0 = expanded(model.threshold_coef_[:, None]), np.array([model.threshold_intercept_])
    decision = expanded((model.coef_.T if linear else model.dual_coef_)[:, varies])
    scale = 1.0 if unit or model.decision == "paper" else a[: Y.shape[1]]
    length = 1.0 if unit else np.sqrt(sum(LABEL_KERNEL))
    labels, l0 = scale * (decision + reference) / length, scale * (model.intercept_[varies] + u0) / length
    of_pairs, p0 = np.zeros((len(K), 0)), np.zeros(0)
    if not unit:
        larger = pairs[Y.shape[1] :] / a[Y.shape[1] :, None]
        if hasattr(model, "set_coef_"):
            of_pairs, p0 = model.set_coef_.T @ larger, model.set_intercept_ @ larger
        else:
            B = model.set_dual_coef_.toarray()[rows] @ larger
            of_pairs, p0 = (Z.T @ B if linear else B), bias**2 * B.sum(axis=0)
    scores = value_of(labels, l0) @ (single / a[:, None]).T + value_of(of_pairs, p0) @ (pairs / a[:, None]).T
    U = scores - value_of(reference, u0)
    within = positive @ sets.T == sets.sum(axis=1)
    without = negative @ sets.T == sets.sum(axis=1)
    paid = [cost * (cells * of).sum(axis=1) / np.maximum(of.sum(axis=1), 1) for of in (positive, negative)]
    loss = paid[0] @ np.maximum(0, np.where(within, 1 - U, 0).max(axis=1))
    loss += paid[1] @ np.maximum(0, np.where(without, 1 + U, 0).max(axis=1))
    primal = 0.5 * (norm_of(labels, l0) + norm_of(of_pairs, p0) + norm_of(reference, u0)) + loss
    size = np.abs(values) @ (np.abs(labels).sum(axis=1) + np.abs(of_pairs).sum(axis=1) + np.abs(reference[:, 0]))

    D = model._last.state.D.toarray()
    assert np.all(D[~within] <= 0)
    assert np.all(D[~without] >= 0)
    for side, most in zip((D, -D), paid, strict=True):
        assert np.all(np.maximum(side, 0).sum(axis=1) <= most * (1 + 1e-12))

    def dual_norm(B: np.ndarray) -> float:
        return norm_of(Z.T @ B if linear else B, bias**2 * B.sum(axis=0))

    parts = [D @ (single / a[:, None]), D @ (pairs / a[:, None]), D.sum(axis=1, keepdims=True)]
    dual = np.abs(D).sum() - 0.5 * sum(map(dual_norm, parts))
    rounding = 0.0  # of D'KDR; the certifier counts it against itself
    if not linear:
        R = (single / a[:, None]) @ (single / a[:, None]).T + (pairs / a[:, None]) @ (pairs / a[:, None]).T + 1
        v = np.sqrt(np.maximum(np.diag(K) + bias**2, 0)) @ np.abs(D)
        rounding = 2.3e-16 * v @ R @ v
    return primal, dual, 1e-13 * float((paid[0] + paid[1]) @ size), rounding + 1e-13 * float(np.abs(D).sum())


def label_pairs(Y: np.ndarray) -> Iterator[tuple[int, int, int, float]]:
    """Row, a label it has, a label it lacks, and the share of the pair."""
    for i, y in enumerate(Y):
        on, off = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        for k in on:
            for n in off:
                yield i, k, n, 1.0 / (len(on) * len(off))


def _ranked(model: Any, X: Any, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Rows, labels that vary, their ranking weights and constants, and the constant feature."""
    varies = np.array([{0.0, 1.0} <= set(column) for column in Y.T])
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    w = model.coef_[varies].astype(np.float64)
    b = model.intercept_[varies].astype(np.float64)
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    return X, Y[:, varies], w - w.sum(axis=0) / len(w), b - b.sum() / len(b), bias


def rank_svm(model: Any, X: Any, Y: np.ndarray, cost: np.ndarray, alpha: Any) -> tuple[float, float, float]:
    """Primal value of the decisions, dual value of clipped variables, and the size of rounding, pair by pair."""
    X, Y, w, b, bias = _ranked(model, X, Y)
    scores = X @ w.T + b
    primal = 0.5 * np.sum(w**2) + (0.5 * np.sum((b / bias) ** 2) if bias else 0.0)
    V, total, rounding = np.zeros((Y.shape[1], X.shape[1] + 1)), 0.0, 0.0
    for (i, k, n, share), a in zip(label_pairs(Y), alpha, strict=True):
        primal += cost[i] * share * max(0.0, 1 - scores[i, k] + scores[i, n])
        rounding += cost[i] * share * np.abs(X[i]) @ (np.abs(w[k]) + np.abs(w[n]))
        a = min(max(a, 0.0), cost[i] * share)
        V[k] += a * np.append(X[i], bias)
        V[n] -= a * np.append(X[i], bias)
        total += a
    return primal, total - 0.5 * np.sum(V**2), 1e-13 * rounding


def category_ranking(model: Any, X: Any, Y: np.ndarray, cost: np.ndarray, dual: Any) -> tuple[float, float, float]:
    """Primal value of the decisions, dual value of feasible variables, and the size of rounding, row by row."""
    X, Y, w, b, bias = _ranked(model, X, Y)
    primal = 0.5 * np.sum(w**2) + (0.5 * np.sum((b / bias) ** 2) if bias else 0.0)
    V, total, rounding = np.zeros((Y.shape[1], X.shape[1] + 1)), 0.0, 0.0
    for x, y, c, part in zip(X, Y, cost, dual, strict=True):
        on, off = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        if not len(on) or not len(off):
            continue
        scores = w @ x + b
        primal += c * max(0.0, 1 + scores[off].max() - scores[on].min())
        rounding += 2 * c * np.max(np.abs(w) @ np.abs(x))
        lift, lower = np.maximum(part[on], 0.0), np.maximum(-part[off], 0.0)
        t = min(lift.sum(), lower.sum(), c)
        if t > 0:
            V[on] += np.outer(lift * t / lift.sum(), np.append(x, bias))
            V[off] -= np.outer(lower * t / lower.sum(), np.append(x, bias))
            total += t
    return primal, total - 0.5 * np.sum(V**2), 1e-13 * rounding

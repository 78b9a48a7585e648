"""Objectives and dual values of the estimators, in plain NumPy: what a fit states must agree with these."""

from __future__ import annotations

from typing import Any

import numpy as np
from problems import Case
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

__all__ = ["kernel_m3l", "linear_m3l"]


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


def linear_m3l(model: Any, case: Case) -> tuple[float, float | None]:
    """P of the weights, D of the dual variables kept for a warm start."""
    R = prior_matrix(model.prior, case.sign.shape[1])
    cost = case.costs(model.C) * ~left_out(case, R)
    bias = model.intercept_scaling if model.fit_intercept else 0.0
    coef, intercept = model.coef_.astype(float), model.intercept_.astype(float)
    out = left_out(case, R)
    coef, intercept = np.where(out[:, None], 0, coef), np.where(out, 0, intercept)
    Z = np.column_stack([coef, intercept / bias if bias else intercept])
    target = case.sign if model.loss == "hamming" else np.where(case.known, case.sign, 0.0) @ R
    scores = case.dense @ coef.T + intercept
    vectors, values = pseudo_inverse(R)
    primal = 0.5 * (np.square(vectors.T @ Z) / values[:, None]).sum()
    primal += (cost * np.maximum(0.0, case.sign * (target - scores))).sum()
    if getattr(model, "_beta", None) is None:
        return primal, None
    beta = np.clip(model._beta.astype(float), np.minimum(0, case.sign * cost), np.maximum(0, case.sign * cost))
    V = np.column_stack([case.dense, np.full(len(case.dense), bias)]).T @ beta
    return primal, (target * beta).sum() - 0.5 * np.sum(np.square(V @ vectors) * values)


def kernel_m3l(model: Any, case: Case) -> tuple[float, float | None]:
    """Return the same for kernels."""
    R = prior_matrix(model.prior, case.sign.shape[1])
    out = left_out(case, R)
    cost = case.costs(model.C) * ~out
    K = {"linear": linear_kernel, "rbf": rbf_kernel, "poly": polynomial_kernel}[model.kernel]
    options = {"linear": {}, "rbf": {"gamma": model.gamma_}}.get(
        model.kernel, {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    )
    K = K(case.dense, case.dense, **options)
    bias = model.intercept_scaling**2 if model.fit_intercept else 0.0
    A = np.zeros(case.sign.shape)
    A[model.support_] = np.where(out, 0, model.dual_coef_.astype(float))
    w = np.where(out, 0.0, model.intercept_.astype(float))
    target = case.sign if model.loss == "hamming" else np.where(case.known, case.sign, 0.0) @ R
    vectors, values = pseudo_inverse(R)
    white = A @ vectors / np.sqrt(values)
    primal = 0.5 * np.sum(white * (K @ white))
    primal += 0.5 * np.sum(np.square(w @ vectors) / values) / bias if bias else 0.0
    primal += (cost * np.maximum(0.0, case.sign * (target - K @ A - w))).sum()
    beta = getattr(model, "_beta", None)
    if beta is None:
        if model.prior is not None:
            return primal, None
        beta = A
    beta = np.clip(beta.astype(float), np.minimum(0, case.sign * cost), np.maximum(0, case.sign * cost))
    white = beta @ vectors * np.sqrt(values)
    quadratic = np.sum(white * (K @ white)) + bias * np.square(white.sum(axis=0)).sum()
    return primal, (target * beta).sum() - 0.5 * quadratic

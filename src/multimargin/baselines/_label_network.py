r"""Bayesian networks of jointly normal variables with the best score.

The score of a label l with parents S is :math:`-\tfrac n2 \log \sigma^2(l \mid S) - \tfrac{|S|}{2} \log n` with the
residual variance :math:`\sigma^2(l \mid S) = R_{ll} - R_{lS} R_{SS}^{-1} R_{Sl}` (BIC). Up to 20
labels the best network is found, by dynamic programming over sets of labels: F(T), the best score of all labels outside
of T if T comes before them, is :math:`\max_{l \notin T} b_l(T) + F(T + l)`, where :math:`b_l(T)` is the
score of the best parents of l in T. Beyond, arrows are added as long as one raises the score, the best first.
"""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_network", "network_score"]

Array = NDArray[np.float64]
Network = tuple[list[int], list[list[int]]]

EXACT_LABELS = 20
EQUAL = 1e-9
"""Scores that differ by less are taken for equal; then the first order counts, and the first of the fewest parents."""
SMALLEST_VARIANCE = 1e-9


def best_network(errors: Array, max_parents: int) -> Network:
    """Return an order of the variables, columns of ``errors``, and the parents of each."""
    n, n_labels = errors.shape
    R = _covariance(errors)
    if max_parents == 0:
        return list(range(n_labels)), [[] for _ in range(n_labels)]
    return _exact(R, n, max_parents) if n_labels <= EXACT_LABELS else _greedy(R, n, max_parents)


def network_score(errors: Array, parents: list[list[int]]) -> float:
    """Score of a network."""
    R = _covariance(errors)
    return sum(float(_scores(R, len(errors), label, np.array([given]))[0]) for label, given in enumerate(parents))


def _covariance(errors: Array) -> Array:
    R = np.cov(errors, rowvar=False, bias=True).reshape(errors.shape[1], errors.shape[1])
    R[np.diag_indices_from(R)] += 1e-9 * max(np.trace(R) / len(R), np.finfo(float).tiny)
    return R


def _scores(R: Array, n: int, label: int, sets: NDArray[np.intp]) -> Array:
    """Scores of a label with parent sets, all of one size, one a row."""
    variance = np.full(len(sets), R[label, label])
    if sets.shape[1]:
        sets = sets.astype(np.intp)
        cross = R[label, sets]
        solved = np.linalg.solve(R[sets[:, :, None], sets[:, None, :]], cross[:, :, None])[:, :, 0]
        variance -= np.sum(cross * solved, axis=1)
    variance = np.maximum(variance, SMALLEST_VARIANCE * R[label, label])
    return np.asarray(-0.5 * n * np.log(variance) - 0.5 * sets.shape[1] * log(n))


def _exact(R: Array, n: int, max_parents: int) -> Network:
    n_labels = len(R)
    sets, scores = _candidates(R, n, max_parents)
    best = np.full((n_labels, 2**n_labels), -np.inf)
    for label in range(n_labels):
        np.maximum.at(best[label], _masks(sets[label]), scores[label])
        for bit in range(n_labels):  # the best parents in a set are the best in one of its subsets
            halves = best[label].reshape(-1, 2, 2**bit)
            np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    future = np.full(2**n_labels, -np.inf)
    future[-1] = 0.0
    sizes = np.bitwise_count(np.arange(2**n_labels))
    for size in range(n_labels - 1, -1, -1):
        before = np.flatnonzero(sizes == size)
        for label in range(n_labels):
            ahead = before[(before >> label) & 1 == 0]
            future[ahead] = np.maximum(future[ahead], best[label, ahead] + future[ahead | (1 << label)])
    order: list[int] = []
    parents: list[list[int]] = [[] for _ in range(n_labels)]
    before_label = 0
    while len(order) < n_labels:
        label = next(
            label
            for label in range(n_labels)
            if not before_label >> label & 1
            and best[label, before_label] + future[before_label | 1 << label] >= future[before_label] - EQUAL
        )
        inside = _masks(sets[label]) & ~before_label == 0
        first = np.flatnonzero(inside & (scores[label] >= best[label, before_label] - EQUAL))[0]
        parents[label] = list(sets[label][first])
        order.append(label)
        before_label |= 1 << label
    return order, parents


def _candidates(R: Array, n: int, max_parents: int) -> tuple[list[list[tuple[int, ...]]], list[Array]]:
    """All parent sets of each label, the small ones first, and their scores."""
    sets: list[list[tuple[int, ...]]] = []
    scores: list[Array] = []
    for label in range(len(R)):
        others = [other for other in range(len(R)) if other != label]
        by_size = [list(combinations(others, size)) for size in range(min(max_parents, len(others)) + 1)]
        sets.append([given for group in by_size for given in group])
        scores.append(np.concatenate([_scores(R, n, label, np.array(group, dtype=np.intp)) for group in by_size]))
    return sets, scores


def _masks(sets: list[tuple[int, ...]]) -> NDArray[np.int64]:
    return np.array([sum(1 << other for other in given) for given in sets], dtype=np.int64)


def _greedy(R: Array, n: int, max_parents: int) -> Network:
    n_labels = len(R)
    parents: list[list[int]] = [[] for _ in range(n_labels)]
    leads = np.eye(n_labels, dtype=bool)  # [a, b]: a path from a to b
    gains = np.array([_gains(R, n, label, []) for label in range(n_labels)])
    while True:
        full = np.array([len(given) >= max_parents for given in parents])
        allowed = np.where(leads | full[:, None], -np.inf, gains)
        label, other = np.unravel_index(np.argmax(allowed), allowed.shape)
        if not allowed[label, other] > EQUAL:
            break
        parents[label] = sorted([*parents[label], int(other)])
        leads |= np.outer(leads[:, other], leads[label])
        gains[label] = _gains(R, n, int(label), parents[label])
    order: list[int] = []
    while len(order) < n_labels:
        order.append(next(k for k in range(n_labels) if k not in order and set(parents[k]) <= set(order)))
    return order, parents


def _gains(R: Array, n: int, label: int, given: list[int]) -> Array:
    """By how much each further parent of a label would raise its score."""
    rest = R - R[:, given] @ np.linalg.solve(R[np.ix_(given, given)], R[given]) if given else R
    own = max(rest[label, label], SMALLEST_VARIANCE * R[label, label])
    variances = np.maximum(np.diag(rest), SMALLEST_VARIANCE * np.diag(R))
    left = np.maximum(own - rest[label] ** 2 / variances, SMALLEST_VARIANCE * R[label, label])
    gains = -0.5 * n * (np.log(left) - log(own)) - 0.5 * log(n)
    gains[[label, *given]] = -np.inf
    return np.asarray(gains)

r"""Scores of all pairs of labels at the cost of the pairs that are present.

With :math:`\chi_k = 2 y_k - 1` the character of a pair is :math:`\chi_{ab} = 1 - 2 y_a - 2 y_b + 4 y_a y_b`, so that

.. math:: q_{ab} = 4 p_{ab} - q_a - q_b, \qquad p_{ab} = \sum_i C_i (y_{ia} y_{ib} - E_i[y_a y_b])\, x_i .

A row enters :math:`p_{ab}` only if a and b are both on, in the truth or in an atom: of thousands of pairs those are a
few. The scores are those of all pairs, exact but for rounding, whose part of a score is as small as in a plain sum: a
score holds :math:`|q_a|^2 + |q_b|^2`, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.graph import Clique

__all__ = ["pair_squares", "sees_pairs"]

BLOCK_ENTRIES = 2**22
"""Pairs listed at a time."""

PANEL_BYTES = 64 * 2**20


def sees_pairs(data: CliqueData, cliques: Sequence[Clique]) -> bool:
    """Whether the identity holds for these cliques: pairs of labels known in all rows, of features that all see."""
    return (
        data.joint is None
        and data.problem.labels.missing is None
        and all(len(c) == 2 for c in cliques)
        and not data.problem.constant[[k for c in cliques for k in c]].any()
    )


def pair_squares(
    data: CliqueData, atoms: _core.Atoms, X: Any, pairs: NDArray[np.int64], Q: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``|q_ab|^2`` of each pair; X: the rows with atoms, Q: q of single labels, the constant feature last."""
    S = _changes_of_pairs(data, atoms, pairs)
    width = max(1, PANEL_BYTES // (8 * Q.shape[1]))
    squares = np.empty(len(pairs))
    for start in range(0, len(pairs), width):
        block = slice(start, start + width)
        of_nodes = Q[pairs[block, 0]] + Q[pairs[block, 1]]
        last = data.bias * np.asarray(S[block].sum(axis=1)).ravel()
        P = S[block] @ X
        if sp.issparse(P):
            P = P.toarray()
        q = 4.0 * np.column_stack([P, last]) - of_nodes
        squares[block] = np.einsum("td,td->t", q, q)
    return squares


def _changes_of_pairs(data: CliqueData, atoms: _core.Atoms, pairs: NDArray[np.int64]) -> sp.csr_array:
    """``C_i (y_a y_b - E_i[y_a y_b])``: a row for each pair, a column for each row with atoms."""
    rows, K = atoms.rows, data.n_labels
    place = np.full((K, K), -1, dtype=np.int64)
    place[pairs[:, 0], pairs[:, 1]] = place[pairs[:, 1], pairs[:, 0]] = np.arange(len(pairs))
    at = np.searchsorted(rows, atoms.row)
    moved = np.bincount(at, weights=atoms.weight, minlength=len(rows))
    cost = data.cost[rows]
    truth = sp.csr_array(data.problem.labels.positives[rows])
    total = sp.csr_array((len(pairs), len(rows)))
    bits = np.ascontiguousarray(atoms.bits)
    for labels, column, weight in (
        (truth, np.arange(len(rows)), cost * moved),
        (_label_sets(bits, K), at, -cost[at] * atoms.weight),
    ):
        for block in _blocks(labels):
            entry, a, b = _present_pairs(labels[block])
            row = place[a, b]
            entry, row = entry[row >= 0] + block.start, row[row >= 0]
            total = total + sp.csr_array((weight[entry], (row, column[entry])), shape=total.shape)
    return total


def _label_sets(bits: NDArray[np.uint64], n_labels: int) -> sp.csr_array:
    """Labels of labellings given as words of bits."""
    octets = bits.astype("<u8", copy=False).view(np.uint8).reshape(len(bits), -1)
    on = np.unpackbits(octets, axis=1, bitorder="little", count=n_labels)
    return sp.csr_array(on)


def _blocks(labels: sp.csr_array) -> list[slice]:
    """Rows in blocks that list about ``BLOCK_ENTRIES`` pairs each."""
    size = np.diff(labels.indptr).astype(np.int64)
    ends = np.cumsum(size * (size - 1) // 2)
    cuts = np.searchsorted(ends, np.arange(BLOCK_ENTRIES, ends[-1] if len(ends) else 0, BLOCK_ENTRIES)) + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(size)]]))
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def _present_pairs(labels: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row and both labels of every pair of labels of a row."""
    size = np.diff(labels.indptr).astype(np.int64)
    row = np.repeat(np.arange(len(size)), size)
    place = np.arange(len(row))
    partners = labels.indptr[row + 1] - place - 1  # of each label those after it in its row
    first = np.repeat(place, partners)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(partners) - partners, partners)
    return row[first], labels.indices[first].astype(np.int64), labels.indices[second].astype(np.int64)

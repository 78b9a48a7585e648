"""Pairs of labels that may attract each other."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.errors import InputError
from multimargin.labels import LabelMatrix

__all__ = ["LabelPairs", "choose_pairs", "label_pairs"]


AUTO_SHARE, AUTO_PAIRS, AUTO_PAIRS_A_LABEL = 0.5, 100, 2
"""``pairs="auto"``: this share of all pairs, but no more than so many, or so many for each label."""


@dataclass(frozen=True)
class LabelPairs:
    """Pairs that may attract, and how often they are together."""

    columns: NDArray[np.int32]
    frequency: NDArray[np.float64]


def choose_pairs(pairs: Any, labels: LabelMatrix, weight: NDArray[np.float64]) -> LabelPairs:
    """Return the pairs that the parameter ``pairs`` means."""
    if isinstance(pairs, (Real, str)):
        constant = labels.constant
        upper = sp.triu(_joint(labels.positives, weight), k=1, format="coo")
        first, second, count = upper.row, upper.col, upper.data
        usable = ~(constant[first] | constant[second]) & (count > 0)
        first, second, count = first[usable], second[usable], count[usable]
        order = np.lexsort((second, first, -count))[: _most_pairs(pairs, labels.n_labels)]
        columns = np.column_stack([first[order], second[order]])
    else:
        columns = _named_pairs(pairs, labels)
    return label_pairs(np.ascontiguousarray(columns, dtype=np.int32).reshape(-1, 2), labels, weight)


def _most_pairs(share: Any, n_labels: int) -> int:
    all_pairs = n_labels * (n_labels - 1) / 2
    if isinstance(share, str):  # "auto"
        return int(min(AUTO_SHARE * all_pairs, max(AUTO_PAIRS, AUTO_PAIRS_A_LABEL * n_labels)))
    return int(float(share) * all_pairs)


def label_pairs(columns: NDArray[np.int32], labels: LabelMatrix, weight: NDArray[np.float64]) -> LabelPairs:
    """Return these pairs with the weighted share of rows that have both, among the rows in which both are known."""
    known = np.full(len(columns), weight.sum())
    if labels.missing is not None:
        unknown = _joint(labels.missing, weight)
        single = unknown.diagonal()
        known = known - single[columns[:, 0]] - single[columns[:, 1]] + _entries(unknown, columns)
    count = _entries(_joint(labels.positives, weight), columns)
    return LabelPairs(columns, count / np.where(known > 0, known, 1.0))


def _entries(matrix: sp.csr_array, places: NDArray[np.int32]) -> NDArray[np.float64]:
    if not len(places):  # an empty index into a sparse array gives no vector
        return np.zeros(0)
    return np.asarray(matrix[places[:, 0], places[:, 1]], dtype=np.float64).ravel()


def _joint(cells: sp.csr_array, weight: NDArray[np.float64]) -> sp.csr_array:
    cells = cells.astype(np.float64)
    return sp.csr_array(cells.T @ (sp.diags_array(weight) @ cells))


def _named_pairs(pairs: Any, labels: LabelMatrix) -> NDArray[np.int64]:
    column = {name: k for k, name in enumerate(labels.names.tolist())}
    found: dict[tuple[int, int], None] = {}
    for pair in pairs:
        names = list(pair) if isinstance(pair, (tuple, list, set, frozenset, np.ndarray)) else [pair]
        names = [name.item() if isinstance(name, np.generic) else name for name in names]
        if len(names) != 2 or names[0] == names[1]:
            msg = (
                'pairs must be "auto", a share of all pairs, or a list of pairs of two different labels; '
                f"got {pair!r} in it."
            )
            raise InputError(msg)
        unknown = [name for name in names if name not in column]
        if unknown:
            msg = f"pairs names the label {unknown[0]!r}, which is not one of the {len(column)} labels of Y."
            raise InputError(msg)
        a, b = sorted((column[names[0]], column[names[1]]))
        found[a, b] = None
    return np.array(list(found), dtype=np.int64).reshape(-1, 2)

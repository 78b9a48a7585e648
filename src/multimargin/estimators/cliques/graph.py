"""Label cliques: their subsets, the fixed graphs, and the cliques that may join a learned one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree

from multimargin import _core
from multimargin.errors import InputError
from multimargin.estimators.cliques.joint_features import JointColumns
from multimargin.estimators.predictor import row_blocks
from multimargin.labels import LabelMatrix

__all__ = [
    "Clique",
    "CliqueGraph",
    "candidate_cliques",
    "chow_liu",
    "compiled",
    "divided",
    "label_subsets",
    "named_cliques",
]

Clique = tuple[int, ...]

EXHAUSTIVE_TRIPLES = 40
"""Up to so many labels all triples are candidates; beyond, they grow out of pairs."""

RANDOM_TRIPLES = 2000
COMPILED = "inference"
"""Attribute of a graph that stays in this process."""


@dataclass(frozen=True)
class CliqueGraph:
    """Cliques of labels, the label subsets T whose characters make up the score, and how labellings are maximised."""

    n_labels: int
    cliques: tuple[Clique, ...] = ()
    method: str = "auto"
    treewidth_limit: int = 12
    joint: JointColumns | None = None
    subsets: tuple[Clique, ...] = field(init=False)

    def __post_init__(self) -> None:
        single = [(k,) for k in range(self.n_labels)]
        larger = sorted({t for c in self.cliques for t in _parts(c) if len(t) > 1}, key=lambda t: (len(t), t))
        object.__setattr__(self, "subsets", (*single, *larger))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != COMPILED}

    def with_cliques(self, cliques: Iterable[Clique]) -> CliqueGraph:
        """Return the graph of other cliques; this one, whose inference is compiled, if they are the same."""
        cliques = tuple(cliques)
        return self if cliques == self.cliques else replace(self, cliques=cliques)

    @cached_property
    def inference(self) -> _core.CliqueInference:
        """Inference, compiled once for a graph."""
        return compiled(self.n_labels, self.subsets, self.method, self.treewidth_limit)

    @cached_property
    def positions(self) -> dict[Clique, int]:
        """Where a subset stands in the list."""
        return {t: k for k, t in enumerate(self.subsets)}

    @cached_property
    def members(self) -> list[NDArray[np.int32]]:
        """Positions of the subsets of each clique."""
        return [np.array([self.positions[t] for t in _parts(c)], dtype=np.int32) for c in self.cliques]

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        """``2 ** -size`` of each clique."""
        return np.array([2.0 ** -len(c) for c in self.cliques])

    def native_cliques(self, budget: int) -> _core.Cliques:
        """Return the cliques for the native core; ``budget`` is r of the k-support norm."""
        starts = np.cumsum([0, *map(len, self.members)]).astype(np.int64)
        return _core.Cliques(starts, np.concatenate([*self.members, np.zeros(0, np.int32)]), self.scale, budget)

    @cached_property
    def sight(self) -> list[NDArray[np.float64]]:
        """Which columns the single labels see, then each clique: 1 for all in one, or 1 and 0 for each column."""
        if self.joint is None:
            return [np.ones(1)] * (len(self.cliques) + 1)
        return [self.joint.common, *map(self.joint.seen, self.cliques)]

    def kappa(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the factors in ``W_T = kappa_T q_T``: a row for each subset, one column or one for each of X's."""
        nodes, *seen = self.sight
        kappa = np.zeros((len(self.subsets), len(nodes)))
        kappa[: self.n_labels] = 0.5 * nodes
        for positions, columns, scale, share in zip(self.members, seen, self.scale, eta, strict=True):
            kappa[positions] += share * scale * columns
        return kappa

    def squares(self, Q: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the squares of numbers of subsets and columns, summed up over columns that everybody sees."""
        return np.einsum("td,td->t", Q, Q, dtype=np.float64)[:, None] if self.joint is None else np.square(Q)

    def scores(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``s_c`` of each clique from the squares of q."""
        sums = [(squares[t] @ seen).sum() for t, seen in zip(self.members, self.sight[1:], strict=True)]
        return np.array(sums) * self.scale

    def node_part(self, squares: NDArray[np.float64]) -> float:
        """Return half the squares of the single labels."""
        return 0.5 * float((squares[: self.n_labels] @ self.sight[0]).sum())

    def norms(self, W: NDArray[np.float64], eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``|v_c|`` of each clique, for weights with these shares."""
        return np.asarray(eta * np.sqrt(self.scores(self.squares(divided(W, self.kappa(eta))))))


def divided(W: NDArray[np.float64], kappa: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights over their factors; 0 where a subset does not see a column."""
    kappa = np.broadcast_to(kappa, W.shape)
    return np.divide(W, kappa, out=np.zeros_like(W), where=kappa > 0)


def compiled(n_labels: int, subsets: Sequence[Clique], method: str, treewidth_limit: int) -> _core.CliqueInference:
    """Compile inference for a list of label subsets, single labels first."""
    return _core.CliqueInference(label_subsets(n_labels, subsets), method=method, treewidth_limit=treewidth_limit)


def label_subsets(n_labels: int, subsets: Sequence[Clique]) -> _core.LabelSubsets:
    """Label subsets for the native core."""
    starts = np.cumsum([0, *map(len, subsets)]).astype(np.int64)
    return _core.LabelSubsets(n_labels, starts, np.array([k for t in subsets for k in t], dtype=np.int32))


def _parts(clique: Clique) -> Iterable[Clique]:
    """All subsets of a clique but the empty one."""
    return (t for size in range(1, len(clique) + 1) for t in combinations(clique, size))


def chow_liu(labels: LabelMatrix, weight: NDArray[Any], usable: NDArray[np.int64]) -> list[Clique]:
    """Edges of the tree with the largest mutual information between labels (Chow and Liu, 1968)."""
    if len(usable) < 2:
        return []
    K = len(usable)
    total, joint = np.zeros((K, K)), np.zeros((2, 2, K, K))
    for rows in row_blocks(labels.n_samples, 4 * K):
        Y = labels.positives[rows][:, usable].toarray().astype(np.float64)
        known = np.ones_like(Y) if labels.missing is None else 1.0 - labels.missing[rows][:, usable].toarray()
        cost = weight[rows, None]
        states = [known - Y, Y]  # absent and present, where known
        total += (known * cost).T @ known
        joint += np.array([[(a * cost).T @ b for b in states] for a in states])
    joint /= np.maximum(total, 1e-300)
    first, second = joint.sum(axis=1), joint.sum(axis=0)
    expected = first[:, None] * second[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(joint > 0, joint * np.log(joint / expected), 0.0).sum(axis=(0, 1))
    # The spanning tree routine drops zero weights: shift so that every edge has one, the best the smallest.
    distance = np.triu(information.max() - information + 1.0, k=1)
    tree = minimum_spanning_tree(distance).tocoo()
    ends = np.sort(np.column_stack([usable[tree.row], usable[tree.col]]), axis=1)
    return sorted((int(a), int(b)) for a, b in ends)


def named_cliques(graph: Any, labels: LabelMatrix) -> list[Clique]:
    """Cliques given by label names, as label columns, checked."""
    column = {name: k for k, name in enumerate(labels.names.tolist())}
    found: dict[Clique, None] = {}
    for entry in graph:
        names = list(entry) if isinstance(entry, tuple | list | set | frozenset | np.ndarray) else [entry]
        names = [name.item() if isinstance(name, np.generic) else name for name in names]
        if len(names) < 2 or len(set(names)) < len(names):
            msg = f"graph must list cliques of at least two different labels; got {entry!r} in it."
            raise InputError(msg)
        unknown = [name for name in names if name not in column]
        if unknown:
            msg = f"graph names the label {unknown[0]!r}, which is not one of the {len(column)} labels of Y."
            raise InputError(msg)
        found[tuple(sorted(column[name] for name in names))] = None
    return list(found)


def candidate_cliques(
    usable: NDArray[np.int64], active: Sequence[Clique], max_order: int, rng: np.random.Generator
) -> list[Clique]:
    """Cliques that may join: all pairs, all triples of few labels, and larger ones grown out of active cliques."""
    labels = [int(k) for k in usable]
    found: dict[Clique, None] = dict.fromkeys(combinations(labels, 2))
    if max_order >= 3 and len(labels) <= EXHAUSTIVE_TRIPLES:
        found.update(dict.fromkeys(combinations(labels, 3)))
    elif max_order >= 3:
        drawn = (rng.choice(labels, size=3, replace=False) for _ in range(RANDOM_TRIPLES))
        found.update(dict.fromkeys(tuple(sorted(map(int, triple))) for triple in drawn))
    for clique in active:
        if 2 <= len(clique) < max_order:
            found.update(dict.fromkeys(tuple(sorted((*clique, k))) for k in labels if k not in clique))
    return list(found)

"""Features that belong to a clique: which columns of X single labels and cliques see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.errors import InputError

__all__ = ["JointColumns", "joint_columns", "native_groups"]


@dataclass(frozen=True)
class JointColumns:
    """Columns of X that belong to cliques; the others belong to single labels, and to cliques without own columns.

    Attributes
    ----------
    n_features : int
    own : dict
        Columns of each clique that has some. The constant feature, column ``n_features``, belongs to everybody.
    """

    n_features: int
    own: dict[tuple[int, ...], tuple[int, ...]]

    @cached_property
    def common(self) -> NDArray[np.float64]:
        """1 for the columns that no clique owns, 0 for the others."""
        seen = np.ones(self.n_features + 1)
        seen[[j for columns in self.own.values() for j in columns]] = 0.0
        return seen

    def seen(self, clique: tuple[int, ...]) -> NDArray[np.float64]:
        """1 for the columns that a clique sees, 0 for the others."""
        if clique not in self.own:
            return self.common
        seen = np.zeros(self.n_features + 1)
        seen[[*self.own[clique], self.n_features]] = 1.0
        return seen


def joint_columns(
    features: Mapping[Any, Any], cliques: Sequence[tuple[int, ...]], names: NDArray[Any], columns: Any, n_features: int
) -> JointColumns:
    """Read the parameter ``joint_features``, for these cliques, names of labels, and names of X's columns, if any."""
    label = {name: k for k, name in enumerate(names.tolist())}
    place = {} if columns is None else {name: j for j, name in enumerate(columns)}
    known, own = set(cliques), {}
    for key, listed in features.items():
        clique = tuple(sorted(label.get(name, -1) for name in key)) if isinstance(key, tuple | frozenset) else None
        if clique not in known:
            msg = (
                f"joint_features must have cliques of the graph as keys, tuples of label names; got {key!r}. Add the "
                "clique to graph, or leave it out here."
            )
            raise InputError(msg)
        assert clique is not None
        own[clique] = tuple(_column(entry, place, n_features, key) for entry in _entries(listed))
    return JointColumns(n_features, own)


def _entries(listed: Any) -> Iterable[Any]:
    return [listed] if isinstance(listed, str | Integral) else listed


def _column(entry: Any, place: Mapping[Any, int], n_features: int, key: Any) -> int:
    if isinstance(entry, Integral) and not isinstance(entry, bool) and 0 <= int(entry) < n_features:
        return int(entry)
    if isinstance(entry, str) and entry in place:
        return place[entry]
    msg = (
        f"joint_features of {key!r} must list columns of X, by number from 0 to {n_features - 1}, or by name if X is a "
        f"DataFrame; got {entry!r}."
    )
    raise InputError(msg)


def native_groups(
    X: Any, bias: float, joint: JointColumns | None, cliques: Sequence[tuple[int, ...]]
) -> list[_core.FeatureGroup]:
    """Return groups of columns that the same cliques see, for the native core; none if all see all of them."""
    if joint is None:
        return []
    seen = np.array([joint.common, *(joint.seen(clique) for clique in cliques)])
    kinds, group = np.unique(seen, axis=1, return_inverse=True)
    constant = np.full((X.shape[0], 1), bias, dtype=X.dtype)
    whole = sp.csr_array(sp.hstack([X, constant], format="csr")) if sp.issparse(X) else np.hstack([X, constant])
    groups = []
    for k, (nodes, *of_cliques) in enumerate(kinds.T):
        columns = np.flatnonzero(group.ravel() == k)
        groups.append(
            _core.FeatureGroup(
                rows=native_rows(whole[:, columns]),
                columns=columns.astype(np.int64),
                nodes=bool(nodes),
                cliques=np.array(of_cliques, dtype=np.uint8),
            )
        )
    return groups

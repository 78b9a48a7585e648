"""Validated training data, as solvers receive it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin import _core
from multimargin._rows import native_rows
from multimargin.labels import LabelMatrix
from multimargin.weights import CellCosts

__all__ = ["Problem", "native_cells"]


@dataclass(frozen=True)
class Problem:
    """Validated training data, as solvers receive it.

    Attributes
    ----------
    X : array or csr matrix of shape (n_samples, n_features)
    labels : LabelMatrix
    C : float
        Cost of an error.
    costs : CellCosts
        C and all weights, in double precision.
    constant : ndarray of shape (n_labels,)
        Labels that are left out and predicted constant.
    prior : None, ndarray or LowRankPrior
        The prior of an M3L estimator, checked, in double precision.
    n_jobs, seed : int
    columns : dict
        ``n_features_in_`` and, if X was a DataFrame, ``feature_names_in_``.
    """

    X: Any
    labels: LabelMatrix
    C: float
    costs: CellCosts
    constant: NDArray[np.bool_]
    prior: Any
    n_jobs: int
    seed: int
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> Any:
        """Precision in which to solve."""
        return self.X.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of labels."""
        return self.labels.n_samples, self.labels.n_labels

    def part(self, rows: NDArray[Any]) -> Problem:
        """Return the problem of some of the rows."""
        some = self.labels.part(rows)
        return replace(self, X=self.X[rows], labels=some, costs=self.costs.part(rows), constant=some.constant)

    def in_double(self) -> Problem:
        """Return the same problem in double precision."""
        return replace(self, X=self.X.astype(np.float64, copy=False))

    @cached_property
    def rows(self) -> _core.Rows:
        """X for the native core."""
        return native_rows(self.X)

    @cached_property
    def cells(self) -> _core.Labels:
        """Labels and costs for the native core."""
        costs, missing = self.costs, self.labels.missing
        return _core.Labels(
            positives=native_cells(self.labels.positives),
            missing=None if missing is None else native_cells(missing),
            left_out=self.constant.astype(np.uint8),
            row=costs.row,
            positive=costs.positive,
            negative=costs.negative,
            cells=costs.cells,
        )


def native_cells(matrix: sp.csr_array) -> _core.Cells:
    """Cells of a sparse 0/1 matrix for the native core."""
    return _core.Cells(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False), matrix.shape[1])

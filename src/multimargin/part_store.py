"""Parts of the rows on disk: rows that are mapped rather than read, dual variables without those that are 0.

Rows are written once, an array a file, and mapped into memory when their part is at work: no copy, no checksum, and
pages that the system holds already need not be read again. Of the dual variables most are 0, those of cells beyond
their margin: a bit for every cell and the values of the others are kept, in memory as far as a budget goes, the rest on
disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.estimators.m3l.blocks import Block, BlockFacts
from multimargin.labels import LabelMatrix

__all__ = ["DualStore", "RowStore"]

PAGE = 4096
CELLS_AT_ONCE = 2**20


class RowStore:
    """Checked rows and labels of parts, in a folder.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: Path):
        self._folder = folder

    def put(self, k: int, X: Any, labels: LabelMatrix, weight: Any) -> None:
        """Write part k."""
        arrays: dict[str, Any] = {"positives": labels.positives.indices, "ends": labels.positives.indptr}
        arrays |= {"data": X.data, "indices": X.indices, "indptr": X.indptr} if sp.issparse(X) else {"X": X}
        if labels.missing is not None:
            arrays |= {"missing": labels.missing.indices, "missing_ends": labels.missing.indptr}
        if weight is not None:
            arrays["sample_weight"] = np.asarray(weight, dtype=np.float64)
        for name, values in arrays.items():
            np.save(self._path(k, name), values)

    def get(self, k: int, facts: BlockFacts) -> Block:
        """Return part k, its arrays mapped and in memory."""
        shape, cells = (facts.n_rows, facts.n_features), (facts.n_rows, len(facts.names))
        X = self._array(k, "X")
        if X is None:
            X = sp.csr_matrix((self._array(k, "data"), self._array(k, "indices"), self._array(k, "indptr")), shape)
        missing = self._marked(k, "missing", "missing_ends", cells)
        positives = self._marked(k, "positives", "ends", cells)
        labels = LabelMatrix(positives, missing, facts.names, facts.form, facts.values)
        weight = self._array(k, "sample_weight")
        return Block(X, labels, weight, facts.name, facts.open_ended, facts.columns)

    def _marked(self, k: int, indices: str, ends: str, shape: tuple[int, int]) -> sp.csr_array | None:
        found = self._array(k, indices)
        if found is None:
            return None
        return sp.csr_array((np.ones(len(found), dtype=bool), found, self._array(k, ends)), shape=shape)

    def _array(self, k: int, name: str) -> NDArray[Any] | None:
        path = self._path(k, name)
        if not path.exists():
            return None
        mapped = np.load(path, mmap_mode="r" if path.stat().st_size > PAGE else None)
        flat = mapped.reshape(-1)
        flat[:: PAGE // flat.itemsize].sum()  # reads it, here and now
        return np.asarray(mapped)

    def _path(self, k: int, name: str) -> Path:
        return self._folder / f"{name}{k}.npy"


class DualStore:
    """Dual variables of parts, in memory up to a budget, then in a folder.

    Parameters
    ----------
    folder : path
    budget : float
        Bytes of memory.
    """

    def __init__(self, folder: Path, budget: float):
        self._folder, self._budget = folder, budget
        self._kept: dict[int, tuple[NDArray[np.uint8], NDArray[Any]]] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._taken = 0

    def put(self, k: int, beta: NDArray[Any]) -> None:
        """Keep the dual variables of part k, in place of those before."""
        flat = beta.reshape(-1)
        bits = np.packbits(flat != 0)
        values = flat[flat != 0]
        self._shapes[k] = beta.shape
        before = self._kept.pop(k, None)
        if before is not None:
            self._taken -= before[0].nbytes + before[1].nbytes
        if self._taken + bits.nbytes + values.nbytes <= self._budget:
            self._kept[k] = bits, values
            self._taken += bits.nbytes + values.nbytes
            return
        np.save(self._path(k, "bits"), bits)
        np.save(self._path(k, "values"), values)

    def get(self, k: int) -> NDArray[Any] | None:
        """Return the dual variables of part k; None if there are none yet."""
        shape = self._shapes.get(k)
        if shape is None:
            return None
        kept = self._kept.get(k)
        bits, values = kept if kept is not None else (np.load(self._path(k, "bits")), np.load(self._path(k, "values")))
        beta = np.zeros(shape, values.dtype)
        flat, taken = beta.reshape(-1), 0
        for first in range(0, len(flat), CELLS_AT_ONCE):
            piece = flat[first : first + CELLS_AT_ONCE]
            mask = np.unpackbits(bits[first // 8 : (first + CELLS_AT_ONCE) // 8], count=len(piece)).view(bool)
            count = int(np.count_nonzero(mask))
            piece[mask] = values[taken : taken + count]
            taken += count
        return beta

    def _path(self, k: int, name: str) -> Path:
        return self._folder / f"{name}{k}.npy"

"""What a tuned rule is worth on rows it was not tuned on, without another fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin.decisions._cells import Cells
from multimargin.decisions._scoring import Scoring
from multimargin.decisions.thresholds import tune

__all__ = ["nested_predictions"]


def nested_predictions(
    cells: Cells, scoring: Scoring, rule: str, shrinkage: float, part_of_row: NDArray[Any], probabilities: bool
) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """Predict each part by a rule tuned on the others; return the cells, and what each rule scores on its own part."""
    parts = [part for part in np.unique(part_of_row) if part >= 0]
    predicted = sp.csr_array(cells.shape, dtype=np.int8)
    apparent = np.full(len(parts), np.nan)
    for number, part in enumerate(parts):
        inside = part_of_row == part
        found = tune(cells.only(~inside & (part_of_row >= 0)), scoring, rule, shrinkage, probabilities)
        guess = found.cells(cells.scores[inside])
        at = np.repeat(np.flatnonzero(inside), np.diff(guess.indptr))
        predicted = predicted + sp.csr_array(
            (np.ones(guess.nnz, dtype=np.int8), (at, guess.indices)), shape=cells.shape
        )
        apparent[number] = found.score
    return sp.csr_array(predicted).astype(bool), apparent

"""Baselines whose loss needs the whole label set of a row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from multimargin.errors import InputError
from multimargin.estimators.contract import Problem
from multimargin.labels import LabelMatrix

__all__ = ["refuse_unknown_labels", "varying_labels"]


def refuse_unknown_labels(name: str, labels: LabelMatrix) -> None:
    """Refuse labels with unknown cells."""
    if labels.missing is not None:
        msg = (
            f"{name} needs every label of every row; Y has {labels.missing.nnz} unknown cells (NaN). Fill them, or use "
            "an estimator that masks them, such as LinearM3L."
        )
        raise InputError(msg)


def varying_labels(problem: Problem) -> sp.csr_array:
    """Return the labels that are not constant, as numbers 0 and 1."""
    return sp.csr_array(problem.labels.positives[:, np.flatnonzero(~problem.constant)]).astype(np.float64)

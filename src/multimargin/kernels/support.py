"""Rules of the training rows that a kernel model keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from multimargin.fitted_rules import LARGEST, Rule, Sizes, array_of, expect, is_real, number
from multimargin.kernels.values import make_kernel

__all__ = ["support_rules"]


def support_rules(model: Any, dtype: Any) -> dict[str, Rule]:
    """Rules for a model that computes kernel values in this precision; a precomputed kernel keeps columns of X."""
    precomputed = model.kernel == "precomputed"
    gamma: Any = getattr(model, "gamma_", 1.0)
    rules = {
        "gamma_": number(0.0),
        "support_": array_of("support", 0, "features" if precomputed else 2.0**62, "i4 i8"),
        "dual_coef_": array_of("support labels"),
    }
    if not precomputed:
        most = LARGEST / max(1.0, float(gamma) if is_real(gamma) else 1.0) ** 0.5  # so that gamma |z|^2 is finite

        def vectors(value: Any, sizes: Sizes) -> None:
            array_of("support features", -most, most, sparse=True)(value, sizes)
            if sizes["support"]:
                expect(_has_finite_scores(model, value, np.dtype(dtype)), "must have kernel values in range")

        rules["support_vectors_"] = vectors
    return rules


def _has_finite_scores(model: Any, rows: Any, dtype: np.dtype[Any]) -> bool:
    """Whether scores stay in range, judged by the longest row and the zero row, where kernel values are largest."""
    longest = rows[[int(np.argmax(row_norms(rows)))]]
    ends = sp.vstack([longest, 0 * longest], format="csr") if sp.issparse(rows) else np.vstack([longest, 0 * longest])
    with np.errstate(all="ignore"):
        kernel = make_kernel(model.kernel, ends, dtype, model.gamma_, model.degree, model.coef0)
        largest = float(np.abs(kernel.values(kernel.prepare(ends))).max())
        return bool(largest * float(np.abs(model.dual_coef_).max()) * rows.shape[0] < np.finfo(dtype).max)

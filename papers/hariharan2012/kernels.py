"""The exponential kernels of the paper, with the median distance of the training rows as their width."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise

__all__ = ["median_grams"]


def median_grams(kernel: str, X: Any, X_test: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Kernel values among the training rows and from the test rows to them, for "rbf" or "chi2"."""

    def distances(A: Any, B: Any) -> NDArray[Any]:
        if kernel == "rbf":
            return np.asarray(pairwise.euclidean_distances(A, B, squared=True))
        return -np.asarray(pairwise.additive_chi2_kernel(A, B))

    own = distances(X, X)
    gamma = 1.0 / np.median(own[np.triu_indices(X.shape[0], 1)])
    return np.exp(-gamma * own), np.exp(-gamma * distances(X_test, X))

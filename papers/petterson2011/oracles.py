"""Algorithms 2 and 3 of the paper beside the truth, by a look at every one of the 2^V label sets.

For a row with true labels t, m of them, the inner problem of training is

    max over y of  G(y) = S(y) + 1 - 2 |y t| / (|y| + m),    S(y) = sum_i u_i y_i + sum_(i,j) w_ij y_i y_j,  w >= 0

With g_k(y) = S(y) - 2 |y t| / (k + m) and y_k its largest maximiser, Algorithm 2 returns O = y_k for the largest k with
|y_k| = k: k = V, then k = |y_k| until it stays. Algorithm 3 proves it optimal if, over the y that contain O and more,

    max g_k(y) <= g_k(O) - m 2 (V - k) / ((V + m) (k + m)),    a tighter test:    max g_V(y) <= g_k(O)

Where no label is true the loss is 0 for the empty set and 1 for any other: O is then optimal unless it is empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["AllLabelSets"]

Array = NDArray[np.float64]
TIE = 1e-11  # values closer than this are equal


class AllLabelSets:
    """All sets of V labels, and what the pair weights add to the score of each."""

    def __init__(self, n_labels: int, pairs: NDArray[np.integer], weights: Array) -> None:
        self.codes = np.arange(2**n_labels)
        self.sets = (self.codes[:, None] >> np.arange(n_labels) & 1).astype(float)
        self.sizes = self.sets.sum(axis=1)
        self.attraction = (self.sets[:, pairs[:, 0]] * self.sets[:, pairs[:, 1]]) @ weights

    def answers(self, u: Array, truth: NDArray[np.integer]) -> dict[str, Array]:
        """Values of the exact and of the published oracle for each row, and whether either test proves the latter."""
        found = [self._row(*row) for row in zip(u, truth, strict=True)]
        return dict(zip(("exact", "published", "proved", "proved_tighter"), np.array(found).T, strict=True))

    def _row(self, u: Array, truth: NDArray[np.integer]) -> tuple[float, float, bool, bool]:
        V, m = len(u), int(truth.sum())
        score, common = self.sets @ u + self.attraction, self.sets @ truth
        loss = 1.0 - 2.0 * common / np.maximum(self.sizes + m, 1) if m else (self.sizes > 0).astype(float)
        value = score + loss

        def g(k: int) -> Array:
            return np.asarray(score - 2.0 * common / (k + m) if m else score)

        k = V
        while True:
            gains = g(k)
            best = np.flatnonzero(gains >= gains.max() - TIE)
            answer = best[np.argmax(self.sizes[best])]
            size = int(self.sizes[answer])
            if size >= k:
                break
            k = size
        more = (self.codes & answer == answer) & (self.codes != answer)
        if size == V or m == 0:
            proved = tighter = size == V or size > 0
        else:
            own = float(g(size)[answer])
            proved = bool(g(size)[more].max() <= own - 2.0 * m * (V - size) / ((V + m) * (size + m)))
            tighter = bool(g(V)[more].max() <= own)
        return float(value.max()), float(value[answer]), proved, tighter

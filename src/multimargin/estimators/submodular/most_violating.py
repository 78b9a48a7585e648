"""The label sets at which training looks: exact, by the published approximation, and what proves each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin import _core

__all__ = ["MostViolating", "SetProblem", "most_violating"]

TOLERANCE = 1e-9
"""Distance of the bound from the value found up to which a maximum counts as exact."""


@dataclass(frozen=True, eq=False)
class MostViolating:
    r"""For every row, the label set with the largest :math:`S(x, y) + \Delta(y, y_n)`, the margin it violates most.

    Attributes
    ----------
    label_names : ndarray of shape (n_labels,)
    labels : ndarray of bool, of shape (n_samples, n_labels)
        The set y found.
    value : ndarray of shape (n_samples,)
        Its score plus its loss.
    upper : ndarray of shape (n_samples,)
        No set has a larger value: proved by cuts and branch and bound.
    exact : ndarray of bool, of shape (n_samples,)
        Whether the set is proved best, ``upper - value <= 1e-9``. False where ``node_limit`` ended the search.
    truth_value : ndarray of shape (n_samples,)
        Score of the true labels, whose loss is 0.
    paper_labels, paper_value : ndarray or None
        The set that Algorithm 2 of Petterson and Caetano finds, and its value, which may be less than the maximum; None
        with ``loss="hamming"``, as the next two.
    paper_certified : ndarray of bool or None
        Whether Algorithm 3 of the paper proves that set best.
    paper_proved : ndarray of bool or None
        Whether a tighter test at the same cost does. Both say no to many sets that are best.
    """

    label_names: NDArray[Any]
    labels: NDArray[np.bool_]
    value: NDArray[np.float64]
    upper: NDArray[np.float64]
    exact: NDArray[np.bool_]
    truth_value: NDArray[np.float64]
    paper_labels: NDArray[np.bool_] | None
    paper_value: NDArray[np.float64] | None
    paper_certified: NDArray[np.bool_] | None
    paper_proved: NDArray[np.bool_] | None

    @property
    def slack(self) -> NDArray[np.float64]:
        """Loss of each row in the training objective: ``value - truth_value``."""
        return self.value - self.truth_value

    def frame(self) -> Any:
        """Return a pandas DataFrame with a row for each row of X, label sets as tuples of names."""
        import pandas as pd

        columns: dict[str, Any] = {
            "labels": self._sets(self.labels),
            "value": self.value,
            "upper": self.upper,
            "exact": self.exact,
            "truth_value": self.truth_value,
            "slack": self.slack,
        }
        if self.paper_labels is not None:
            columns |= {
                "paper_labels": self._sets(self.paper_labels),
                "paper_value": self.paper_value,
                "paper_certified": self.paper_certified,
                "paper_proved": self.paper_proved,
            }
        return pd.DataFrame(columns)

    def _sets(self, labels: NDArray[np.bool_]) -> list[tuple[Any, ...]]:
        return [tuple(self.label_names[row].tolist()) for row in labels]


@dataclass(frozen=True)
class SetProblem:
    """Pairs, their attraction, and the loss between label sets.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
    attraction : ndarray of shape (n_pairs,)
    hamming : bool
        Whether the loss is the number of wrong labels, each with its weight; else one minus the F-score.
    miss, excess : ndarray of shape (n_labels,)
        Weights of labels missed, and of labels predicted though absent.
    node_limit, threads : int
    """

    pairs: NDArray[np.int32]
    attraction: NDArray[np.float64]
    hamming: bool
    miss: NDArray[np.float64]
    excess: NDArray[np.float64]
    node_limit: int
    threads: int


def most_violating(
    problem: SetProblem, names: NDArray[Any], blocks: Iterator[tuple[NDArray[np.float64], NDArray[np.uint8]]]
) -> MostViolating:
    """Solve blocks of rows, each as scores of its labels and truth: 0, 1, or 2 where a label takes no part."""
    parts = [_block(problem, u, truth) for u, truth in blocks]
    columns: list[Any] = [None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True)]
    return MostViolating(names, *columns)


def _block(problem: SetProblem, u: NDArray[np.float64], truth: NDArray[np.uint8]) -> tuple[Any, ...]:
    pairs, w = problem.pairs, problem.attraction
    true = (truth == 1).astype(np.uint8)
    y = true.copy()
    value, upper, exact = _core.most_violating(
        u=u,
        pairs=pairs,
        w=w,
        truth=truth,
        hamming=problem.hamming,
        miss=problem.miss,
        excess=problem.excess,
        tol=TOLERANCE,
        node_limit=problem.node_limit,
        threads=problem.threads,
        y=y,
    )
    own = np.einsum("nl,nl->n", u, true) + (true[:, pairs[:, 0]] * true[:, pairs[:, 1]]) @ w
    paper: tuple[Any, ...] = (None, None, None, None)
    if not problem.hamming:
        published = np.zeros_like(truth)
        at, certified, proved = _core.published_oracle(
            u=u, pairs=pairs, w=w, truth=truth, threads=problem.threads, y=published
        )
        paper = (published.astype(bool), at, certified.astype(bool), proved.astype(bool))
    return (y.astype(bool), value, upper, exact.astype(bool), own, *paper)

"""Which pairs of labels depend on each other: a test per pair, with the false discoveries under control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import chdtrc, digamma, gammaln

from multimargin.labels import LabelMatrix

__all__ = ["LabelDependence", "benjamini_hochberg", "label_dependence"]

MOST_LABELS = 3000
"""Up to this many labels all pairs are tested; beyond, the strongest of those that occur together."""
MOST_PAIRS = 10_000
LEVEL = 0.05
FEWEST_EXPECTED = 5.0
"""Rows expected in every cell of the 2 x 2 table, below which the chi-square distribution is too coarse."""
NEGLIGIBLE = 1e-17
BLOCK = 2**17


@dataclass(frozen=True, eq=False)
class LabelDependence:
    """Pairs of labels, the strongest first.

    The dependence is unconditional: labels that share their features depend on each other. What is left given the
    features is what :class:`CliqueClassifier` learns.

    Attributes
    ----------
    columns : ndarray of shape (n_pairs, 2)
        Columns of the two labels of a pair.
    together : ndarray of shape (n_pairs,)
        Rows that have both.
    phi : ndarray of shape (n_pairs,)
        Correlation of the two labels.
    lift : ndarray of shape (n_pairs,)
        Rows that have both, over the number expected of independent labels.
    p_value : ndarray of shape (n_pairs,)
        By the chi-square test, or exact (hypergeometric, mid-p, two-sided) where fewer than 5 rows are expected in a
        cell.
    q_value : ndarray of shape (n_pairs,)
        The same after Benjamini and Hochberg: pairs up to q have a share of at most q false ones among them.
    n_tests : int
        Pairs that could be tested: both labels take both values in the rows where both are known. All of them count
        in ``q_value``, also those not listed.
    """

    columns: NDArray[np.int64]
    together: NDArray[np.int64]
    phi: NDArray[np.float64]
    lift: NDArray[np.float64]
    p_value: NDArray[np.float64]
    q_value: NDArray[np.float64]
    n_tests: int

    @property
    def significant(self) -> NDArray[np.bool_]:
        """Which pairs depend on each other, with 5 % of false ones among them (Benjamini and Hochberg)."""
        return np.asarray(self.q_value <= LEVEL)

    @property
    def surely_significant(self) -> NDArray[np.bool_]:
        """The same however the tests depend on each other (Benjamini and Yekutieli)."""
        harmonic = np.euler_gamma + digamma(self.n_tests + 1)  # 1 + 1/2 + ... + 1/n_tests
        return np.asarray(self.q_value * harmonic <= LEVEL)


def label_dependence(labels: LabelMatrix) -> LabelDependence:
    """Test pairs of labels for dependence, in the rows where both are known."""
    counts = _PairCounts.of(labels)
    testable = np.flatnonzero(counts.spread > 0)
    n_tests = len(testable)
    if labels.n_labels > MOST_LABELS:  # pairs never together count, too
        varying = int(np.count_nonzero(~labels.constant))
        n_tests = varying * (varying - 1) // 2
    strongest = testable[np.argsort(-np.abs(counts.phi[testable]), kind="stable")]
    counts = counts.part(strongest if labels.n_labels <= MOST_LABELS else strongest[:MOST_PAIRS])
    p_value = counts.p_values()
    expected = counts.a * (counts.b / counts.n)
    return LabelDependence(
        columns=np.column_stack([counts.first, counts.second]).astype(np.int64),
        together=counts.both.astype(np.int64),
        phi=counts.phi,
        lift=counts.both / expected,
        p_value=p_value,
        q_value=benjamini_hochberg(p_value, n_tests),
        n_tests=n_tests,
    )


def benjamini_hochberg(p_value: NDArray[np.float64], n_tests: int) -> NDArray[np.float64]:
    """Return the smallest levels of false discoveries at which each of ``n_tests`` tests is significant.

    Tests that are not listed are taken to have larger p-values.

    Examples
    --------
    >>> import numpy as np
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.03]), 3)
    array([0.03, 0.04, 0.04])
    """
    order = np.argsort(p_value)[::-1]
    ranks = np.arange(len(order), 0, -1)
    q_value = np.empty(len(order))
    q_value[order] = np.minimum(np.minimum.accumulate(p_value[order] * n_tests / ranks), 1.0)
    return q_value


@dataclass(frozen=True, eq=False)
class _PairCounts:
    """Rows that know both labels of a pair (n), have its first (a), its second (b), and both."""

    first: NDArray[Any]
    second: NDArray[Any]
    n: NDArray[np.float64]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    both: NDArray[np.float64]

    @classmethod
    def of(cls, labels: LabelMatrix) -> _PairCounts:
        cells = labels.positives.astype(np.float64)
        joint = sp.csr_array(cells.T @ cells)
        joint.sort_indices()
        if labels.n_labels <= MOST_LABELS:
            first, second = np.triu_indices(labels.n_labels, k=1)
            both = joint.toarray()[first, second]
        else:
            upper = sp.triu(joint, k=1, format="coo")
            first, second, both = upper.row, upper.col, upper.data
        positive = labels.counts()[0].astype(np.float64)
        n = np.full(len(first), float(labels.n_samples))
        a, b = positive[first], positive[second]
        if labels.missing is not None:
            unknown = labels.missing.astype(np.float64)
            unknowns, beside = sp.csr_array(unknown.T @ unknown), sp.csr_array(cells.T @ unknown)
            single = unknowns.diagonal()
            n = n - single[first] - single[second] + _entries(unknowns, first, second)
            a, b = a - _entries(beside, first, second), b - _entries(beside, second, first)
        return cls(first, second, n, a, b, both)

    def part(self, chosen: NDArray[np.int64]) -> _PairCounts:
        return _PairCounts(*(getattr(self, name)[chosen] for name in ("first", "second", "n", "a", "b", "both")))

    @property
    def spread(self) -> NDArray[np.float64]:
        """Square root of a (n - a) b (n - b): 0 where one of the two labels does not vary."""
        return np.asarray(np.sqrt(self.a * (self.n - self.a)) * np.sqrt(self.b * (self.n - self.b)))

    @property
    def phi(self) -> NDArray[np.float64]:
        spread = self.spread
        return np.divide(self.n * self.both - self.a * self.b, spread, out=np.zeros_like(spread), where=spread > 0)

    def p_values(self) -> NDArray[np.float64]:
        p_value = chdtrc(1.0, self.n * self.phi**2)
        rarer = np.minimum(self.a, self.n - self.a) * np.minimum(self.b, self.n - self.b)
        few = np.flatnonzero(rarer < FEWEST_EXPECTED * self.n)
        for start in range(0, len(few), BLOCK):
            some = few[start : start + BLOCK]
            p_value[some] = self.part(some).exact_p_values()
        return np.asarray(p_value)

    def exact_p_values(self) -> NDArray[np.float64]:
        """Twice the smaller tail of the hypergeometric distribution, of which the value itself counts half.

        The tail away from the mean is summed, where terms fall fast: there are few, as the variance is below the rows
        expected in the rarest cell.
        """
        above = self.n * self.both >= self.a * self.b
        # b read as the rows without the second label turns the lower tail into the upper one
        b = np.where(above, self.b, self.n - self.b)
        x = np.where(above, self.both, self.a - self.both)
        rest = self.n - self.a - b
        term = np.exp(_log_choose(self.a, x) + _log_choose(self.n - self.a, b - x) - _log_choose(self.n, b))
        tail = 0.5 * term
        going = np.arange(len(x))
        k = x.copy()
        while going.size:
            a, c = self.a[going] - k, b[going] - k
            term = term * (a * c / ((k + 1) * (rest[going] + k + 1)))
            tail[going] += term
            more = term > NEGLIGIBLE * tail[going]
            going, term, k = going[more], term[more], k[more] + 1
        return np.asarray(np.minimum(1.0, 2 * np.minimum(tail, 1 - tail)))


def _entries(matrix: sp.csr_array, rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
    if not len(rows):  # an empty index into a sparse array gives no vector
        return np.zeros(0)
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()


def _log_choose(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

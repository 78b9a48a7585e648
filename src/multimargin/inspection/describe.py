"""What a set of labels is like, before anything is trained: size, imbalance, dependence, and what to mind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from multimargin._tables import aligned, html_table
from multimargin.errors import InputError
from multimargin.inspection.dependence import LabelDependence, label_dependence
from multimargin.labels import LabelMatrix, read_labels

__all__ = ["LabelDescription", "describe"]

SHOWN = 8
HIGH_IMBALANCE = 100.0


@dataclass(frozen=True, eq=False)
class LabelDescription:
    """What :func:`describe` says of labels. ``print`` shows it as a table.

    Unknown cells count neither as present nor as absent, and rows that have some are left out of what is said of label
    sets.

    Attributes
    ----------
    n_samples, n_labels : int
    unknown : float
        Share of unknown cells.
    cardinality : float
        Mean number of labels of a row: the sum of the labels' frequencies among their known cells.
    density : float
        The same, over the number of labels.
    n_sets : int
        Distinct label sets.
    n_sets_once : int
        Those seen once.
    largest_set_share : float
        Share of rows that have the most frequent label set; NaN if no row is known in full.
    n_empty_rows : int
        Rows without a label.
    mean_imbalance, max_imbalance : float
        MeanIR and MaxIR: mean and maximum of ``imbalance`` over the labels that occur; NaN if none does.
    imbalance_variation : float
        CVIR: standard deviation of ``imbalance`` over its mean; NaN below two labels that occur.
    scumble : float
        How far frequent and rare labels share rows: mean over all rows of one minus the geometric over the arithmetic
        mean of the ``imbalance`` of a row's labels; 0 for a row without labels.
    complexity : float or None
        TCS: logarithm of features times labels times distinct label sets, if X was given.
    names : ndarray of shape (n_labels,)
        Label names.
    positives, negatives : ndarray of shape (n_labels,)
        Rows that have each label, and that do not.
    imbalance : ndarray of shape (n_labels,)
        IRLbl: the rows of the most frequent label over those of this one; NaN if it never occurs.
    scumble_of_label : ndarray of shape (n_labels,)
        Mean of the rows' SCUMBLE over the rows of each label; NaN if it never occurs.
    dependence : LabelDependence
        Tests of pairs of labels.
    warnings : tuple of str
        What to mind, and what to do about it.
    """

    n_samples: int
    n_labels: int
    unknown: float
    cardinality: float
    density: float
    n_sets: int
    n_sets_once: int
    largest_set_share: float
    n_empty_rows: int
    mean_imbalance: float
    max_imbalance: float
    imbalance_variation: float
    scumble: float
    complexity: float | None
    names: NDArray[Any]
    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]
    imbalance: NDArray[np.float64]
    scumble_of_label: NDArray[np.float64]
    dependence: LabelDependence = field(repr=False)
    warnings: tuple[str, ...]

    def frame(self) -> Any:
        """Return what is said of each label as a pandas DataFrame, a row for each label."""
        import pandas as pd

        known = self.positives + self.negatives
        columns = {
            "positives": self.positives,
            "negatives": self.negatives,
            "frequency": self.positives / np.where(known, known, np.nan),
            "imbalance": self.imbalance,
            "negatives_per_positive": self.negatives / np.where(self.positives, self.positives, np.nan),
            "scumble": self.scumble_of_label,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="label"))

    def pairs_frame(self) -> Any:
        """Return the tested pairs as a pandas DataFrame, the strongest first."""
        import pandas as pd

        pairs = self.dependence
        columns = {
            "first": self.names[pairs.columns[:, 0]],
            "second": self.names[pairs.columns[:, 1]],
            "together": pairs.together,
            "phi": pairs.phi,
            "lift": pairs.lift,
            "p_value": pairs.p_value,
            "q_value": pairs.q_value,
            "significant": pairs.significant,
        }
        return pd.DataFrame(columns)

    def plot(self) -> tuple[Any, Any]:
        """Draw the rows of each label and the dependence of labels side by side.

        Returns
        -------
        counts : LabelCountsDisplay
        dependence : LabelDependenceDisplay
        """
        from multimargin.plots import LabelCountsDisplay, LabelDependenceDisplay

        left, right = LabelDependenceDisplay.axes_for(self)
        return LabelCountsDisplay.from_description(self, ax=left), LabelDependenceDisplay.from_description(
            self, ax=right
        )

    def __str__(self) -> str:
        parts = [aligned(rows) for rows in (self._facts(), self._rarest(), self._strongest()) if rows]
        parts += ["\n".join(f"- {warning}" for warning in self.warnings)]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        tables = [html_table(rows) for rows in (self._rarest(), self._strongest()) if rows]
        minded = "".join(f"<li>{escape(warning)}</li>" for warning in self.warnings)
        return html_table(self._facts(), head=False) + "".join(tables) + (f"<ul>{minded}</ul>" if minded else "")

    def _facts(self) -> list[list[str]]:
        pairs = self.dependence
        facts = [
            ["rows", f"{self.n_samples:,}"],
            ["labels", f"{self.n_labels:,}"],
            ["labels of a row (cardinality)", f"{self.cardinality:.4g}"],
            ["the same over all labels (density)", f"{self.density:.4g}"],
            ["unknown cells", f"{self.unknown:.2%}"],
            ["distinct label sets", f"{self.n_sets:,}"],
            ["  of them seen once", f"{self.n_sets_once:,}"],
            ["  share of the largest", f"{self.largest_set_share:.2%}"],
            ["rows without labels", f"{self.n_empty_rows:,}"],
            ["mean imbalance (MeanIR)", f"{self.mean_imbalance:.4g}"],
            ["largest imbalance (MaxIR)", f"{self.max_imbalance:.4g}"],
            ["variation of imbalance (CVIR)", f"{self.imbalance_variation:.4g}"],
            ["rare beside frequent labels (SCUMBLE)", f"{self.scumble:.4f}"],
            ["pairs tested", f"{pairs.n_tests:,}"],
            ["  dependent, 5 % of them false (Benjamini-Hochberg)", f"{np.count_nonzero(pairs.significant):,}"],
            ["  the same, cautious (Benjamini-Yekutieli)", f"{np.count_nonzero(pairs.surely_significant):,}"],
        ]
        if self.complexity is not None:
            facts.append(["complexity (TCS)", f"{self.complexity:.4g}"])
        return facts

    def _rarest(self) -> list[list[str]]:
        rarest = np.argsort(self.positives, kind="stable")[:SHOWN]
        rows = [["rarest labels", "positives", "imbalance", "SCUMBLE"]]
        for k in rarest.tolist():
            numbers = [f"{self.imbalance[k]:.4g}", f"{self.scumble_of_label[k]:.4f}"]
            rows.append([str(self.names[k]), f"{self.positives[k]:,}", *numbers])
        return rows

    def _strongest(self) -> list[list[str]]:
        pairs = self.dependence
        rows = [["strongest pairs", "together", "phi", "lift", "q"]]
        for k in np.flatnonzero(pairs.significant)[:SHOWN].tolist():
            first, second = self.names[pairs.columns[k]].tolist()
            numbers = [f"{pairs.phi[k]:.3f}", f"{pairs.lift[k]:.3g}", f"{pairs.q_value[k]:.2g}"]
            rows.append([f"{first}, {second}", f"{pairs.together[k]:,}", *numbers])
        return rows if len(rows) > 1 else []


def describe(Y: Any, X: Any = None, *, names: Sequence[Any] | NDArray[Any] | None = None) -> LabelDescription:
    r"""Describe labels: how many a row has, how rare they are, which depend on each other, and what to mind.

    Parameters
    ----------
    Y : labels in any form
        As for ``fit``; NaN marks an unknown label. It is read and kept sparse.
    X : array, sparse matrix or DataFrame of shape (n_samples, n_features), optional
        The rows; only their number and that of the features are used.
    names : sequence of length n_labels, optional
        Names of the labels, where Y does not have them.

    Returns
    -------
    LabelDescription

    References
    ----------
    F. Charte, A. J. Rivera, M. J. del Jesus, F. Herrera. Addressing imbalance in multilabel classification: measures
    and random resampling algorithms. Neurocomputing 163 (2015).

    Y. Benjamini, Y. Hochberg. Controlling the false discovery rate. Journal of the Royal Statistical Society B 57
    (1995).

    Examples
    --------
    >>> from multimargin.inspection import describe
    >>> labels = describe([{"sea", "sun"}, {"sun"}, {"sun"}, {"sea", "sun"}, set()])
    >>> round(labels.cardinality, 3), labels.n_sets, labels.n_empty_rows
    (1.2, 3, 1)
    >>> labels.imbalance
    array([2., 1.])
    >>> print(*labels.warnings, sep="\n")
    1 row has no label: example-based F1 counts an empty prediction there as right.
    """
    shape = None if X is None else _shape(X)
    labels = read_labels(Y, n_samples=None if shape is None else shape[0], names=names)
    positives, negatives = labels.counts()
    occurs = positives > 0
    imbalance = np.where(occurs, positives.max(), np.nan) / np.where(occurs, positives, 1)
    present = imbalance[occurs]
    scumble = _scumble(labels.positives, np.where(occurs, imbalance, 1.0))
    of_label = labels.positives.astype(np.float64).T @ scumble / np.where(occurs, positives, np.nan)
    sets, n_complete = _label_sets(labels)
    known = positives + negatives
    cardinality = float(np.sum(positives / np.maximum(known, 1)))
    cells = labels.n_samples * labels.n_labels
    return LabelDescription(
        n_samples=labels.n_samples,
        n_labels=labels.n_labels,
        unknown=1.0 - int(known.sum()) / cells,
        cardinality=cardinality,
        density=cardinality / labels.n_labels,
        n_sets=len(sets),
        n_sets_once=sum(count == 1 for count in sets.values()),
        largest_set_share=max(sets.values()) / n_complete if sets else np.nan,
        n_empty_rows=sets[b""],
        mean_imbalance=float(present.mean()) if len(present) else np.nan,
        max_imbalance=float(present.max()) if len(present) else np.nan,
        imbalance_variation=float(present.std(ddof=1) / present.mean()) if len(present) > 1 else np.nan,
        scumble=float(scumble.mean()),
        complexity=float(np.log(shape[1]) + np.log(labels.n_labels) + np.log(len(sets))) if shape and sets else None,
        names=labels.names,
        positives=positives,
        negatives=negatives,
        imbalance=imbalance,
        scumble_of_label=of_label,
        dependence=label_dependence(labels),
        warnings=tuple(_warnings(labels, imbalance, sets)),
    )


def _shape(X: Any) -> tuple[int, int]:
    shape = tuple(X.shape) if hasattr(X, "shape") else np.shape(X)
    if len(shape) != 2 or shape[1] == 0:
        msg = f"X must have rows and at least one feature; got shape {shape}. Leave it out, or reshape it."
        raise InputError(msg)
    return int(shape[0]), int(shape[1])


def _scumble(positives: sp.csr_array, imbalance: NDArray[np.float64]) -> NDArray[np.float64]:
    """One minus the geometric over the arithmetic mean of the imbalance of each row's labels."""
    cells = positives.astype(np.float64)
    count = np.maximum(np.diff(positives.indptr), 1)
    arithmetic = cells @ imbalance / count
    geometric = np.exp(cells @ np.log(imbalance) / count)
    empty = arithmetic == 0
    return np.where(empty, 0.0, np.maximum(0.0, 1.0 - geometric / np.where(empty, 1.0, arithmetic)))


def _label_sets(labels: LabelMatrix) -> tuple[Counter[bytes], int]:
    """How often each label set occurs in the rows that are known in full, and their number."""
    cells = labels.positives
    if labels.missing is not None:
        cells = cells[np.flatnonzero(np.diff(labels.missing.indptr) == 0)]
    sets = Counter(cells.indices[a:b].tobytes() for a, b in pairwise(cells.indptr.tolist()))
    return sets, int(cells.shape[0])


def _warnings(labels: LabelMatrix, imbalance: NDArray[np.float64], sets: Counter[bytes]) -> list[str]:
    positive, negative = labels.counts()
    known = positive + negative
    found = []

    def say(which: NDArray[np.bool_], one: str, many: str) -> None:
        names = labels.names[which].tolist()
        if names:
            found.append(f"{_named(names)} {one if len(names) == 1 else many}")

    say(
        known == 0,
        "is known in no row: nothing can be learned of it but through a prior. Drop it, or give cells.",
        "are known in no row: nothing can be learned of them but through a prior. Drop them, or give cells.",
    )
    say(
        (positive == 0) & (known > 0),
        "is in no row: it is predicted absent. Drop it, or add rows that have it.",
        "are in no row: they are predicted absent. Drop them, or add rows that have them.",
    )
    say(
        (negative == 0) & (known > 0),
        "is in every row: it is predicted present. Drop it, or add rows without it.",
        "are in every row: they are predicted present. Drop them, or add rows without them.",
    )
    say(
        (positive == 1) & (negative > 0),
        "has 1 positive: it cannot be tuned or validated. Add rows, merge it with a broader label, or drop it.",
        "have 1 positive each: they cannot be tuned or validated. Add rows, merge them with broader labels, or drop "
        "them.",
    )
    found += _same_rows(labels)
    if sets[b""]:
        rows = "1 row has" if sets[b""] == 1 else f"{sets[b'']:,} rows have"
        found.append(f"{rows} no label: example-based F1 counts an empty prediction there as right.")
    rare = int(np.count_nonzero(imbalance > HIGH_IMBALANCE))
    if rare:
        which = "1 label" if rare == 1 else f"{rare:,} labels"
        found.append(f"The imbalance of {which} is above {HIGH_IMBALANCE:g}: report macro-F1 with rare labels apart.")
    if labels.missing is None and labels.n_labels > 1 and (np.diff(labels.positives.indptr) == 1).all():
        found.append("Every row has exactly 1 label: the problem is multi-class; predict the label of largest score.")
    return found


def _same_rows(labels: LabelMatrix) -> list[str]:
    """Warn of labels whose rows are exactly those of another."""
    by_label = sp.csc_array(labels.positives)
    by_label.sort_indices()
    unknown = None if labels.missing is None else sp.csc_array(labels.missing)
    seen: dict[tuple[bytes, bytes], int] = {}
    same = []
    for k in np.flatnonzero(~labels.constant).tolist():
        pattern = (_column(by_label, k), b"" if unknown is None else _column(unknown, k))
        if seen.setdefault(pattern, k) != k:
            same.append((labels.names[[seen[pattern], k]]).tolist())
    if not same:
        return []
    example = f"{same[0][0]!r} = {same[0][1]!r}"
    subject = "1 label has" if len(same) == 1 else f"{len(same):,} labels have"
    return [f"{subject} the same rows as another, {example}: metrics count them twice. Keep one of each."]


def _column(cells: sp.csc_array, k: int) -> bytes:
    return bytes(cells.indices[cells.indptr[k] : cells.indptr[k + 1]].tobytes())


def _named(names: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return f"Label {shown}" if len(names) == 1 else f"Labels {shown}"

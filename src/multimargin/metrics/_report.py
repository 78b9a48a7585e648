"""Every metric of a prediction at once, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multimargin._tables import aligned, html_table
from multimargin.errors import InputError
from multimargin.metrics._counts import count
from multimargin.metrics._pairs import (
    Floats,
    Names,
    Undefined,
    check_undefined,
    fill,
    read_pair,
    read_scores,
    read_weights,
)
from multimargin.metrics._ranks import Ranking
from multimargin.metrics._registry import DEFAULT_K, check_k, metrics_at

COUNTS = ("support", "predicted")
AVERAGES = ("macro", "micro", "weighted", "samples")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """All metrics of one prediction. Prints as a table; ``report["macro-f1"]`` is one value.

    Attributes
    ----------
    n_samples, n_labels : int
        Shape of Y.
    names : ndarray of shape (n_labels,)
        Label names.
    undefined : {"skip", 0, 1}
        What became of undefined values.
    per_label : dict of str to ndarray of shape (n_labels,)
        ``precision``, ``recall``, ``f1``, ``support`` (rows with the label), ``predicted`` (rows predicted to
        have it), and with scores ``average_precision`` and ``roc_auc``; NaN where undefined.
    values : dict of str to float
        The metrics over all labels by name, such as ``"macro-f1"``, ``"hamming-loss"`` or ``"precision@3"``.
    skipped : dict of str to int
        For each name the number of labels or rows left out as undefined, where there are any.
    """

    n_samples: int
    n_labels: int
    names: NDArray[Any]
    undefined: Undefined
    per_label: dict[str, Floats]
    values: dict[str, float]
    skipped: dict[str, int]

    def __getitem__(self, name: str) -> float:
        if name not in self.values:
            msg = f"The report has no value {name!r}. It has: {', '.join(self.values)}."
            raise KeyError(msg)
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain Python objects, ready for JSON; an undefined value is None."""
        labels: list[dict[str, Any]] = []
        for label, name in enumerate(self.names.tolist()):
            plain = name if isinstance(name, (str, int, float)) else str(name)
            labels.append({"name": plain} | {key: _plain(col[label], key) for key, col in self.per_label.items()})
        return {
            "n_samples": self.n_samples,
            "n_labels": self.n_labels,
            "undefined": self.undefined,
            "values": {name: _plain(value) for name, value in self.values.items()},
            "skipped": dict(self.skipped),
            "labels": labels,
        }

    def to_frame(self) -> Any:
        """Return the values per label as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.per_label, index=pd.Index(self.names, name="label"))

    def table(self, max_labels: int | None = 20) -> str:
        """Return the report as text, with at most ``max_labels`` labels (None: all of them)."""
        lines = [aligned(self._label_rows(max_labels))]
        hidden = self.n_labels - len(self.names[:max_labels])
        if hidden:
            lines.append(f"... and {hidden} more labels: see per_label, or table(max_labels=None)")
        left_out = [f"{count} from {name}" for name, count in self.skipped.items() if name.startswith("macro-")]
        if left_out:
            lines.append(f"labels left out as undefined: {', '.join(left_out)}")
        return "\n".join([*lines, "", aligned(self._value_rows())])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.values[name]:.4f}" for name in ("macro-f1", "micro-f1", "hamming-loss"))
        return f"Report({self.n_samples} rows, {self.n_labels} labels, {shown})"

    def _repr_html_(self) -> str:
        values = self._value_rows()
        return html_table(self._label_rows(20)) + html_table(values, head=len(values[0]) == 3)

    def _label_rows(self, max_labels: int | None) -> list[list[str]]:
        rows = [["label", *(key.replace("_", " ") for key in self.per_label)]]
        for label, name in enumerate(self.names[:max_labels].tolist()):
            rows.append([str(name), *(_cell(column[label], key) for key, column in self.per_label.items())])
        for average in AVERAGES:
            cells = [_cell(self.values.get(f"{average}-{key.replace('_', '-')}")) for key in self.per_label]
            rows.append([f"({average})", *cells])
        return rows

    def _value_rows(self) -> list[list[str]]:
        shown = {name: value for name, value in self.values.items() if not _is_average(name)}
        rows = [[name, _cell(value)] for name, value in shown.items()]
        if not any(name in self.skipped for name in shown):
            return rows
        rows = [[*row, str(self.skipped.get(row[0], ""))] for row in rows]
        return [["", "", "rows left out"], *rows]


def report(
    Y: Any,
    prediction: Any,
    scores: Any = None,
    *,
    names: Names = None,
    k: Sequence[int] = DEFAULT_K,
    undefined: Undefined = "skip",
    sample_weight: Any = None,
) -> Report:
    """Compute every metric of a prediction.

    Parameters
    ----------
    Y, prediction : labels in any form
        True and predicted labels of the same rows; NaN cells of Y are left out of every metric.
    scores : array-like of shape (n_samples, n_labels), optional
        Scores, larger meaning more likely; without them the report has no ranking metrics.
    names : sequence, optional
        Names of the labels; for label sets, the labels there may be.
    k : sequence of int, default=(1, 3, 5)
        The k of P@k and nDCG@k. Those of the default that exceed the number of labels are left out.
    undefined : {"skip", 0, 1}, default="skip"
        What becomes of undefined values: left out and counted in ``skipped``, counted as worst, or as
        perfect. The conventions are those of :mod:`multimargin.metrics`.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the rows; ``support`` and ``predicted`` are then sums of weights.

    Returns
    -------
    Report

    Examples
    --------
    >>> from multimargin import metrics
    >>> Y = [{"sea", "sun"}, {"sun"}, {"sea"}, set()]
    >>> print(metrics.report(Y, [{"sea", "sun"}, {"sun"}, {"sun"}, set()]))
    label       precision  recall      f1  support  predicted
    sea            1.0000  0.5000  0.6667        2          1
    sun            0.6667  1.0000  0.8000        2          3
    (macro)        0.8333  0.7500  0.7333
    (micro)        0.7500  0.7500  0.7500
    (weighted)     0.8333  0.7500  0.7333
    (samples)      0.7500  0.7500  0.7500
    <BLANKLINE>
    hamming-loss     0.2500
    subset-accuracy  0.7500
    example-f1       0.7500
    """
    check_undefined(undefined)
    truth, predicted = read_pair(Y, prediction, names)
    cells = None if scores is None else read_scores(scores, truth)
    weights = read_weights(sample_weight, truth.n_samples)
    ks = _read_k(k, truth.n_labels)

    counts = count(truth, predicted, weights)
    tally = counts.labels
    per_label = {
        "precision": fill(tally.precision(), undefined),
        "recall": fill(tally.recall(), undefined),
        "f1": fill(tally.f1(), undefined),
        "support": tally.present,
        "predicted": tally.predicted,
    }
    metrics = metrics_at(ks)
    means = {metric.name: metric.formula(counts, undefined) for metric in metrics if not metric.of_scores}
    if cells is not None:
        ranking = Ranking(truth, cells, weights)
        per_label["average_precision"] = fill(ranking.labels.average_precision, undefined)
        per_label["roc_auc"] = fill(ranking.labels.roc_auc, undefined)
        means |= {metric.name: metric.formula(ranking, undefined) for metric in metrics if metric.of_scores}
    return Report(
        n_samples=truth.n_samples,
        n_labels=truth.n_labels,
        names=truth.names,
        undefined=undefined,
        per_label=per_label,
        values={name: average.value for name, average in means.items()},
        skipped={name: average.skipped for name, average in means.items() if average.skipped},
    )


def _read_k(k: Any, n_labels: int) -> list[int]:
    try:
        ks = [k] if isinstance(k, (int, np.integer)) else list(k)
    except TypeError:
        msg = f"k must be a sequence of whole numbers; got {k!r}. Use k=(1, 3, 5), for instance."
        raise InputError(msg) from None
    if tuple(ks) == DEFAULT_K:
        return [at for at in DEFAULT_K if at <= n_labels]
    return [check_k(at, n_labels) for at in ks]


def _is_average(name: str) -> bool:
    return name.partition("-")[0] in AVERAGES


def _plain(value: float, key: str = "") -> float | int | None:
    if math.isnan(value):
        return None
    return int(value) if key in COUNTS and float(value).is_integer() else float(value)


def _cell(value: float | None, key: str = "") -> str:
    if value is None:
        return ""
    if key in COUNTS:
        return f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
    return "-" if math.isnan(value) else f"{value:.4f}"

"""From scores to decisions: thresholds for macro-F1, and probabilities that mean what they say.

A one-vs-all SVM puts the boundary of each label where its own loss wants it; a rare label is then hardly ever
predicted. The script trains LinearM3L, tunes its decision out of fold, and fits probabilities:

1. the F1 of each label on test rows, before and after tuning;
2. probabilities against the share of positives, by one line for all labels and by a line per label with a common prior.

On yeast where its files are at hand (MULTIMARGIN_DATA), on drawn data otherwise. Run it with
``python examples/decisions.py``; it takes a few seconds. With a folder as argument it draws the result there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_multilabel_classification
from sklearn.preprocessing import StandardScaler

from multimargin import LabelCalibrator, LinearM3L, ThresholdTuner, datasets, metrics
from multimargin.model_selection import train_test_split
from multimargin.plots import ReliabilityDisplay


def load() -> tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Name, training rows and labels, test rows and labels."""
    if os.environ.get("MULTIMARGIN_DATA"):
        data = datasets.load("yeast")
        parts = data.X_train, data.X_test
        Y, Y_test = (sp.csr_array(y).toarray() for y in (data.Y_train, data.Y_test))
        name = "yeast"
    else:
        X, labels = make_multilabel_classification(4000, 60, n_classes=20, n_labels=2, random_state=0)
        x, x_test, Y, Y_test = train_test_split(X, labels, test_size=0.5, random_state=0)
        parts, name = (x, x_test), "drawn data"
    scaler, root = StandardScaler().fit(parts[0]), np.sqrt(parts[0].shape[1])
    X, X_test = (scaler.transform(part) / root for part in parts)
    return name, X, Y, X_test, Y_test


def f1_of_labels(Y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """F1 of every label."""
    return np.array([metrics.macro_f1(Y[:, [j]], predicted[:, [j]], undefined=0) for j in range(Y.shape[1])])


def main(folder: Path | None) -> None:
    """Train, tune, calibrate, print, and draw."""
    name, X, Y, X_test, Y_test = load()
    model = LinearM3L(C=1.0, random_state=0)
    tuner = ThresholdTuner(model, scoring="macro-f1", random_state=0).fit(X, Y)
    before, after = model.fit(X, Y).predict(X_test), tuner.predict(X_test)
    print(f"{name}: macro-F1 on test rows {metrics.macro_f1(Y_test, before):.3f} before tuning")
    print(
        f"{name}: macro-F1 on test rows {metrics.macro_f1(Y_test, after):.3f} after; {tuner.nested_score_:.3f} expected"
    )

    one_line = LabelCalibrator(model, pooling="all", random_state=0).fit(X, Y)
    lines = LabelCalibrator(model, random_state=0).fit(X, Y)
    for how, calibrator in (("one line for all labels", one_line), ("a line per label", lines)):
        p = calibrator.predict_proba(X_test)
        loss, error = metrics.log_loss(Y_test, p), metrics.calibration_error(Y_test, p)
        print(f"{name}: {how}: log-loss {loss:.3f}, calibration error {error:.3f}")
    if folder is not None:
        draw(name, Y, Y_test, before, after, (one_line, lines), X_test, folder)


def draw(name, Y, Y_test, before, after, calibrators, X_test, folder) -> None:
    """Draw the F1 of each label before and after, and the reliability of both calibrations."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ink, old, new = "#22313f", "#b4491f", "#1f6f8b"
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    f_before, f_after = f1_of_labels(Y_test, before)[order], f1_of_labels(Y_test, after)[order]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained", width_ratios=(1.25, 1))
    at = np.arange(len(order))
    left.vlines(at, f_before, f_after, color="#cfd6dc", linewidth=2)
    left.plot(at, f_before, "o", color=old, label="threshold 0", markersize=5)
    left.plot(at, f_after, "o", color=new, label="tuned for macro-F1", markersize=5)
    left.set_xticks(
        at, [f"{int(n)}" for n in Y.sum(axis=0)[order]], rotation=90 if len(at) > 15 else 45, fontsize="small"
    )
    left.set_xlabel("training rows with the label", color=ink)
    left.set_ylabel("F1 of the label on test rows", color=ink)
    left.set_ylim(-0.02, 1.0)
    left.set_title(f"{name}: thresholds", color=ink, fontsize="medium")
    left.legend(frameon=False, fontsize="small")
    left.spines[["top", "right"]].set_visible(False)
    left.grid(axis="y", color="#e6eaed", linewidth=0.8)
    left.set_axisbelow(True)
    for how, calibrator, color in zip(
        ("one line for all labels", "a line per label"), calibrators, (old, new), strict=True
    ):
        curve = metrics.reliability(Y_test, calibrator.predict_proba(X_test))
        ReliabilityDisplay(curves={how: curve}).plot(right, color=color)
    right.set_title(f"{name}: probabilities", color=ink, fontsize="medium")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "decisions.png", dpi=110)
    print(folder / "decisions.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

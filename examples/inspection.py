"""Labels described, and a score explained.

1. What the labels are like: how many a row has, how rare they are, which depend on each other.
2. With a prior made of the labels, what a label of a row has from its own evidence, and what it borrows from others.

On emotions where its files are at hand (MULTIMARGIN_DATA), on drawn data otherwise. Run it with
``python examples/inspection.py``; it takes a second. With a folder as argument it draws the labels there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_multilabel_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import LinearM3L, datasets, priors
from multimargin.inspection import describe, explain, top_features


def load() -> tuple[np.ndarray, pd.DataFrame]:
    """Rows and their labels."""
    if os.environ.get("MULTIMARGIN_DATA"):
        data = datasets.load("emotions")
        return data.X_train, pd.DataFrame(data.Y_train.toarray(), columns=list(data.label_names))
    X, Y = make_multilabel_classification(400, 30, n_classes=6, random_state=0)
    return X, pd.DataFrame(Y, columns=[f"label {k}" for k in range(6)])


def main(folder: Path | None) -> None:
    """Describe, train, explain, print, and draw."""
    X, Y = load()
    labels = describe(Y, X)
    print(labels)
    model: Any = make_pipeline(StandardScaler(), LinearM3L(C=0.1, prior=priors.from_labels(Y), random_state=0))
    model.fit(X, Y)
    why = explain(model, X[[0]])
    print(f"\nthe first row\n{why}")
    print(f"\nwhat weighs most\n{top_features(model, why.label, 5, X=X)}")
    if folder is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        folder.mkdir(parents=True, exist_ok=True)
        counts, _ = labels.plot()
        counts.figure_.savefig(folder / "labels.png", dpi=110)
        print(folder / "labels.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

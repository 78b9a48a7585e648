"""Which labels depend on each other? A learned label graph, checked against graphs that are given.

Run it with ``python examples/label_graph.py``. It uses the scene photographs if MULTIMARGIN_DATA names a folder that
holds them, and generated data with a known graph otherwise. With a folder as argument it draws the graph, and how it
grew, there.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from multimargin import CliqueClassifier, datasets, metrics, plots


def load():
    """Name, training and test rows; the columns of Y have the names of the labels."""
    if os.environ.get("MULTIMARGIN_DATA"):
        scene = datasets.load("scene")
        Y, Y_test = (pd.DataFrame(y.toarray(), columns=scene.label_names) for y in (scene.Y_train, scene.Y_test))
        return "scene", scene.X_train, Y, scene.X_test, Y_test
    made = datasets.make_clique_labels(n_samples=3000, random_state=0)
    Y = pd.DataFrame(made.Y, columns=made.label_names)
    return "drawn", made.X[:2000], Y[:2000], made.X[2000:], Y[2000:]


def main(folder):
    """Compare graphs, then draw the learned one."""
    name, X, Y, X_test, Y_test = load()
    shrink = FunctionTransformer(lambda Z: Z / np.sqrt(Z.shape[1]))
    C = 300 / X.shape[0]
    for title, options in {
        "no edges": {"graph": None},
        "Chow-Liu tree": {"graph": "chow-liu"},
        "all pairs": {"graph": "full"},
        "learned, by significance": {},
        "learned, by validation": {"stopping": "validation", "budget": 4, "batch": 1},
    }.items():
        model = make_pipeline(StandardScaler(), shrink, CliqueClassifier(C=C, random_state=0, **options)).fit(X, Y)
        cliques = model[-1].cliques_
        loss = metrics.hamming_loss(Y_test, model.predict(X_test))
        print(f"{title:26s} {len(cliques):3d} cliques, {100 * loss:5.2f} % wrong labels")
    for clique in cliques:
        print("  " + " - ".join(clique))
    print(model[-1].certificate_)  # the gap for these cliques, and the gap over all candidates
    if folder is not None:
        graph, path = plots.LabelGraphDisplay, plots.CliquePathDisplay
        graph.from_estimator(model[-1]).figure_.savefig(folder / f"{name}_graph.png", dpi=150)
        path.from_estimator(model[-1]).figure_.savefig(folder / f"{name}_clique_path.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)

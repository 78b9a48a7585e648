"""Time of boosting trees of one level, on one thread, against scikit-learn: CPU time of complete fits.

BoosTexter against one-vs-rest HistGradientBoostingClassifier with trees of one level (bins as well; gradient boosting
instead of AdaBoost) and one-vs-rest AdaBoostClassifier with its default trees (exact thresholds). Unit: nanoseconds per
row, feature, label and round, binning included; medians of interleaved runs. Slow rivals make fewer rounds.

    MULTIMARGIN_DATA=... python benchmarks/boosting.py [set]...
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import scipy.sparse as sp
from _common import cpu_clock, interleaved, save
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from threadpoolctl import threadpool_limits

from multimargin import datasets
from multimargin.baselines import BoosTexter

# rounds of ours, of the histogram trees, and of AdaBoost
SETS = {
    "scene": (500, 100, 5),
    "emotions": (500, 200, 20),
    "yeast": (500, 100, 5),
    "mediamill": (50, 10, 1),
    "medical": (500, 10, 0),
}


def problem(name):
    """Training rows and labels: a fold of scene, 2000 rows of mediamill, elsewhere the official split."""
    data = datasets.load(name)
    X, Y = data.X_train, np.asarray(sp.csr_array(data.Y_train).todense())
    if name == "scene":
        X, Y = np.vstack([X, data.X_test]), np.vstack([Y, np.asarray(sp.csr_array(data.Y_test).todense())])
        rows, _ = next(KFold(5, shuffle=True, random_state=1).split(X))
        X, Y = X[rows], Y[rows]
    X, Y = X[:2000], Y[:2000]
    return X, np.ascontiguousarray(Y[:, np.ptp(Y, axis=0) > 0])


def main(names):
    lines = []
    for name in names:
        X, Y = problem(name)
        rounds, some, few = SETS[name]
        trees = HistGradientBoostingClassifier(max_depth=1, max_iter=some, early_stopping=False, min_samples_leaf=1)
        dense = X.toarray() if sp.issparse(X) else X
        works = {
            "BoosTexter": (rounds, lambda x=X, y=Y, t=rounds: BoosTexter(t).fit(x, y)),
            "histogram trees": (some, lambda x=dense, y=Y, m=trees: OneVsRestClassifier(m).fit(x, y)),
        }
        if few:
            exact = AdaBoostClassifier(n_estimators=few)
            works["AdaBoost"] = (few, lambda x=dense, y=Y, m=exact: OneVsRestClassifier(m).fit(x, y))
        seconds = interleaved({key: lambda w=work: cpu_clock(w)[0] for key, (_, work) in works.items()}, 3)
        cells = X.shape[0] * X.shape[1] * Y.shape[1]
        unit = {key: 1e9 * seconds[key] / (cells * works[key][0]) for key in works}
        for key, (made, _) in works.items():
            shape = f"{X.shape[0]} x {X.shape[1]} x {Y.shape[1]}" + (", sparse" if sp.issparse(X) else "")
            lines.append(
                {
                    "set": name,
                    "rows x features x labels": shape,
                    "what": key,
                    "rounds": made,
                    "seconds": seconds[key],
                    "ns": unit[key],
                    "this / BoosTexter": unit[key] / unit["BoosTexter"],
                }
            )
    save("boosting", lines, ["multimargin", "numpy", "scikit-learn"])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        main(sys.argv[1:] or list(SETS))

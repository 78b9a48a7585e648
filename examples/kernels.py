"""Kernels: choosing one by cross-validation, bringing your own, and training when the Gram matrix does not fit.

Run it with ``python examples/kernels.py``; it takes a few seconds. With a folder as argument it draws the kernels'
losses and the convergence of the best there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV

from multimargin import KernelM3L, datasets, plots
from multimargin.model_selection import MultilabelStratifiedKFold


def hamming(model: KernelM3L, X: np.ndarray, Y: np.ndarray) -> float:
    """Share of wrong labels, negated: scikit-learn looks for the largest score."""
    return -float(np.mean(model.predict(X) != Y))


def choose(X: np.ndarray, Y: np.ndarray) -> GridSearchCV:
    """Compare every kernel with its own parameters on the same folds."""
    grid = [
        {"kernel": ["linear"], "C": [1.0, 10.0]},
        {"kernel": ["rbf", "laplacian", "chi2"], "gamma": ["scale", 0.3], "C": [1.0, 10.0]},
        {"kernel": ["poly"], "degree": [2], "C": [0.1]},
        {"kernel": [cosine_similarity], "C": [10.0]},
    ]
    folds = MultilabelStratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(KernelM3L(random_state=0), grid, scoring=hamming, cv=folds).fit(X, Y)
    print("Hamming loss over 5 folds, best first")
    for settings, loss, spread in ranking(search):
        print(f"  {loss:5.2f} +- {spread:4.2f} %   {settings}")
    return search


def ranking(search: GridSearchCV) -> list[tuple[str, float, float]]:
    """List settings with loss and standard deviation over the folds in %, best first."""
    results: dict[str, Any] = search.cv_results_
    rows = []
    for k in np.argsort(results["rank_test_score"]):
        values = {name: getattr(value, "__name__", value) for name, value in results["params"][k].items()}
        settings = f"{values.pop('kernel')}, " + ", ".join(f"{name}={value}" for name, value in values.items())
        rows.append((settings, -100 * results["mean_test_score"][k], 100 * results["std_test_score"][k]))
    return rows


def small_memory(model: KernelM3L, X: np.ndarray, Y: np.ndarray) -> None:
    """Reach the same optimum with a tenth of the Gram matrix in memory."""
    whole = model.fit(X, Y)
    budget = 0.1 * len(X) ** 2 * 4 / 2**20
    part = KernelM3L(**{**model.get_params(), "cache_size": budget}).fit(X, Y)
    print()
    for name, fitted in (("the whole Gram matrix", whole), (f"{budget:.2f} MiB of it", part)):
        certificate = fitted.certificate_
        print(f"{name:24s}objective {certificate.primal:.3f}, relative gap {certificate.relative_gap:.1e}")


def draw(folder: Path, search: GridSearchCV) -> None:
    """Write pictures of the losses and of the best fit's certificate."""
    import matplotlib.pyplot as plt

    rows = ranking(search)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for k, (_, loss, spread) in enumerate(rows):
        left.errorbar(loss, -k, xerr=spread, fmt="o", color="#1f6f8b", capsize=3)
    left.set_yticks(range(0, -len(rows), -1), [settings for settings, _, _ in rows])
    left.set_xlabel("Hamming loss in %, standard deviation over 5 folds")
    left.spines[["top", "right", "left"]].set_visible(False)
    left.tick_params(left=False)
    plots.ConvergenceDisplay.from_estimator(search.best_estimator_, ax=right)
    figure.savefig(folder / "kernels.png", dpi=110)


def main() -> None:
    """Choose a kernel, look at the model, and train it again in little memory."""
    strips = datasets.load_digit_strips(n_samples=1500)
    search = choose(strips.X_train, strips.Y_train)
    best = search.best_estimator_
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]), search)
    print(f"\non the test strips: {-100 * hamming(best, strips.X_test, strips.Y_test):.2f} % of the labels wrong")
    print(f"{len(best.support_)} of {len(strips.X_train)} training rows support the {len(best.label_names_)} labels")
    small_memory(best, strips.X_train, strips.Y_train)


if __name__ == "__main__":
    main()

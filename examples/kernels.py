"""Kernels: choosing one by cross-validation, bringing your own, and training when the Gram matrix does not fit.

Run it with ``python examples/kernels.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV

from multimargin import KernelM3L, datasets
from multimargin.model_selection import MultilabelStratifiedKFold


def hamming(model: KernelM3L, X: np.ndarray, Y: np.ndarray) -> float:
    """Share of wrong labels, negated: scikit-learn looks for the largest score."""
    return -float(np.mean(model.predict(X) != Y))


def choose(X: np.ndarray, Y: np.ndarray) -> KernelM3L:
    """Every kernel with its own parameters, compared on the same folds."""
    grid = [
        {"kernel": ["linear"], "C": [1.0, 10.0]},
        {"kernel": ["rbf", "laplacian", "chi2"], "gamma": ["scale", 0.3], "C": [1.0, 10.0]},
        {"kernel": ["poly"], "degree": [2], "C": [0.1]},
        {"kernel": [cosine_similarity], "C": [10.0]},
    ]
    folds = MultilabelStratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(KernelM3L(random_state=0), grid, scoring=hamming, cv=folds).fit(X, Y)
    order = np.argsort(search.cv_results_["rank_test_score"])
    print("Hamming loss over 5 folds, best first")
    for k in order:
        settings = {name: getattr(value, "__name__", value) for name, value in search.cv_results_["params"][k].items()}
        loss, spread = search.cv_results_["mean_test_score"][k], search.cv_results_["std_test_score"][k]
        print(f"  {-100 * loss:5.2f} +- {100 * spread:4.2f} %   {settings}")
    return search.best_estimator_


def small_memory(model: KernelM3L, X: np.ndarray, Y: np.ndarray) -> None:
    """Reach the same optimum with a tenth of the Gram matrix in memory."""
    whole = model.fit(X, Y)
    budget = 0.1 * len(X) ** 2 * 4 / 2**20
    part = KernelM3L(**{**model.get_params(), "cache_size": budget}).fit(X, Y)
    print()
    for name, fitted in (("the whole Gram matrix", whole), (f"{budget:.2f} MiB of it", part)):
        certificate = fitted.certificate_
        print(f"{name:24s}objective {certificate.primal:.3f}, relative gap {certificate.relative_gap:.1e}")


def main() -> None:
    """Choose a kernel, look at the model, and train it again in little memory."""
    strips = datasets.load_digit_strips(n_samples=1500)
    best = choose(strips.X_train, strips.Y_train)
    print(f"\non the test strips: {-100 * hamming(best, strips.X_test, strips.Y_test):.2f} % of the labels wrong")
    print(f"{len(best.support_)} of {len(strips.X_train)} training rows support the {len(best.label_names_)} labels")
    small_memory(best, strips.X_train, strips.Y_train)


if __name__ == "__main__":
    main()

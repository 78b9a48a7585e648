"""Everything that takes n_jobs, with two threads, alone and beside itself in another Python thread.

    make -C fuzz/sanitize thread      under ThreadSanitizer, which ends the run with an error where threads clash

Alone and with one thread the numbers must be the same to the bit; a difference is an error, too.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from multimargin import (
    CalibratedSeparationClassifier,
    CliqueClassifier,
    KernelM3L,
    LinearM3L,
    OutputKernelClassifier,
    SubmodularClassifier,
    certify,
)
from multimargin.baselines import BoosTexter
from multimargin.priors import LowRankPrior

N_FEATURES = 12
# Rows and labels, enough for work in more than one part.
LINEAR, KERNEL, STRUCTURED = (1100, 40), (2200, 12), (300, 6)


def problem(n_rows: int, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; some labels are unknown."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, N_FEATURES)) / np.sqrt(N_FEATURES)
    noise = rng.normal(size=(n_rows, n_labels)) + rng.normal(size=(n_rows, 1))
    Y = (X @ rng.normal(size=(N_FEATURES, n_labels)) + 0.5 * noise > 0.3).astype(float)
    Y[rng.random(Y.shape) < 0.05] = np.nan
    return X, Y


def prior(n_labels: int) -> np.ndarray:
    """Return a prior that is diagonally dominant, too."""
    return 0.6 * np.eye(n_labels) + 0.4 / n_labels


def cell_margins(shape: tuple[int, int]) -> np.ndarray:
    """Return a margin for every cell."""
    return np.random.default_rng(2).exponential(size=shape)


def models() -> dict[str, tuple[tuple[int, int], Any]]:
    """Return a model for every threaded path, and the size of its problem."""
    R, F = prior(LINEAR[1]), np.random.default_rng(1).normal(size=(LINEAR[1], 2))
    return {
        "linear": (LINEAR, LinearM3L()),
        "linear, Newton": (LINEAR, LinearM3L(C=10.0, tol=1e-5)),
        "linear, coupled": (LINEAR, LinearM3L(prior=R)),
        "linear, coupled Newton": (LINEAR, LinearM3L(C=10.0, prior=R, tol=1e-4)),
        "linear, low rank": (LINEAR, LinearM3L(prior=LowRankPrior(F))),
        "linear, prior margins": (LINEAR, LinearM3L(prior=R, loss="prior")),
        "linear, margins of cells": (LINEAR, LinearM3L(prior=R, margin=cell_margins(LINEAR))),
        "kernel": (KERNEL, KernelM3L()),
        "kernel, coupled": (KERNEL, KernelM3L(prior=prior(KERNEL[1]))),
        "kernel, margins of cells": (KERNEL, KernelM3L(margin=cell_margins(KERNEL))),
        "kernel, some rows held": (KERNEL, KernelM3L(kernel="poly", cache_size=2.0, max_iter=10)),
        "kernel, double": (STRUCTURED, KernelM3L(kernel="laplacian", tol=1e-6)),
        "submodular": (STRUCTURED, SubmodularClassifier(pairs=1.0, pair_scale=30.0)),
        "submodular, many labels": ((60, 400), SubmodularClassifier(max_iter=5)),
        "submodular, held-out offset": (STRUCTURED, SubmodularClassifier(pairs=0, offset="cv")),
        "submodular, bundle": (STRUCTURED, SubmodularClassifier(solver="bundle", max_iter=30)),
        "cliques": (LINEAR[:1] + STRUCTURED[1:], CliqueClassifier(max_order=3, stopping="limit", max_cliques=4)),
        "cliques, full": (STRUCTURED, CliqueClassifier(graph="full", inference="branch-and-bound")),
        "cliques, messages": (STRUCTURED, CliqueClassifier(graph="full", inference="mplp", max_iter=20)),
        "cliques, softmax": (STRUCTURED, CliqueClassifier(graph="chow-liu", loss="softmax-margin", max_iter=50)),
        "separation, rows": (STRUCTURED, CalibratedSeparationClassifier(solver="rows", max_iter=300)),
        "separation, interior": (STRUCTURED, CalibratedSeparationClassifier(solver="interior")),
        "separation, kernel": (STRUCTURED, OutputKernelClassifier(kernel="rbf", max_iter=100)),
        "separation, alternating": (STRUCTURED, OutputKernelClassifier(solver="admm", max_iter=50)),
        "boosting, sparse": ((2 * LINEAR[0], LINEAR[1]), BoosTexter(20)),
        "boosting": ((2 * LINEAR[0], LINEAR[1]), BoosTexter(20)),
    }


def answers(model: Any, X: Any, Y: Any) -> list[Any]:
    """Train a copy, certify and use it."""
    if isinstance(model, BoosTexter):
        model = clone(model).fit(X, np.nan_to_num(Y))
        return [model.history_.primal, model.cuts_, model.decision_function(X)]
    model = clone(model).set_params(random_state=0).fit(X, Y)
    bounds = [model.certificate_.primal, model.certificate_.dual]
    if not isinstance(model, CliqueClassifier):
        bounds.append(certify(model, X, Y).primal)
    proba = [model.predict_proba(X)] if hasattr(model, "predict_proba") else []
    top = model.predict_top(X, 3)
    return [*bounds, model.decision_function(X), model.predict(X), top.indices, top.data, *proba]


def same(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists of answers are equal to the bit."""
    return all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


def main() -> int:
    """Try every path; return the exit code."""
    warnings.simplefilter("ignore")
    layouts: list[Callable[[Any], Any]] = [np.asarray, sp.csr_array, np.float32, lambda X: sp.csr_array(np.float32(X))]
    differences = 0
    for k, (name, (size, model)) in enumerate(models().items()):
        began = time.monotonic()
        X, Y = problem(*size)
        rows = layouts[k % len(layouts)](X)
        alone = answers(model.set_params(n_jobs=1), rows, Y)
        model.set_params(n_jobs=2)
        with ThreadPoolExecutor(2) as pool:
            beside = list(pool.map(answers, [model] * 2, [rows] * 2, [Y] * 2))
        equal = all(same(alone, answer) for answer in beside)
        differences += not equal
        print(f"{name}: {'the same' if equal else 'OTHER NUMBERS'}, {time.monotonic() - began:.1f} s", flush=True)
    print(f"{len(models())} paths with two threads, {differences} with other numbers than with one")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

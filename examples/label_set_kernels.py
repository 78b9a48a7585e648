"""Label-set kernels: calibrated separation, output kernels, and what the threshold has to do with it.

Run it with ``python examples/label_set_kernels.py``; it takes a few seconds.
"""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import StandardScaler

from multimargin import CalibratedSeparationClassifier, OutputKernelClassifier, datasets, metrics
from multimargin.errors import InputError
from multimargin.label_kernels import Cosine, Jaccard, Polynomial

SETTINGS = {"C": 0.1, "random_state": 0, "max_iter": 20_000}


def show(name: str, predicted: np.ndarray, truth: np.ndarray) -> None:
    """Print F1 and the share of rows without any label."""
    micro, macro = 100 * metrics.micro_f1(truth, predicted), 100 * metrics.macro_f1(truth, predicted)
    print(f"  {name:34s}{micro:6.1f} {macro:6.1f} {100 * np.mean(~predicted.any(axis=1)):6.1f} %")


def kernel_or_threshold(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray, Y_test: np.ndarray) -> None:
    """Compare the two models at the same threshold, in each direction."""
    csrl = CalibratedSeparationClassifier(**SETTINGS).fit(X, Y)
    kernel = OutputKernelClassifier(label_kernel=Polynomial((1.0, 1.0)), **SETTINGS).fit(X, Y)
    print(f"{kernel.n_atoms_} label sets, relative gap {kernel.certificate_.relative_gap:.1e}\n")
    print(f"  {'':34s}{'micro':>6s} {'macro':>6s}  no label")
    for name, model in (("calibrated separation", csrl), ("output kernel", kernel)):
        above, reference = model.decision_function(X_test), model.threshold_function(X_test)[:, None]
        show(name, above > 0, Y_test)
        show(f"{name}, 2 s >= s0", 2 * (above + reference) >= reference, Y_test)
        show(f"{name}, top-1", model.set_params(fallback="top1").predict(X_test) > 0, Y_test)


def other_kernels(X: np.ndarray, Y: np.ndarray, X_test: np.ndarray, Y_test: np.ndarray) -> None:
    """Try kernels that are positive exactly for sets which share a label; another one is refused, with the reason."""
    print()

    def shared_squared(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return (A @ B.T) ** 2

    for kernel in (Cosine(Polynomial((1.0,))), Jaccard(), shared_squared):
        model = OutputKernelClassifier(label_kernel=kernel, **SETTINGS).fit(X, Y)
        show(getattr(kernel, "__name__", type(kernel).__name__), model.predict(X_test) > 0, Y_test)
    try:
        OutputKernelClassifier(label_kernel=lambda A, B: (A @ B.T + 1) ** 2).fit(X, Y)
    except InputError as error:
        print(f"\n(|s & s'| + 1)^2: {error}")


def main() -> None:
    """Name the digits in a strip from 200 strips."""
    strips = datasets.load_digit_strips(n_samples=1500)
    scale = StandardScaler().fit(strips.X_train[:200])
    X, X_test = scale.transform(strips.X_train[:200]), scale.transform(strips.X_test)
    Y, Y_test = np.asarray(strips.Y_train)[:200], np.asarray(strips.Y_test)
    kernel_or_threshold(X, Y, X_test, Y_test)
    other_kernels(X, Y, X_test, Y_test)


if __name__ == "__main__":
    main()

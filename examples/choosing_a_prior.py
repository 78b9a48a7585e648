"""Choosing a prior R, and finding out whether dependence between labels pays.

``prior=None`` is one-vs-all. Any other prior is worth its cost only if it beats that, so this script prints the
difference and its standard error for several priors, in two situations:

1. strips of digits, where training and test rows come from the same source;
2. strokes of digits never seen in training, where they do not, and something is known about the new digits.

Run it with ``python examples/choosing_a_prior.py``; it takes a few seconds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.base import clone

from multimargin import KernelM3L, datasets, priors
from multimargin.model_selection import MultilabelStratifiedKFold


def difference(losses: np.ndarray, baseline: np.ndarray, test_share: float) -> str:
    """Mean difference of paired losses in points, with its standard error.

    Folds share training rows, so their losses are not independent: the variance is corrected by the ratio of test
    to training rows (Nadeau and Bengio, 2003).
    """
    gap = 100 * (losses - baseline)
    error = gap.std(ddof=1) * np.sqrt(1 / len(gap) + test_share / (1 - test_share))
    verdict = "pays" if gap.mean() < -2 * error else "harms" if gap.mean() > 2 * error else "no difference"
    return f"{100 * losses.mean():6.2f} %  {gap.mean():+6.2f} +- {error:4.2f}  {verdict}"


def table(title: str, rows: Iterable[tuple[str, np.ndarray]], test_share: float) -> None:
    """Print Hamming losses against the first row."""
    print(f"\n{title}\n{'prior':34s}{'loss':>8s}  difference")
    baseline = None
    for name, losses in rows:
        if baseline is None:
            baseline = losses
            print(f"{name:34s}{100 * losses.mean():6.2f} %")
        else:
            print(f"{name:34s}{difference(losses, baseline, test_share)}")


def same_source() -> None:
    """Cross-validation on strips: the labels of a fold's training rows are all that is known."""
    strips = datasets.load_digit_strips(n_samples=900)
    X, Y = strips.X_train, strips.Y_train
    adjacency = np.zeros((10, 10))
    for a, b, tie in strips.edges:
        if tie > 0:
            adjacency[a, b] = adjacency[b, a] = tie
    makers = {
        "none: one-vs-all": lambda _: None,
        "correlation of the training labels": priors.from_labels,
        "half correlation, half identity": lambda labels: priors.from_labels(labels, shrinkage=0.5),
        "second moment": lambda labels: priors.from_labels(labels, kind="second-moment"),
        "frequencies only": lambda labels: priors.from_frequencies(labels.mean(axis=0)),
        "graph of digits that go together": lambda _: priors.from_graph(adjacency, diffusion=0.5),
    }
    folds = list(MultilabelStratifiedKFold(10, shuffle=True, random_state=0).split(X, Y))
    model = KernelM3L(C=1.0, random_state=0)
    rows = []
    for name, maker in makers.items():
        losses = []
        for train, test in folds:
            fitted = clone(model).set_params(prior=maker(Y[train])).fit(X[train], Y[train])
            losses.append(np.mean(fitted.predict(X[test]) != Y[test]))
        rows.append((name, np.array(losses)))
    table("Strips of digits: same source, Hamming loss over 10 folds", rows, 0.1)


def other_source() -> None:
    """Strokes of unseen digits: R and the label frequencies come from their signatures."""
    digits = datasets.load_digit_attributes()
    settings = {
        "none: one-vs-all": (False, False),
        "signatures of the unseen digits": (True, False),
        "none, but their frequencies": (False, True),
        "signatures and frequencies": (True, True),
    }
    rows = []
    for name, (with_prior, with_frequencies) in settings.items():
        losses = []
        for seen, unseen in digits.splits:
            train, test = np.isin(digits.digit, seen), np.isin(digits.digit, unseen)
            signatures = digits.signatures[list(unseen)]
            model = KernelM3L(
                prior=priors.from_signatures(signatures) if with_prior else None,
                class_weight=priors.class_weights(digits.Y[train], priors.signature_frequencies(signatures))
                if with_frequencies
                else None,
                random_state=0,
            ).fit(digits.X[train], digits.Y[train])
            losses.append(np.mean(model.predict(digits.X[test]) != digits.Y[test]))
        rows.append((name, np.array(losses)))
    table("Strokes of unseen digits: Hamming loss over 6 splits", rows, 0.3)


def main() -> None:
    """Print both tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", priors.FrequencyPriorWarning)  # the control shows what it says
        same_source()
    other_source()
    print(
        "\nNegative differences favour the prior. Where training and test rows come from the same source, expect\n"
        "little; where they do not, say what you know: the signatures of the new categories, their frequencies."
    )


if __name__ == "__main__":
    main()

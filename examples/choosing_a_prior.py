"""Choosing a prior R, and finding out whether dependence between labels pays.

``prior=None`` is one-vs-all. Any other prior is worth its cost only if it beats that, so this script prints the
difference and its standard error for several priors, in two situations:

1. strips of digits, where training and test rows come from the same source;
2. strokes of digits never seen in training, where they do not, and something is known about the new digits.

Run it with ``python examples/choosing_a_prior.py``; it takes a few seconds. With a folder as argument it draws the
prior and the differences there.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone

from multimargin import KernelM3L, datasets, plots, priors, weights
from multimargin.model_selection import MultilabelStratifiedKFold

Losses = dict[str, np.ndarray]


def difference(losses: np.ndarray, baseline: np.ndarray, test_share: float) -> tuple[float, float]:
    """Mean difference of paired losses in points, and its standard error.

    Folds share training rows, so their losses are not independent: the variance is corrected by the ratio of test
    to training rows (Nadeau and Bengio, 2003).
    """
    gap = 100 * (losses - baseline)
    return gap.mean(), gap.std(ddof=1) * np.sqrt(1 / len(gap) + test_share / (1 - test_share))


def table(title: str, losses: Losses, test_share: float) -> None:
    """Print Hamming losses, and their difference to the first."""
    print(f"\n{title}\n{'prior':34s}{'loss':>8s}  difference")
    baseline = next(iter(losses.values()))
    for name, values in losses.items():
        line = f"{name:34s}{100 * values.mean():6.2f} %"
        if values is not baseline:
            mean, error = difference(values, baseline, test_share)
            verdict = "pays" if mean < -2 * error else "harms" if mean > 2 * error else "no difference"
            line += f"  {mean:+6.2f} +- {error:4.2f}  {verdict}"
        print(line)


def same_source() -> Losses:
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
    losses: Losses = {}
    for name, maker in makers.items():
        models = [clone(model).set_params(prior=maker(Y[train])).fit(X[train], Y[train]) for train, _ in folds]
        wrong = [fitted.predict(X[test]) != Y[test] for fitted, (_, test) in zip(models, folds, strict=True)]
        losses[name] = np.array([cells.mean() for cells in wrong])
    table("Strips of digits: same source, Hamming loss over 10 folds", losses, 0.1)
    return losses


def other_source() -> Losses:
    """Strokes of unseen digits: R and the label frequencies come from their signatures."""
    digits = datasets.load_digit_attributes()
    settings = {
        "none: one-vs-all": (False, False),
        "signatures of the unseen digits": (True, False),
        "none, but their frequencies": (False, True),
        "signatures and frequencies": (True, True),
    }
    losses: Losses = {}
    for name, (with_prior, with_frequencies) in settings.items():
        wrong = []
        for seen, unseen in digits.splits:
            train, test = np.isin(digits.digit, seen), np.isin(digits.digit, unseen)
            signatures = digits.signatures[list(unseen)]
            model = KernelM3L(
                prior=priors.from_signatures(signatures) if with_prior else None,
                class_weight=weights.LabelFrequencies(weights.signature_frequencies(signatures))
                if with_frequencies
                else None,
                random_state=0,
            ).fit(digits.X[train], digits.Y[train])
            wrong.append(np.mean(model.predict(digits.X[test]) != digits.Y[test]))
        losses[name] = np.array(wrong)
    table("Strokes of unseen digits: Hamming loss over 6 splits", losses, 0.3)
    return losses


def draw(folder: Path, same: Losses, other: Losses) -> None:
    """Write pictures of a prior, and of the differences with two standard errors."""
    import matplotlib.pyplot as plt

    digits = datasets.load_digit_attributes()
    unseen = digits.splits[0].unseen
    R = priors.from_signatures(digits.signatures[list(unseen)])
    display = plots.PriorDisplay.from_matrix(R, digits.label_names)
    display.ax_.set_title(f"Prior of the unseen digits {', '.join(map(str, unseen))}", fontsize="medium")
    display.figure_.savefig(folder / "prior.png", dpi=110, bbox_inches="tight")

    figure, axes = plt.subplots(1, 2, figsize=(10.5, 2.9), layout="constrained")
    for ax, title, losses, share in (
        (axes[0], "same source (strips of digits)", same, 0.1),
        (axes[1], "other source (strokes of unseen digits)", other, 0.3),
    ):
        baseline, *others = losses.items()
        for k, (_, values) in enumerate(others):
            mean, error = difference(values, baseline[1], share)
            colour = "#1f6f8b" if mean < -2 * error else "#b4491f" if mean > 2 * error else "#8a97a3"
            ax.errorbar(mean, -k, xerr=2 * error, fmt="o", color=colour, capsize=3)
        ax.axvline(0, color="#22313f", linewidth=0.8)
        ax.set_yticks(range(0, -len(others), -1), [name for name, _ in others])
        ax.set_ylim(-len(others) + 0.5, 0.5)
        ax.set_xlabel("points of Hamming loss, against one-vs-all")
        ax.set_title(title, fontsize="medium")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(left=False)
    figure.savefig(folder / "prior_differences.png", dpi=110)


def main() -> None:
    """Print both tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", priors.FrequencyPriorWarning)  # the control shows what it says
        same = same_source()
    other = other_source()
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]), same, other)
    print(
        "\nNegative differences favour the prior. Where training and test rows come from the same source, expect\n"
        "little; where they do not, say what you know: the signatures of the new categories, their frequencies."
    )


if __name__ == "__main__":
    main()

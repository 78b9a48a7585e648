"""A label without one training example, predicted through the prior.

The weights of M3L are z_l = sum_k R_lk v_k: a label of which no cell is known has no v of its own, but the prior R
still gives it a score, out of the labels it is tied to. The script asks what that is worth:

1. strokes of handwritten digits: each stroke in turn is unknown in all training rows, and R comes from what the digits
   look like;
2. animals, where their files are at hand: trained on images of five animals only, many attributes take one value in
   training; how many attributes of ten other animals are wrong, with such attributes in the problem and without.

Run it with ``python examples/labels_without_examples.py``; it takes a few seconds. With a folder as argument it draws
the first result there.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from multimargin import LinearM3L, datasets, priors

Rows = list[tuple[str, float, float, float]]


def strokes() -> Rows:
    """For each stroke: share of right predictions without a training example, with all of them, and by the majority."""
    data = datasets.load_digit_attributes()
    order = np.random.default_rng(0).permutation(len(data.X))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    R = priors.from_signatures(data.signatures)
    truth = data.Y[test]
    known = LinearM3L(C=1.0, prior=R, random_state=0).fit(data.X[train], data.Y[train]).predict(data.X[test])
    rows = []
    for label, name in enumerate(data.label_names):
        Y = data.Y[train].astype(float)
        Y[:, label] = np.nan
        unknown = LinearM3L(C=1.0, prior=R, random_state=0).fit(data.X[train], Y).predict(data.X[test])
        majority = max(truth[:, label].mean(), 1 - truth[:, label].mean())
        right = [float(np.mean(predicted[:, label] == truth[:, label])) for predicted in (unknown, known)]
        rows.append((name, *right, float(majority)))
    return rows


def animals(n_seen: int = 5, draws: int = 10) -> dict[str, np.ndarray]:
    """Wrong attributes of unseen animals in percent, by draw, trained on 200 images of a few animals."""
    awa = datasets.load("awa")
    X, Y = normalize(awa.X_train), awa.Y_train.toarray()
    X_test, Y_test = normalize(awa.X_test), awa.Y_test.toarray()
    signatures = awa.signatures[awa.unseen]
    R = priors.from_signatures(signatures, np.array([np.mean(awa.class_test == c) for c in awa.unseen]))
    losses: dict[str, list[float]] = {}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        seen = rng.choice(np.unique(awa.class_train), n_seen, replace=False)
        rows = rng.choice(np.flatnonzero(np.isin(awa.class_train, seen)), 200, replace=False)
        varies = Y[rows].min(axis=0) < Y[rows].max(axis=0)
        whole = LinearM3L(C=1.0, prior=R, random_state=0).fit(X[rows], Y[rows]).predict(X_test)
        alone = LinearM3L(C=1.0, random_state=0).fit(X[rows], Y[rows]).predict(X_test)
        cut = np.broadcast_to(Y[rows][0], Y_test.shape).copy()  # constant attributes as they were
        cut[:, varies] = (
            LinearM3L(C=1.0, prior=R[np.ix_(varies, varies)], random_state=0)
            .fit(X[rows], Y[rows][:, varies])
            .predict(X_test)
        )
        found = {"one-vs-all": alone, "prior, constant attributes cut out": cut, "prior, all attributes": whole}
        for name, predicted in found.items():
            losses.setdefault(name, []).append(100 * float(np.mean(predicted != Y_test)))
        losses.setdefault("constant attributes", []).append(float((~varies).sum()))
    return {name: np.array(values) for name, values in losses.items()}


def draw(rows: Rows, folder: Path) -> None:
    """Draw the shares of right predictions as points, stroke by stroke."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    rows = sorted(rows, key=lambda row: row[1])
    names, *shares = zip(*rows, strict=True)
    series = 100 * np.array(shares)
    figure, axes = plt.subplots(figsize=(7.5, 5.5), layout="constrained")
    axes.hlines(names, series[2], series[1], color="0.85", linewidth=3, zorder=0)
    looks = (
        ("without one training example", "#0b6e99", "o"),
        ("with all training examples", "#d9730d", "D"),
        ("majority", "0.55", "|"),
    )
    for values, (label, color, marker) in zip(series, looks, strict=True):
        axes.scatter(values, names, color=color, marker=marker, s=46, label=label)
    axes.set_xlabel("right predictions on test rows, percent")
    axes.set_title("Strokes of digits, predicted through the prior")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    path = folder / "labels_without_examples.png"
    figure.savefig(path, dpi=110)
    print(path)


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore", UserWarning)  # constant attributes, and priors that are mostly frequencies
    rows = strokes()
    print(f"{'stroke':24s}{'no example':>12s}{'all':>8s}{'majority':>10s}")
    for name, *shares in rows:
        print(f"{name:24s}{100 * shares[0]:10.1f} %{100 * shares[1]:6.1f} %{100 * shares[2]:8.1f} %")
    means = 100 * np.mean([row[1:] for row in rows], axis=0)
    print(f"{'mean':24s}{means[0]:10.1f} %{means[1]:6.1f} %{means[2]:8.1f} %")
    if len(sys.argv) > 1:
        draw(rows, Path(sys.argv[1]))
    if not os.environ.get("MULTIMARGIN_DATA"):
        print("\nSet MULTIMARGIN_DATA to a folder with Animals with Attributes for the second part.")
        return
    losses = animals()
    constant = losses.pop("constant attributes")
    print(f"\nfive animals seen, {constant.min():.0f} to {constant.max():.0f} of 85 attributes constant in training")
    baseline = losses["prior, constant attributes cut out"]
    for name, values in losses.items():
        gap = values - baseline
        print(f"{name:36s}{values.mean():6.2f} %  {gap.mean():+5.2f} ({gap.min():+.2f} to {gap.max():+.2f})")


if __name__ == "__main__":
    main()

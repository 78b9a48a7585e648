"""Recognising what was never seen: animals (or digits) by their attributes.

With the Animals-with-Attributes features in the folder ``MULTIMARGIN_DATA``, the attributes of 40 animals are learnt
from 200 images, and 10 animals without any training image are recognised. Otherwise the same is done with handwritten
digits, described by their strokes.

Run it with ``python examples/zero_shot.py``. With a folder as argument it draws there which unseen category is taken
for which.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multimargin import KernelM3L, ZeroShotClassifier, datasets
from multimargin.errors import InputError
from multimargin.metrics import per_class_accuracy


@dataclass
class Task:
    """Training rows of seen categories, test rows of unseen ones."""

    kind: str
    name: str
    X: Any
    y: Any
    X_new: Any
    y_new: Any
    signatures: Any
    category_names: list[str]


def animals(n_images: int = 200, seed: int = 0) -> Task:
    """Animals with Attributes; categories are numbered by their rows in the signature matrix."""
    awa = datasets.load("awa")
    rows = np.random.default_rng(seed).choice(len(awa.X_train), n_images, replace=False)
    return Task(
        "animals",
        f"{n_images} images of 40 animals, 85 attributes, 10 unseen animals",
        awa.X_train[rows],
        awa.class_train[rows],
        awa.X_test,
        awa.class_test,
        awa.signatures,
        [name.replace("+", " ") for name in awa.class_names],
    )


def digits() -> Task:
    """Digits described by strokes; three of them unseen."""
    data = datasets.load_digit_attributes()
    seen, unseen = data.splits[4]
    train, test = np.isin(data.digit, seen), np.isin(data.digit, unseen)
    name = f"{train.sum()} digits, 18 strokes, unseen: {', '.join(map(str, unseen))}"
    names = [str(digit) for digit in range(10)]
    return Task(
        "digits", name, data.X[train], data.digit[train], data.X[test], data.digit[test], data.signatures, names
    )


def draw(path: Path, task: Task, predicted: np.ndarray) -> None:
    """Draw the share of each unseen category that is taken for each of them."""
    import matplotlib.pyplot as plt
    from sklearn.metrics import confusion_matrix

    labels = np.unique(task.y_new)
    shares = confusion_matrix(task.y_new, predicted, labels=labels, normalize="true")
    names = [task.category_names[k] for k in labels]
    side = 2.4 + 0.36 * len(labels)
    figure, ax = plt.subplots(figsize=(side, side), layout="constrained")
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (i, j), share in np.ndenumerate(shares):
        colour = "white" if share > 0.5 else "#22313f"
        ax.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize="small", color=colour)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("taken for")
    ax.set_ylabel("images of")
    ax.set_title("% of the images of each unseen category", fontsize="medium")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print attribute errors and category accuracies."""
    try:
        task = animals()
    except (InputError, OSError):
        task = digits()
    print(task.name)
    cells = np.asarray(task.signatures)
    truth = cells[task.y_new] > 0
    names, count = np.unique(task.y_new, return_counts=True)
    probabilities = np.zeros(len(cells))
    probabilities[names] = count
    print(f"\n{'knowledge of the unseen categories':38s}{'attribute error':>16s}{'categories right, per class':>36s}")
    print(f"{'':54s}{'correlation':>14s}{'hamming':>11s}{'dap':>11s}")
    for with_prior in (False, True):
        for with_frequencies in (False, True):
            cell, predicted = [], {}
            for rule in ("correlation", "hamming", "dap"):
                model = ZeroShotClassifier(
                    KernelM3L(C=0.1, random_state=0),
                    task.signatures,
                    probabilities=probabilities,
                    rule=rule,
                    use_prior=with_prior,
                    use_frequencies=with_frequencies,
                ).fit(task.X, task.y)
                predicted[rule] = model.predict(task.X_new)
                cell.append(per_class_accuracy(task.y_new, predicted[rule]))
            error = np.mean((model.predict_attributes(task.X_new) > 0) != truth)
            told = [name for name, on in (("prior", with_prior), ("frequencies", with_frequencies)) if on]
            accuracies = "".join(f"{100 * a:9.1f} %" for a in cell)
            print(f"{' + '.join(told) or 'none (one-vs-all)':38s}{100 * error:14.2f} %   {accuracies}")
            if len(sys.argv) > 1 and with_prior and with_frequencies:
                draw(Path(sys.argv[1]) / f"zero_shot_{task.kind}.png", task, predicted["correlation"])
    majority = np.mean((probabilities @ cells / probabilities.sum() > 0.5) != truth)
    print(f"{'each attribute by its frequency alone':38s}{100 * majority:14.2f} %")
    print(f"chance for categories: {100 / len(names):.1f} %")


if __name__ == "__main__":
    main()

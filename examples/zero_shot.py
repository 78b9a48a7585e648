"""Recognising what was never seen: animals (or digits) by their attributes.

With the Animals-with-Attributes features in the folder ``MULTIMARGIN_DATA``, the attributes of 40 animals are learnt
from 200 images, and 10 animals without any training image are recognised. Otherwise the same is done with handwritten
digits, described by their strokes.

Run it with ``python examples/zero_shot.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multimargin import KernelM3L, ZeroShotClassifier, datasets
from multimargin.errors import InputError
from multimargin.metrics import per_class_accuracy


@dataclass
class Task:
    """Training rows of seen categories, test rows of unseen ones."""

    name: str
    X: Any
    y: Any
    X_new: Any
    y_new: Any
    signatures: Any


def animals(n_images: int = 200, seed: int = 0) -> Task:
    """Animals with Attributes; categories are numbered by their rows in the signature matrix."""
    awa = datasets.load("awa")
    rows = np.random.default_rng(seed).choice(len(awa.X_train), n_images, replace=False)
    return Task(
        f"{n_images} images of 40 animals, 85 attributes, 10 unseen animals",
        awa.X_train[rows],
        awa.class_train[rows],
        awa.X_test,
        awa.class_test,
        awa.signatures,
    )


def digits() -> Task:
    """Digits described by strokes; three of them unseen."""
    data = datasets.load_digit_attributes()
    seen, unseen = data.splits[4]
    train, test = np.isin(data.digit, seen), np.isin(data.digit, unseen)
    name = f"{train.sum()} digits, 18 strokes, unseen: {', '.join(map(str, unseen))}"
    return Task(name, data.X[train], data.digit[train], data.X[test], data.digit[test], data.signatures)


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
            cell = []
            for rule in ("correlation", "hamming", "dap"):
                model = ZeroShotClassifier(
                    KernelM3L(C=0.1, random_state=0),
                    task.signatures,
                    probabilities=probabilities,
                    rule=rule,
                    use_prior=with_prior,
                    use_frequencies=with_frequencies,
                ).fit(task.X, task.y)
                cell.append(per_class_accuracy(task.y_new, model.predict(task.X_new)))
            error = np.mean((model.predict_attributes(task.X_new) > 0) != truth)
            told = [name for name, on in (("prior", with_prior), ("frequencies", with_frequencies)) if on]
            accuracies = "".join(f"{100 * a:9.1f} %" for a in cell)
            print(f"{' + '.join(told) or 'none (one-vs-all)':38s}{100 * error:14.2f} %   {accuracies}")
    majority = np.mean((probabilities @ cells / probabilities.sum() > 0.5) != truth)
    print(f"{'each attribute by its frequency alone':38s}{100 * majority:14.2f} %")
    print(f"chance for categories: {100 / len(names):.1f} %")


if __name__ == "__main__":
    main()

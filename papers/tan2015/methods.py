"""The methods of the paper's tables, each with the parameters that may be chosen on rows held out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from multimargin import CliqueClassifier
from multimargin.baselines import (
    LEAD,
    MMOC,
    PLEM,
    PLST,
    BinaryRelevance,
    BoosTexter,
    GroupSparseLogLinear,
    KNNLabels,
    LabelPowerset,
)
from papers.measuring import Settings

from .lsg21 import LSG21

__all__ = ["Choice", "choices", "model_of"]

Choice = dict[str, Any]
"""Parameters of a method; ``lambda`` is the weight of the squared norm against the mean loss of a row."""

CLIQUES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "CGM": ({"graph": "learned"}, ("budget", "stopping")),
    "CGM with triples": ({"graph": "learned", "max_order": 3}, ("budget", "stopping")),
    "full edge": ({"graph": "full"}, ()),
    "full edge, softmax margin": ({"graph": "full", "loss": "softmax-margin"}, ("temperature",)),
    "Chow-Liu": ({"graph": "chow-liu"}, ()),
    "no edge": ({"graph": None}, ()),
    "true edges": ({}, ()),
}
"""Variants of CliqueClassifier: what makes them, and what is chosen besides lambda."""

RIVALS: dict[str, Callable[..., Any]] = {
    # Squared hinge loss: with the plain one this would be "no edge".
    "BR": lambda cost, lam: BinaryRelevance(cost(lam), loss="squared_hinge", random_state=0),
    "LEAD": lambda cost, lam, **more: LEAD(cost(lam), **more),
    "PLST": lambda cost, lam, **more: PLST(cost(lam), **more),
    "MMOC": lambda cost, lam, regression: MMOC(cost(lam), regression_C=cost(regression), tol=0.01),
    "PLEM": lambda cost, lam: PLEM(cost(lam)),
    "HLLM-L1": lambda cost, lam, **more: GroupSparseLogLinear(cost(lam), tol=0.01, **more),
    "HLLM-L1, marginals": lambda cost, lam, **more: GroupSparseLogLinear(cost(lam), tol=0.01, rule="marginal", **more),
    "LSG21": lambda cost, lam, **more: LSG21(lam, **more),
    "Power Set": lambda cost, lam: LabelPowerset(cost(lam), strategy="ovr", random_state=0),
    "BoosTexter": lambda cost, lam, **more: BoosTexter(**more),
    "5-NN": lambda cost, lam, **more: KNNLabels(**more),
}
"""Methods of others, by their names in the paper; ``cost(lam)`` is 1 / (lambda n). The last three are not in it."""


def choices(name: str, settings: Settings) -> list[Choice]:
    """All that a method may choose from: its own grid where the table has one, otherwise what all share."""
    shared = ("lambda", *(CLIQUES[name][1] if name in CLIQUES else ()))
    grid = settings.get("grids", {}).get(name) or {key: settings[key] for key in shared}
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def model_of(name: str, choice: Choice, n: int, scaled: bool = True, **more: Any) -> Any:
    """Return a method with what was chosen, for n training rows; ``more`` goes to variants of CliqueClassifier."""

    def cost(lam: float) -> float:
        return 1.0 / (lam * n)

    parameters = {key: value for key, value in choice.items() if key != "lambda"}
    if name in CLIQUES:
        parameters = {"tol": 0.01, "random_state": 0, **CLIQUES[name][0], **parameters, **more}
        model: Any = CliqueClassifier(cost(choice["lambda"]), **parameters)
    else:
        model = RIVALS[name](cost, choice.get("lambda"), **parameters)
    return make_pipeline(*_scaling(), model) if scaled else model


def _scaling() -> tuple[Any, Any]:
    """Standardised features, divided by the square root of their number."""
    return StandardScaler(), FunctionTransformer(_divide)


def _divide(X: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(X / np.sqrt(X.shape[1]))

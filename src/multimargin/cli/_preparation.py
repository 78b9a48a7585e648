"""From ``--text``, ``--missing`` and ``--scale`` to steps before a model, which go into its file with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multimargin.errors import InputError

__all__ = ["check_held_out", "check_missing", "preparation_lines", "prepared"]

MISSING = ("error", "mean", "median")


def check_missing(missing: str | None) -> None:
    """Refuse an unknown way to fill cells before any work is done."""
    if missing is not None and missing not in MISSING:
        msg = f"--missing takes one of {', '.join(MISSING)}; got {missing!r}."
        raise InputError(msg)


def check_held_out(share: float | None, column: str | None) -> None:
    """Refuse two ways to hold rows out, or a share that is none."""
    if share is not None and column is not None:
        msg = "Give --test-size or --split, not both."
        raise InputError(msg)
    if share is not None and not (0 < share < 1 or (share >= 1 and share == int(share))):
        msg = f"--test-size takes a share between 0 and 1, or a number of rows; got {share:g}. Example: --test-size 0.2"
        raise InputError(msg)


def prepared(estimator: Any, X: Any, scale: bool, missing: str | None) -> Any:
    """Return the estimator behind the steps asked for; alone if there are none."""
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import Normalizer, StandardScaler

    steps: list[tuple[str, Any]] = []
    if X.ndim == 1:
        steps.append(("texts", TfidfVectorizer(sublinear_tf=True)))  # its rows have length 1
    else:
        if missing in ("mean", "median"):
            steps.append(("fill", SimpleImputer(strategy=missing, keep_empty_features=True)))
        if scale:
            steps.append(("scale", Normalizer() if sp.issparse(X) else StandardScaler()))
    return Pipeline([*steps, ("model", estimator)]) if steps else estimator


def preparation_lines(model: Any) -> dict[str, str]:
    """Return the steps before a trained model as a line for people."""
    from sklearn.pipeline import Pipeline

    while not isinstance(model, Pipeline) and hasattr(model, "estimator_"):
        model = model.estimator_
    if not isinstance(model, Pipeline):
        return {}
    words: dict[str, Callable[[Any], str]] = {
        "TfidfVectorizer": lambda step: f"TF-IDF of {len(step.vocabulary_)} words",
        "SimpleImputer": lambda step: f"missing features filled by the {step.strategy}",
        "StandardScaler": lambda step: "columns scaled to mean 0 and variance 1",
        "Normalizer": lambda step: "rows scaled to length 1",
    }
    shown = [words[type(step).__name__](step) for _, step in model.steps[:-1] if type(step).__name__ in words]
    return {"prepared": ", ".join(shown)} if shown else {}

"""From ``--model NAME -p name=value`` to an estimator."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from multimargin.errors import InputError
from multimargin.fitted_rules import last_step

from ._decisions import trained

__all__ = [
    "certificate_lines",
    "did_you_mean",
    "make_model",
    "model_summaries",
    "not_converged",
    "parse_parameters",
    "read_model",
    "read_prior",
]

WORDS: dict[str, Any] = {"none": None, "null": None, "true": True, "false": False}
OWN_OPTION = {"prior": "--prior", "callback": None}


def make_model(name: str, settings: Sequence[str]) -> Any:
    """Make an estimator from its registered name and settings such as ``C=1``."""
    models = known_models()
    if name not in models:
        msg = f"There is no model {name!r}. Known models: {', '.join(models)}.{did_you_mean(name, models)}"
        raise InputError(msg)
    return models[name](**parse_parameters(models[name], settings))


def known_models() -> dict[str, type]:
    """Return the estimators, and after them the baselines, by name."""
    from multimargin import baselines, estimators

    return {**estimators.REGISTRY, **baselines.REGISTRY}


def read_model(path: Path, categories: bool = False) -> tuple[Any, dict[str, Any]]:
    """Read a model that predicts labels, or categories where these will do, and the notes beside it, from its file."""
    from multimargin.persistence import load_with_notes

    model, notes = load_with_notes(path)
    last = last_step(model)
    if not hasattr(last, "classes_"):
        msg = f"{path} holds a {type(last).__name__} that was never fitted. Give a model written by: multimargin fit"
        raise InputError(msg)
    if not hasattr(last, "label_names_") and not categories:
        msg = (
            f"{path} holds a {type(last).__name__} that predicts categories, not labels. Judge it with: "
            f"multimargin evaluate"
        )
        raise InputError(msg)
    return model, notes


def not_converged(model: Any) -> str | None:
    """Return a sentence on a model with a certificate that does not prove it within its tolerance."""
    model = trained(model)
    certificate = getattr(model, "certificate_", None)
    if certificate is None or certificate.converged:
        return None
    gap, over = certificate.relative_gap, ""
    if gap <= model.tol and hasattr(certificate, "global_relative_gap"):
        gap, over = certificate.global_relative_gap, " over all candidate cliques"
    return f"The model did not converge: its relative gap{over} is {gap:.1e}, tol {model.tol:.0e}."


def parse_parameters(cls: type, settings: Sequence[str]) -> dict[str, Any]:
    """Read settings such as ``C=1`` and check their names against the constructor."""
    known = [name for name in inspect.signature(cls).parameters if name not in OWN_OPTION]
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            msg = f"A parameter is written name=value; got {setting!r}. Example: -p C=1"
            raise InputError(msg)
        if OWN_OPTION.get(name):
            msg = f"The parameter {name!r} is not plain text; give it with {OWN_OPTION[name]}."
            raise InputError(msg)
        if name not in known:
            msg = (
                f"{cls.__name__} has no parameter {name!r}. Known parameters: {', '.join(known)}."
                f"{did_you_mean(name, known)}"
            )
            raise InputError(msg)
        if name in values:
            msg = f"The parameter {name!r} was given twice. Give it once."
            raise InputError(msg)
        values[name] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    """Read a number, a word such as none or true, or a Python list or dict; anything else is text."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence naming the known word closest to this one, or nothing if none is close."""
    known = list(known)
    exact = [name for name in known if name.lower() == word.lower()]
    close = exact or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean {close[0]}?" if close else ""


def model_summaries() -> list[dict[str, Any]]:
    """Return name, class, first sentence and parameters of every registered model."""
    return [
        {
            "name": name,
            "class": cls.__name__,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
            "parameters": {
                key: parameter.default
                for key, parameter in inspect.signature(cls).parameters.items()
                if key not in OWN_OPTION
            },
        }
        for name, cls in known_models().items()
    ]


def read_prior(prior: str) -> Any:
    """Read a recipe, or a matrix from its file."""
    import numpy as np

    if prior == "labels":
        return prior  # made inside fit, from the labels of each fold's own rows
    read = {".npy": partial(np.load, allow_pickle=False), ".csv": partial(np.loadtxt, delimiter=",", ndmin=2)}
    if Path(prior).suffix not in read:
        msg = f"A prior is 'labels' or a .npy or .csv file with a square matrix; got {prior!r}."
        raise InputError(msg)
    try:
        return read[Path(prior).suffix](prior)
    except ValueError as error:
        msg = f"{prior} does not hold a matrix of numbers: {error}"
        raise InputError(msg) from error


def certificate_lines(certificate: dict[str, Any] | None, passes: int | None) -> dict[str, str]:
    """Return a certificate as lines for people."""
    if certificate is None:
        return {"certificate": "none: this method minimises nothing that could be bounded"}
    verdict = "proved within tol" if certificate["converged"] else "not within tol"
    return {
        "primal": f"{certificate['primal']:.6g}",
        "dual": f"{certificate['dual']:.6g}",
        "relative gap": f"{certificate['relative_gap']:.1e} ({verdict})",
        "exact oracle calls": f"{certificate['oracle_exact']:.0%}",
        "passes": str(passes),
    }

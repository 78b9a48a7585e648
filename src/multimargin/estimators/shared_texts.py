"""Texts of the parameters and attributes that estimators share, so that each docstring says only what is its own."""

from __future__ import annotations

import inspect
import re

__all__ = ["with_shared_texts"]

PARAMETERS = {
    "fit_intercept": ("bool", "Whether to add a constant feature. Its weight is regularised like the others."),
    "intercept_scaling": ("float", "Value of the constant feature. Larger values regularise the intercept less."),
    "tol": ("float", "Relative duality gap at which training stops."),
    "max_iter": ("int", "Largest number of passes over the data."),
    "time_limit": ("float", "Seconds after which training stops, with what it has."),
    "n_jobs": ("int", "Threads; None is 1 and -1 all cores. The result does not depend on it."),
    "random_state": ("int, RandomState or None", "Order in which rows are visited."),
    "verbose": ("int", "Whether to print progress to standard error."),
    "warm_start": (
        "bool",
        "Whether ``fit`` continues from the previous solution on the same rows, also after parameters such as C\n"
        "changed.",
    ),
    "callback": (
        "callable",
        "Called once per pass with a record of ``pass_``, ``time``, ``primal``, ``dual`` and ``gap`` (the last three\n"
        "None on passes where they were not evaluated). Returning True stops training cleanly.",
    ),
}
ATTRIBUTES = {
    "certificate_": (
        "Certificate",
        "``primal``, ``dual``, ``gap``, ``relative_gap``, ``converged``, ``oracle_exact``.",
    ),
    "history_": ("History", "Arrays ``time``, ``pass_``, ``primal``, ``dual``."),
    "n_iter_": ("int", "Passes over the data."),
    "classes_": ("ndarray", "Label names; for a 1-D y, its two classes."),
    "label_names_": ("ndarray of shape (n_labels,)", "Label names."),
    "label_form_": ("LabelForm", "The form Y had in training, which predictions take."),
    "constant_labels_": (
        "ndarray",
        "Labels with a single value in training; they are predicted to be constant and left out of the problem.",
    ),
    "n_features_in_": ("int", "Number of features."),
    "feature_names_in_": ("ndarray", "Feature names, if X was a DataFrame."),
}
SECTION = r"(?<=\n{title}\n{line}\n).*?(?=\n\n\w[\w ]*\n---|\Z)"


def with_shared_texts(cls: type) -> str | None:
    """Return the docstring of an estimator, its sections completed by what all estimators share."""
    if not cls.__doc__:
        return cls.__doc__
    text = inspect.cleandoc(cls.__doc__)
    parameters = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        if name in PARAMETERS:
            kind, words = PARAMETERS[name]
            parameters[name] = (_with_default(kind, parameter.default), words)
    text = _completed(text, "Parameters", parameters)
    return _completed(text, "Attributes", ATTRIBUTES)


def _with_default(kind: str, default: object) -> str:
    return f"{kind}, optional" if default is None and "None" not in kind else f"{kind}, default={default!r}"


def _completed(text: str, title: str, shared: dict[str, tuple[str, str]]) -> str:
    """Add the shared entries that a section lacks, at its end."""
    pattern = re.compile(SECTION.format(title=title, line="-" * len(title)), flags=re.DOTALL)
    found = pattern.search(text)
    if found is None:
        return text
    section = found.group().rstrip()
    for name, (kind, words) in shared.items():
        if not re.search(rf"^{name} :", section, flags=re.MULTILINE):
            indented = words.replace("\n", "\n    ")
            section += f"\n{name} : {kind}\n    {indented}"
    return text[: found.start()] + section + text[found.end() :]

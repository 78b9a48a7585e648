"""Everything needed to make the report again, for people and for programs."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from multimargin.report.evidence import Evidence
from multimargin.report.json_text import json_script
from multimargin.report.layers import layers
from multimargin.report.sections.part import Part, facts, note
from multimargin.report.sections.training import shown_value

__all__ = ["settings", "settings_section"]

PACKAGES = ("multimargin", "numpy", "scipy", "scikit-learn")


def settings_section(evidence: Evidence) -> Part:
    """Versions for people; all settings and metrics as JSON."""
    return Part(
        "settings",
        "Settings and versions",
        (
            facts(_versions()),
            note("Settings, versions and metrics are in this file as JSON, in the element with the id report-data."),
            json_script("report-data", settings(evidence)),
        ),
    )


def settings(evidence: Evidence) -> dict[str, Any]:
    """Return what the report says, as values."""
    reference = evidence.reference
    certificate = getattr(evidence.estimator, "certificate_", None)
    return {
        "model": [_layer(layer) for layer in layers(evidence.model)],
        "data": {
            "name": evidence.data_name,
            "rows": evidence.truth.n_samples,
            "labels": evidence.truth.n_labels,
            "train": evidence.train_name,
            "train_rows": None if evidence.train is None else evidence.train[1].n_samples,
        },
        "certificate": None if certificate is None else vars(certificate),
        "metrics": evidence.values,
        "best_constant": {name: evidence.constants[name] for name in evidence.values if name in evidence.constants},
        "one_vs_all": None if reference is None else {"C": reference.C, **reference.report.values},
        "versions": _versions(),
    }


def _layer(layer: Any) -> dict[str, Any]:
    if isinstance(layer, Pipeline):
        return {"class": "Pipeline", "steps": [type(step).__name__ for _, step in layer.steps]}
    parameters = layer.get_params(deep=False) if hasattr(layer, "get_params") else {}
    return {
        "class": type(layer).__name__,
        "parameters": {
            name: value if isinstance(value, str | int | float | bool | None) else shown_value(value)
            for name, value in parameters.items()
            if not isinstance(value, BaseEstimator)
        },
    }


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found | {"machine": f"{platform.system()} {platform.machine()}"}

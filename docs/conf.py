"""Configuration of the documentation."""

import inspect
from importlib import import_module
from importlib.metadata import version as installed
from pathlib import Path

project = "multimargin"
author = "the multimargin developers"
release = installed("multimargin")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
html_theme = "furo"
html_title = "multimargin"
exclude_patterns = ["_build"]
templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, set_decision_function_request, "
    "set_predict_attributes_request, get_metadata_routing",
}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # pages also link to files of the repository

ROOMS = (
    "priors",
    "weights",
    "label_kernels",
    "baselines",
    "inspection",
    "interchange",
    "datasets",
    "metrics",
    "model_selection",
    "plots",
    "report",
    "errors",
)


def reference() -> str:
    """Return the page of the reference, made from what the library registers."""
    from multimargin.estimators import REGISTRY

    library, decisions = import_module("multimargin"), import_module("multimargin.decisions")
    public = {name: getattr(library, name) for name in library.__all__ if not name.startswith("_")}
    classes = {value: f"multimargin.{name}" for name, value in public.items() if inspect.isclass(value)}
    estimators = [classes.pop(cls, f"{cls.__module__}.{cls.__qualname__}") for cls in REGISTRY.values()]
    sections = {
        "Estimators": [*estimators, *classes.values()],
        "Functions": [f"multimargin.{name}" for name, value in public.items() if inspect.isfunction(value)],
        "Decisions": [f"multimargin.decisions.{name}" for name in decisions.__all__ if name not in public],
        "What a fit reports": [f"multimargin.estimators.{name}" for name in ("Certificate", "History", "Progress")],
        "Rooms": [f"multimargin.{name}" for name in ROOMS],
    }
    text = "Reference\n=========\n"
    for title, names in sections.items():
        text += f"\n{title}\n{'-' * len(title)}\n\n.. autosummary::\n   :toctree: api\n\n"
        text += "".join(f"   {name}\n" for name in names)
    return text


def setup(app: object) -> None:
    """Write the reference before the pages are read."""
    (Path(__file__).parent / "reference.rst").write_text(reference())

"""Configuration of the documentation."""

from importlib.metadata import version as installed

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

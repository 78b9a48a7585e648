"""Configuration of the documentation."""

import sys
from importlib.metadata import distribution
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import generate

project = "multimargin"
author = "the multimargin developers"
release = installed("multimargin")

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
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
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "multimargin"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
# Mathematics without a network: one script that carries its glyphs, out of an installed package.
MATHJAX = distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg.js")
html_static_path = ["_static", str(MATHJAX)]
mathjax_path = MATHJAX.name


def bend_links(app: Any, page: str, text: list[str]) -> None:
    """Let links to files of the repository lead to their pages."""
    path = Path(app.env.doc2path(page))
    if path.suffix == ".md" and not path.is_relative_to(generate.GENERATED):
        text[0] = generate.relinked(text[0], path, path)


def setup(app: Any) -> None:
    """Make the generated pages before any page is read."""
    generate.write()
    app.connect("source-read", bend_links)

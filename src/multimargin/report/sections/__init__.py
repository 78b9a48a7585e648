"""The parts of the report of a model: each takes the evidence, and returns nothing where it does not apply."""

from multimargin.report.sections.data import data_section
from multimargin.report.sections.headline import headline_section
from multimargin.report.sections.labels import labels_section
from multimargin.report.sections.mind import mind_section
from multimargin.report.sections.mistakes import mistakes_section
from multimargin.report.sections.probabilities import probabilities_section
from multimargin.report.sections.settings import settings_section
from multimargin.report.sections.thresholds import thresholds_section
from multimargin.report.sections.ties import ties_section
from multimargin.report.sections.training import training_section

__all__ = ["SECTIONS"]

SECTIONS = (
    data_section,
    training_section,
    headline_section,
    labels_section,
    thresholds_section,
    probabilities_section,
    ties_section,
    mistakes_section,
    mind_section,
    settings_section,
)
"""In the order of the page."""

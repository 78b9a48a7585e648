"""Scales, curves and numbers."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from multimargin.report.numbers import count, number, percent, significant
from multimargin.report.svg import Box, Scale, decimals, drawing, frame, path, text
from multimargin.report.threshold_curves import f1_curve

finite = st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-6 or value == 0)


@given(finite, st.floats(1e-3, 1e6))
def test_ticks_are_inside_and_evenly_spaced(low: float, span: float) -> None:
    scale = Scale(low, low + span, 0, 100)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    if len(ticks) > 2:
        steps = np.diff(ticks)
        np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


def test_a_logarithmic_scale_ticks_at_powers_of_ten() -> None:
    scale = Scale(0.5, 2e3, 0, 300, log=True)
    assert scale.ticks() == [1, 10, 100, 1000]
    assert Scale(80, 250, 0, 300, log=True).ticks() == [100, 150, 200, 250]  # less than a power of ten
    assert float(scale(0.5)) == 0
    assert float(scale(2e3)) == 300
    assert float(scale(0.0)) == 0  # what does not fit lies on the border


def test_pictures_are_well_formed_and_described() -> None:
    box = Box(20, 10, 100, 80)
    x, y = Scale(0, 1, 20, 100), Scale(1e-6, 1, 80, 10, log=True)
    picture = drawing(
        120, 100, "A <title>", "say & do", frame(box, x, y, x_words="<x>"), path([1, 2], [3, 4]), text(1, 2, "<b>")
    )
    root = ElementTree.fromstring(picture)
    assert root.attrib["role"] == "img"
    assert root.find("title").text == "A <title>"
    assert root.find("desc").text == "say & do"
    assert "<b>" in [words.text for words in root.iter("text")]


@pytest.mark.parametrize("seed", range(20))
def test_the_curve_is_the_f1_above_each_threshold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, 15) / 2 if seed % 2 else rng.normal(size=15)
    truth = rng.random(15) < 0.4
    thresholds, f1 = f1_curve(scores, truth)
    assert len(thresholds) == len(np.unique(scores)) + 1
    for threshold, value in zip(thresholds, f1, strict=True):
        assert value == pytest.approx(f1_score(truth, scores > threshold, zero_division=0))


def test_numbers_as_people_read_them() -> None:
    assert number(-0.00001) == "0.000"
    assert number(-1.5, 1) == "\u22121.5"
    assert number(math.nan) == "\u2013"
    assert number(-math.inf) == "\u2212∞"
    assert count(12345) == "12,345"
    assert count(1.5) == "1.5"
    assert percent(0.123) == "12.3\u2009%"
    assert significant(0.00012345, 2) == "0.00012"
    assert decimals(-0.01) == "0"

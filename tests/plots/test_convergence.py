from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.errors import InputError
from multimargin.plots import ConvergenceDisplay


@pytest.fixture
def history():
    time = np.linspace(0.1, 1.0, 12)
    return SimpleNamespace(time=time, primal=10 + 5 * np.exp(-5 * time), dual=10 - 5 * np.exp(-5 * time))


def test_both_bounds_and_the_gap_are_drawn(history):
    display = ConvergenceDisplay.from_history(history)
    primal, dual = display.ax_.get_lines()
    np.testing.assert_array_equal(primal.get_ydata(), history.primal)
    np.testing.assert_array_equal(dual.get_ydata(), history.dual)
    gap = (history.primal - history.dual) / history.primal
    np.testing.assert_allclose(display.gap_ax_.get_lines()[0].get_ydata(), gap)
    assert display.gap_ax_.get_yscale() == "log"
    assert display.figure_ is display.ax_.figure is display.gap_ax_.figure
    np.testing.assert_allclose(display.frame()["relative_gap"], gap)


def test_passes_without_a_certificate_are_left_out(history):
    history.primal[::2] = np.nan
    display = ConvergenceDisplay.from_history(history)
    assert len(display.ax_.get_lines()[0].get_xdata()) == len(display.frame()) == 6


def test_a_run_without_gap_is_drawn_on_a_plain_axis():
    display = ConvergenceDisplay(time=[0.1], primal=[0.0], dual=[0.0]).plot()
    display.figure_.canvas.draw()
    assert display.relative_gap.tolist() == [0.0]
    assert display.gap_ax_.get_yscale() == "linear"
    assert not display.gap_ax_.texts


def test_a_model_stands_for_its_history(history):
    display = ConvergenceDisplay.from_estimator(SimpleNamespace(history_=history))
    np.testing.assert_array_equal(display.ax_.get_lines()[0].get_xdata(), history.time)


def test_what_was_not_fitted_is_refused():
    with pytest.raises(InputError, match="SimpleNamespace has no history_. Call fit first"):
        ConvergenceDisplay.from_estimator(SimpleNamespace(C=1.0))
    with pytest.raises(InputError, match="has no primal"):
        ConvergenceDisplay.from_history(SimpleNamespace(time=[0.1]))
    with pytest.raises(InputError, match="no evaluated pass"):
        ConvergenceDisplay(time=[0.1], primal=[np.nan], dual=[np.nan])

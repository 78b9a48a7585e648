from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot

from multimargin.errors import InputError
from multimargin.plots import LabelDependenceDisplay
from multimargin.plots.label_dependence import MAX_LABELS


def some_pairs(n_labels, seed=0):
    columns = np.array(list(combinations(range(n_labels), 2)), dtype=int).reshape(-1, 2)
    return columns, np.random.default_rng(seed).uniform(-1, 1, len(columns))


@pytest.mark.parametrize("n_labels", [1, 2, 6, MAX_LABELS, 400])
def test_cells_are_the_correlations_of_their_labels(n_labels):
    columns, phi = some_pairs(n_labels)
    names = [f"label {k}" for k in range(n_labels)]
    positives = np.full(n_labels, 50)
    display = LabelDependenceDisplay(columns=columns, phi=phi, positives=positives, label_names=names).plot()
    display.figure_.canvas.draw()
    drawn = display.frame()
    assert len(drawn) == min(n_labels, MAX_LABELS)
    assert display.n_left_out == n_labels - len(drawn)
    value = {frozenset((names[a], names[b])): tie for (a, b), tie in zip(columns, phi, strict=True)}
    for first in drawn.index:
        for second in drawn.columns:
            expected = value[frozenset((first, second))] if first != second else np.nan
            assert drawn.loc[first, second] == pytest.approx(expected, nan_ok=True)
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == display.label_names
    assert (f"{display.n_left_out} more are not drawn" in display.ax_.get_title("right")) == (n_labels > MAX_LABELS)


def test_the_labels_of_the_largest_total_are_drawn_and_rare_ones_count_less():
    n_labels = MAX_LABELS + 2
    columns, phi = some_pairs(n_labels)
    positives = np.full(n_labels, 1000)
    positives[[4, 9]] = 1
    display = LabelDependenceDisplay(columns=columns, phi=np.abs(phi), positives=positives)
    assert {4, 9}.isdisjoint(display.label_names)
    assert len(display.label_names) == MAX_LABELS


def test_pairs_without_dependence_stay_empty():
    display = LabelDependenceDisplay(columns=[], phi=[], positives=[3, 4, 5]).plot(pyplot.figure().add_subplot())
    display.figure_.canvas.draw()
    assert np.isnan(display.phi).all()


def test_a_description_is_needed():
    with pytest.raises(InputError, match="Give what inspection.describe"):
        LabelDependenceDisplay.from_description(SimpleNamespace(positives=[1]))

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot

from multimargin.errors import InputError
from multimargin.plots import LabelCountsDisplay
from multimargin.plots.label_counts import MAX_BARS


@pytest.mark.parametrize("n_labels", [1, 6, MAX_BARS, MAX_BARS + 1, 400])
def test_names_follow_their_rows(n_labels):
    positives = np.random.default_rng(n_labels).geometric(0.01, n_labels) - 1
    names = [f"label {k}" for k in range(n_labels)]
    display = LabelCountsDisplay(positives=positives, label_names=names).plot()
    display.figure_.canvas.draw()
    drawn = display.frame()
    assert dict(zip(drawn["label"], drawn["positives"], strict=True)) == dict(zip(names, positives, strict=True))
    assert (np.diff(drawn["positives"]) <= 0).all()
    if n_labels <= MAX_BARS:
        assert [bar.get_width() for bar in display.ax_.patches] == drawn["positives"].tolist()
        assert [text.get_text() for text in display.ax_.get_yticklabels()] == drawn["label"].tolist()
    else:
        assert f"{np.sum(positives <= 10)} of {n_labels} labels in at most 10 rows" in display.ax_.get_title("right")


@pytest.mark.parametrize("n_labels", [3, 100])
def test_labels_without_rows(n_labels):
    display = LabelCountsDisplay(positives=np.zeros(n_labels, dtype=int)).plot(pyplot.figure().add_subplot())
    display.figure_.canvas.draw()
    assert display.label_names == list(range(n_labels))


def test_a_description_is_needed():
    with pytest.raises(InputError, match="Give what inspection.describe"):
        LabelCountsDisplay.from_description(SimpleNamespace(positives=[1]))

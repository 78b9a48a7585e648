from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from multimargin.errors import InputError
from multimargin.plots import PriorDisplay, similarity_order
from multimargin.plots._heat_map import MAX_NAMES
from multimargin.priors import LowRankPrior


def random_correlation(n_labels):
    cells = np.random.default_rng(n_labels).normal(size=(n_labels, 3 * n_labels))
    return np.corrcoef(cells).reshape(n_labels, n_labels)


@pytest.mark.parametrize("n_labels", [1, 2, 6, 100, 150])
def test_names_follow_their_rows(n_labels):
    R = random_correlation(n_labels)
    names = [f"label {i}" for i in range(n_labels)]
    display = PriorDisplay.from_matrix(R, names)
    display.figure_.canvas.draw()
    order = similarity_order(R)
    (image,) = display.ax_.get_images()
    np.testing.assert_array_equal(image.get_array(), R[np.ix_(order, order)])
    expected = [names[i] for i in order] if n_labels <= MAX_NAMES else []
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == expected
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == expected
    pd.testing.assert_frame_equal(display.frame().loc[names, names], pd.DataFrame(R, index=names, columns=names))


def test_colours_are_centred_at_zero():
    (image,) = PriorDisplay.from_matrix([[1.0, -0.2], [-0.2, 0.5]]).ax_.get_images()
    assert image.norm.vmin == -image.norm.vmax == -1.0


def test_a_model_stands_for_its_prior():
    factor = LowRankPrior(np.array([[1.0], [0.5]]))
    display = PriorDisplay.from_estimator(SimpleNamespace(prior=factor, label_names_=np.array(["sea", "sun"])))
    np.testing.assert_array_equal(display.frame().loc[["sea", "sun"], "sea"], [1.0, 0.5])
    frame = pd.DataFrame(np.zeros((2, 2)), columns=["sun", "sea"])
    display = PriorDisplay.from_estimator(SimpleNamespace(prior=frame, label_names_=["sea", "sun"]))
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["sun", "sea"]
    with pytest.raises(InputError, match="has no prior. Give prior="):
        PriorDisplay.from_estimator(SimpleNamespace(prior=None))


def test_similar_labels_become_neighbours():
    blocks = np.kron(np.eye(4), np.ones((5, 5)))
    shuffle = np.random.default_rng(0).permutation(20)
    order = shuffle[similarity_order(blocks[np.ix_(shuffle, shuffle)])]
    block_of = order // 5
    assert np.count_nonzero(np.diff(block_of)) == 3


@pytest.mark.parametrize(
    ("R", "names", "message"),
    [
        (np.ones((2, 3)), None, "square"),
        (np.ones((0, 0)), None, "square"),
        ([[np.nan]], None, "finite"),
        (np.eye(2), ["one"], "1 names were given for a prior of 2 labels"),
    ],
)
def test_what_is_no_prior_is_refused(R, names, message):
    with pytest.raises(InputError, match=message):
        PriorDisplay.from_matrix(R, names)


def test_a_given_axes_is_used_and_no_state_changes():
    before, numbers = dict(mpl.rcParams), pyplot.get_fignums()
    display = PriorDisplay(np.eye(3))
    for ax in (Figure().add_subplot(), Figure().add_subplot()):
        assert display.plot(ax).ax_ is ax
        assert display.figure_ is ax.figure
    assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == numbers

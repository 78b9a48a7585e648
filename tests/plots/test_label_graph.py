import sys
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.errors import InputError
from multimargin.plots import LabelGraphDisplay


def names(n_labels):
    return [f"label {k}" for k in range(n_labels)]


def pair_model(n_labels, pairs, strength):
    return SimpleNamespace(
        pairs_=np.array(pairs).reshape(-1, 2), pair_coef_=np.array(strength), label_names_=names(n_labels)
    )


def clique_model(n_labels, cliques):
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        label_names_=np.array(names(n_labels)),
        cliques_=[tuple(f"label {k}" for k in c) for c in cliques],
        clique_weights_=rng.random(len(cliques)) + 0.1,
        clique_couplings_=np.where(np.arange(len(cliques)) % 2, -1.0, 1.0),
        clique_coupling_spreads_=np.where(np.arange(len(cliques)) == 2, 3.0, 0.5),
    )


def written(display):
    display.figure_.canvas.draw()
    return {text.get_text() for text in display.ax_.texts}


def test_every_pair_that_shares_a_clique_is_drawn():
    display = LabelGraphDisplay.from_estimator(clique_model(7, [(0, 1), (1, 2), (3, 4, 5)]))
    assert written(display) == set(names(6))
    assert len(display.ax_.collections[0].get_segments()) == 5
    assert display.ax_.get_title() == "without ties: label 6"
    meaning = ["attract each other", "exclude each other", "it depends"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == meaning
    frame = display.frame()
    assert frame["weight"].is_monotonic_decreasing
    ties = {frozenset(row[:2]): row[3] for row in frame.itertuples(index=False)}
    assert ties[frozenset({"label 0", "label 1"})] == "attract each other"
    assert ties[frozenset({"label 1", "label 2"})] == "exclude each other"
    assert ties[frozenset({"label 3", "label 5"})] == "it depends"


def test_pairs_without_attraction_are_not_drawn():
    display = LabelGraphDisplay.from_estimator(pair_model(5, [(0, 1), (1, 2), (3, 4)], [0.5, 0.1, 0.0]))
    assert written(display) == {"label 0", "label 1", "label 2"}
    lines, dots = display.ax_.collections
    assert len(lines.get_segments()) == 2
    assert len(dots.get_offsets()) == 3
    weak, strong = lines.get_linewidths()
    assert weak < strong
    assert display.without_ties == ["label 3", "label 4"]


def test_the_labels_with_the_strongest_ties_are_drawn():
    model = pair_model(9, [(0, 1), (2, 3), (4, 5), (2, 8)], [0.1, 0.9, 0.5, 0.01])
    display = LabelGraphDisplay.from_estimator(model, max_labels=4)
    assert written(display) == {"label 2", "label 3", "label 4", "label 5"}
    assert "the 4 labels with the strongest ties of 7" in display.ax_.get_title()
    assert set(display.frame()["label"]) | set(display.frame()["other"]) == written(display)


def test_labels_whose_ties_are_not_drawn_are_not_either():
    display = LabelGraphDisplay(names(4), pairs=[(0, 1), (2, 3)], weights=[1.0, 0.9], max_labels=3).plot()
    assert written(display) == {"label 0", "label 1"}


def test_tied_labels_stand_close_together():
    clique = [(a, b) for k in range(3) for a in range(4 * k, 4 * k + 4) for b in range(a + 1, 4 * k + 4)]
    display = LabelGraphDisplay(range(12), pairs=clique, weights=np.ones(len(clique))).plot()
    at = np.empty((12, 2))
    at[display.label_names] = display.ax_.collections[1].get_offsets()
    distance = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
    same = np.kron(np.eye(3), np.ones((4, 4))).astype(bool)
    assert distance[same].max() < distance[~same].min()


def test_many_labels_and_none():
    many = [(a, (7 * a + 3) % 120) for a in range(110) if a != (7 * a + 3) % 120]
    display = LabelGraphDisplay.from_estimator(clique_model(120, many))
    assert written(display) == set(display.label_names)
    assert 90 < len(display.label_names) <= 100
    for model in (clique_model(2, []), pair_model(2, [], []), pair_model(2, [(0, 1)], [0.0])):
        display = LabelGraphDisplay.from_estimator(model)
        assert written(display) == {"without ties: label 0, label 1"}
        assert display.frame().empty


def test_other_models_are_refused():
    with pytest.raises(InputError, match="Fit a CliqueClassifier or a SubmodularClassifier"):
        LabelGraphDisplay.from_estimator(SimpleNamespace(C=1.0))


@pytest.mark.parametrize(("library", "extra"), [("networkx", "graphs"), ("matplotlib.pyplot", "plots")])
def test_a_missing_library_names_its_extra(monkeypatch, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"multimargin\[{extra}\]"):
        LabelGraphDisplay.from_estimator(pair_model(2, [(0, 1)], [1.0]))

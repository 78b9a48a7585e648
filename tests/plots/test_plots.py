"""Pictures: what is drawn, and that nothing else changes."""

from collections.abc import Iterator
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from multimargin import plots
from multimargin.errors import InputError


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    with mpl.rc_context():
        mpl.use("Agg")
        yield
        pyplot.close("all")


def history(passes: int = 12) -> SimpleNamespace:
    time = np.linspace(0.1, 1.0, passes)
    return SimpleNamespace(time=time, primal=10 + 5 * np.exp(-5 * time), dual=10 - 5 * np.exp(-5 * time))


def random_correlation(n_labels: int) -> np.ndarray:
    return np.corrcoef(np.random.default_rng(n_labels).normal(size=(n_labels, 3 * n_labels)))


def test_convergence_draws_both_bounds_and_the_gap() -> None:
    given = history()
    ax = plots.convergence(given)
    primal, dual = ax.get_lines()
    np.testing.assert_array_equal(primal.get_ydata(), given.primal)
    np.testing.assert_array_equal(dual.get_ydata(), given.dual)
    (right,) = (other for other in ax.figure.axes if other is not ax)
    np.testing.assert_allclose(right.get_lines()[0].get_ydata(), (given.primal - given.dual) / given.primal)
    assert right.get_yscale() == "log"


def test_convergence_leaves_out_passes_without_a_certificate() -> None:
    given = history()
    given.primal[::2] = np.nan
    primal, _ = plots.convergence(given).get_lines()
    assert len(primal.get_xdata()) == 6


def test_convergence_of_a_finished_run_shows_a_zero_gap() -> None:
    exact = SimpleNamespace(time=[0.1], primal=[0.0], dual=[0.0])
    plots.convergence(exact).figure.canvas.draw()


def test_a_model_stands_for_its_history() -> None:
    given = history()
    (line, _) = plots.convergence(SimpleNamespace(history_=given)).get_lines()
    np.testing.assert_array_equal(line.get_xdata(), given.time)


def test_convergence_refuses_what_was_not_fitted() -> None:
    with pytest.raises(InputError, match="Call fit first"):
        plots.convergence(SimpleNamespace(C=1.0))
    with pytest.raises(InputError, match="no evaluated pass"):
        plots.convergence(SimpleNamespace(time=[0.1], primal=[np.nan], dual=[np.nan]))


@pytest.mark.parametrize("n_labels", [1, 2, 6, 100, 150])
def test_prior_names_follow_their_rows(n_labels: int) -> None:
    R = random_correlation(n_labels).reshape(n_labels, n_labels)
    names = [f"label {i}" for i in range(n_labels)]
    ax = plots.prior(R, names)
    ax.figure.canvas.draw()
    order = plots.similarity_order(R)
    (image,) = ax.get_images()
    np.testing.assert_array_equal(image.get_array(), R[np.ix_(order, order)])
    expected = [names[i] for i in order] if n_labels <= plots.MAX_NAMES else []
    assert [text.get_text() for text in ax.get_yticklabels()] == expected
    assert [text.get_text() for text in ax.get_xticklabels()] == expected


def test_prior_colours_are_centred_at_zero() -> None:
    (image,) = plots.prior([[1.0, -0.2], [-0.2, 0.5]]).get_images()
    assert image.norm.vmin == -image.norm.vmax == -1.0


def test_prior_of_zeros_and_of_a_frame() -> None:
    frame = pd.DataFrame(np.zeros((2, 2)), columns=["sea", "sun"])
    ax = plots.prior(frame)
    assert sorted(text.get_text() for text in ax.get_xticklabels()) == ["sea", "sun"]


def test_similar_labels_become_neighbours() -> None:
    blocks = np.kron(np.eye(4), np.ones((5, 5)))
    shuffle = np.random.default_rng(0).permutation(20)
    order = shuffle[plots.similarity_order(blocks[np.ix_(shuffle, shuffle)])]
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
def test_prior_refuses_what_is_no_prior(R: object, names: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plots.prior(R, names)


def attracted(n_labels: int, pairs: list[tuple[int, int]], strength: list[float]) -> SimpleNamespace:
    names = [f"label {i}" for i in range(n_labels)]
    return SimpleNamespace(pairs_=np.array(pairs).reshape(-1, 2), pair_coef_=np.array(strength), label_names_=names)


def test_label_attraction_draws_positive_pairs_and_their_labels() -> None:
    ax = plots.label_attraction(attracted(5, [(0, 1), (1, 2), (3, 4)], [0.5, 0.1, 0.0]))
    ax.figure.canvas.draw()
    lines, dots = ax.collections
    assert len(lines.get_segments()) == 2
    assert len(dots.get_offsets()) == 3
    assert {text.get_text() for text in ax.texts} == {"label 0", "label 1", "label 2"}
    weak, strong = lines.get_linewidths()
    assert weak < strong


def test_label_attraction_keeps_the_strongest_labels() -> None:
    model = attracted(6, [(0, 1), (2, 3), (4, 5)], [0.1, 0.9, 0.5])
    ax = plots.label_attraction(model, max_labels=4)
    assert {text.get_text() for text in ax.texts} == {"label 2", "label 3", "label 4", "label 5"}


def test_attracted_labels_stand_close_together() -> None:
    clique = [(a, b) for k in range(3) for a in range(4 * k, 4 * k + 4) for b in range(a + 1, 4 * k + 4)]
    dots = plots.label_attraction(attracted(12, clique, [1.0] * len(clique))).collections[1]
    at = np.empty((12, 2))
    at[:] = dots.get_offsets()
    distance = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=2))
    same = np.kron(np.eye(3), np.ones((4, 4))).astype(bool)
    assert distance[same].max() < distance[~same].min()


def test_label_attraction_of_nothing() -> None:
    ax = plots.label_attraction(attracted(3, [], []))
    assert [text.get_text() for text in ax.texts] == ["no label attracts another"]
    with pytest.raises(InputError, match="Fit a SubmodularClassifier"):
        plots.label_attraction(SimpleNamespace(coef_=1))


def test_a_given_axes_is_used_and_no_state_changes() -> None:
    before, numbers = dict(mpl.rcParams), pyplot.get_fignums()
    ax = Figure().add_subplot()
    assert plots.prior(np.eye(3), ax=ax) is ax
    other = Figure().add_subplot()
    assert plots.convergence(history(), ax=other) is other
    assert dict(mpl.rcParams) == before
    assert pyplot.get_fignums() == numbers


def clique_model(n_labels: int, cliques: list[tuple[int, ...]]) -> SimpleNamespace:
    rng = np.random.default_rng(0)
    return SimpleNamespace(
        label_names_=np.array([f"label {k}" for k in range(n_labels)]),
        cliques_=[tuple(f"label {k}" for k in c) for c in cliques],
        clique_weights_=rng.random(len(cliques)) + 0.1,
        clique_couplings_=np.where(np.arange(len(cliques)) % 2, -1.0, 1.0),
        clique_coupling_spreads_=np.where(np.arange(len(cliques)) == 2, 3.0, 0.5),
    )


def test_label_graph_draws_every_pair_that_shares_a_clique() -> None:
    ax = plots.label_graph(clique_model(7, [(0, 1), (1, 2), (3, 4, 5)]))
    ax.figure.canvas.draw()
    (lines,) = ax.collections[:1]
    assert len(lines.get_segments()) == 5
    assert {text.get_text() for text in ax.texts} == {f"label {k}" for k in range(6)}
    assert ax.get_title() == "in no clique: label 6"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "attract each other",
        "exclude each other",
        "it depends",
    ]


def test_label_graph_of_many_labels_and_of_none() -> None:
    many = [(a, (7 * a + 3) % 120) for a in range(110) if a != (7 * a + 3) % 120]
    ax = plots.label_graph(clique_model(120, many), max_labels=100)
    ax.figure.canvas.draw()
    assert len(ax.texts) == 100
    ax = plots.label_graph(clique_model(2, []))
    assert ax.texts[0].get_text() == "in no clique: label 0, label 1"


def test_clique_path_marks_the_best_round() -> None:
    path = SimpleNamespace(
        n_cliques=[0, 2, 4], training_loss=[0.3, 0.2, 0.1], validation_loss=[0.3, 0.22, 0.25], primal=[3, 2, 1]
    )
    ax = plots.clique_path(SimpleNamespace(path_=path))
    training, held_out = ax.get_lines()
    np.testing.assert_allclose(training.get_ydata(), [30, 20, 10])
    np.testing.assert_allclose(held_out.get_ydata(), [30, 22, 25])
    (mark,) = ax.collections
    np.testing.assert_allclose(mark.get_offsets(), [[2, 22]])
    path.validation_loss = [np.nan] * 3
    assert len(plots.clique_path(path).get_lines()) == 1


def test_clique_plots_refuse_other_models() -> None:
    with pytest.raises(InputError, match="Fit a CliqueClassifier"):
        plots.label_graph(SimpleNamespace(C=1.0))
    with pytest.raises(InputError, match="graph='learned'"):
        plots.clique_path(SimpleNamespace(path_=None))

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from multimargin import priors
from multimargin.errors import InputError

NAMES = ["a", "b", "c"]


def is_psd(R):
    return np.linalg.eigvalsh(R)[0] > -1e-10


def test_signatures_average_outer_products(rng):
    S = rng.choice([-1, 1], size=(4, 6))
    p = rng.random(4)
    expected = sum(p[c] / p.sum() * np.outer(S[c], S[c]) for c in range(4))
    np.testing.assert_allclose(priors.from_signatures(S, p), expected)
    np.testing.assert_allclose(priors.from_signatures((S > 0).astype(int), p), expected)
    assert np.linalg.matrix_rank(expected) <= 4


def test_labels_second_moment_and_correlation(rng):
    Y = rng.random((50, 5)) < 0.4
    y = np.where(Y, 1.0, -1.0)
    np.testing.assert_allclose(priors.from_labels(Y, "second-moment"), y.T @ y / 50)
    np.testing.assert_allclose(priors.from_labels(Y), np.corrcoef(y.T))
    half = priors.from_labels(Y, shrinkage=0.5)
    np.testing.assert_allclose(half, 0.5 * np.corrcoef(y.T) + 0.5 * np.eye(5))


def test_labels_with_constant_and_missing_cells(rng):
    Y = (rng.random((40, 4)) < 0.5).astype(float)
    Y[:, 2] = 1
    R = priors.from_labels(Y)
    np.testing.assert_array_equal(R[2], [0, 0, 1, 0])
    Y[rng.random(Y.shape) < 0.2] = np.nan
    for kind in ("correlation", "second-moment"):
        R = priors.from_labels(Y, kind)
        assert is_psd(R)
        np.testing.assert_allclose(np.diag(R), 1.0)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_moments_of_labels_are_those_of_the_rows_that_know_both(rng, container):
    Y = np.where(rng.random((50, 6)) < 0.3, np.nan, rng.random((50, 6)) < 0.4)
    Y[:, 5] = np.nan
    sign = np.where(np.isnan(Y), 0, 2 * Y - 1)
    together = np.maximum((sign**2).T @ sign**2, 1)
    moment = sign.T @ sign / together
    np.fill_diagonal(moment, 1)
    values, vectors = np.linalg.eigh(moment)
    nearest = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    scale = np.sqrt(np.diag(nearest))
    found = priors.from_labels(container(Y), "second-moment")
    np.testing.assert_allclose(found, nearest / np.outer(scale, scale), atol=1e-12)


def test_missing_cells_do_not_change_complete_pairs(rng):
    Y = (rng.random((60, 3)) < 0.5).astype(float)
    Y[:5] = np.nan
    for kind in ("correlation", "second-moment"):
        np.testing.assert_allclose(priors.from_labels(Y, kind), priors.from_labels(Y[5:], kind), atol=1e-12)


def test_graph_and_embeddings(rng):
    A = np.triu(rng.random((5, 5)) < 0.5, 1).astype(float)
    for R in (priors.from_graph(A + A.T), priors.from_embeddings(rng.normal(size=(5, 3)))):
        assert is_psd(R)
        np.testing.assert_allclose(np.diag(R), 1.0)
    np.testing.assert_allclose(priors.from_graph(A + A.T, diffusion=1e-12), np.eye(5), atol=1e-9)


def test_frame_is_aligned_by_label_names(rng):
    R = priors.from_embeddings(rng.normal(size=(3, 2)))
    frame = pd.DataFrame(R, index=NAMES, columns=NAMES).loc[["c", "a", "b"], ["b", "c", "a"]]
    np.testing.assert_array_equal(priors.check_prior(frame, NAMES), R)
    with pytest.raises(InputError, match="'d'"):
        priors.check_prior(frame, ["a", "b", "d"])


def test_tiny_negative_eigenvalue_is_clipped_with_a_warning():
    R = np.eye(3) + 1.0
    R -= (np.linalg.eigvalsh(R)[0] + 1e-9) * np.eye(3)
    with pytest.warns(UserWarning, match="set to 0"):
        clipped = priors.check_prior(R, NAMES)
    assert np.linalg.eigvalsh(clipped)[0] > -1e-15


WRONG = {
    "size": (np.eye(2), "3 labels"),
    "nan": (np.full((3, 3), np.nan), "finite"),
    "asymmetric": (np.triu(np.ones((3, 3))), "symmetric"),
    "indefinite": (np.array([[1, 2, 0], [2, 1, 0], [0, 0, 1.0]]), "smallest eigenvalue is -1"),
    "zero diagonal": (np.diag([1.0, 0.0, 1.0]), "'b'"),
    "text": ("identity", "LowRankPrior"),
    "factor size": (priors.LowRankPrior(np.ones((2, 1))), r"\(3, rank\)"),
    "negative diagonal": (priors.LowRankPrior(np.ones((3, 1)), -1.0), "negative"),
    "diagonal size": (priors.LowRankPrior(np.ones((3, 1)), np.ones(2)), "3 numbers"),
    "empty factor row": (priors.LowRankPrior(np.array([[1.0], [0.0], [1.0]])), "'b'"),
    "infinite factor": (priors.LowRankPrior(np.array([[1.0], [np.inf], [1.0]])), "finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_priors_get_a_clear_error(case):
    prior, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        priors.check_prior(prior, NAMES)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: priors.from_signatures(np.eye(3), [1, 1]), "one per category"),
        (lambda: priors.from_signatures(np.eye(2), [-1, 2]), "non-negative"),
        (lambda: priors.from_signatures(np.array([[1, np.nan]])), "complete"),
        (lambda: priors.from_labels(np.eye(3), "covariance"), "'covariance'"),
        (lambda: priors.from_labels(np.eye(3), shrinkage=2), "shrinkage"),
        (lambda: priors.from_graph(np.ones((2, 3))), "square"),
        (lambda: priors.from_graph(-np.ones((2, 2))), "non-negative"),
        (lambda: priors.from_graph(np.ones((2, 2)), diffusion=0), "positive"),
        (lambda: priors.from_embeddings(np.zeros((2, 2))), "zero"),
        (lambda: priors.from_embeddings(np.zeros(2)), "shape"),
    ],
)
def test_builders_refuse_bad_input(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_taxonomy_is_the_cosine_of_the_paths():
    parents = {"cat": "pet", "dog": "pet", "pet": "animal", "animal": None, "oak": "tree"}
    names = ["oak", "dog", "cat", "animal"]
    paths = {
        "oak": {"oak", "tree"},
        "dog": {"dog", "pet", "animal"},
        "cat": {"cat", "pet", "animal"},
        "animal": {"animal"},
    }
    expected = [[len(paths[a] & paths[b]) / np.sqrt(len(paths[a]) * len(paths[b])) for b in names] for a in names]
    R = priors.from_taxonomy(parents, names)
    np.testing.assert_allclose(R, expected)
    assert is_psd(R)
    np.testing.assert_allclose(
        priors.from_taxonomy([-1, 0, 0, None]), priors.from_taxonomy({0: None, 1: 0, 2: 0, 3: None})
    )


def test_taxonomy_refuses_cycles_and_strangers():
    with pytest.raises(InputError, match="its own ancestor"):
        priors.from_taxonomy({"a": "b", "b": "a"})
    with pytest.raises(InputError, match="no entry for label 'c'"):
        priors.from_taxonomy({"a": None}, ["a", "c"])
    with pytest.raises(InputError, match="below 2.*got 5"):
        priors.from_taxonomy([-1, 5])
    with pytest.raises(InputError, match="empty"):
        priors.from_taxonomy([])


def test_frequency_prior_is_the_second_moment_of_independent_labels(rng):
    p = np.array([0.2, 0.5, 0.9])
    Y = rng.random((200_000, 3)) < p
    np.testing.assert_allclose(priors.from_labels(Y, "second-moment"), priors.from_frequencies(p), atol=0.01)


def test_a_prior_of_frequencies_is_warned_of(rng):
    rare = rng.random((200, 8)) < 0.05
    with pytest.warns(priors.FrequencyPriorWarning, match="One eigenvector carries 8.%"):
        priors.from_labels(rare, "second-moment")
    with pytest.warns(priors.FrequencyPriorWarning):
        priors.from_signatures(rare[:20])
    priors.from_labels(rare)  # a correlation says nothing of frequencies
    priors.from_labels(rng.random((200, 8)) < 0.5, "second-moment")
    priors.from_signatures([[1, 1, 1, 0], [0, 0, 0, 1]])  # one eigenvector, but no label is more frequent than another

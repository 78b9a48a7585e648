"""Counts carried through exact inference, against enumeration of all label sets."""

import itertools

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import CliqueClassifier, LinearM3L, datasets, metrics
from multimargin.datasets import make_clique_labels
from multimargin.decisions import JointDecoder
from multimargin.decisions.joint import LabelModel
from multimargin.errors import InputError


def enumerated(subsets, scores, n_labels):
    """Label sets, their probabilities for every row, and the logarithm of the sum."""
    Y = np.array(list(itertools.product([0, 1], repeat=n_labels)))
    parities = np.stack([(2 * Y[:, list(subset)] - 1).prod(axis=1) for subset in subsets], axis=1)
    energy = scores @ parities.T
    top = energy.max(axis=1, keepdims=True)
    weight = np.exp(energy - top)
    total = weight.sum(axis=1, keepdims=True)
    return Y, weight / total, (top + np.log(total)).ravel()


@pytest.mark.parametrize("n_labels", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("density", [0.0, 0.2, 0.6, 1.0])
def test_counts_equal_enumeration(rng, n_labels, density):
    pairs = [s for r in (2, 3) for s in itertools.combinations(range(n_labels), r) if rng.random() < density]
    subsets = [(k,) for k in range(n_labels)] + pairs
    for scale in (0.1, 2.0, 40.0):  # from almost uniform to almost certain
        scores = scale * rng.normal(size=(4, len(subsets)))
        model = LabelModel.of(subsets, n_labels)
        Y, probability, log_partition = enumerated(subsets, scores, n_labels)
        expected = np.zeros((4, n_labels, n_labels))
        for labels, p in zip(Y, probability.T, strict=True):
            expected[:, labels == 1, labels.sum() - 1] += p[:, None]
        np.testing.assert_allclose(model.sizes(scores), expected, atol=1e-13)
        np.testing.assert_allclose(model.log_partition(scores), log_partition, rtol=1e-12)
        import scipy.sparse as sp

        picked = sp.csr_array(Y[rng.integers(len(Y), size=4)])
        energy = [scores[i] @ [(2 * picked.toarray()[i, list(s)] - 1).prod() for s in subsets] for i in range(4)]
        np.testing.assert_allclose(model.score(scores, picked), energy)


def test_long_chains_sum_to_the_marginals(rng):
    """A chain of 120 labels, whose marginals a forward-backward recursion gives."""
    n_labels = 120
    subsets = [(k,) for k in range(n_labels)] + [(k, k + 1) for k in range(n_labels - 1)]
    scores = rng.normal(size=(3, len(subsets)))
    sizes = LabelModel.of(subsets, n_labels).sizes(scores)
    for row in range(3):
        unary = np.exp(np.outer(scores[row, :n_labels], [-1, 1]))
        couple = [np.exp(c * np.array([[1, -1], [-1, 1]])) for c in scores[row, n_labels:]]
        forward, backward = np.empty((n_labels, 2)), np.ones((n_labels, 2))
        forward[0] = unary[0] / unary[0].sum()
        for k in range(1, n_labels):
            forward[k] = (forward[k - 1] @ couple[k - 1]) * unary[k]
            forward[k] /= forward[k].sum()
        for k in reversed(range(n_labels - 1)):
            backward[k] = couple[k] @ (unary[k + 1] * backward[k + 1])
            backward[k] /= backward[k].sum()
        both = forward * backward
        np.testing.assert_allclose(sizes[row].sum(axis=1), both[:, 1] / both.sum(axis=1), atol=1e-11)
        # a set of k labels has k of them
        assert sizes[row].sum() == pytest.approx(both[:, 1] @ (1 / both.sum(axis=1)))
        share = sizes[row].sum(axis=0) / np.arange(1, n_labels + 1)
        assert share.sum() <= 1 + 1e-9


def test_dense_graphs_are_refused():
    subsets = [(k,) for k in range(20)] + list(itertools.combinations(range(20), 2))
    with pytest.raises(InputError, match="too dense for exact sums"):
        LabelModel.of(subsets, 20)


@pytest.fixture(scope="module")
def fitted():
    data = make_clique_labels(n_samples=400, n_labels=5, random_state=0)
    base = CliqueClassifier(loss="softmax-margin", graph="chow-liu", random_state=0)
    return data, JointDecoder(base, cv=3, random_state=0).fit(data.X, data.Y)


def test_decoded_sets_are_best_for_the_joint_distribution(fitted):
    data, model = fitted
    X = data.X[:40]
    base = model.estimator_
    scores = model.sharpness_ * (X @ base.subset_coef_.T + base.subset_intercept_)
    Y, probability, _ = enumerated(base.subsets_, scores, 5)
    size = Y.sum(axis=1)
    whole = size[:, None] + size[None, :]
    f = np.where(whole > 0, 2 * (Y @ Y.T) / np.maximum(whole, 1), 1.0)
    values = probability @ f
    chosen = model.predict(X)
    index = [int(np.flatnonzero((row == Y).all(axis=1))[0]) for row in chosen]
    np.testing.assert_allclose(values[np.arange(40), index], values.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X), probability @ Y, atol=1e-12)
    np.testing.assert_array_equal(model.decision_function(X) > 0, chosen == 1)


def test_sharpness_is_fitted_out_of_fold(fitted):
    _, model = fitted
    assert model.joint_log_loss_ <= model.raw_joint_log_loss_
    assert 0 < model.sharpness_ < 5
    assert 0 < model.nested_score_ <= 1


def test_without_cliques_labels_are_independent(rng):
    X = rng.normal(size=(150, 4))
    Y = (X @ rng.normal(size=(4, 4)) + rng.normal(size=(150, 4)) > 0.5).astype(int)
    base = CliqueClassifier(loss="softmax-margin", graph=None, random_state=0)
    model = JointDecoder(make_pipeline(StandardScaler(), base), cv=3, random_state=0).fit(X, Y)
    from multimargin.decisions import decode

    np.testing.assert_array_equal(model.predict(X), decode(model.predict_proba(X)))


def test_other_estimators_are_refused(rng):
    X, Y = rng.normal(size=(30, 2)), rng.integers(0, 2, size=(30, 3))
    with pytest.raises(InputError, match="must be a CliqueClassifier"):
        JointDecoder(LinearM3L()).fit(X, Y)


def test_emotions(data_home):
    """Tempering repairs the over-confidence of the softmax margin."""
    data = datasets.load("emotions")
    scaler = StandardScaler().fit(data.X_train)
    root = np.sqrt(data.X_train.shape[1])
    X, X_test = scaler.transform(data.X_train) / root, scaler.transform(data.X_test) / root
    base = CliqueClassifier(loss="softmax-margin", graph="full", random_state=0)
    model = JointDecoder(base, random_state=0).fit(X, data.Y_train)
    raw = metrics.log_loss(data.Y_test, model.estimator_.predict_proba(X_test))
    tempered = metrics.log_loss(data.Y_test, model.predict_proba(X_test))
    assert model.sharpness_ < 0.9
    assert tempered < raw - 0.02
    mode = metrics.example_f1(data.Y_test, model.estimator_.predict(X_test))
    assert metrics.example_f1(data.Y_test, model.predict(X_test)) > mode

"""Features of (x, clique) against cvxpy with literal indicators, enumeration, and identities."""

from itertools import product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import multimargin
from multimargin import CliqueClassifier, certify
from multimargin.errors import InputError

PAIRS = [(0, 1), (0, 2), (1, 2)]
EXACT = {"tol": 1e-8, "max_iter": 100_000, "random_state": 0}
JOINT = {(0, 1): [2], (1, 2): [3, 4]}
"""The pair (0, 2) sees what the single labels see."""


@pytest.fixture
def tiny(rng):
    X = rng.normal(size=(15, 5))
    Y = (X[:, :3] + X[:, 2:] @ rng.normal(size=(3, 3)) + 0.5 * rng.normal(size=(15, 3)) > 0).astype(int)
    return X, Y


def columns_of(clique, joint, n_features):
    owned = {j for columns in joint.values() for j in columns}
    return joint.get(clique, [j for j in range(n_features) if j not in owned])


def indicator_optimum(X, Y, joint, C, bias):
    """Optimal value with a weight vector for each state of each label and pair, over the columns it sees."""
    n, K = Y.shape
    states = [((k,), s) for k in range(K) for s in product([0, 1], repeat=1)]
    states += [(c, s) for c in PAIRS for s in product([0, 1], repeat=2)]
    seen = {c: np.column_stack([X[:, columns_of(c, joint, X.shape[1])], np.full(n, bias)]) for c, _ in states}
    weights = {state: cp.Variable(seen[state[0]].shape[1]) for state in states}
    slack = cp.Variable(n)

    def score(i, y):
        return sum(w @ seen[c][i] for (c, s), w in weights.items() if tuple(y[k] for k in c) == s)

    constraints = [
        slack[i] >= sum(a != b for a, b in zip(y, Y[i], strict=True)) + score(i, y) - score(i, tuple(Y[i]))
        for i in range(n)
        for y in product([0, 1], repeat=K)
    ]
    norm = sum(cp.sum_squares(w) for w in weights.values())
    problem = cp.Problem(cp.Minimize(0.5 * norm + C * cp.sum(slack)), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("C", [0.05, 3.0])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_equals_cvxpy_with_indicators(tiny, C, bias):
    X, Y = tiny
    options = {"fit_intercept": bias > 0, "intercept_scaling": bias or 1.0, "graph": PAIRS, **EXACT}
    model = CliqueClassifier(C, joint_features=JOINT, **options).fit(X, Y)
    best = indicator_optimum(X, Y, JOINT, C, bias)
    assert model.certificate_.primal == pytest.approx(best, rel=1e-6)
    assert model.certificate_.dual == pytest.approx(best, rel=1e-6)
    everything = CliqueClassifier(C, **options).fit(X, Y).certificate_
    assert everything.primal < best * (1 - 1e-4)  # who sees more fits better


def test_weights_stay_in_their_columns_and_predict_exactly(tiny):
    X, Y = tiny
    model = CliqueClassifier(3.0, graph=PAIRS, joint_features=JOINT, **EXACT).fit(X, Y)
    W = dict(zip(model.subsets_, model.subset_coef_, strict=True))
    seen = {
        (0,): [0, 1, 2],
        (1,): [0, 1, 2, 3, 4],
        (2,): [0, 1, 3, 4],
        (0, 1): [2],
        (0, 2): [0, 1],
        (1, 2): [3, 4],
    }
    for subset, columns in seen.items():
        assert np.flatnonzero(W[subset]).tolist() == columns
    labellings = np.array(list(product([0, 1], repeat=3)))
    characters = np.column_stack([(2 * labellings[:, list(t)] - 1).prod(axis=1) for t in model.subsets_])
    new = np.random.default_rng(1).normal(size=(50, 5))
    scores = (new @ model.subset_coef_.T + model.subset_intercept_) @ characters.T
    predicted, exact = model.predict_exact(new)
    np.testing.assert_array_equal(predicted, labellings[scores.argmax(axis=1)])
    assert exact.all()


@pytest.mark.parametrize("loss", ["hinge", "softmax-margin"])
def test_a_clique_that_owns_a_copy_of_all_columns_is_a_clique_that_owns_none(rng, loss):
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(60, 1)) > 0).astype(int)
    options = {"C": 1.0, "graph": PAIRS, "loss": loss, **EXACT, "tol": 1e-6}
    plain = CliqueClassifier(**options).fit(X, Y)
    joint = CliqueClassifier(joint_features={(0, 1): [3, 4, 5], (1, 2): [3, 4, 5]}, **options)
    joint.fit(np.hstack([X, X]), Y)
    assert joint.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=2e-6)
    np.testing.assert_allclose(joint.subset_coef_[:, :3] + joint.subset_coef_[:, 3:], plain.subset_coef_, atol=2e-3)
    np.testing.assert_allclose(joint.clique_weights_, plain.clique_weights_, atol=2e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_dense_sparse_single_and_double_agree_at_all_scales(rng, scale):
    """Beyond some scale proximal steps on shorter rows lead the way."""
    X = scale * rng.normal(size=(50, 5))
    Y = (X @ rng.normal(size=(5, 3)) / scale + rng.normal(size=(50, 3)) > 0).astype(int)
    options = {"C": 0.5, "graph": PAIRS, "joint_features": JOINT, "tol": 1e-4, "max_iter": 50_000, "random_state": 0}
    models = [
        CliqueClassifier(**options).fit(table, Y)
        for table in (X, sp.csr_array(X), X.astype(np.float32), sp.csr_array(X.astype(np.float32)))
    ]
    for model in models:
        assert model.certificate_.converged
        assert model.certificate_.primal == pytest.approx(models[0].certificate_.primal, rel=3e-4)


@pytest.mark.parametrize("loss", ["hinge", "softmax-margin"])
def test_certificate_can_be_computed_again_and_found_out(tiny, loss, tmp_path):
    X, Y = tiny
    model = CliqueClassifier(3.0, graph=PAIRS, joint_features=JOINT, loss=loss, warm_start=True, **EXACT).fit(X, Y)
    again = certify(model, X, Y)
    assert (again.primal, again.dual) == pytest.approx((model.certificate_.primal, model.certificate_.dual), rel=1e-9)
    multimargin.save(model, tmp_path / "model.mm")
    loaded = multimargin.load(tmp_path / "model.mm")
    assert loaded.joint_features == JOINT
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert certify(loaded, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    model.subset_coef_[-1, 3] += 0.5
    assert certify(model, X, Y).primal > model.certificate_.primal * (1 + 1e-4)
    model.subset_coef_[-1, 0] += 1e-9  # the pair does not see this column
    assert certify(model, X, Y).primal == np.inf
    assert not certify(model, X, Y).converged


def test_columns_by_name_and_a_warm_start(tiny):
    X, Y = tiny
    names = list("abcde")
    frame, labels = pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=["sea", "sun", "sky"])
    named = {("sun", "sea"): "c", ("sun", "sky"): ["d", "e"]}
    graph = [("sea", "sun"), ("sea", "sky"), ("sun", "sky")]
    model = CliqueClassifier(graph=graph, joint_features=named, warm_start=True, **EXACT).fit(frame, labels)
    numbered = CliqueClassifier(graph=PAIRS, joint_features=JOINT, **EXACT).fit(X, Y)
    np.testing.assert_array_equal(model.subset_coef_, numbered.subset_coef_)
    passes = model.n_iter_
    assert model.fit(frame, labels).n_iter_ <= passes
    model.set_params(joint_features=None).fit(frame, labels)
    fresh = CliqueClassifier(graph=PAIRS, **EXACT).fit(X, Y)
    assert model.certificate_.primal == pytest.approx(fresh.certificate_.primal, rel=1e-7)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"graph": "learned", "joint_features": {(0, 1): [2]}}, "needs a given graph"),
        ({"graph": [(0, 1)], "joint_features": {(0, 2): [2]}}, "cliques of the graph as keys"),
        ({"graph": [(0, 1)], "joint_features": {(0, 7): [2]}}, "cliques of the graph as keys"),
        ({"graph": [(0, 1)], "joint_features": {0: [2]}}, "cliques of the graph as keys"),
        ({"graph": [(0, 1)], "joint_features": {(0, 1): [5]}}, "from 0 to 4"),
        ({"graph": [(0, 1)], "joint_features": {(0, 1): ["c"]}}, "by name if X is a DataFrame"),
    ],
)
def test_what_is_wrong_is_said_before_any_work(tiny, parameters, message):
    def never(progress):
        raise AssertionError

    with pytest.raises(InputError, match=message):
        CliqueClassifier(callback=never, **parameters).fit(*tiny)

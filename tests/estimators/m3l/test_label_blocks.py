"""Labels in blocks within a limit of memory, and pruned weights: model, certificate, predictions, file."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from interrupts import assert_answers_ctrl_c
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearM3L, certify, load, save
from multimargin.decisions import CPath
from multimargin.errors import InputError
from multimargin.estimators.m3l import label_blocks
from multimargin.inspection import explain, top_features
from multimargin.interchange import to_onnx

PLAIN = {"C": 1.0, "random_state": 0, "tol": 1e-3}


def problem(rng, n=120, d=60, n_labels=37, dtype=np.float32, scale=1.0):
    X = sp.random_array((n, d), density=0.15, rng=rng, format="csr", dtype=np.float64)
    W = rng.normal(size=(d, n_labels))
    scores = X @ W
    Y = (scores > np.quantile(scores, 0.8, axis=0)).astype(int)
    return (scale * X).astype(dtype), sp.csr_array(Y)


def limit_for(X, Y, labels, **params):
    """Return a memory_limit in which blocks of this many labels are trained."""
    model = LinearM3L(**params)
    task = model._prepare(model._problem(X, Y, None))
    weights = 0 if model.prune is not None else 8 * X.shape[1] * Y.shape[1]
    return int(weights + label_blocks._bytes_at_rest(task) + (labels + 1) * label_blocks._bytes_per_label(task))


def objective(model, X, Y, cost, bias=1.0):
    """P in double, from the definition."""
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    coef, b = coef.astype(float), model.intercept_.astype(float)
    X = X.toarray().astype(float) if sp.issparse(X) else X
    sign = np.where(Y == 1, 1.0, -1.0)
    hinge = np.maximum(0, 1 - sign * (X @ coef.T + b))
    return 0.5 * (coef**2).sum() + 0.5 * (b**2).sum() / bias**2 + float((cost * hinge).sum())


@pytest.fixture(autouse=True)
def _no_decision_warning():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*labels per row where.*")
        yield


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dense", [False, True])
def test_a_block_is_the_fit_of_its_labels_alone(rng, dtype, dense):
    X, Y = problem(rng, dtype=dtype)
    X = X.toarray() if dense else X
    blocked = LinearM3L(memory_limit=limit_for(X, Y, 16, **PLAIN), **PLAIN).fit(X, Y)
    alone = [LinearM3L(**PLAIN).fit(X, Y[:, [*range(first, min(first + 16, 37))]]) for first in (0, 16, 32)]
    np.testing.assert_array_equal(blocked.coef_, np.vstack([model.coef_ for model in alone]))
    np.testing.assert_array_equal(blocked.intercept_, np.concatenate([model.intercept_ for model in alone]))
    assert blocked.n_iter_ == sum(model.n_iter_ for model in alone)
    assert blocked.certificate_.primal == pytest.approx(sum(m.certificate_.primal for m in alone), rel=1e-12)
    assert blocked.certificate_.dual == pytest.approx(sum(m.certificate_.dual for m in alone), rel=1e-12)
    assert blocked.certificate_.converged
    assert certify(blocked, X, Y).primal == pytest.approx(blocked.certificate_.primal, rel=1e-12)


def test_a_generous_limit_changes_nothing(rng):
    X, Y = problem(rng)
    plain, limited = LinearM3L(**PLAIN).fit(X, Y), LinearM3L(memory_limit="1 GiB", **PLAIN).fit(X, Y)
    np.testing.assert_array_equal(plain.coef_, limited.coef_)
    assert plain.certificate_ == limited.certificate_
    np.testing.assert_array_equal(plain.history_.primal, limited.history_.primal)


def test_blocks_are_cut_where_labels_keep_their_neighbours(rng):
    """Without an evaluation in between, the labels of a block go through the steps they take in one fit."""
    X, Y = problem(rng)
    short = {"tol": 1e-12, "max_iter": 3, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        whole = LinearM3L(**short).fit(X, Y)
    with pytest.warns(ConvergenceWarning):
        blocked = LinearM3L(memory_limit=limit_for(X, Y, 8, **short), **short).fit(X, Y)
    assert blocked.n_iter_ == 5 * 3
    np.testing.assert_array_equal(whole.coef_, blocked.coef_)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_bounds_are_those_of_the_definition(rng, scale):
    """With weights of cells, unknown and constant labels, whatever the blocks."""
    X, Y = problem(rng, n=80, d=20, n_labels=29, dtype=np.float64, scale=scale)
    Y = Y.toarray().astype(float)
    Y[:, 3], Y[:, 20] = 0, 1
    unknown = rng.random(Y.shape) < 0.1
    cells = rng.random(Y.shape) + 0.5
    params = {"C": 0.3 / scale, "class_weight": {0: 0.5, 1: 2.0}, **PLAIN}
    given = np.where(unknown, np.nan, Y)
    model = LinearM3L(memory_limit=limit_for(X, given, 8, **params) + 8 * 24 * 80, **params)
    with pytest.warns(UserWarning, match="Constant"):
        model.fit(X, given, sample_weight=cells)
    assert model.certificate_.converged
    cost = params["C"] * cells * np.where(Y == 1, 2.0, 0.5) * ~unknown
    cost[:, [3, 20]] = 0
    free = clone(model)
    vars(free).update(coef_=model.coef_, intercept_=np.where(np.isin(np.arange(29), [3, 20]), 0, model.intercept_))
    assert model.certificate_.primal == pytest.approx(objective(free, X, Y, cost), rel=1e-9)
    assert model.constant_labels_.tolist() == [3, 20]
    np.testing.assert_array_equal(model.predict(X)[:, [3, 20]], np.tile([0, 1], (80, 1)))
    again = certify(model, X, given, sample_weight=cells)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    # what the monitor adds for labels that are still to come is the objective of weights 0
    task = model._prepare(model._problem(X, given, cells, reset=False))
    np.testing.assert_allclose(label_blocks._objective_of_zero(task), cost.sum(axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pruned_weights_and_what_they_cost(rng, dtype):
    X, Y = problem(rng, dtype=dtype)
    plain = LinearM3L(**PLAIN).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="Lower prune") as said:
        model = LinearM3L(prune=0.1, **PLAIN).fit(X, Y)
    assert said[0].filename == __file__
    np.testing.assert_array_equal(model.coef_.toarray(), np.where(abs(plain.coef_) >= 0.1, plain.coef_, 0))
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    assert isinstance(model.coef_, sp.csr_array)
    assert model.coef_.dtype == dtype
    pruning, certificate = model.pruning_, model.certificate_
    assert (pruning.kept, pruning.weights) == (model.coef_.nnz, plain.coef_.size)
    assert 0 < pruning.kept < pruning.weights
    assert pruning.objective_before == plain.certificate_.primal
    assert pruning.objective_after == certificate.primal
    assert certificate.primal == pytest.approx(objective(model, X, Y.toarray(), 1.0), rel=1e-9)
    assert certificate.dual == plain.certificate_.dual
    assert not certificate.converged
    assert pruning.loss == pytest.approx(certificate.primal / plain.certificate_.primal - 1)
    assert certify(model, X, Y).primal == pytest.approx(certificate.primal, rel=1e-12)
    assert "weights kept" in pruning._repr_html_()


def test_pruning_within_tol_converges(rng):
    X, Y = problem(rng)
    model = LinearM3L(prune=0.0, warm_start=True, **PLAIN).fit(X, Y)  # drops what is exactly 0
    assert model.certificate_.converged
    assert model.pruning_.objective_after == model.pruning_.objective_before
    assert certify(model, X, Y).dual == pytest.approx(model.certificate_.dual, rel=1e-12)
    model.set_params(C=2.0).fit(X, Y)
    assert model.certificate_.converged


@pytest.mark.parametrize("n_labels", [1, 129])
def test_pruned_in_blocks(rng, n_labels):
    X, Y = problem(rng, n=50, d=300, n_labels=n_labels)
    limit = limit_for(X, Y, 40, prune=0.05, **PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        blocked = LinearM3L(prune=0.05, memory_limit=limit + 12 * 300 * n_labels, **PLAIN).fit(X, Y)
        first = LinearM3L(prune=0.05, **PLAIN).fit(X, Y[:, [*range(min(n_labels, 40))]])
    assert (blocked.coef_[: len(first.intercept_)] != first.coef_).nnz == 0
    assert blocked.n_iter_ > first.n_iter_ or n_labels == 1
    assert blocked.certificate_.primal == pytest.approx(objective(blocked, X, Y.toarray(), 1.0), rel=1e-6)
    assert blocked.certificate_.dual <= blocked.pruning_.objective_before
    assert abs(blocked.coef_.data).min() >= 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_weights_score_to_the_bits_of_dense_ones(rng, dtype):
    X, Y = problem(rng, n_labels=129, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearM3L(prune=0.2, **PLAIN).fit(X, Y)
    dense = clone(model).set_params(prune=None)
    vars(dense).update(vars(model) | {"coef_": model.coef_.toarray(), "prune": None})
    other = np.float64 if dtype == np.float32 else np.float32
    empty = X.copy()
    empty.data[empty.indptr[5] : empty.indptr[9]] = 0
    for rows in (X, X.toarray(), np.asfortranarray(X.toarray()), X.astype(other), X[:1], empty):
        scores = model.decision_function(rows)
        assert scores.dtype == dtype
        np.testing.assert_array_equal(scores, dense.decision_function(rows))
        assert (model.predict(rows) != dense.predict(rows)).nnz == 0
        for k in (1, 4):
            ours, theirs = model.predict_top(rows, k), dense.predict_top(rows, k)
            np.testing.assert_array_equal(ours.indices, theirs.indices)
            np.testing.assert_array_equal(ours.data, theirs.data)
    two = clone(model).set_params(n_jobs=2)
    vars(two).update(vars(model) | {"n_jobs": 2})
    np.testing.assert_array_equal(two.decision_function(X), model.decision_function(X))


def test_model_files_and_inspection(rng, tmp_path):
    X, Y = problem(rng, d=500)
    with pytest.warns(ConvergenceWarning):
        model = LinearM3L(prune=0.1, memory_limit="100 MB", **PLAIN).fit(X, Y)
    save(model, tmp_path / "model.mm")
    loaded = load(tmp_path / "model.mm")
    assert loaded.pruning_ == model.pruning_
    assert isinstance(loaded.coef_, sp.csr_array)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    plain = LinearM3L(**PLAIN).fit(X, Y)
    save(plain, tmp_path / "plain.mm")
    saved = 4 * plain.coef_.size - 8 * model.coef_.nnz
    sizes = [(tmp_path / name).stat().st_size for name in ("plain.mm", "model.mm")]
    assert sizes[0] - sizes[1] > saved - 2000 > 0.3 * sizes[0]
    assert certify(loaded, X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    weights = model.coef_.toarray()[2].astype(float)
    best = top_features(model, 2, k=3)
    np.testing.assert_array_equal(best.weights, weights[np.argsort(-abs(weights), kind="stable")[:3]])
    why = explain(model, X[:1], 2)
    assert why.baseline + why.features.sum() == pytest.approx(model.decision_function(X[:1])[0, 2], abs=1e-5)


def test_time_callback_and_ctrl_c(rng):
    X, Y = problem(rng, n_labels=40)
    limit = limit_for(X, Y, 8, **PLAIN)
    seen = []
    model = LinearM3L(memory_limit=limit, callback=seen.append, **PLAIN).fit(X, Y)
    assert [p.pass_ for p in seen] == list(range(1, model.n_iter_ + 1))
    bounds = [(p.primal, p.dual) for p in seen if p.gap is not None]
    assert all(primal >= model.certificate_.dual for primal, _ in bounds)
    assert all(dual <= model.certificate_.primal for _, dual in bounds)
    half = LinearM3L(memory_limit=limit, callback=lambda p: p.pass_ > model.n_iter_ // 2, **PLAIN).fit(X, Y)
    untrained = ~np.asarray(half.coef_.any(axis=1))
    assert 0 < untrained.sum() < 40
    assert half.certificate_.primal == pytest.approx(objective(half, X, Y.toarray(), 1.0), rel=1e-9)
    assert half.certificate_.dual < half.certificate_.primal
    assert not half.certificate_.converged
    with pytest.warns(ConvergenceWarning, match="did not reach"):
        late = LinearM3L(memory_limit=limit, time_limit=1e-9, **PLAIN).fit(X, Y)
    assert late.certificate_.primal == pytest.approx(objective(late, X, Y.toarray(), 1.0), rel=1e-9)
    setup = (
        "import numpy as np; from multimargin import LinearM3L; rng = np.random.default_rng(0); "
        "X = rng.normal(size=(3000, 1100)); Y = rng.random((3000, 64)) < 0.5; "
        "model = LinearM3L(prune=0.1, memory_limit='60 MiB', tol=1e-12, max_iter=10**6)"
    )
    assert assert_answers_ctrl_c("model.fit(X, Y)", setup=setup, state="hasattr(model, 'coef_')") == "False"


def test_what_cannot_be(rng):
    X, Y = problem(rng)
    for params in ({"prune": 0.1}, {"memory_limit": 10**9}):
        with pytest.raises(InputError, match="prior=None"):
            LinearM3L(prior=np.eye(37), **params).fit(X, Y)
    with pytest.raises(InputError, match="Give one of the two"):
        LinearM3L(memory_limit=10**9, warm_start=True).fit(X, Y)
    with pytest.raises(InputError, match="raise memory_limit"):
        LinearM3L(memory_limit="2 KiB").fit(X, Y)
    with pytest.raises(InputError, match="4 GiB"):
        LinearM3L(memory_limit="a lot").fit(X, Y)
    wide = sp.csr_array((120, 10_000_000), dtype=np.float32)
    with pytest.raises(InputError, match="prune them"):
        LinearM3L(memory_limit="2 GiB").fit(wide, Y)


def test_a_path_over_C_goes_without_warm_starts(rng):
    X, Y = problem(rng, n_labels=10)
    path = CPath(LinearM3L(memory_limit="100 MB", **PLAIN), Cs=[0.1, 1.0], cv=2).fit(X, Y)
    assert path.estimator_.certificate_.converged


def test_onnx_holds_pruned_weights_with_their_zeros(rng):
    onnx = pytest.importorskip("onnx")
    X, Y = problem(rng, n_labels=10)
    with pytest.warns(ConvergenceWarning):
        model = LinearM3L(prune=0.2, **PLAIN).fit(X, Y)
    arrays = [onnx.numpy_helper.to_array(item) for item in to_onnx(model).graph.initializer]
    assert any(a.shape == model.coef_.shape and (a == model.coef_.toarray()).all() for a in arrays)
    vars(model).update(coef_=sp.csr_array((10, 10**8), dtype=np.float32), n_features_in_=10**8)
    with pytest.raises(InputError, match=r"with their zeros take 3.73 GiB"):
        to_onnx(model)

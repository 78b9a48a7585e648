import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearM3L, certify, load, save
from multimargin.baselines import CuttingPlaneM3L
from multimargin.baselines._one_slack import _Planes
from multimargin.errors import InputError


def make_problem(rng, n=40, d=3, n_labels=4):
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0).astype(float)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_it_finds_the_optimum_of_linear_m3l(rng, container, dtype, bias):
    X, Y = make_problem(rng)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    weight = rng.uniform(0.0, 2.0, size=Y.shape)
    options = {"C": 0.5, "fit_intercept": bias > 0, "intercept_scaling": bias or 1.0, "class_weight": "balanced"}
    optimum = LinearM3L(tol=1e-9, random_state=0, **options).fit(X, Y, weight)
    model = CuttingPlaneM3L(tol=1e-5, **options).fit(container(X.astype(dtype)), Y, weight)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(optimum.certificate_.primal, rel=2e-5)
    assert model.certificate_.dual <= optimum.certificate_.primal * (1 + 1e-6)
    np.testing.assert_allclose(model.coef_, optimum.coef_, atol=0.02 * np.abs(optimum.coef_).max())
    assert np.all(np.diff(model.history_.primal) <= 0)
    assert np.all(np.diff(model.history_.dual) >= -1e-9)


def test_rounding_of_single_precision_is_overcome(rng):
    X, Y = make_problem(rng, n=20, n_labels=2)
    model = CuttingPlaneM3L(C=0.1, tol=1e-8, max_iter=3000).fit(X.astype(np.float32), Y)
    assert model.certificate_.converged
    assert model.coef_.dtype == np.float64


def test_planes_are_dropped_and_the_dual_point_stays(rng, monkeypatch):
    monkeypatch.setattr("multimargin.baselines._one_slack.IDLE_ROUNDS", 2)
    X, Y = make_problem(rng)
    model = CuttingPlaneM3L(tol=1e-4).fit(X, Y)
    assert model.certificate_.converged


def test_weights_of_planes_maximise_the_dual(rng):
    """No plane with weight has less slope than another, within the accuracy."""
    planes = _Planes.first(6, 9, np.float64)
    for _ in range(12):
        planes.add(rng.normal(size=6), rng.random(9) < 0.5, float(rng.uniform(0, 3)))
        planes.ascend(1e-10)
    slope = planes.offsets - planes.gram @ planes.a
    assert planes.a.sum() == pytest.approx(1.0)
    assert slope.max() - slope @ planes.a <= 1e-10
    np.testing.assert_allclose(planes.gram, [[a @ b for a in planes.normals] for b in planes.normals])


def test_constant_labels_files_and_certify(rng, tmp_path, monkeypatch):
    X, Y = make_problem(rng)
    more = np.column_stack([np.zeros(len(Y)), Y, np.ones(len(Y))])
    a = CuttingPlaneM3L().fit(X, Y)
    with pytest.warns(UserWarning, match="labels 0, 5"):
        b = CuttingPlaneM3L().fit(X, more)
    assert b.certificate_.primal == pytest.approx(a.certificate_.primal, rel=2e-3)
    assert b.predict(X)[:, -1].all()
    save(b, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").decision_function(X), b.decision_function(X))
    assert certify(b, X, more).primal == b.certificate_.primal
    assert certify(b, X, more).proves == "objective"
    monkeypatch.setattr(CuttingPlaneM3L, "warm_start", True)  # keeps the dual variables
    kept = CuttingPlaneM3L().fit(X, Y)
    assert certify(kept, X, Y) == kept.certificate_ == a.certificate_


@pytest.mark.parametrize("n_labels", [1, 129])
def test_any_number_of_labels(rng, n_labels):
    X, Y = make_problem(rng, n_labels=n_labels)
    model = CuttingPlaneM3L(tol=0.01).fit(X, Y[:, 0] if n_labels == 1 else Y)
    assert model.certificate_.converged
    assert model.decision_function(X).shape == ((40,) if n_labels == 1 else (40, 129))


def test_limits(rng):
    X, Y = make_problem(rng)
    with pytest.warns(ConvergenceWarning, match="CuttingPlaneM3L stopped after 3 passes"):
        model = CuttingPlaneM3L(max_iter=3).fit(X, Y)
    assert model.n_iter_ == 3
    assert model.certificate_.primal >= model.certificate_.dual > 0
    assert CuttingPlaneM3L(callback=lambda p: p.pass_ == 2).fit(X, Y).n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        CuttingPlaneM3L(C=1e4, tol=1e-12, max_iter=10**8, time_limit=0.2).fit(X, Y)
    with pytest.raises(InputError, match="cost of a cell"):
        CuttingPlaneM3L(C=1e200).fit(X, Y)

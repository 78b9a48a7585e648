"""The certificate of SubmodularClassifier against plain NumPy: every label set is listed."""

import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from recompute import ListedSets

from multimargin import SubmodularClassifier, _core, certify
from multimargin.estimators.monitor import Monitor
from multimargin.estimators.submodular import classifier

ROUNDING = 1e-9


def random_problem(rng, n=12, d=3):
    n_labels = int(rng.integers(1, 9))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-6, 6) * 10.0 ** (rng.uniform(-2, 2, size=d) * rng.integers(2))
    X[rng.random(X.shape) < 0.2] = 0.0
    X = X.astype(rng.choice([np.float32, np.float64]))
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    if rng.random() < 0.4:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    if rng.random() < 0.3:
        Y[:, 0] = rng.integers(2)
    weight = rng.random(n) * (rng.random(n) < 0.9) + 1e-3 if rng.random() < 0.5 else None
    names = list(range(n_labels))
    pairs = [0, 0.5, list(combinations(names, 2))[:5]][int(rng.integers(3))]
    parameters = {
        "C": 10.0 ** rng.uniform(-4, 4),
        "pairs": pairs,
        "pair_scale": float(rng.choice([0.0, 1.0, 5.0])),
        "loss": str(rng.choice(["f1", "hamming"])),
        "fit_intercept": bool(rng.integers(2)),
        "intercept_scaling": float(rng.choice([1.0, 3.0])),
    }
    return (sp.csr_array(X) if rng.integers(2) else X), Y, weight, parameters


def check(certificate, primal, dual, tol):
    assert certificate.primal == pytest.approx(primal, rel=ROUNDING)
    if dual is not None:
        assert certificate.dual == pytest.approx(dual, rel=ROUNDING, abs=ROUNDING * primal)
    assert certificate.gap >= -ROUNDING * primal
    assert certificate.converged == (certificate.gap <= tol * certificate.primal)
    assert certificate.oracle_exact == 1.0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(10))
def test_bounds_are_those_of_the_model_and_its_dual_variables(seed):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        X, Y, weight, parameters = random_problem(rng)
        model = SubmodularClassifier(**parameters, max_iter=60, random_state=0, warm_start=True).fit(X, Y, weight)
        listed = ListedSets(model, X, Y, weight)
        check(model.certificate_, listed.primal(model), listed.dual(model._last.state), model.tol)
        assert certify(model, X, Y, weight) == model.certificate_
        assert (model.history_.primal[-1], model.history_.dual[-1]) == (
            model.certificate_.primal,
            model.certificate_.dual,
        )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("solver", ["bundle", "bmrm"])
def test_bounds_of_the_bundle_solvers(rng, solver):
    for _ in range(8):
        X, Y, weight, parameters = random_problem(rng)
        parameters["C"] = min(parameters["C"], 1.0)
        X = X / max(abs(X).max(), 1e-300)
        model = SubmodularClassifier(**parameters, solver=solver, max_iter=60).fit(X, Y, weight)
        primal = ListedSets(model, X, Y, weight).primal(model)
        check(model.certificate_, primal, None, model.tol)
        optimum = SubmodularClassifier(**parameters, tol=1e-7, max_iter=3000).fit(X, Y, weight).certificate_
        assert model.certificate_.dual <= optimum.primal * (1 + ROUNDING)
        assert model.history_.dual[-1] == pytest.approx(model.certificate_.dual, rel=ROUNDING, abs=ROUNDING * primal)
        again = certify(model, X, Y, weight)
        assert again.primal == pytest.approx(primal, rel=ROUNDING)
        assert again.proves == "objective"


def test_a_changed_model_or_changed_dual_variables_are_found_out(rng):
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 4)) < 0.4).astype(float)
    model = SubmodularClassifier(pair_scale=5.0, warm_start=True, random_state=0).fit(X, Y)
    best = model.certificate_
    kept = model._last
    planes, weight = kept.state, kept.state.weight
    for changed in (3 * weight, -weight, np.full_like(weight, np.inf), weight * rng.random(len(weight))):
        model._last = replace(kept, state=_core.Planes(planes.row, changed, planes.offsets, planes.labels))
        dual = certify(model, X, Y).dual
        assert not dual > best.primal
    model._last = kept
    model.coef_[1, 2] += 0.5
    changed = certify(model, X, Y)
    assert changed.primal == pytest.approx(ListedSets(model, X, Y, None).primal(model), rel=ROUNDING)
    assert changed.primal > best.primal
    assert not changed.converged


def test_published_oracle_has_the_objective_of_the_exact_one(rng):
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 7)) < 0.5).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SubmodularClassifier(pairs=1.0, pair_scale=10.0, oracle="paper", warm_start=True, tol=1e-4).fit(X, Y)
    listed = ListedSets(model, X, Y, None)
    assert model.certificate_.primal == pytest.approx(listed.primal(model), rel=ROUNDING)
    assert model.certificate_.dual == pytest.approx(listed.dual(model._last.state), rel=ROUNDING)
    assert certify(model, X, Y) == model.certificate_


@pytest.mark.parametrize("solver", ["blocks", "bundle"])
def test_last_entry_of_the_history_is_the_certificate_also_after_a_stop(rng, solver):
    X, Y = rng.normal(size=(40, 3)), (rng.random((40, 4)) < 0.4).astype(int)
    passes = []

    def stop(progress):
        passes.append(progress.pass_)
        return progress.pass_ == 2

    model = SubmodularClassifier(C=10, tol=1e-9, solver=solver, callback=stop).fit(X, Y)
    assert passes == [1, 2]
    assert model.history_.pass_[-1] == 2
    assert model.history_.primal[-1] == model.certificate_.primal
    assert model.history_.dual[-1] == model.certificate_.dual


@pytest.mark.parametrize("pairs", [0, 0.5])
def test_missing_labels_without_any_pair(rng, pairs):
    X = rng.normal(size=(20, 3))
    Y = np.eye(3)[rng.integers(0, 3, size=20)]  # no two labels ever meet
    Y[:3] = np.nan
    model = SubmodularClassifier(pairs=pairs).fit(X, Y)
    assert model.pairs_.shape == (0, 2)
    known = SubmodularClassifier(pairs=pairs).fit(X[3:], Y[3:])
    assert model.certificate_.primal == pytest.approx(known.certificate_.primal, rel=2e-3)


def test_interrupted_calibration_leaves_the_object_as_it_was(rng, monkeypatch):
    X, Y = rng.normal(size=(40, 3)), (rng.random((40, 4)) < 0.4).astype(int)
    model = SubmodularClassifier(offset="cv", warm_start=True, random_state=0).fit(X, Y)
    before = dict(vars(model))
    path, calls = classifier.f_score_path, []

    def interrupted(*arguments):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return path(*arguments)

    monkeypatch.setattr(classifier, "f_score_path", interrupted)
    for offset in ("cv", "train"):
        calls[:] = [None] * (offset == "train")
        model.set_params(offset=offset)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:, ::-1], 1 - Y)
        after = dict(vars(model))
        assert {**after, "offset": "cv"}.keys() == before.keys()
        assert all(after[name] is before[name] for name in before if name != "offset")


def test_folds_and_model_share_the_time_limit(rng, monkeypatch):
    """By a clock that only training moves, by all the time it is given."""
    X, Y = rng.normal(size=(40, 3)), (rng.random((40, 4)) < 0.4).astype(int)
    clock, given = [0.0], []
    fit = _core.fit_submodular

    def timed(data, *, limits: _core.Limits, **arguments):
        given.append(limits.time_limit)
        clock[0] += limits.time_limit
        unlimited = _core.Limits(tol=limits.tol, max_iter=limits.max_iter, threads=1, seed=limits.seed)
        return fit(data, limits=unlimited, **arguments)

    monkeypatch.setattr(_core, "fit_submodular", timed)
    monkeypatch.setattr(Monitor, "elapsed", property(lambda self: clock[0]))
    SubmodularClassifier(offset="cv", time_limit=9.0).fit(X, Y)
    assert given == pytest.approx([2.0, 2.0, 2.0, 3.0])
    clock[0], given[:] = 0.0, []
    SubmodularClassifier(offset="train", time_limit=9.0).fit(X, Y)
    assert given == [9.0]


SCALES = [(1e-6, 1e4), (1.0, 1e2), (1.0, 1e4), (1e3, 1e-2), (1e3, 1.0), (1e6, 1e-2)]


@pytest.mark.filterwarnings("ignore:The features are large")
@pytest.mark.parametrize(("scale", "C"), SCALES)
@pytest.mark.parametrize("columns", [1.0, np.array([100.0, 100.0, 1.0, 1.0, 0.01, 0.01])])
def test_converges_whatever_the_scale(scale, C, columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    Y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(60, 1)) + rng.normal(size=(60, 5)) > 0.3).astype(int)
    model = SubmodularClassifier(C=C, random_state=0, warm_start=True).fit(X * (scale * columns), Y)
    assert model.certificate_.converged  # a fit that does not converge would warn, too
    passes = model.n_iter_
    assert model.fit(X * (scale * columns), Y).n_iter_ <= max(passes, 5)


def test_warm_start_with_other_features_and_pairs(rng):
    X, Y = 10 * rng.normal(size=(40, 5)), (rng.random((40, 4)) < 0.4).astype(int)
    model = SubmodularClassifier(pairs=1.0, warm_start=True, random_state=0).fit(X, Y)
    model.set_params(pairs=0.3).fit(X[:, :3], Y)
    fresh = SubmodularClassifier(pairs=0.3, random_state=0).fit(X[:, :3], Y)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(fresh.certificate_.primal, rel=1e-3)


@pytest.mark.filterwarnings("ignore:The features are large")
def test_scaling_the_features_is_scaling_c(rng):
    X, Y = rng.normal(size=(50, 4)), (rng.random((50, 4)) < 0.4).astype(int)
    reference = SubmodularClassifier(C=50.0, fit_intercept=False, pairs=0, random_state=0).fit(X, Y).certificate_
    for scale in (1e-4, 1e4):
        other = SubmodularClassifier(C=50.0 / scale**2, fit_intercept=False, pairs=0, random_state=0)
        certificate = other.fit(X * scale, Y).certificate_
        assert certificate.primal * scale**2 == pytest.approx(reference.primal, rel=1e-3)


def test_long_rows_are_warned_about_before_training(rng):
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 3)) < 0.4).astype(int)

    def stop(progress):
        raise RuntimeError

    mean = np.mean(np.sum((1e4 * X) ** 2, axis=1))
    with pytest.warns(UserWarning, match="Scale the features") as caught, pytest.raises(RuntimeError):
        SubmodularClassifier(C=2.0, callback=stop).fit(1e4 * X, Y)
    assert f"mean squared length of the rows of X is {mean:.3g}" in str(caught[0].message)
    assert "C=2.0" in str(caught[0].message)
    assert caught[0].filename == __file__
    below = (classifier.LONGEST_ROWS / mean) * 0.99
    with pytest.raises(RuntimeError):
        SubmodularClassifier(C=below, callback=stop).fit(1e4 * X, Y)

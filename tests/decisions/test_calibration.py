"""Calibration against scikit-learn, its own stationarity, and limits of the prior."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.calibration import _sigmoid_calibration
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from multimargin import LabelCalibrator, LinearM3L, datasets, metrics
from multimargin.decisions import _lines, calibrate
from multimargin.decisions._cells import read_cells
from multimargin.errors import InputError


@parametrize_with_checks(
    [LabelCalibrator(LinearM3L(random_state=0), random_state=0)],
    expected_failed_checks=lambda _: {
        "check_classifiers_one_label_sample_weights": "weights of 0 leave one class to the estimator, not to the folds",
    },
)
@pytest.mark.filterwarnings("ignore:.*[Cc]onstant predictions:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the checks do not scale their features
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API:sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def drawn(rng, n=400, n_labels=8, slopes=(0.5, 3.0)):
    """Scores and labels that follow known lines."""
    lines = np.stack([rng.uniform(*slopes, size=n_labels), rng.uniform(-4, 0.5, size=n_labels)], axis=1)
    scores = rng.normal(size=(n, n_labels))
    Y = (rng.random(scores.shape) < expit(scores * lines[:, 0] + lines[:, 1])).astype(float)
    Y[0], Y[1] = 1.0, 0.0
    return scores, Y, lines


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_platt_equals_scikit_learn(rng, scale):
    scores, Y, _ = drawn(rng)
    weights = rng.uniform(0.5, 2.0, size=len(Y))
    ours = calibrate(scale * scores, Y, pooling=None, sample_weight=weights)
    p = ours.probabilities(scale * scores)
    for label in range(Y.shape[1]):
        a, b = _sigmoid_calibration(scores[:, label], Y[:, label], sample_weight=weights)
        np.testing.assert_allclose(p[:, label], expit(-(a * scores[:, label] + b)), atol=2e-5)


def gradient(scores, Y, lines, prior, weights=None):
    p = expit(scores * lines[:, 0] + lines[:, 1])
    error = (p - Y) * (1.0 if weights is None else weights[:, None])
    a0, b0, va, vb = prior
    return (error * scores).sum(axis=0) + (lines[:, 0] - a0) / va, error.sum(axis=0) + (lines[:, 1] - b0) / vb


def test_lines_are_stationary_under_their_prior(rng):
    scores, Y, _ = drawn(rng)
    cells = read_cells(scores, Y, None)
    n_labels = Y.shape[1]
    tile = np.tile([1.2, -1.0], (n_labels, 1))
    precision = np.tile([1 / 0.3, 1 / 2.0], (n_labels, 1))
    hard = np.tile([1.0, 0.0], (n_labels, 1))
    lines, variances = _lines._native(cells, 1.0, hard, tile, tile, precision)
    slope, offset = gradient(scores, Y, lines, (1.2, -1.0, 0.3, 2.0))
    np.testing.assert_allclose(slope, 0, atol=1e-6)
    np.testing.assert_allclose(offset, 0, atol=1e-6)
    for label in range(n_labels):
        p = expit(scores[:, label] * lines[label, 0] + lines[label, 1])
        X = np.stack([scores[:, label], np.ones(len(p))], axis=1)
        hessian = X.T @ (X * (p * (1 - p))[:, None]) + np.diag(precision[label])
        np.testing.assert_allclose(variances[label], np.diag(np.linalg.inv(hessian)), rtol=1e-6)


def test_limits_of_the_prior(rng):
    scores, Y, _ = drawn(rng)
    cells = read_cells(scores, Y, None)
    n_labels = Y.shape[1]
    centre, hard = np.tile([1.2, -1.0], (n_labels, 1)), np.tile([1.0, 0.0], (n_labels, 1))
    sure = _lines._native(cells, 1.0, hard, centre, centre, np.full((n_labels, 2), 1e12))[0]
    np.testing.assert_allclose(sure, centre, atol=1e-6)
    unsure = _lines._native(cells, 1.0, hard, centre, centre, np.full((n_labels, 2), 1e-12))[0]
    free = _lines._native(cells, 1.0, hard, centre)[0]
    np.testing.assert_allclose(unsure, free, atol=1e-6)
    np.testing.assert_allclose(gradient(scores, Y, free, (0, 0, np.inf, np.inf)), 0, atol=1e-6)


def test_hierarchical_lines_find_the_truth_of_many_rows(rng):
    scores, Y, lines = drawn(rng, n=100_000, n_labels=12)
    found = calibrate(scores, Y)
    np.testing.assert_allclose(found.lines, lines, atol=0.12)
    assert found.prior[0] == pytest.approx(lines[:, 0].mean(), abs=0.1)
    assert found.prior[2] == pytest.approx(lines[:, 0].var(), rel=0.3, abs=0.05)


def test_pooling_helps_rare_labels(rng):
    """Labels that follow one line, most of them rare: the prior must not lose against Platt's method."""
    scores = rng.normal(size=(2000, 60))
    odds = 1.5 * scores - rng.uniform(4.0, 7.0, size=60)
    Y = (rng.random(scores.shape) < expit(odds)).astype(int)
    tune, test = slice(0, 1000), slice(1000, None)
    losses = {}
    for pooling in ("hierarchical", None):
        p = calibrate(scores[tune], Y[tune], pooling=pooling).probabilities(scores[test])
        losses[pooling] = metrics.log_loss(Y[test], p)
    assert losses["hierarchical"] < losses[None]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("pooling", ["hierarchical", "all", None])
def test_probabilities_are_inside_and_rise_with_the_score(rng, method, pooling):
    scores, Y, _ = drawn(rng)
    Y[:, 0], Y[:, 1] = 0, 1  # constant
    Y[:, 2] = scores[:, 2] < 0  # a score that is worse than nothing
    Y[:, 3] = scores[:, 3] > 0  # separated
    found = calibrate(scores, Y, method=method, pooling=pooling)
    extreme = np.tile(np.array([-1e6, -100.0, -1.0, 0.0, 1.0, 100.0, 1e6])[:, None], (1, Y.shape[1]))
    p = found.probabilities(extreme)
    assert ((p > 0) & (p < 1)).all()
    assert (np.diff(p, axis=0) >= 0).all()
    if method == "sigmoid" and pooling != "all":
        assert found.probabilities(scores)[:, 0].mean() == pytest.approx(0.5 / 401, rel=0.05) or pooling is None
        assert found.probabilities(scores)[:, 2].mean() == pytest.approx(Y[:, 2].mean(), abs=0.01)


def test_isotonic_equals_scikit_learn_without_smoothing(rng):
    scores, Y, _ = drawn(rng)
    x, p = _lines.isotonic_steps(scores[:, 0], Y[:, 0], np.ones(len(Y)), smoothing=0.0)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores[:, 0], Y[:, 0])
    grid = np.linspace(-5, 5, 1001)
    np.testing.assert_allclose(np.interp(grid, x, p), theirs.predict(grid), atol=1e-12)
    x, p = _lines.isotonic_steps(scores[:, 0], Y[:, 0], np.ones(len(Y)))
    assert (np.diff(p) >= 0).all()
    assert p.min() > 0
    assert p.max() < 1


def test_invariances(rng):
    scores, Y, _ = drawn(rng)
    Y[rng.random(Y.shape) < 0.05] = np.nan
    found = calibrate(scores, Y)
    order = rng.permutation(Y.shape[1])
    np.testing.assert_allclose(calibrate(scores[:, order], Y[:, order]).lines, found.lines[order], atol=1e-6)
    np.testing.assert_allclose(calibrate(sp.csr_array(scores), Y).lines, found.lines, atol=1e-9)
    np.testing.assert_allclose(calibrate(100 * scores, Y).lines * [100, 1], found.lines, atol=1e-6)
    twice = calibrate(np.tile(scores, (2, 1)), np.tile(Y, (2, 1))).lines
    np.testing.assert_allclose(calibrate(scores, Y, sample_weight=np.full(len(Y), 2.0)).lines, twice, atol=1e-4)
    p = expit(scores)
    np.testing.assert_allclose(calibrate(p, Y, from_probabilities=True).lines, found.lines, atol=1e-4)


def test_temperature_is_one_slope(rng):
    scores = rng.normal(scale=3, size=(3000, 6))
    Y = (rng.random(scores.shape) < expit(0.4 * scores)).astype(int)
    found = calibrate(scores, Y, method="temperature")
    assert (found.lines[:, 1] == 0).all()
    assert np.ptp(found.lines[:, 0]) == 0
    assert found.lines[0, 0] == pytest.approx(0.4, abs=0.03)


def test_calibrator_around_estimators(rng):
    X = rng.normal(size=(300, 5))
    Y = (X @ rng.normal(size=(5, 4)) + rng.normal(size=(300, 4)) > 0.8).astype(int)
    for estimator in (
        LinearM3L(random_state=0),
        OneVsRestClassifier(LogisticRegression()),
        RandomForestClassifier(20, random_state=0),
    ):
        model = LabelCalibrator(estimator, random_state=0).fit(X, Y)
        p = model.predict_proba(X)
        assert p.shape == Y.shape
        np.testing.assert_array_equal(model.predict(X), (p > 0.5).astype(int))
        np.testing.assert_allclose(expit(model.decision_function(X)), p, atol=1e-12)
        assert model.log_loss_ < model.base_log_loss_
        assert model.calibration_.shape == (4, 2)
        assert 0 <= model.ece_ < 0.1
    binary = LabelCalibrator(LinearM3L(random_state=0), random_state=0).fit(X, Y[:, 0])
    assert binary.predict_proba(X).shape == (300, 2)
    np.testing.assert_allclose(binary.predict_proba(X).sum(axis=1), 1)


def test_errors_come_before_any_work():
    X, Y = np.zeros((4, 1)), np.array([[0], [1], [0], [1]])
    with pytest.raises(InputError, match="method must be one of"):
        LabelCalibrator(LinearM3L(), method="platt").fit(X, Y)
    with pytest.raises(InputError, match="pooling must be one of"):
        calibrate(X, Y, pooling="none")
    with pytest.raises(InputError, match="between 0 and 1"):
        calibrate(X + 2, Y, from_probabilities=True)


def test_metrics_of_probabilities(rng):
    p = rng.random((500, 3))
    Y = (rng.random(p.shape) < p).astype(float)
    Y[::7, 1] = np.nan
    known = ~np.isnan(Y)
    from sklearn.metrics import log_loss

    per_label = [log_loss(Y[known[:, j], j], p[known[:, j], j]) for j in range(3)]
    np.testing.assert_allclose(metrics.log_loss(Y, p, average=None), per_label)
    assert metrics.log_loss(Y, p) == pytest.approx(np.mean(per_label))
    assert metrics.log_loss(Y, p, average="micro") == pytest.approx(log_loss(Y[known], p[known]))
    assert metrics.brier_score(Y, p, average="micro") == pytest.approx(np.mean((Y - p)[known] ** 2))
    # perfect probabilities: the error is noise, and the debiased one has mean 0
    assert metrics.calibration_error(Y, p) < 0.08
    draws = [metrics.calibration_error((rng.random(p.shape) < p).astype(int), p, debiased=True) for _ in range(200)]
    assert np.mean(draws) == pytest.approx(0, abs=4 * np.std(draws) / np.sqrt(200))
    assert metrics.calibration_error(Y, np.clip(p + 0.2, 0, 1)) > 0.1
    assert metrics.calibration_error_at_k(Y, p, k=3) == pytest.approx(metrics.calibration_error(Y, p))
    curve = metrics.reliability(Y, p)
    assert curve.size.sum() == known.sum()
    assert ((curve.low <= curve.share) & (curve.share <= curve.high)).all()
    weights = rng.integers(0, 3, size=500)
    repeated = np.repeat(np.arange(500), weights)
    for metric in (metrics.log_loss, metrics.brier_score):
        assert metric(Y, p, sample_weight=weights) == pytest.approx(metric(Y[repeated], p[repeated]))
    with pytest.raises(InputError, match="between 0 and 1"):
        metrics.log_loss(Y, 2 * p)
    with pytest.raises(InputError, match="average must be"):
        metrics.log_loss(Y, p, average="samples")
    tied = metrics.reliability([[1], [0], [1], [1]], [[0.3]] * 4, n_bins=4)
    assert tied.probability.tolist() == pytest.approx([0.3])
    assert logit(tied.share[0]) == pytest.approx(logit(0.75))


@pytest.mark.parametrize("name", ["enron", "medical"])
@pytest.mark.filterwarnings("ignore:.*[Cc]onstant predictions:UserWarning")
def test_real_data(data_home, name):
    data = datasets.load(name)
    model = LabelCalibrator(LinearM3L(tol=1e-2, random_state=0), random_state=0).fit(data.X_train, data.Y_train)
    assert model.log_loss_ < model.base_log_loss_
    p = model.predict_proba(data.X_test)
    frequency = (np.asarray(data.Y_train.sum(axis=0)).ravel() + 0.5) / (data.X_train.shape[0] + 1)
    base = metrics.log_loss(data.Y_test, np.tile(frequency, (p.shape[0], 1)))
    assert metrics.log_loss(data.Y_test, p) < base

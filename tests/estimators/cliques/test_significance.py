"""The bounds and estimates of the significance test against the formula, evaluated in full for every clique."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2

from multimargin import CliqueClassifier, _core
from multimargin.estimators.cliques import significance
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.scores import AtomResiduals
from multimargin.estimators.cliques.significance import SignificanceTest

PAIRS = list(combinations(range(8), 2))


def made(form, D=20, n=300, bias=0.0):
    """Residuals of pairs, some of which have to do with the features."""
    rng = np.random.default_rng(D)
    X = rng.normal(size=(n, D)) * np.linspace(1.0, 0.1, D) + 0.3
    Y = (rng.random((n, 8)) < 0.5).astype(int)
    other = Y.copy()
    for k in range(8):  # label k of the atoms follows a feature, more or less
        other[:, k] = (X[:, 0] + (0.3 + 0.8 * k) * rng.normal(size=n) > 0).astype(int)
    bits = np.ascontiguousarray(
        np.packbits(np.pad(other, ((0, 0), (0, 56))).astype(np.uint8), axis=1, bitorder="little")
    )
    atoms = _core.Atoms(np.arange(n), 0.1 + 0.4 * rng.random(n), bits.view("<u8").astype(np.uint64))
    data = CliqueData(CliqueClassifier(0.7, random_state=0)._problem(form(X), Y, rng.random(n) + 0.1), bias=bias)
    return data, AtomResiduals(atoms, data, np.float64)


def by_formula(data, residuals, level):
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    X = np.asarray(X, dtype=np.float64)[residuals.rows]
    found = []
    for pair, R in zip(PAIRS, residuals.panel(PAIRS).T, strict=True):
        V = X.T @ ((R**2)[:, None] * X)
        freedom = np.trace(V) ** 2 / np.sum(V**2)
        square = np.sum((X.T @ R) ** 2)
        constant = data.bias and R.sum() ** 2 > chi2.isf(level / 2, 1) * np.sum(R**2)
        if constant or square * freedom > np.trace(V) * chi2.isf(level / 2, freedom):
            found.append(pair)
    return found


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("level", [1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
def test_few_features_are_tested_by_the_formula(form, level, bias, monkeypatch):
    monkeypatch.setattr(significance, "PROBES", 4000)  # of sparse rows: as good as the formula
    data, residuals = made(form, bias=bias)
    expected = by_formula(data, residuals, level)
    assert 0 < len(expected) < len(PAIRS)
    test = SignificanceTest(data)
    assert test.first(residuals, PAIRS, level, len(PAIRS)) == expected
    assert test.first(residuals, PAIRS, level, 3) == expected[:3]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("D", [1, 20, 600])
def test_bounds_of_the_spread_hold(form, D):
    data, residuals = made(form, D=D)
    X = np.asarray(data.X.toarray() if sp.issparse(data.X) else data.X)[residuals.rows]
    test = SignificanceTest(data)
    weights = residuals.panel(PAIRS) ** 2
    for weight, least in zip(weights.T, test.least_squared_norms(residuals.rows, weights), strict=True):
        square = np.sum((X.T @ (weight[:, None] * X)) ** 2)
        assert 0 < least <= square
        trace = float(weight @ np.sum(X**2, axis=1))
        estimates = list(test._estimates(data.X[residuals.rows], weight, trace))
        assert estimates[0][1] <= square * (1 + 1e-12)
        assert square <= estimates[0][2] * (1 + 1e-12)
        estimate, low, high = estimates[-1]
        assert low <= estimate <= high
        assert estimate == pytest.approx(square, rel=0.1)

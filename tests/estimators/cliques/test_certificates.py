"""Certificates of CliqueClassifier against sums over all labellings, at every scale; fits that are cut short."""

import warnings
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from multimargin import CliqueClassifier, _core, certify
from multimargin.datasets import make_clique_labels
from multimargin.estimators.cliques import classifier, training
from multimargin.estimators.cliques.certifier import CliqueCertifier
from multimargin.estimators.cliques.data import CliqueData
from multimargin.estimators.cliques.short_rows import RowCutter


class Enumeration:
    """The problem of a fitted model, in plain NumPy: every labelling of every row."""

    def __init__(self, model, X, Y, weight):
        X = X.toarray() if sp.issparse(X) else X
        Y = np.asarray(Y, dtype=float)
        n, K = Y.shape
        self.X = np.column_stack([X.astype(float), np.full(n, float(model.intercept_scaling))])
        self.cost = model.C_ * (np.ones(n) if weight is None else weight)
        known = ~np.isnan(Y)
        known[:, [np.unique(Y[known[:, k], k]).size < 2 for k in range(K)]] = False
        self.constant = ~known.any(axis=0)
        self.subsets = model.subsets_
        self.signs = np.array(list(product([-1.0, 1.0], repeat=K)))
        usable = np.stack([known[:, list(t)].all(axis=1) for t in self.subsets], axis=1)
        # chi[i, y, T], 0 where T contains an unknown label; y is one of the labellings with unknown labels absent
        self.chi = self.characters(self.signs, self.subsets)[None] * usable[:, None]
        self.own = self.characters(np.where(Y == 1, 1.0, -1.0), self.subsets) * usable
        self.loss = ((self.signs[None] != np.where(Y == 1, 1.0, -1.0)[:, None]) & known[:, None]).sum(axis=2)
        self.counted = ((self.signs[None] < 0) | known[:, None]).all(axis=2)
        self.usable, self.known, self.Y = usable, known, Y

    @staticmethod
    def characters(signs, subsets):
        return np.stack([signs[..., list(t)].prod(axis=-1) for t in subsets], axis=-1)

    def weights(self, model):
        W = np.column_stack([model.subset_coef_, model.subset_intercept_ / model.intercept_scaling])
        W[: len(self.constant)][self.constant] = 0.0
        return W

    def kappa(self, model):
        return np.array(
            [
                0.5 * (len(t) == 1)
                + sum(
                    e / 2 ** len(c)
                    for c, e in zip(model.cliques_, model.clique_shares_, strict=True)
                    if set(t) <= set(c)
                )
                for t in self.subsets
            ]
        )

    def gains(self, W):
        """loss(y) + F(y) - F(truth)."""
        scores = self.X @ W.T
        values = (
            self.loss + np.einsum("iyt,it->iy", self.chi, scores) - np.einsum("it,it->i", self.own, scores)[:, None]
        )
        return np.where(self.counted, values, -np.inf)

    def primal(self, model, budget):
        W, kappa = self.weights(model), self.kappa(model)
        squares = np.sum(W**2, axis=1) / kappa**2
        norms = np.sort(
            [
                e
                * np.sqrt(sum(s for t, s in zip(self.subsets, squares, strict=True) if set(t) <= set(c)) / 2 ** len(c))
                for c, e in zip(model.cliques_, model.clique_shares_, strict=True)
            ]
        )[::-1]
        if budget >= len(norms):
            cliques = np.sum(norms**2)
        else:  # the j largest have the share 1, the others in proportion: the best of those that are feasible
            splits = [(norms[:j], norms[j:], budget - j) for j in range(budget)]
            cliques = min(np.sum(a**2) + b.sum() ** 2 / r for a, b, r in splits if b[0] * r <= b.sum() * (1 + 1e-12))
        nodes = 0.5 * squares[: len(self.constant)].sum()
        return 0.5 * (nodes + cliques) + self.cost @ self.gains(W).max(axis=1)

    def dual(self, atoms, cliques, budget):
        """From weights of labellings, the truth having the rest."""
        K = len(self.constant)
        subsets = sorted(
            {t for c in [*cliques, *[(k,) for k in range(K)]] for r in range(1, len(c) + 1) for t in combinations(c, r)}
        )
        truth = np.where(self.Y == 1, 1.0, -1.0)
        expected, q = 0.0, {t: np.zeros(self.X.shape[1]) for t in subsets}
        for row, weight, bits in zip(atoms.row, atoms.weight, atoms.bits[:, 0], strict=True):
            y = np.where((int(bits) >> np.arange(K)) & 1, 1.0, -1.0)
            amount = self.cost[row] * weight
            expected += amount * np.sum((y != truth[row]) & self.known[row])
            for t in subsets:
                if self.known[row, list(t)].all():
                    q[t] += amount * (truth[row, list(t)].prod() - y[list(t)].prod()) * self.X[row]
        squares = {t: v @ v for t, v in q.items()}
        scores = np.sort([sum(s for t, s in squares.items() if set(t) <= set(c)) / 2 ** len(c) for c in cliques])[::-1]
        return scaled(expected, 0.5 * (0.5 * sum(squares[(k,)] for k in range(K)) + scores[:budget].sum()))

    def softmax(self, model, mu):
        """Primal, and the dual value of the distributions of the model."""
        W, kappa = self.weights(model), self.kappa(model)
        gains = self.gains(W)
        soft = mu * logsumexp(gains / mu, axis=1)
        p = np.exp(gains / mu - soft[:, None] / mu)
        entropy = -np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0.0), axis=1)
        q = ((self.own - np.einsum("iy,iyt->it", p, self.chi)) * self.cost[:, None]).T @ self.X
        linear = self.cost @ (np.sum(p * self.loss, axis=1) + mu * entropy)
        primal = 0.5 * np.sum(W**2 / kappa[:, None]) + self.cost @ soft
        return primal, scaled(linear, 0.5 * np.sum(kappa[:, None] * q**2))


def scaled(linear, quadratic):
    t = min(1.0, linear / (2 * quadratic)) if quadratic > 0 else 1.0
    return t * linear - t**2 * quadratic


def random_problem(seed):
    """Data and a model of every kind: sparse, single precision, missing cells, weights, constant labels, any scale."""
    rng = np.random.default_rng(seed)
    n, D, K = int(rng.integers(8, 25)), int(rng.integers(1, 5)), 1 + seed % 6
    X = rng.normal(size=(n, D)) * 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.3:
        X *= 10.0 ** rng.uniform(-3, 3, size=D)
    Y = (X @ rng.normal(size=(D, K)) / np.abs(X).max() + rng.normal(size=(n, K)) > 0).astype(float)
    Y[0], Y[1] = 0.0, 1.0
    if K > 2 and rng.random() < 0.4:
        Y[:, rng.integers(K)] = rng.integers(2)
    if rng.random() < 0.4:
        Y[2:][rng.random((n - 2, K)) < 0.2] = np.nan
    weight = rng.integers(0, 4, size=n) * rng.random() + 1e-3 * (np.arange(n) < 2) if rng.random() < 0.5 else None
    X = X.astype([np.float64, np.float32][rng.integers(2)])
    X = sp.csr_array(X) if rng.random() < 0.4 else X
    graph = ["learned", "chow-liu", "full", None, "list"][seed % 5] if K > 1 else None
    if graph == "list":
        graph = [(0, 1), (1, 2), (0, 1, 2)][: 1 if K == 2 else 3]
    options = {"graph": graph, "C": 10.0 ** rng.uniform(-4, 4), "budget": int(rng.integers(1, 4)), "random_state": 0}
    options["stopping"] = ["gap", "limit", "significance"][rng.integers(3)]
    return (
        X,
        Y,
        weight,
        CliqueClassifier(max_iter=40, warm_start=True, intercept_scaling=rng.choice([1.0, 3.0]), **options),
    )


def quietly(model, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


@pytest.mark.parametrize("seed", range(40))
def test_the_hinge_certificate_equals_enumeration(seed):
    X, Y, weight, model = random_problem(seed)
    certificate = quietly(model, X, Y, weight).certificate_
    truth = Enumeration(model, X, Y, weight)
    learned = model.graph == "learned"
    budget = model.budget if learned else max(len(model.cliques_), 1)
    atoms = model._last.state.atoms
    primal, dual = truth.primal(model, budget), truth.dual(atoms, model.cliques_, budget)
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert certificate.dual == pytest.approx(dual, rel=1e-9)
    assert certificate.gap >= -1e-9 * primal
    decisive = dual
    if learned:
        pairs = list(combinations(np.flatnonzero(~truth.constant).tolist(), 2))
        over_all = truth.dual(atoms, pairs, budget)
        assert certificate.global_dual == pytest.approx(over_all, rel=1e-9)
        decisive = over_all if model.stopping == "gap" else dual
    assert certificate.converged == (primal - decisive <= model.tol * primal)
    again = certify(model, X, Y, weight)
    assert (again.primal, again.dual) == pytest.approx((certificate.primal, certificate.dual), rel=1e-12)
    assert (model.history_.primal[-1], model.history_.dual[-1]) == (certificate.primal, certificate.dual)


@pytest.mark.parametrize("seed", range(100, 120))
def test_the_softmax_certificate_equals_enumeration(seed):
    X, Y, weight, model = random_problem(seed)
    model.set_params(loss="softmax-margin", temperature=float(np.random.default_rng(seed).choice([0.3, 1.0, 2.0])))
    certificate = quietly(model, X, Y, weight).certificate_
    primal, dual = Enumeration(model, X, Y, weight).softmax(model, model.temperature)
    assert certificate.primal == pytest.approx(primal, rel=1e-7)
    assert certificate.dual == pytest.approx(dual, rel=1e-7, abs=1e-7 * primal)
    assert certificate.gap >= -1e-9 * primal
    assert certificate.converged == (certificate.relative_gap <= model.tol)
    again = certify(model.set_params(warm_start=False), X, Y, weight)  # a softmax model is its own dual point
    assert (again.primal, again.dual) == pytest.approx((certificate.primal, certificate.dual), rel=1e-12)


@pytest.fixture
def small():
    data = make_clique_labels(n_samples=120, n_features=5, n_labels=5, random_state=1)
    return data.X, data.Y.astype(int)


def test_what_the_solver_claims_does_not_count(small, monkeypatch):
    """A solver that stops at once and says that it is done: the certifier sends it on until it is."""
    native = _core.fit_cliques
    calls = []

    def boasting(**options):
        calls.append(options)
        found = native(**{**options, "limits": _core.Limits(tol=1e-9, max_iter=2, threads=1)})
        result = SimpleNamespace(primal=1.0, dual=1.0, passes=2 * len(calls), status=_core.Status.converged)
        return SimpleNamespace(result=result, weights=found.weights, eta=found.eta, atoms=found.atoms)

    honest = CliqueClassifier(graph="full", C=0.01, tol=0.01, random_state=0).fit(*small)
    monkeypatch.setattr(_core, "fit_cliques", boasting)
    model = CliqueClassifier(graph="full", C=0.01, tol=0.01, random_state=0).fit(*small)
    assert len(calls) > 1
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(honest.certificate_.primal, rel=0.01)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):  # within a bounded number of corrections
        model.set_params(C=0.3, tol=1e-6).fit(*small)
    assert len(calls) <= 2 + 2 * training.MOST_CORRECTIONS + 2


# Scale


@pytest.mark.parametrize("graph", [None, "chow-liu", "learned"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_unscaled_columns_converge(small, graph, kind):
    """Features from 0.01 to 100 times their size, C |x|^2 of some 1e4 to 1e5."""
    X, Y = small
    rng = np.random.default_rng(0)
    Y = np.where(rng.random(Y.shape) < 0.2, 1 - Y, Y)  # no weights fit them all
    X = X * 100.0 ** np.linspace(-1, 1, X.shape[1])
    model = CliqueClassifier(C=10.0, graph=graph, random_state=0).fit(kind(X), Y)
    assert model.certificate_.converged
    assert model.n_iter_ < 2500
    # The same problem, solved with the intercept as a feature and features in another order
    order = rng.permutation(X.shape[1] + 1)
    other = CliqueClassifier(C=10.0, graph=model.cliques_, fit_intercept=False, random_state=1, tol=1e-3)
    other.fit(np.column_stack([X, np.ones(len(X))])[:, order], Y)
    if graph != "learned" or len(model.cliques_) <= model.budget:
        assert other.certificate_.dual <= model.certificate_.primal
        assert model.certificate_.dual <= other.certificate_.primal


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_short_rows_are_those_of_the_proximal_problem(small, kind):
    X, Y = small
    problem = CliqueClassifier(C=3.0)._problem(kind(X), Y, np.arange(len(X)))
    short = RowCutter(CliqueData(problem, 2.0)).cut(0.1)
    rows = np.column_stack([X, np.full(len(X), 2.0)])
    Q = (rows.T * 3.0 * np.arange(len(X))) @ rows / (0.1 * len(X))
    if kind is sp.csr_array:
        Q = np.diag(np.diag(Q))
    W = np.random.default_rng(0).normal(size=(4, 6))
    # V = L' W and the origin is L' W - L^-1 W, so that weights(origin) = W - (1 + Q)^-1 W
    np.testing.assert_allclose(short.weights(short.origin(W)), W - np.linalg.solve(np.eye(6) + Q, W.T).T, rtol=1e-9)


def test_features_twice_and_too_large(small):
    """1 + Q has directions that rounding would make negative."""
    X, Y = small
    model = quietly(CliqueClassifier(C=1.0, graph=None, max_iter=30), np.column_stack([X, X, 0 * X]) * 1e9, Y)
    assert 0 < model.certificate_.dual <= model.certificate_.primal < np.inf


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
def test_features_times_s_is_c_times_s_squared(small, scale):
    """Without an intercept the two problems have the same losses at their optima; weights differ by the factor."""
    X, Y = small
    options = {"graph": "full", "fit_intercept": False, "tol": 1e-3, "random_state": 0}
    a = CliqueClassifier(C=0.05, **options).fit(X, Y)
    b = CliqueClassifier(C=0.05 / scale**2, **options).fit(X * scale, Y)
    assert b.certificate_.primal * scale**2 == pytest.approx(a.certificate_.primal, rel=2e-3)


def test_features_too_large_are_told_before_training(small):
    X, Y = small
    passes = []

    def stop(progress):
        passes.append(progress.pass_)
        return True

    with pytest.warns(UserWarning, match=r"with C=2.0, C times .* StandardScaler .* = \d\.\de-\d+") as caught:
        CliqueClassifier(C=2.0, callback=stop).fit(X * 1e4, Y)
    length = np.mean(np.sum((X * 1e4) ** 2, axis=1)) + 1
    assert f"is {2 * length:.1e}." in str(caught[0].message)
    assert f"= {1 / length:.1e}." in str(caught[0].message)
    assert caught[0].filename == __file__
    CliqueClassifier(C=1e-8, random_state=0).fit(X * 1e4, Y)
    CliqueClassifier(C=2.0, graph="full", loss="softmax-margin", callback=stop).fit(X * 1e4, Y)


# Fits that are cut short

MODES = [
    {"stopping": "significance"},
    {"stopping": "validation"},
    {"stopping": "gap"},
    {"loss": "softmax-margin"},
    {"graph": "chow-liu", "C": 2.0},
    {"graph": "full", "loss": "softmax-margin"},
]


def interrupted_fits(model, data, monkeypatch):
    """Fits interrupted at every few passes, in the certifier, and while the last attributes are written."""
    passes = []
    model.set_params(callback=lambda progress: passes.append(progress.pass_)).fit(*data)
    total = len(passes)

    def at(number):
        def callback(progress):
            passes.append(progress.pass_)
            if len(passes) == number:
                raise KeyboardInterrupt

        return callback

    for number in sorted({1, 2, total // 2, total - 1, total} - {0}):
        passes.clear()
        yield model.set_params(callback=at(number))
    model.set_params(callback=None)
    owners = {"bounds": CliqueCertifier, "dual": CliqueCertifier}
    owners |= {"_certificate": CliqueClassifier, "fitted_attributes": classifier}
    for name, owner in owners.items():

        def interrupt(*arguments, **options):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupt)
            yield model


@pytest.mark.parametrize("options", MODES)
def test_an_interrupted_fit_leaves_the_model_as_it_was(small, options, monkeypatch):
    X, Y = small
    model = CliqueClassifier(random_state=0).set_params(**{"C": 0.1, **options})
    interruptions = 0
    for _ in interrupted_fits(model, (X, Y), monkeypatch):
        before = dict(vars(model))
        prediction = model.predict(X)
        try:
            model.fit(X, Y)
        except KeyboardInterrupt:
            interruptions += 1
            after = vars(model)
            assert after.keys() == before.keys()
            assert all(after[name] is before[name] for name in before)
            np.testing.assert_array_equal(model.predict(X), prediction)
    assert interruptions >= 5


@pytest.mark.parametrize("options", MODES)
def test_time_is_up_for_the_whole_fit(small, options):
    """With no time at all: a pass, one more for all rows after validation and one for the softmax margin, no more."""
    passes = []
    model = CliqueClassifier(time_limit=1e-9, tol=1e-9, random_state=0, callback=lambda p: passes.append(p.pass_))
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.set_params(**options).fit(*small)
    more = options.get("stopping") == "validation" or ("loss" in options and "graph" not in options)
    assert len(passes) == model.n_iter_ == 1 + more
    assert np.isfinite(model.certificate_.primal)


def test_the_passes_of_validation_count(small):
    passes = []
    model = CliqueClassifier(stopping="validation", max_iter=12, tol=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.set_params(callback=lambda p: passes.append(p.pass_)).fit(*small)
    assert len(passes) == model.n_iter_ <= 12 + 1  # the one that trains on all rows

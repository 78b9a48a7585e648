"""What CONTRIBUTING says of adding to the library, tried: one object, one registration, and everything knows it."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner

from multimargin import LinearM3L, baselines, certify, load, metrics, save
from multimargin.baselines._base import Baseline
from multimargin.cli._app import VERBS, make_app
from multimargin.estimators import REGISTRY
from multimargin.estimators.certificate import Bounds
from multimargin.estimators.contract import LinearModel, Model
from multimargin.metrics import _registry
from multimargin.metrics._pairs import Mean
from multimargin.metrics._registry import of_labels

ROOT = Path(__file__).resolve().parent.parent
contract = SimpleNamespace(**runpy.run_path(str(ROOT / "tests" / "estimators" / "test_contract.py")))


class RidgeToZero(LinearModel):
    """Minimises :math:`\\tfrac12 |w|^2 - C\\, w^\\top m` per label, m the mean signed row: the optimum is w = C m."""

    def __init__(self, C=1.0):
        self.C = C

    def _solve(self, problem, last, monitor):
        sign = np.where(problem.labels.positives.toarray(), 1.0, -1.0) * ~problem.constant
        if problem.labels.missing is not None:
            sign[problem.labels.missing.toarray().astype(bool)] = 0.0
        rows = np.column_stack([problem.X.toarray() if hasattr(problem.X, "tocsr") else problem.X, np.ones(len(sign))])
        w = (sign * problem.costs.row[:, None]).T @ rows / len(sign)
        value = 1.0 + 0.5 * np.sum(w**2)
        return Model({"coef_": w[:, :-1].copy(), "intercept_": w[:, -1].copy()}, Bounds(value, value), passes=1)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(REGISTRY, "ridge-to-zero", RidgeToZero)


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 5))
    return X, (X @ rng.normal(size=(5, 4)) > 0).astype(int)


@pytest.mark.usefixtures("registered")
def test_an_estimator_keeps_the_contract(problem, rng):
    X, Y = problem

    class Estimator(RidgeToZero):
        def __init__(self, C=1.0, random_state=None):
            super().__init__(C)
            self.random_state = random_state

    contract.test_predictions_take_the_form_of_y(Estimator, problem)
    contract.test_data_frame_rows_keep_their_index(RidgeToZero, problem)
    contract.test_one_dimensional_y(Estimator, problem)
    contract.test_constant_labels_are_predicted_constant(RidgeToZero, problem)
    model = RidgeToZero().fit(X, np.where(rng.random(Y.shape) < 0.1, np.nan, Y))
    assert model.certificate_.converged
    assert model.n_iter_ == 1
    with pytest.raises(ValueError, match="no certifier of its own"):
        certify(model, X, Y)


@pytest.mark.usefixtures("registered")
def test_an_estimator_is_storable(problem, tmp_path):
    X, Y = problem
    model = RidgeToZero(C=2.0).fit(X, Y)
    save(model, tmp_path / "model.mm")
    again = load(tmp_path / "model.mm")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.usefixtures("registered")
def test_an_estimator_is_in_the_command(problem, tmp_path):
    X, Y = problem
    np.savez(tmp_path / "train.npz", X=X, Y=Y)
    run = ["fit", str(tmp_path / "train.npz"), "--model", "ridge-to-zero", "-p", "C=3", "--out", str(tmp_path / "m.mm")]
    result = CliRunner().invoke(make_app(), [*run, "--json"])
    assert result.exit_code == 0, result.output
    assert load(tmp_path / "m.mm").C == 3
    result = CliRunner().invoke(make_app(), ["evaluate", str(tmp_path / "m.mm"), str(tmp_path / "train.npz"), "--json"])
    assert result.exit_code == 0, result.output
    assert 0 < json.loads(result.stdout)["report"]["values"]["micro-f1"] <= 1


@pytest.mark.usefixtures("registered")
def test_an_estimator_is_in_the_reference():
    listed = runpy.run_path(str(ROOT / "docs" / "generate.py"))["reference"]()
    assert f"{RidgeToZero.__module__}.RidgeToZero" in listed
    assert "multimargin.LinearM3L" in listed


class MostFrequent(Baseline):
    """Predicts the labels that more than half of the training rows have."""

    share_: NDArray[np.float64]

    def _fit(self, X, Y):
        return {"share_": np.asarray(Y.mean(axis=0)).ravel()}

    def _scores(self, X):
        return np.tile(self.share_ - 0.5, (X.shape[0], 1))


def test_a_baseline_is_storable_and_in_the_command(problem, tmp_path, monkeypatch):
    monkeypatch.setitem(baselines.REGISTRY, "most-frequent", MostFrequent)
    X, Y = problem
    np.savez(tmp_path / "train.npz", X=X, Y=Y)
    run = ["fit", str(tmp_path / "train.npz"), "--model", "most-frequent", "--out", str(tmp_path / "m.mm")]
    result = CliRunner().invoke(make_app(), [*run, "--json"])
    assert result.exit_code == 0, result.output
    model = load(tmp_path / "m.mm")
    np.testing.assert_allclose(model.share_, Y.mean(axis=0))
    np.testing.assert_array_equal(model.predict(X[:1]).toarray(), Y.mean(axis=0)[None] > 0.5)
    assert CliRunner().invoke(make_app(), run).exit_code == 0


def test_a_metric_is_in_the_report_the_scorers_and_the_command(problem, tmp_path, monkeypatch):
    monkeypatch.setattr(_registry, "METRICS", dict(_registry.METRICS))

    @of_labels("predicted-share")
    def predicted_share(counts, undefined):
        """Share of the labels that are predicted."""
        return Mean(float(counts.rows.predicted.sum() / counts.rows.known.sum()))

    X, Y = problem
    model = LinearM3L().fit(X, Y)
    assert metrics.scorer("predicted-share")(model, X, Y) == pytest.approx(model.predict(X).mean())
    assert metrics.report(Y, model.predict(X))["predicted-share"] == pytest.approx(model.predict(X).mean())
    save(model, tmp_path / "m.mm")
    np.savez(tmp_path / "test.npz", X=X, Y=Y)
    result = CliRunner().invoke(make_app(), ["evaluate", str(tmp_path / "m.mm"), str(tmp_path / "test.npz"), "--json"])
    assert json.loads(result.stdout)["report"]["values"]["predicted-share"] == pytest.approx(model.predict(X).mean())


def test_a_missing_method_is_named(problem):
    class Nothing(LinearModel):
        pass

    with pytest.raises(TypeError, match=r"Nothing has no _solve\(task, last, monitor\)"):
        Nothing().fit(*problem)


def test_a_verb_is_in_the_command(monkeypatch):
    def run(name: str) -> None:
        typer.echo(f"hello {name}")

    monkeypatch.setitem(VERBS, "greet", SimpleNamespace(HELP="Greet somebody.", run=run))
    assert "Greet somebody." in CliRunner().invoke(make_app(), ["--help"]).output
    assert CliRunner().invoke(make_app(), ["greet", "reader"]).output == "hello reader\n"

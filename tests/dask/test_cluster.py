"""DaskLinearM3L on two worker processes: the promises of every estimator, kept by one whose rows are elsewhere."""

import pickle
import subprocess
import sys
from dataclasses import replace

import dask.array as da
import distributed
import joblib
import numpy as np
import pytest
from dask_problems import small_problem, sparse_problem
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, KFold

from multimargin import LinearM3L, ThresholdTuner, certify, load, priors, save
from multimargin.dask import DaskLinearM3L, _crew, _rounds
from multimargin.dask._layout import Machines, label_blocks, memory_needed, memory_of_cell, planned, row_parts
from multimargin.dask._worker import PLUGIN
from multimargin.errors import InputError
from multimargin.estimators.contract import Status
from multimargin.estimators.m3l.newton_rounds import newton_bytes
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.fleets import Block, LocalFleet


def blocks(*arrays, rows=110):
    return [da.from_array(array, chunks=(rows, *array.shape[1:]), asarray=False) for array in arrays]


def fits_left(client):
    return sum(len(fits) for fits in client.run(_fits).values())


def _fits(dask_worker):
    return list(dask_worker.plugins[PLUGIN].fits) if PLUGIN in dask_worker.plugins else []


def in_two_parts(X, Y, weight=None, **parameters):
    """The fit of row layout (2, 1) in one process."""
    local = LinearM3L(C=1.0, **parameters)
    half = X.shape[0] // 2
    parts = slice(0, half), slice(half, None)
    train_on_parts(local, LocalFleet([Block(X[p], Y[p], None if weight is None else weight[p]) for p in parts]))
    return local


def test_label_blocks_have_the_bits_of_one_machine(client):
    X, Y = small_problem(dtype=np.float32)
    model = DaskLinearM3L(C=1.0, random_state=0, warm_start=True).fit(*blocks(X, Y))
    assert model.layout_ == (1, 2)
    primal = dual = 0.0
    for labels in label_blocks(17, 2):
        local = LinearM3L(C=1.0, random_state=0).fit(X, Y[:, labels])
        np.testing.assert_array_equal(model.coef_[labels], local.coef_)
        np.testing.assert_array_equal(model.intercept_[labels], local.intercept_)
        primal, dual = primal + local.certificate_.primal, dual + local.certificate_.dual
    assert (model.certificate_.primal, model.certificate_.dual) == (primal, dual)
    again = certify(model.to_local(), X, Y)
    assert again.primal == pytest.approx(primal, rel=1e-12)
    assert again.dual == pytest.approx(dual, rel=1e-12)
    assert fits_left(client) == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_row_parts_have_the_bits_of_parts_in_one_process(client, sparse):
    X, Y = sparse_problem() if sparse else small_problem()
    model = DaskLinearM3L(C=1.0, random_state=1, tol=1e-2, layout=(2, 1), warm_start=True, class_weight="balanced")
    model.fit(*blocks(X, Y.toarray() if sparse else Y))
    local = in_two_parts(X, Y, random_state=1, tol=1e-2, class_weight="balanced")
    np.testing.assert_array_equal(model.coef_, local.coef_)
    np.testing.assert_array_equal(model.intercept_, local.intercept_)
    assert model.certificate_ == local.certificate_
    assert model.certificate_.converged
    assert model.n_iter_ == local.n_iter_
    again = certify(model.to_local(), X, Y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-7 if sparse else 1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-7 if sparse else 1e-12)
    assert fits_left(client) == 0


def test_bits_do_not_depend_on_blocks(client):
    X, Y = small_problem(n_labels=3)  # 12 features: few beside a part of 150 rows, not beside a block of 20
    settings = {"C": 1.0, "random_state": 0, "tol": 1e-2, "layout": (2, 1), "prior": np.eye(3)}
    few, many = (DaskLinearM3L(**settings).fit(*blocks(X, Y, rows=rows)) for rows in (300, 20))
    np.testing.assert_array_equal(few.coef_, many.coef_)
    assert few.n_iter_ == many.n_iter_


def test_grid_is_rows_of_the_same_parts(client):
    X, Y = small_problem()
    margin = np.linspace(0.5, 1.5, 17)
    model = DaskLinearM3L(C=1.0, random_state=1, tol=1e-2, layout=(2, 2), margin=margin).fit(*blocks(X, Y))
    local = in_two_parts(X, Y, random_state=1, tol=1e-2, margin=margin)
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=1e-9, atol=1e-9)
    assert model.certificate_.primal == pytest.approx(local.certificate_.primal, rel=1e-9)


def test_label_blocks_travel_apart(client, monkeypatch):
    sent = []
    usual = _crew.Crew.send

    def send(crew, values, part):
        sent.append((part, np.shape(values[0]), crew.homes[part]))
        return usual(crew, values, part)

    monkeypatch.setattr(_crew.Crew, "send", send)
    X, Y = small_problem()
    widths = [block.stop - block.start for block in label_blocks(17, 2)]
    DaskLinearM3L(C=1.0, random_state=1, tol=1e-2, layout=(2, 2), local_passes=10).fit(*blocks(X, Y))
    states = {(part, shape) for part, shape, _ in sent if shape[0] == 13}
    assert states == {(0, (13, widths[0])), (1, (13, widths[1]))}
    assert len({home for _, _, home in sent}) == 2  # a worker for each


@pytest.mark.parametrize(
    ("case", "layout"),
    [
        ("low rank prior", (2, 1)),
        ("weights", (2, 1)),
        ("weights of cells", (2, 1)),
        ("weights of cells", (2, 2)),
        ("unknown labels", (2, 1)),
    ],
)
def test_row_parts_of_every_problem(client, case, layout):
    X, Y = small_problem(n_labels=4)
    rng = np.random.default_rng(5)
    weight, prior = None, None
    if case == "low rank prior":
        prior = priors.LowRankPrior(rng.normal(size=(4, 2)), np.full(4, 0.5))
    elif case == "unknown labels":
        Y = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    else:
        weight = rng.uniform(0.0, 2.0, size=Y.shape if case == "weights of cells" else len(Y))
    settings = {"random_state": 1, "tol": 1e-2, "prior": prior}
    model = DaskLinearM3L(C=1.0, **settings, layout=layout, warm_start=True)
    model.fit(*blocks(X, Y, *([] if weight is None else [weight])))
    local = in_two_parts(X, Y, weight, **settings)
    error = 0 if layout == (2, 1) else 1e-9
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=error, atol=error)
    again = certify(model.to_local(), X, Y, weight)
    assert again.converged
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_features_of_a_kernel_made_block_by_block(client):
    X, Y = small_problem(n_labels=3)
    features = Nystroem(gamma=0.05, n_components=20, random_state=0).fit(X[::3])
    X_blocks, Y_blocks = blocks(X, Y)
    made = X_blocks.map_blocks(features.transform, chunks=(X_blocks.chunks[0], (20,)), dtype=X.dtype)
    model = DaskLinearM3L(C=1.0, random_state=0, layout=(2, 1)).fit(made, Y_blocks)
    local = in_two_parts(features.transform(X), Y, random_state=0)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(model.predict(made).compute(), local.predict(features.transform(X)))


@pytest.mark.parametrize("layout", [(1, 1), (2, 1)])
def test_prior_made_from_the_labels_of_all_rows(client, layout):
    X, Y = small_problem(n_labels=4)
    model = DaskLinearM3L(C=1.0, prior="labels", random_state=0, tol=1e-2, layout=layout, warm_start=True).fit(
        *blocks(X, Y)
    )
    np.testing.assert_allclose(model.prior_, priors.from_labels(Y), rtol=1e-12)
    again = certify(model.to_local(), X, Y)
    assert again.converged
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_warm_start_goes_on_from_the_last_solution(client):
    X, Y = small_problem(n_labels=3)
    for layout in ((1, 1), (2, 1)):
        model = DaskLinearM3L(C=1.0, random_state=0, tol=1e-2, layout=layout, warm_start=True).fit(*blocks(X, Y))
        first = model.n_iter_
        model.fit(*blocks(X, Y))
        assert model.certificate_.converged
        assert model.n_iter_ < first
        with pytest.raises(InputError, match="continues on the same rows"):
            model.fit(*blocks(X[:200], Y[:200]))


def test_warm_start_that_needs_double_precision(client, monkeypatch):
    """Single precision that fails: the parts begin again at the dual variables given, and the driver at their sums."""
    X, Y = small_problem(n_labels=3, dtype=np.float32)
    settings = {"C": 1.0, "random_state": 0, "tol": 1e-2, "layout": (2, 1), "local_passes": 10, "warm_start": True}
    model = DaskLinearM3L(**settings).fit(*blocks(X, Y))
    beta, opened, begun = model._last.state["beta"], _rounds.open_rounds, []

    def imprecise_in_single(plan, *more):
        rounds = opened(plan, *more)
        run = rounds.run

        def noted():
            begun.append((plan.dtype, rounds.W.copy()))
            return replace(run(), status=Status.imprecise) if plan.dtype == np.float32 else run()

        rounds.run = noted
        return rounds

    monkeypatch.setattr(_rounds, "open_rounds", imprecise_in_single)
    model.fit(*blocks(X, Y))
    assert [dtype for dtype, _ in begun] == [np.float32, np.float64]
    for _, W in begun:
        np.testing.assert_allclose(W[:-1], X.T @ beta, rtol=1e-4, atol=1e-4)
    assert model.certificate_.converged


def test_predictions_are_lazy(client):
    X, Y = small_problem(n_labels=3)
    X_blocks, Y_blocks = blocks(X, Y)
    model = DaskLinearM3L(C=1.0, random_state=0).fit(X_blocks, Y_blocks)
    before = client.run_on_scheduler(_tasks)
    lazy = model.predict(X_blocks), model.decision_function(X_blocks), model.predict_sets(X_blocks)
    assert client.run_on_scheduler(_tasks) == before
    local = model.to_local()
    assert type(local) is LinearM3L
    assert lazy[0].dtype == Y.dtype
    np.testing.assert_array_equal(lazy[0].compute(), local.predict(X))
    np.testing.assert_array_equal(lazy[1].compute(), local.decision_function(X))
    assert lazy[2].compute() == local.predict_sets(X)
    np.testing.assert_array_equal(model.predict(X), local.predict(X))
    with pytest.raises(InputError, match="takes rows that are here"):
        model.predict_top(X_blocks, 2)


def _tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


def test_models_travel_without_their_client(client, tmp_path):
    X, Y = small_problem(n_labels=3)
    model = DaskLinearM3L(C=1.0, random_state=0, client=client).fit(*blocks(X, Y))
    assert clone(model).client is client
    copied = pickle.loads(pickle.dumps(model))
    assert copied.client is None
    np.testing.assert_array_equal(copied.coef_, model.coef_)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is LinearM3L
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.certificate_ == model.certificate_
    assert model.to_local().fit(X, Y).certificate_.converged


def test_constructor_is_that_of_linear_m3l():
    ours, theirs = DaskLinearM3L().get_params(), LinearM3L().get_params()
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize("layout", [(1, 2), (2, 1)])
def test_callback_and_limits_end_a_fit_with_its_certificate(client, layout, capsys):
    X, Y = small_problem()
    seen = []

    def stop(progress):
        seen.append(progress)
        return True

    model = DaskLinearM3L(C=1.0, random_state=0, tol=1e-9, layout=layout, callback=stop, verbose=1).fit(*blocks(X, Y))
    assert seen
    assert layout == (1, 2) or model.n_iter_ == 1
    assert model.certificate_.primal >= model.certificate_.dual
    assert certify(model.to_local(), X, Y).primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    told = capsys.readouterr().err
    assert f"{layout[0]} row part" in told
    assert "relative gap" in told
    short = DaskLinearM3L(C=1.0, random_state=0, tol=1e-12, layout=layout, time_limit=1e-3)
    with pytest.warns(UserWarning, match="Increase time_limit"):
        short.fit(*blocks(X, Y))
    assert short.certificate_.primal >= short.certificate_.dual
    assert fits_left(client) == 0


def test_sorted_rows_get_a_warning(client):
    X, Y = small_problem(n_labels=3)
    order = np.argsort(Y[:, 0], kind="stable")
    with pytest.warns(UserWarning, match="The parts are not alike: the frequency of label 0"):
        DaskLinearM3L(C=1.0, random_state=0, tol=0.1, layout=(2, 1)).fit(*blocks(X[order], Y[order]))


def test_search_through_joblib(client):
    X, Y = small_problem(n_labels=3)
    search = GridSearchCV(LinearM3L(C=1.0, random_state=0), {"C": [0.1, 1.0]}, cv=2, scoring="f1_micro")
    serial = clone(search).fit(X, Y)
    tuner = ThresholdTuner(LinearM3L(C=1.0, random_state=0), cv=KFold(2), n_jobs=2)
    thresholds = clone(tuner).fit(X, Y).thresholds_
    with joblib.parallel_config(backend="dask"):
        search.fit(X, Y)
        tuner.fit(X, Y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], serial.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(tuner.thresholds_, thresholds)


class TestLayout:
    def facts(self, **changes):
        from multimargin.dask._facts import Facts
        from multimargin.estimators.m3l.blocks import describe_block
        from multimargin.estimators.m3l.plans import make_plan

        X, Y = small_problem(n=1000, n_labels=64)
        plan = make_plan(LinearM3L(), [describe_block(Block(X, Y))])
        settings = {"rows": np.array([1000]), "n_bytes": X.nbytes, "weights_of_cells": False, "blocks": []}
        return Facts(**(settings | changes), plan=plan)

    def test_rows_that_fit_are_divided_by_labels(self):
        assert planned("auto", self.facts(), False, Machines(4, 1, 10**9))[:2] == (1, 4)
        assert planned("auto", self.facts(), False, Machines(4, 4, None))[:2] == (1, 2)  # 8 labels a thread
        assert planned("auto", self.facts(), True, Machines(4, 1, None))[:2] == (1, 1)

    def test_rows_that_do_not_are_divided_as_little_as_possible(self):
        facts = self.facts(n_bytes=10**9)
        layout = planned("auto", facts, False, Machines(8, 1, 10**9))
        assert layout.rows == 3  # a third of the rows, twice, in 70 % of a gigabyte
        assert layout.labels == 2
        assert layout.memory <= 0.7e9

    def test_bytes_that_are_not_there_are_told(self):
        with pytest.raises(InputError, match=r"needs \d+ bytes \(.* GiB\) on each"):
            planned("auto", self.facts(n_bytes=10**12), False, Machines(2, 1, 10**9))

    @pytest.mark.parametrize(
        ("layout", "coupled", "message"), [((1, 2), True, "ties the labels"), ((1, 65), False, "more parts")]
    )
    def test_layouts_that_cannot_be(self, layout, coupled, message):
        with pytest.raises(InputError, match=message):
            planned(layout, self.facts(), coupled, Machines(2, 1, None))

    def test_what_meets_on_one_worker_is_counted(self):
        facts = self.facts()
        state = 8 * 13 * 64  # in double, of all labels
        for rows in (2, 32):
            assert memory_needed(facts, rows, 1) > memory_of_cell(facts, rows, 1) + (rows + 1) * state
            systems = rows * newton_bytes(facts.plan)
            assert memory_needed(facts, rows, 1, newton=True) > memory_needed(facts, rows, 1) + systems
        assert memory_needed(facts, 4, 1, cells=2) == memory_needed(facts, 4, 1) + memory_of_cell(facts, 4, 1)

    def test_of_a_label_block_only_its_own_meets(self):
        facts = self.facts()

        def adding(rows, labels, newton=False):
            return memory_needed(facts, rows, labels, newton) - memory_of_cell(facts, rows, labels, newton)

        for newton in (False, True):
            assert adding(4, 8, newton) == adding(4, 1, newton) // 8
        assert memory_needed(facts, 4, 2, cells=8) == 8 * memory_of_cell(facts, 4, 2) + 2 * adding(4, 2)

    def test_what_the_ordinary_solver_takes_is_counted(self):
        facts = self.facts()
        finish = 6 * 8 * 1000 * 64  # of Newton's method, which serves these rows
        assert memory_needed(facts, 1, 1) > 2 * facts.n_bytes + 8 * 1000 * 64 + finish
        assert memory_needed(facts, 1, 2) < 0.6 * memory_needed(facts, 1, 1)

    @pytest.mark.parametrize("count", [1, 2, 3, 7])
    def test_every_row_is_in_one_part(self, count):
        rows = np.array([5, 0, 3, 9])
        parts = row_parts(rows, count)
        ends = np.cumsum([0, *rows])
        along = [np.arange(ends[cut.block] + cut.start, ends[cut.block] + cut.stop) for part in parts for cut in part]
        np.testing.assert_array_equal(np.concatenate(along), np.arange(17))
        sizes = [sum(cut.stop - cut.start for cut in part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_no_client():
    X, Y = small_problem(n_labels=2)
    with pytest.raises(ValueError, match="No clients found"):
        distributed.default_client()
    with pytest.raises(InputError, match="There is no Dask client in this process"):
        DaskLinearM3L().fit(*blocks(X, Y))


@pytest.mark.parametrize("layout", ["both", (0, 1), (1, 2, 3), (1.5, 2)])
def test_wrong_layout(layout):
    with pytest.raises(ValueError, match="layout"):
        DaskLinearM3L(layout=layout).fit(None)


def test_dask_is_imported_only_when_asked_for():
    program = (
        "import sys, multimargin, multimargin.persistence, multimargin.estimators, multimargin.decisions;"
        "print([name for name in sys.modules if name.partition('.')[0] in ('dask', 'distributed')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

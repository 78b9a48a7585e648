"""client="local": the same data, the same training and the same certificate without a cluster."""

import pickle
import re
import subprocess
import sys
from functools import partial, partialmethod
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask_problems import cut, small_problem, sparse_problem
from sklearn.base import clone

from multimargin import LinearM3L, certify, fit_parts, load, priors, save
from multimargin.dask import DaskLinearM3L
from multimargin.datasets import PartFiles
from multimargin.errors import InputError
from multimargin.estimators import monitor
from multimargin.estimators.contract import WarmStart
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.fleets import Block, LocalFleet
from multimargin.labels import read_labels


def here(**parameters):
    return DaskLinearM3L(**({"C": 1.0, "random_state": 0, "client": "local"} | parameters))


@pytest.mark.parametrize("form", ["array", "pairs", "triples", "functions", "delayed", "files", "folder"])
def test_rows_that_fit_are_trained_by_the_ordinary_solver(form, tmp_path):
    X, Y = small_problem(n_labels=5)
    parts, labels = cut(X, 70, 150), cut(Y, 70, 150)
    pairs = list(zip(parts, labels, strict=True))
    for k, (rows, of_rows) in enumerate(pairs):
        np.savez(tmp_path / f"part{k}.npz", X=rows, Y=of_rows)
    data = {
        "array": lambda: (da.from_array(X, chunks=(90, -1)), da.from_array(Y, chunks=(90, -1))),
        "pairs": lambda: (pairs,),
        "triples": lambda: ([(*pair, np.ones(len(pair[1]))) for pair in pairs],),
        "functions": lambda: ([lambda pair=pair: pair for pair in pairs],),
        "delayed": lambda: ([dask.delayed(part) for part in parts], [dask.delayed(part) for part in labels]),
        "files": lambda: (PartFiles(tmp_path, dtype=np.float64),),
        "folder": lambda: (str(tmp_path),),
    }[form]()
    if form == "folder":
        X = X.astype(np.float32)
    model = here().fit(*data)
    local = LinearM3L(C=1.0, random_state=0).fit(X, Y)
    assert model.layout_ == (1, 1)
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert model.certificate_ == local.certificate_
    np.testing.assert_array_equal(model.decision_function(X), local.decision_function(X))


def test_row_parts_have_the_bits_of_a_fleet():
    X, Y = sparse_problem()
    model = here(layout=(3, 1), tol=1e-2).fit([(X[:90], Y[:90]), (X[90:], Y[90:])])
    local = LinearM3L(C=1.0, random_state=0, tol=1e-2)
    cuts = (0, 133, 267, 400)
    train_on_parts(local, LocalFleet([Block(X[a:b], Y[a:b]) for a, b in pairwise(cuts)]))
    assert model.layout_ == (3, 1)
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert model.certificate_ == local.certificate_


@pytest.mark.parametrize("layout", [(1, 1), (2, 1)])
def test_certificate_is_that_of_the_gathered_rows(layout, monkeypatch):
    X, Y = small_problem(n_labels=4)
    fleets = []
    build = LocalFleet.open
    monkeypatch.setattr(LocalFleet, "open", lambda self, plan: (fleets.append(self), build(self, plan))[1])
    model = here(layout=layout, warm_start=layout == (1, 1)).fit([(X[:90], Y[:90]), (X[90:], Y[90:])])
    keeps = model.to_local()
    if layout == (2, 1):  # parts keep their dual variables to themselves
        beta = np.concatenate([part.beta for part in fleets[0].parts])
        keeps._last = WarmStart(Y.shape, 1.0, {"beta": beta, "newton": False})
    again = certify(keeps, X, Y)
    assert again.converged
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_rows_that_do_not_fit_are_streamed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: 0)
    X, Y = small_problem(n=6000, n_features=20, n_labels=8, dtype=np.float32)
    for k, (rows, labels) in enumerate(
        zip(cut(X, *range(500, 6000, 500)), cut(Y, *range(500, 6000, 500)), strict=True)
    ):
        np.savez(tmp_path / f"part{k:02d}.npz", X=rows, Y=labels)
    limit = 600_000  # all rows, twice while they are put together, and their dual variables: 1.2 MB
    model = here(memory_limit=limit, verbose=1, tol=1e-2).fit(tmp_path)
    assert model.layout_ == (12, 1)
    told = capsys.readouterr().err
    assert "12 parts, one after the other" in told
    assert len(re.findall(r"DaskLinearM3L: pass .* relative gap", told)) == model.n_iter_
    assert "s left" in told
    assert model.memory_limit == limit
    local = fit_parts(LinearM3L(C=1.0, random_state=0, tol=1e-2), PartFiles(tmp_path))
    np.testing.assert_array_equal(model.coef_, local.coef_)
    assert model.certificate_ == local.certificate_
    assert model.certificate_.converged
    primal = certify(model.to_local(), X, read_labels(Y, names=list("01234567"))).primal
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-6)
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: limit)
    with pytest.raises(InputError, match="beside what this process holds already it leaves 0"):
        model.fit(tmp_path)


def _begin(self, usual, *arguments, **named):
    usual(self, *arguments, **named)
    self._start = monitor.perf_counter()


@pytest.mark.parametrize("settings", [{}, {"layout": (2, 1)}, {"memory_limit": 10**6}])
def test_reading_counts_as_time(settings, monkeypatch):
    monkeypatch.setattr("multimargin.fleets.resident_bytes", lambda: 0)
    X, Y = small_problem(n=4000, n_labels=17)
    hours = [0]
    monkeypatch.setattr(monitor, "perf_counter", lambda: 3600.0 * hours[0])
    for kind in (monitor.Monitor, monitor.ForecastMonitor):
        monkeypatch.setattr(kind, "__init__", partialmethod(_begin, kind.__init__))

    def slowly(rows):
        hours[0] += 1
        return X[rows], Y[rows]

    model = here(time_limit=3600, tol=1e-12, **settings)
    with pytest.warns(UserWarning, match="Increase time_limit"):
        model.fit([partial(slowly, slice(a, a + 500)) for a in range(0, 4000, 500)])
    assert model.certificate_.primal >= model.certificate_.dual


@pytest.mark.parametrize("layout", ["auto", (2, 1)])
def test_names_are_saved(layout, tmp_path):
    X, Y = small_problem(n_labels=3)
    X = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    model = here(layout=layout).fit([(X[:200], Y[:200]), (X[200:], Y[200:])])
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_features_in_ == 12
    assert loaded.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_names_warm_starts_and_recipes():
    X, Y = small_problem(n_labels=3)
    X, Y = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)]), pd.DataFrame(Y, columns=["sea", "sun", "sand"])
    frames = dd.from_pandas(X, npartitions=3), dd.from_pandas(Y, npartitions=3)
    model = here(prior="labels", warm_start=True).fit(*frames)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.label_names_.tolist() == ["sea", "sun", "sand"]
    np.testing.assert_allclose(model.prior_, priors.from_labels(Y.to_numpy()))
    pd.testing.assert_frame_equal(model.predict(frames[0]).compute(), model.predict(X))
    passes = model.n_iter_
    assert model.fit(*frames).n_iter_ < passes


def test_blocks_are_computed_here_one_by_one():
    X, Y = sparse_problem()
    running, most = [], []

    @dask.delayed
    def block(part):
        running.append(part)
        most.append(len(running))
        running.pop()
        return X[part], Y[part]

    model = here().fit([block(slice(0, 100)), block(slice(100, 400))])
    assert set(most) == {1}
    np.testing.assert_array_equal(model.coef_, LinearM3L(C=1.0, random_state=0).fit(X, Y).coef_)


def test_travels_as_any_other(tmp_path):
    X, Y = small_problem(n_labels=3)
    model = here().fit([(X, Y)])
    assert clone(model).client == pickle.loads(pickle.dumps(model)).client == "local"
    save(model, tmp_path / "model")
    assert type(load(tmp_path / "model")) is LinearM3L
    model.fit([(X[:, :5], Y[:, :2])])  # nothing of the first fit is left
    assert model.coef_.shape == (2, 5)


X, Y = small_problem(n_labels=2)


@pytest.mark.parametrize(
    ("data", "parameters", "message"),
    [
        (([(X, Y)], Y), {}, "a list of tuples"),
        ((X, Y), {}, "X is a ndarray"),
        (([(X, Y, None, None)],), {}, "Part 0 must be a tuple"),
        (([(X, Y), (X[:, :3], Y)],), {}, "part 0 has 12, part 1 has 3"),
        (([(X, Y)],), {"layout": (1, 2)}, r"Give layout=\(1, 1\)"),
        (([(X, Y)],), {"layout": (2, 1), "memory_limit": 1000}, "memory_limit must hold all parts"),
        (([(X, Y)],), {"memory_limit": 1000}, "memory_limit must leave at least"),
        (([(X, Y)],), {"client": "cluster"}, "client"),
        (([(sp.csr_matrix(X), Y)],), {"layout": (2, 1), "warm_start": True}, "warm_start=True needs"),
    ],
)
def test_wrong_input(data, parameters, message):
    model = here(**parameters)
    with pytest.raises(ValueError, match=message) as raised:
        model.fit(*data)
    assert "client" in parameters or isinstance(raised.value, InputError)
    assert not hasattr(model, "coef_")


def test_futures_need_a_cluster(client):
    with pytest.raises(InputError, match="Futures are on a cluster"):
        here().fit(client.scatter([X]), client.scatter([Y]))


def test_no_cluster_is_started():
    program = (
        "import sys, numpy as np, dask.array as da; from multimargin.dask import DaskLinearM3L; import distributed;"
        "X = np.random.default_rng(0).normal(size=(50, 3));"
        "DaskLinearM3L(client='local').fit(da.from_array(X, chunks=(20, -1)), da.from_array(X > 0, chunks=(20, -1)));"
        "print(len(distributed.client._global_clients))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.strip() == "0"

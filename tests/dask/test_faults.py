"""Workers that die: the fit goes on and its certificate is true, or it ends with an error; it never hangs."""

import os
import signal
import subprocess
import sys

import dask
import distributed
import numpy as np
import pytest
from dask_problems import cut, local_cluster, small_problem

from multimargin import LinearM3L, certify
from multimargin.dask import DaskLinearM3L, _crew
from multimargin.dask._fleet import DaskFleet
from multimargin.datasets import PartFiles
from multimargin.errors import FitError, InputError
from multimargin.estimators.m3l.parted import train_on_parts
from multimargin.fleets import Block, LocalFleet
from multimargin.labels import read_labels

PARAMETERS = {"random_state": 0, "tol": 3e-3, "C": 0.3}


@pytest.fixture(scope="module")
def clusters():
    """Three workers; a list, for a cluster that has not recovered from a test is replaced."""
    running = [local_cluster(3)]
    yield running
    running.pop().close()


@pytest.fixture
def client(clusters):
    client = distributed.Client(clusters[0])
    try:
        client.wait_for_workers(3, timeout=20)
    except TimeoutError:  # the name of a worker that was killed can still be taken when it comes back: it then gives up
        client.close()
        clusters.pop().close()
        clusters.append(local_cluster(3))
        client = distributed.Client(clusters[0])
        client.wait_for_workers(3, timeout=120)
    with client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    X, Y = small_problem(n_labels=5)
    for k, (rows, labels) in enumerate(zip(cut(X, 90, 180), cut(Y, 90, 180), strict=True)):
        np.savez(folder / f"part{k}.npz", X=rows, Y=labels)
    return folder


def kill_one(client):
    """End a worker that holds a part, as the kernel does when memory runs out."""
    pids = client.run(_pid_of_one_with_parts)
    os.kill(next(pid for pid in pids.values() if pid is not None), signal.SIGKILL)


def _pid_of_one_with_parts(dask_worker):
    fits = dask_worker.plugins["multimargin-parts"].fits.values()
    return os.getpid() if any(state.parts for state in fits) else None


def assert_true_certificate(model):
    X, Y = small_problem(n_labels=5)
    assert model.certificate_.converged
    again = certify(model.to_local(), X, read_labels(Y, names=list("01234")))
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-12)
    assert again.dual == pytest.approx(model.certificate_.dual, rel=1e-12)


def test_bits_do_not_depend_on_the_number_of_workers(client, folder):
    X, Y = small_problem(n_labels=5)
    local = LinearM3L(**PARAMETERS)
    train_on_parts(local, LocalFleet([Block(X[:150], Y[:150]), Block(X[150:], Y[150:])]))
    model = DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(PartFiles(folder, dtype=np.float64))
    np.testing.assert_array_equal(model.coef_, local.coef_)


@pytest.mark.parametrize(("when", "local_passes"), [(1, 10), (5, 10), (2, "auto")])  # the last: Newton rounds
def test_worker_killed_in_a_round(client, folder, when, local_passes):
    seen = []

    def kill(progress):
        seen.append(progress.pass_)
        if len(seen) == when:
            kill_one(client)

    model = DaskLinearM3L(**PARAMETERS, layout=(3, 1), local_passes=local_passes, warm_start=True, callback=kill)
    model.fit(PartFiles(folder, dtype=np.float64))
    assert len(seen) > when
    assert_true_certificate(model)


def test_worker_killed_during_the_certificate(client, folder, monkeypatch):
    killed = []
    whole = DaskFleet._added

    def kill(self, common, given, add, shape):
        if add.__name__ == "add_sums" and not killed:
            killed.append(True)
            kill_one(client)
        return whole(self, common, given, add, shape)

    monkeypatch.setattr(DaskFleet, "_added", kill)
    model = DaskLinearM3L(**PARAMETERS, layout=(3, 1), warm_start=True).fit(PartFiles(folder, dtype=np.float64))
    assert killed
    assert_true_certificate(model)


def test_worker_killed_while_it_trains_a_block_of_labels(client, folder):
    seen = []

    def kill(progress):
        if not seen:
            seen.append(progress)
            kill_one(client)

    rng = np.random.default_rng(0)
    np.savez(folder.parent / "wide.npz", X=rng.normal(size=(4000, 60)), Y=rng.integers(0, 2, size=(4000, 24)))
    model = DaskLinearM3L(C=0.01, random_state=0, tol=1e-3, layout=(1, 3), callback=kill, verbose=0)
    model.fit(PartFiles(folder.parent, "wide.npz"))
    assert seen
    assert model.certificate_.converged


def test_rows_that_went_with_their_worker_are_named(client):
    X, Y = small_problem(n_labels=5)
    address = sorted(_crew.worker_infos(client))[0]
    pid = client.run(os.getpid, workers=[address])[address]
    held = client.scatter(cut(X, 150), workers=[address], hash=False)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(InputError, match="The rows of block [01] "):
        DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(held, [dask.delayed(part) for part in cut(Y, 150)])


def test_all_workers_gone(folder, monkeypatch):
    monkeypatch.setattr(_crew, "PATIENCE", 2.0)
    with local_cluster(1, processes=False) as cluster, distributed.Client(cluster):

        def end(progress):
            cluster.scale(0)

        model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), callback=end)
        with pytest.raises(FitError, match="no worker for 2 seconds"):
            model.fit(PartFiles(folder))
        assert not hasattr(model, "coef_")


CTRL_C = """
import os, signal, sys
import distributed
from multimargin.dask import DaskLinearM3L

def interrupt(progress):
    if progress.pass_ >= 2:
        os.kill(os.getpid(), signal.SIGINT)

def fits(dask_worker):
    return list(dask_worker.plugins["multimargin-parts"].fits)

with distributed.Client(sys.argv[1]) as client:
    model = DaskLinearM3L(tol=1e-9, layout=(2, 1), random_state=0, callback=interrupt)
    try:
        model.fit(sys.argv[2])
    except KeyboardInterrupt:
        print("interrupted", hasattr(model, "coef_"), sum(map(len, client.run(fits).values())))
    print(model.set_params(callback=None, tol=1e-2).fit(sys.argv[2]).certificate_.converged)
"""


def test_ctrl_c_leaves_the_cluster_clean(client, folder):
    command = [sys.executable, "-c", CTRL_C, client.scheduler.address, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.split("\n")[:2] == ["interrupted False 0", "True"]

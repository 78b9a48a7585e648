"""Workers that die: the fit goes on and its certificate is true, or it ends with an error; it never hangs."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from time import monotonic, sleep

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
from dask_problems import cut, local_cluster, small_problem

from multimargin import LinearM3L, certify
from multimargin.dask import DaskLinearM3L, _crew, _fleet, _waits, _worker
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


def home_of(client, part):
    """Address and process of the worker that holds a part."""
    return next((address, pid) for address, (pid, parts) in client.run(_parts_held).items() if part in parts)


def _parts_held(dask_worker):
    plugin = dask_worker.plugins.get("multimargin-parts")
    return os.getpid(), [part for state in plugin.fits.values() for part in state.parts] if plugin else []


def kill_one(client, part=0, *, until_noticed=False):
    """End a worker that holds a part, as the kernel does when memory runs out."""
    address, pid = home_of(client, part)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not until_noticed or address not in _waits.worker_infos(client))


def wait_until(holds):
    since = monotonic()
    while not holds():
        assert monotonic() - since < 120
        sleep(0.05)


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


@pytest.mark.parametrize(  # "auto": Newton rounds
    ("when", "local_passes", "noticed", "layout", "part"),
    [
        (1, 10, False, (3, 1), 0),
        (5, 10, True, (3, 1), 0),
        (2, "auto", False, (3, 1), 0),
        (3, 10, False, (2, 2), 1),
        (2, "auto", False, (2, 2), 1),
    ],
)
def test_worker_killed_in_a_round(client, folder, when, local_passes, noticed, layout, part):
    seen = []

    def kill(progress):
        seen.append(progress.pass_)
        if len(seen) == when:
            kill_one(client, part, until_noticed=noticed)

    model = DaskLinearM3L(**PARAMETERS, layout=layout, local_passes=local_passes, warm_start=True, callback=kill)
    model.fit(PartFiles(folder, dtype=np.float64))
    assert len(seen) > when
    assert_true_certificate(model)


def test_worker_killed_during_the_certificate(client, folder, monkeypatch):
    killed = []
    whole = DaskFleet._added

    def kill(self, common, given, added):
        if given[0][0].__name__ == "sums" and not killed:
            killed.append(True)
            kill_one(client)
        return whole(self, common, given, added)

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


def test_straggler_does_not_hold_up_the_others(client, folder):
    stopped, seen, timers = [], [], []

    def stop(progress):
        seen.append(progress.pass_)
        if len(seen) == 3:
            stopped.append(home_of(client, 1)[1])
            os.kill(stopped[0], signal.SIGSTOP)
            timers.append(Timer(120, os.kill, (stopped[0], signal.SIGCONT)))
            timers[0].start()
        elif len(seen) == 5:
            seen.append(Path(f"/proc/{stopped[0]}/stat").read_text().split()[2])
            timers[0].cancel()
            os.kill(stopped[0], signal.SIGCONT)

    model = DaskLinearM3L(
        **PARAMETERS, layout=(2, 1), local_passes=10, warm_start=True, straggler_factor=5, callback=stop
    )
    model.fit(PartFiles(folder, dtype=np.float64))
    assert "T" in seen
    assert_true_certificate(model)
    client.run(os.getpid)  # all workers are there


class Sleep:
    """Stops the process of the worker that holds a part; wakes it if the test has not ended before."""

    def __init__(self, client):
        self.pids = client.run(os.getpid)
        self.pid = None

    def __call__(self, crew, part=0):
        if self.pid is None:
            self.pid = self.pids[crew.homes[part]]
            os.kill(self.pid, signal.SIGSTOP)
            self.timer = Timer(120, os.kill, (self.pid, signal.SIGCONT))
            self.timer.start()

    def lasts(self):
        return Path(f"/proc/{self.pid}/stat").read_text().split()[2] == "T"

    def end(self):
        self.timer.cancel()
        os.kill(self.pid, signal.SIGCONT)


def before(monkeypatch, name, act, when=lambda *_: True, *, turn=3):
    """Do something before a method of the crew when its turn has come."""
    usual, count = getattr(_crew.Crew, name), []

    def method(crew, *arguments):
        if when(*arguments):
            count.append(name)
            if len(count) == turn:
                act(crew)
        return usual(crew, *arguments)

    monkeypatch.setattr(_crew.Crew, name, method)


def put_to_sleep(monkeypatch, moment, sleep_now):
    """Part 0 is that whose worker adds up."""
    if moment == "sends":
        before(monkeypatch, "send", sleep_now)
    elif moment == "has sent":  # and the others need what is there
        before(monkeypatch, "finish", sleep_now)
    elif moment == "is to add":  # what is on the other worker
        before(monkeypatch, "on_homes", lambda crew: sleep_now(crew, 1))
    elif moment == "adds":
        before(monkeypatch, "on_homes", lambda crew: Timer(0.002, sleep_now, (crew,)).start())
    elif moment == "brings the sum":
        before(monkeypatch, "_answer", sleep_now, lambda future, *_: future.key.startswith("add_visits"))
    elif moment == "certifies":
        before(monkeypatch, "on_homes", sleep_now, lambda calls: calls[0][0].__name__ == "add_sums", turn=1)
    elif moment == "gathers":
        before(monkeypatch, "call", sleep_now, lambda function, *_: function.__name__ == "last_beta", turn=1)
    else:
        monkeypatch.setattr(_waits, "PATIENCE", 5.0)
        before(monkeypatch, "_ask_to_load", sleep_now, turn=1)


MOMENTS = ["sends", "has sent", "is to add", "adds", "brings the sum", "certifies", "gathers", "loads"]


@pytest.mark.parametrize(
    ("moment", "layout"), [*((moment, (2, 1)) for moment in MOMENTS), ("is to add", (2, 2)), ("adds", (2, 2))]
)
def test_worker_that_sleeps_holds_up_nobody(client, folder, monkeypatch, moment, layout):
    sleep_now = Sleep(client)
    put_to_sleep(monkeypatch, moment, sleep_now)
    model = DaskLinearM3L(**PARAMETERS, layout=layout, local_passes=10, warm_start=True, straggler_factor=5)
    try:
        model.fit(PartFiles(folder, dtype=np.float64))
        assert sleep_now.lasts()
    finally:
        sleep_now.end()
    assert model.certificate_.converged
    if moment != "gathers":  # then the dual variables of a part are gone
        assert_true_certificate(model)
    client.run(os.getpid)  # all workers are there


def test_worker_that_sleeps_is_left_for_one_that_was_late(client, folder, monkeypatch):
    """No worker is quick any more; but one that is awake is better than one that sleeps."""
    sleep_now = Sleep(client)

    def all_slow_but_one_that_sleeps(crew):
        crew._slow |= set(sleep_now.pids) - {crew.homes[0]}
        sleep_now(crew)

    before(monkeypatch, "send", all_slow_but_one_that_sleeps)
    model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), local_passes=10, warm_start=True, straggler_factor=5)
    try:
        model.fit(PartFiles(folder, dtype=np.float64))
        assert sleep_now.lasts()
    finally:
        sleep_now.end()
    assert_true_certificate(model)


class Slow:
    """Takes its time to travel."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        sleep(0.6)
        return _same, (self.value,)


def _same(value):
    return value


def test_sum_that_travels_for_longer_than_a_look(client, folder, monkeypatch):
    monkeypatch.setattr(_waits, "LOOK", 0.2)
    usual = _fleet.add_visits
    monkeypatch.setattr(_fleet, "add_visits", lambda *given: Slow(usual(*given)))
    model = DaskLinearM3L(random_state=0, tol=1e-9, C=0.3, layout=(2, 1), local_passes=10, max_iter=2)
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(PartFiles(folder))
    assert model.n_iter_ == 2


def test_workers_that_join_are_used(client, folder, monkeypatch):
    usual = _waits.worker_infos
    hidden, seen = set(sorted(usual(client))[1:]), []

    def some(client):
        return {address: info for address, info in usual(client).items() if address not in hidden}

    def join(progress):
        seen.append([len(parts) for _, parts in client.run(_parts_held).values()])
        if len(seen) == 2:
            hidden.clear()
            sleep(1.1 * _waits.LOOK)

    monkeypatch.setattr(_waits, "worker_infos", some)
    model = DaskLinearM3L(**PARAMETERS, layout=(3, 1), local_passes=10, warm_start=True, callback=join)
    model.fit(PartFiles(folder, dtype=np.float64))
    assert sorted(seen[1]) == [0, 0, 3]
    assert seen[2] == [1, 1, 1]  # with nothing left where they were
    assert_true_certificate(model)
    stays = DaskLinearM3L(**PARAMETERS, layout=(3, 1), local_passes=10, warm_start=True)
    np.testing.assert_array_equal(stays.fit(PartFiles(folder, dtype=np.float64)).coef_, model.coef_)


def pause(client, worker, fraction):
    """Let a worker find its memory full, or not any more."""
    client.run(_set_pause, fraction, workers=[worker])
    expected = "paused" if fraction < 0.5 else "running"
    wait_until(lambda: _waits.worker_infos(client)[worker]["status"] == expected)


def _set_pause(fraction, dask_worker):
    dask_worker.memory_manager.memory_pause_fraction = fraction


@pytest.mark.parametrize("while_they", ["count rows", "train labels", "train rows"])
def test_paused_worker_is_an_error(client, folder, monkeypatch, while_they):
    monkeypatch.setattr(_waits, "PATIENCE", 4.0)
    paused = []
    usual = _crew.Crew.ask

    def ask(crew, function, part, *arguments):
        if not paused:
            paused.append(crew.homes[part])
            pause(client, crew.homes[part], 1e-6)
        return usual(crew, function, part, *arguments)

    if while_they == "count rows":
        paused += sorted(_waits.worker_infos(client))
        for worker in paused:
            pause(client, worker, 1e-6)
    else:
        monkeypatch.setattr(_crew.Crew, "ask", ask)
    layout = (1, 2) if while_they == "train labels" else (2, 1)
    try:
        with pytest.raises(
            FitError, match=r"is paused: its memory is full\. (The fit needs \d+ bytes|It was counting)"
        ):
            DaskLinearM3L(**PARAMETERS, layout=layout).fit(PartFiles(folder))
    finally:
        for worker in paused:
            pause(client, worker, 0.8)


def test_paused_worker_that_is_not_needed(client, folder, monkeypatch):
    monkeypatch.setattr(_waits, "PATIENCE", 4.0)
    worker = sorted(_waits.worker_infos(client))[0]
    pause(client, worker, 1e-6)
    held = []
    try:
        model = DaskLinearM3L(
            **PARAMETERS, layout=(3, 1), local_passes=10, callback=lambda _: held.append(client.run(_parts_held))
        )
        assert model.fit(PartFiles(folder, dtype=np.float64)).certificate_.converged
    finally:
        pause(client, worker, 0.8)
    assert all(not parts[worker][1] for parts in held)


def raise_memory_error(part, *_):
    raise MemoryError


@pytest.mark.parametrize("in_round", [False, True])
def test_worker_out_of_memory_gets_the_bytes_needed(client, folder, monkeypatch, in_round):
    model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), local_passes=10)
    if in_round:
        monkeypatch.setattr("multimargin.dask._fleet.visit", raise_memory_error)
        with pytest.raises(FitError, match=r"out of memory in part [01]\. The fit needs \d+ bytes on a worker"):
            model.fit(PartFiles(folder))
        return
    X, Y = (da.from_array(array, chunks=(150, -1)) for array in small_problem(n_labels=5))
    message = r"A worker ran out of memory while computing block \d, of 14400 bytes; .* a worker has \d+ bytes"
    with pytest.raises(FitError, match=message):
        model.fit(X.map_blocks(raise_memory_error, meta=np.empty((0, 12))), Y)


def test_file_that_cannot_be_read_is_no_lost_worker(client, folder, monkeypatch):
    usual = _crew.Crew.load

    def load(crew, *arguments):
        crew._computed = {block: client.submit(raise_os_error, pure=False) for block in range(3)}
        return usual(crew, *arguments)

    monkeypatch.setattr(_crew.Crew, "load", load)
    with pytest.raises(PermissionError, match="of the file"):
        DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(PartFiles(folder))


def raise_os_error():
    msg = "of the file"
    raise PermissionError(msg)


def test_dual_variables_lost_after_the_certificate(client, folder, monkeypatch):
    usual = DaskFleet.betas

    def betas(fleet, *arguments):
        client.run(_worker.forget_part, fleet.crew.fit, 1, fleet.crew.lives[1])
        return usual(fleet, *arguments)

    monkeypatch.setattr(DaskFleet, "betas", betas)
    model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), local_passes=10, warm_start=True)
    model.fit(PartFiles(folder, dtype=np.float64))
    monkeypatch.undo()
    assert model.fit(PartFiles(folder, dtype=np.float64)).certificate_.converged
    assert_true_certificate(model)


def test_rounds_that_fail_for_no_reason_end(client, folder, monkeypatch):
    monkeypatch.setattr(_crew.Crew, "send", lambda *_: None)
    with pytest.raises(FitError, match="4 rounds have failed"):
        DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(PartFiles(folder))


def test_idle_workers_keep_their_parts_while_the_driver_lives(client, folder, monkeypatch):
    monkeypatch.setattr(_crew, "RENEWAL", 0.1)
    seen = []

    def idle(progress):
        if not seen:
            client.run(_age)
            wait_until(lambda: all(age < 60 for ages in client.run(_ages).values() for age in ages))
            seen.append(client.run(_age, 0.0))

    model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), local_passes=10, callback=idle)
    assert model.fit(PartFiles(folder, dtype=np.float64)).certificate_.converged
    assert seen


def _age(seconds=500.0, dask_worker=None):
    for state in dask_worker.plugins["multimargin-parts"].fits.values():
        state.used -= seconds
    dask_worker.plugins["multimargin-parts"].expire()


def _ages(dask_worker):
    return [monotonic() - state.used for state in dask_worker.plugins["multimargin-parts"].fits.values()]


WORKER_WITHOUT_LIBRARY = """
import sys

sys.modules["multimargin"] = None  # cannot be imported
from distributed.cli.dask_worker import main

main([sys.argv[1], "--no-nanny", "--no-dashboard", "--nthreads", "1", "--name", "bare"])
"""


def test_worker_without_the_library(folder):
    """On a cluster of its own: where there has been a fit, such a worker is sent what it cannot read, and leaves."""
    with local_cluster(1) as cluster, distributed.Client(cluster) as client:

        def is_there():
            return any(info["name"] == "bare" for info in _waits.worker_infos(client).values())

        command = [sys.executable, "-c", WORKER_WITHOUT_LIBRARY, client.scheduler.address]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(is_there)
            with pytest.raises(FitError, match=r"The worker .* cannot import multimargin.dask: .*Install there"):
                DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(PartFiles(folder))
        finally:
            process.kill()
            process.wait()


def test_rows_that_went_with_their_worker_are_named(client):
    X, Y = small_problem(n_labels=5)
    address = sorted(_waits.worker_infos(client))[0]
    pid = client.run(os.getpid, workers=[address])[address]
    held = client.scatter(cut(X, 150), workers=[address], hash=False)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(InputError, match="The rows of block [01] "):
        DaskLinearM3L(**PARAMETERS, layout=(2, 1)).fit(held, [dask.delayed(part) for part in cut(Y, 150)])


def test_all_workers_gone(folder, monkeypatch):
    monkeypatch.setattr(_waits, "PATIENCE", 2.0)
    with local_cluster(1, processes=False) as cluster, distributed.Client(cluster):

        def end(progress):
            cluster.scale(0)

        model = DaskLinearM3L(**PARAMETERS, layout=(2, 1), callback=end)
        with pytest.raises(FitError, match="no worker for 2 seconds"):
            model.fit(PartFiles(folder))
        assert not hasattr(model, "coef_")


def test_client_that_is_closed(folder):
    with local_cluster(1, processes=False) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        model = DaskLinearM3L(
            **PARAMETERS, layout=(2, 1), local_passes=10, client=client, callback=lambda _: client.close()
        )
        with pytest.raises(FitError, match="the client is closed"):
            model.fit(PartFiles(folder))


CTRL_C = """
import os, signal, sys
import distributed
from multimargin.dask import DaskLinearM3L

def interrupt(progress):
    if progress.pass_ >= 1:
        os.kill(os.getpid(), signal.SIGINT)

def fits(dask_worker):
    return list(dask_worker.plugins["multimargin-parts"].fits)

with distributed.Client(sys.argv[1]) as client:
    for layout in (2, 1), (1, 2):
        model = DaskLinearM3L(tol=1e-9, layout=layout, random_state=0, callback=interrupt)
        try:
            model.fit(sys.argv[2])
        except KeyboardInterrupt:
            print("interrupted", hasattr(model, "coef_"), sum(map(len, client.run(fits).values())))
    print(model.set_params(callback=None, tol=1e-2).fit(sys.argv[2]).certificate_.converged)
"""


def test_ctrl_c_leaves_the_cluster_clean(client, folder):
    command = [sys.executable, "-c", CTRL_C, client.scheduler.address, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.split("\n")[:3] == ["interrupted False 0", "interrupted False 0", "True"]

"""Fits beside each other: in threads, in forked processes, in pools."""

import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from multimargin import LinearM3L
from multimargin.estimators import REGISTRY
from multimargin.kernels import one_blas_thread

ESTIMATORS = list(REGISTRY.values())


@pytest.fixture(params=ESTIMATORS, ids=lambda E: E.__name__)
def Estimator(request):
    return request.param


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(150, 6))
    return X, (X @ rng.normal(size=(6, 5)) + rng.normal(size=(150, 5)) > 0.3).astype(int)


def weights(model, X):
    return model.certificate_.primal, model.certificate_.dual, model.decision_function(X)


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, other)


def test_fits_at_the_same_time_give_what_they_give_alone(Estimator, problem):
    X, Y = problem
    models = [Estimator(C=C, n_jobs=2, random_state=0) for C in (0.1, 1.0, 3.0, 1.0)]
    alone = [weights(clone(model).fit(X, Y), X) for model in models]
    with ThreadPoolExecutor(len(models)) as pool:
        beside = list(pool.map(lambda model: weights(model.fit(X, Y), X), models))
    for a, b in zip(alone, beside, strict=True):
        assert_same(a, b)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_fit_after_a_threaded_fit(Estimator, problem):
    X, Y = problem
    model = Estimator(n_jobs=2, random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of forks in processes with threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)  # of a child that hangs nothing else would be seen
        try:
            again = clone(model).fit(X, Y)
            os._exit(0 if np.array_equal(again.decision_function(X), model.decision_function(X)) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_interrupted_fit_leaves_one_in_another_thread_alone(Estimator, problem):
    """Each fit waits in its callback for the other, so that both run when one of them is interrupted."""
    X, Y = problem
    model = Estimator(random_state=0)
    expected = weights(clone(model).fit(X, Y), X)
    running, interrupted = threading.Barrier(2, timeout=60), threading.Event()

    def interrupt(progress):
        if progress.pass_ == 1:
            running.wait()
        raise KeyboardInterrupt

    def wait(progress):
        if progress.pass_ == 1:
            running.wait()
            assert interrupted.wait(60)

    with ThreadPoolExecutor(2) as pool:
        broken = pool.submit(clone(model).set_params(callback=interrupt).fit, X, Y)
        sound = pool.submit(clone(model).set_params(callback=wait).fit, X, Y)
        with pytest.raises(KeyboardInterrupt):
            broken.result()
        interrupted.set()
        assert_same(weights(sound.result(), X), expected)


def test_ctrl_c_reaches_the_main_thread_and_no_other(Estimator, problem):
    """A signal while two fits run: the one of the main thread ends with it, the other one as if nothing had been."""
    X, Y = problem
    model = Estimator(random_state=0)
    expected = weights(clone(model).fit(X, Y), X)
    running, interrupted = threading.Barrier(2, timeout=60), threading.Event()

    def interrupt(progress):
        if progress.pass_ == 1:
            running.wait()
            signal.raise_signal(signal.SIGINT)

    def wait(progress):
        if progress.pass_ == 1:
            running.wait()
            assert interrupted.wait(60)

    with ThreadPoolExecutor(1) as pool:
        sound = pool.submit(clone(model).set_params(callback=wait).fit, X, Y)
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_params(callback=interrupt).fit(X, Y)
        interrupted.set()
        assert_same(weights(sound.result(), X), expected)


def test_an_exception_in_a_worker_pool_is_that_of_the_fit(Estimator, problem):
    X, Y = problem

    def fail(progress):
        raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(Estimator(callback=fail, n_jobs=2).fit, X, Y) for _ in range(3)]
        assert all(isinstance(future.exception(), ZeroDivisionError) for future in futures)


@pytest.fixture
def several_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.usefixtures("several_blas_threads")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_prior_leaves_blas_one_thread_during_a_fit(rng, n_jobs):
    X, Y = rng.normal(size=(60, 5)), rng.integers(0, 2, size=(60, 4))
    before, seen = blas_threads(), []
    model = LinearM3L(prior="labels", n_jobs=n_jobs, random_state=0, callback=lambda _: seen.append(blas_threads()))
    model.fit(X, Y)
    assert seen
    assert all(threads == {1} for threads in seen)
    assert blas_threads() == before


@pytest.mark.usefixtures("several_blas_threads")
def test_the_limit_of_blas_threads_outlives_the_fit_that_set_it():
    """The first of two enters and leaves while the second is inside."""
    before, entered, left, seen = blas_threads(), threading.Event(), threading.Event(), []

    def second():
        assert entered.wait(60)
        with one_blas_thread:
            first_may_leave.set()
            assert left.wait(60)
            seen.append(blas_threads())

    first_may_leave = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second)
        with one_blas_thread:
            entered.set()
            assert first_may_leave.wait(60)
        left.set()
        waiting.result()
    assert seen == [{1}]
    assert blas_threads() == before
    assert 2 in before  # other packages may bring a BLAS of one thread

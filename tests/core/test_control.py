"""The native core answers to Ctrl-C, time limits, callbacks and failing threads."""

import threading

import pytest
from interrupts import assert_answers_ctrl_c

from multimargin import _core


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_ctrl_c_leaves_native_code_at_once(threads):
    rehearsal = f"_core.testing.rehearse(60.0, {threads}, -1, None, float('inf'))"
    assert_answers_ctrl_c(rehearsal, setup="from multimargin import _core")


@pytest.mark.parametrize("threads", [1, 3])
def test_time_limit_stops_inside_a_pass(threads):
    assert _core.testing.rehearse(60.0, threads, -1, None, 0.05) == 1


def test_callback_stops_and_its_errors_pass_through():
    assert _core.testing.rehearse(0.5, 1, -1, lambda *_: True, float("inf")) == 1

    def fail(*_):
        msg = "from the callback"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="from the callback"):
        _core.testing.rehearse(0.1, 2, -1, fail, float("inf"))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_exception_in_a_task_is_rethrown(threads):
    with pytest.raises(ValueError, match="task 1 failed"):
        _core.testing.rehearse(60.0, threads, 1, None, float("inf"))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_task_of_loops_within_loops_is_done_once(threads):
    assert _core.testing.loops_within_loops(40, threads) == 40 * 40 * threads


def test_other_python_threads_run_meanwhile():
    """The interpreter lock is released: a second thread makes progress while native code runs."""
    count = 0
    done = threading.Event()

    def work():
        nonlocal count
        while not done.is_set():
            count += 1

    worker = threading.Thread(target=work)
    worker.start()
    _core.testing.rehearse(0.3, 1, -1, None, float("inf"))
    done.set()
    worker.join()
    assert count > 100

"""Ctrl-C while a library computes."""

import threading

import pytest
from interrupts import assert_answers_ctrl_c

from multimargin._interrupt import interruptible


def test_values_and_errors_pass_through():
    assert interruptible(sorted, [2, 1], reverse=False) == [1, 2]
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 1, 0)


def test_another_thread_may_call_it():
    found = []
    thread = threading.Thread(target=lambda: found.append(interruptible(max, 1, 2)))
    thread.start()
    thread.join()
    assert found == [2]


def test_ctrl_c_leaves_at_once():
    setup = "from multimargin._interrupt import interruptible"
    assert_answers_ctrl_c("interruptible(threading.Event().wait, 60.0)", setup=setup)

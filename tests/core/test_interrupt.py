"""Ctrl-C while a library computes."""

import subprocess
import sys
import threading

import pytest

from multimargin._interrupt import interruptible

INTERRUPTED = """
import os, signal, threading, time
from multimargin._interrupt import interruptible
sent = []
def interrupt():
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    interruptible(threading.Event().wait, 60.0)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0] < 5.0)
"""


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
    run = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=50, check=True)
    assert run.stdout.split() == ["interrupted", "True"]

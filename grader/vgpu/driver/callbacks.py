"""Host functions run without anybody waiting for them, as on a real device.

Everything else is executed as late as the API allows, but a host function is how a program hears that work is done: it
may wait for it outside of CUDA (an asyncio future, a threading.Event). So a helper thread executes streams that have
one, after a short delay, which leaves a program that waits by a CUDA call the one that executes it.
"""

from __future__ import annotations

import os
import threading
import time

from grader.vgpu.driver.abi import LOCK
from grader.vgpu.driver.memory import drop_unmapped
from grader.vgpu.driver.queue import Op, complete

DELAY_S = 0.02

_waiting: list[Op] = []
_wake = threading.Condition()
_started_in = 0  # the process that has the thread: a forked child starts its own


def see_to(op: Op) -> None:
    """Execute this soon, whatever the program does."""
    global _started_in, _wake
    if _started_in != os.getpid():
        _started_in = os.getpid()
        _wake = threading.Condition()
        _waiting.clear()
        threading.Thread(target=_work, args=(_wake,), name="vgpu-host-functions", daemon=True).start()
    with _wake:
        _waiting.append(op)
        _wake.notify()


def _work(wake: threading.Condition) -> None:
    while True:
        with wake:
            while not _waiting:
                wake.wait()
        time.sleep(DELAY_S)
        with wake:
            ready, _waiting[:] = list(_waiting), []
        with LOCK:
            drop_unmapped()
            complete(*ready)

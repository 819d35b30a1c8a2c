"""The pre-warmed process: imports once, then forks a locked child per request. It never reads a request's data.

Started by `client.Zygote` in a clean environment, with one end of a SOCK_SEQPACKET pair. Messages are JSON:

    client -> zygote   {"warm", "path", "readable", "namespaces"}      once
    zygote -> client   {"ready": true, ...} or {"ready": false, "message"}
    client -> zygote   {"job", "limits"} + [request, output, result]   the child's ends of three pipes
    zygote -> client   {"started": true} + [pidfd]
    zygote -> client   {"status", "cpu_s", "maxrss_kb"}                when the child has ended and was reaped

End of file on the socket means that the client is gone: the child is killed, the zygote exits.
"""

import contextlib
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import time
import traceback

from . import child, lockdown, privileges

MAX_MESSAGE = 1 << 16


def main(fd: int) -> None:
    """Be the zygote on the socket `fd`."""
    control = socket.socket(fileno=fd)
    config = json.loads(control.recv(MAX_MESSAGE))
    try:
        prepared, info = _warm_up(config)
    except BaseException:
        control.send(json.dumps({"ready": False, "message": traceback.format_exc()[-16000:]}).encode())
        return
    control.send(json.dumps({"ready": True, **info}).encode())
    with contextlib.suppress(BrokenPipeError):  # the client has left in the middle of a job
        while True:
            data, fds, _, _ = socket.recv_fds(control, MAX_MESSAGE, 3)
            if not data:
                return
            _serve(control, json.loads(data), fds, prepared)


def _warm_up(config: dict) -> tuple[lockdown.Prepared, dict]:
    started = time.perf_counter()
    privileges.adopt_orphans()
    namespaces = _enter_namespaces() if config["namespaces"] else ()
    privileges.hide()  # not earlier: the maps of a user namespace can only be written by a dumpable process
    gc.disable()
    sys.path += config["path"]
    importlib.util.find_spec("no_such_module_anywhere")  # fills the directory caches of the path finders
    if config["warm"]:
        child.resolve(config["warm"])()
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads after warming up; forked children would hang")
    gc.collect()
    gc.freeze()  # else every child copies each page that a collection touches
    prepared = lockdown.prepare(config["readable"], namespaces)
    info = {
        "warm_s": time.perf_counter() - started,
        "landlock": prepared.ruleset.abi if prepared.ruleset else 0,
        "seccomp": prepared.seccomp,
        "namespaces": namespaces,
    }
    return prepared, info


def _enter_namespaces() -> tuple[str, ...]:
    """Go on as process 1 of a new pid namespace, where allowed: with its death everything in it dies."""
    entered = privileges.enter_namespaces()
    if "pid" in entered:
        pid = os.fork()
        if pid:
            _, status = os.waitpid(pid, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        privileges.die_with_parent()
    return entered


def _serve(control: socket.socket, message: dict, fds: list[int], prepared: lockdown.Prepared) -> None:
    pid = os.fork()
    if pid == 0:
        child.main(message, fds, prepared)
    for fd in fds:
        os.close(fd)
    pidfd = os.pidfd_open(pid)
    socket.send_fds(control, [json.dumps({"started": True}).encode()], [pidfd])
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(control, 0)  # only its hanging up is of interest
    if pidfd not in dict(poll.poll()):
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    os.close(pidfd)
    _kill_strays()
    cpu = usage.ru_utime + usage.ru_stime
    control.send(json.dumps({"status": status, "cpu_s": cpu, "maxrss_kb": usage.ru_maxrss}).encode())


def _kill_strays() -> None:
    """Kill and reap whatever outlived the child. With seccomp in force there is nothing, ever."""
    while strays := _strays():
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _strays() -> list[int]:
    """Give what to kill: -1, everything else in our own pid namespace, or our children (see adopt_orphans)."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []
    if os.getpid() == 1:
        return [-1]  # /proc may be the host's, with the host's numbers
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        return [int(pid) for pid in children.read().split()]

"""The trusted side: starts a zygote, gives it jobs one at a time, replaces it when it is lost."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence

from . import bubblewrap, paths, privileges, wire
from .limits import Limits
from .outcome import Outcome
from .watch import SandboxError, Watch
from .zygote import MAX_MESSAGE

__all__ = ["SandboxError", "Zygote"]

_WARM_S = 600.0
_LEAVE_S = 60.0  # for a zygote whose socket was closed; only one that hangs takes so long
_BOOT = "import sys; sys.path.append(sys.argv[1]); from grader.sandbox.zygote import main; main(int(sys.argv[2]))"
# One thread everywhere: a process with more cannot be forked safely.
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "HOME": "/dev/null",  # root could create a directory of any other name
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
_PASSED_ON = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")


class Zygote:
    """A pre-warmed process that forks a locked child per job. Use it as a context manager, or close() it."""

    def __init__(
        self,
        warm: str = "",
        *,
        path: Sequence[str] = (),
        readable: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        trust: bool = False,
        namespaces: bool = True,
        bwrap: bool | None = None,
    ) -> None:
        """Start the zygote and wait until it is warm.

        warm: "package.module:function", called once in the zygote, without arguments, before any fork.
        path: directories added to sys.path, for trusted modules outside of site-packages; not readable in children.
        readable: files and directories that children may read, on top of Python and its packages.
        env: environment variables on top of the few that the zygote gets. No secrets: students can read them.
        trust: run jobs even where the kernel lacks Landlock or seccomp (level 0).
        namespaces: leave the host's network and process ids where the machine allows it; False never tries.
        bwrap: True puts the zygote into bubblewrap, False never, None when it works here.

        Also makes the calling process undumpable, so that no process of the same user can look into its memory.
        Raises SandboxError when it does not start, or when protections are missing and `trust` is False.
        """
        self._config = {
            "warm": warm,
            "path": [os.path.abspath(entry) for entry in path],
            "readable": [os.path.realpath(entry) for entry in readable],
        }
        self._environment = {
            **_ENVIRONMENT,
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            **(env or {}),
        }
        self._trust, self._namespaces = trust, namespaces
        self._wrapper = (
            bubblewrap.command([*self._config["path"], *self._config["readable"]]) if bwrap is not False else None
        )
        if bwrap and self._wrapper is None:
            raise SandboxError("bubblewrap was asked for, but bwrap is missing or not allowed here")
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._control: socket.socket | None = None
        self.info: dict = {}  # what the zygote said of itself: warm_s, start_s, landlock, seccomp, namespaces, bwrap
        privileges.hide()
        self._start()

    def run(
        self, job: str, request: dict | None = None, blobs: Sequence[bytes] = (), limits: Limits | None = None
    ) -> Outcome:
        """Run one job in a fresh locked child and wait for its end.

        job: "package.module:function", called as function(request, blobs) -> (dict, list of bytes).
        Blocks for at most about limits.wall_s, after waiting for jobs of other threads.
        Raises TypeError or ValueError for a request that JSON cannot carry, SandboxError when the sandbox failed; the
        next call then starts a new zygote.
        """
        packed = wire.pack(request or {}, blobs)
        with self._lock:
            if self._control is None or self._process.poll() is not None:
                self._stop()
                self._start()
            try:
                return Watch(self._control, limits or Limits()).run(job, packed)
            except BaseException:
                self._stop()  # in the middle of a job, interrupted or confused: never to be used again
                raise

    def close(self) -> None:
        """End the zygote and, with it, any child. May be called again."""
        with self._lock:
            self._stop()

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _start(self) -> None:
        started = time.perf_counter()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        python = [sys.executable, "-I", "-c", _BOOT, os.path.dirname(paths.PACKAGE), str(theirs.fileno())]
        with theirs, tempfile.TemporaryFile() as errors:
            self._process = subprocess.Popen(
                [*(self._wrapper or []), *python],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the client
            )
            theirs.close()  # else the end of the zygote would not show as the end of the stream
            self._control = ours
            try:
                self.info = self._greet()
            except BaseException as error:
                self._stop()
                errors.seek(0)
                said = errors.read(16000).decode("utf-8", "replace")
                if isinstance(error, SandboxError) and said:
                    raise SandboxError(f"{error}\n{said}") from None
                raise
        self.info |= {"start_s": time.perf_counter() - started, "bwrap": self._wrapper is not None}

    def _greet(self) -> dict:
        # bubblewrap brings namespaces of its own.
        namespaces = self._namespaces and self._wrapper is None
        self._control.settimeout(_WARM_S)
        try:
            self._control.send(json.dumps({**self._config, "namespaces": namespaces}).encode())
            hello = json.loads(self._control.recv(MAX_MESSAGE) or b"{}")
        except OSError as error:
            raise SandboxError(f"the zygote did not start: {error}") from None
        self._control.settimeout(None)
        if not hello:
            raise SandboxError("the zygote died while it started")
        if not hello.pop("ready"):
            raise SandboxError(f"the zygote failed to warm up:\n{hello['message']}")
        if not self._trust and not (hello["landlock"] and hello["seccomp"]):
            missing = " and ".join(name for name in ("landlock", "seccomp") if not hello[name])
            raise SandboxError(f"this machine offers no {missing}: submissions would run unprotected")
        return hello

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_LEAVE_S)  # it leaves when its socket closes
            except subprocess.TimeoutExpired:
                os.killpg(
                    self._process.pid, signal.SIGKILL
                )  # what wraps the zygote is in its group; a child dies with it
                self._process.wait()
            self._process = None

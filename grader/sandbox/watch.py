"""The trusted side of one job: feeds the child, reads what it says, watches the clock, and says what came of it."""

import json
import os
import resource
import selectors
import signal
import socket
import time
from collections.abc import Callable

from . import wire
from .limits import MIB, Limits
from .outcome import JobError, Outcome
from .zygote import MAX_MESSAGE

# Nobody's fault is decided by these two: they are for a sandbox that hangs, and a busy machine must not look like one.
_READY_S = 120.0  # for the fork, the import of the job and the lock
_KILLED_S = 120.0  # for a killed child to be reaped
_GRACE_S = 0.2  # for pipes to reach their end once the child is dead: something may still hold them
_MEMORY_EVERY_S = 0.05
# Of the memory, resident: the job has used it up. It is ended a little below the limit, because Python that is refused
# memory while it unwinds a deep stack goes on for many seconds and then raises anything.
_FULL = 0.95
_CHUNK = 1 << 18
_NATIVE_OUT_OF_MEMORY = ("LLVM ERROR: out of memory", "std::bad_alloc")


class SandboxError(RuntimeError):
    """The sandbox itself failed. The grader's fault (IE), never the student's."""


class Watch:
    """One job on a zygote, from the request to the outcome."""

    def __init__(self, control: socket.socket, limits: Limits) -> None:
        """Take the zygote's socket, on which nothing may be pending."""
        self.control, self.limits = control, limits
        self.selector = selectors.DefaultSelector()
        self.reader = wire.Reader(limits.header_kb << 10, limits.result_mb * MIB)
        self.ready: dict | None = None  # the child's first frame, written before any untrusted code ran
        self.result: tuple[dict, list[bytes]] | None = None
        self.malformed = ""  # why what came on the result pipe is not one well-formed frame
        self.output, self.printed = bytearray(), 0
        self.limit_hit: tuple[str, str] | None = None  # status and detail
        self.ended: dict | None = None  # the zygote's report
        self.deadline = time.monotonic() + _READY_S
        self.pidfd = -1
        self.pid = 0
        self.base_rss = 0
        self.next_memory_check = 0.0
        self.started = self.finished = 0.0

    def run(self, job: str, request: list[bytes]) -> Outcome:
        """Run the job on a packed request. Raises SandboxError; the zygote is then of no more use."""
        fds: set[int] = set()
        try:
            self._start(job, request, fds)
            self._loop()
        finally:
            self.selector.close()
            for fd in fds:
                os.close(fd)
        if self.ready is None:
            raise SandboxError(f"the child ended before it was ready: {self._end_of_process()}")
        return self._outcome()

    # ---- start

    def _start(self, job: str, request: list[bytes], fds: set[int]) -> None:
        request_r, request_w = os.pipe()
        output_r, output_w = os.pipe()
        result_r, result_w = os.pipe()
        fds |= {request_w, output_r, result_r}
        child_ends = [request_r, output_w, result_w]
        message = {"job": job, "limits": vars(self.limits)}
        try:
            socket.send_fds(self.control, [json.dumps(message).encode()], child_ends)
        except OSError as error:
            raise SandboxError(f"the zygote does not listen: {error}") from None
        finally:
            for fd in child_ends:
                os.close(fd)
        _, received, _, _ = socket.recv_fds(self.control, MAX_MESSAGE, 1)
        if not received:
            raise SandboxError("the zygote died")
        self.pidfd = received[0]
        fds.add(self.pidfd)
        self.pid = _pid_of(self.pidfd)
        os.set_blocking(request_w, False)
        rest = [memoryview(piece) for piece in request]
        self.selector.register(request_w, selectors.EVENT_WRITE, lambda: self._feed(request_w, rest, fds))
        self.selector.register(output_r, selectors.EVENT_READ, lambda: self._read(output_r, self._take_output))
        self.selector.register(result_r, selectors.EVENT_READ, lambda: self._read(result_r, self._take_result))
        self.selector.register(self.control, selectors.EVENT_READ, self._take_report)

    # ---- the loop

    def _loop(self) -> None:
        while self.ended is None or self.selector.get_map():
            for key, _ in self.selector.select(self._patience()):
                key.data()
            now = time.monotonic()
            if self.ended is None:
                self._check_limits(now)
            elif now > self.finished + _GRACE_S:
                return

    def _patience(self) -> float:
        """Seconds until a limit is to be looked at again."""
        now = time.monotonic()
        if self.ended is not None:
            return self.finished + _GRACE_S - now
        if self.ready is None or self.limit_hit:
            return max(self.deadline - now, 0)
        return max(min(self.deadline, self.next_memory_check) - now, 0)

    def _check_limits(self, now: float) -> None:
        if now >= self.deadline:
            if self.ready is None:
                raise SandboxError(f"the child was not ready within {_READY_S:.0f} s")
            if self.limit_hit:
                raise SandboxError(f"a killed child was still there after {_KILLED_S:.0f} s")
            self._kill("time", f"ran for longer than {self.limits.wall_s:g} s")
        elif self.ready is not None and now >= self.next_memory_check and not self.limit_hit:
            self.next_memory_check = now + _MEMORY_EVERY_S
            if _resident(self.pid) - self.base_rss > _FULL * self.limits.memory_mb * MIB:
                self._kill("memory", f"used more than {self.limits.memory_mb} MB of memory")

    def _kill(self, status: str, detail: str) -> None:
        if self.limit_hit or self.ended is not None:
            return
        self.limit_hit = (status, detail)
        self.deadline = time.monotonic() + _KILLED_S
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return  # it has just ended by itself; it was over its limit all the same

    # ---- events

    def _feed(self, fd: int, rest: list[memoryview], fds: set[int]) -> None:
        try:
            while rest:
                rest[0] = rest[0][os.write(fd, rest[0][:_CHUNK]) :]
                if not rest[0]:
                    del rest[0]
        except BlockingIOError:
            return
        except BrokenPipeError:
            rest.clear()  # the child has ended; how, the zygote will tell
        self.selector.unregister(fd)
        fds.remove(fd)
        os.close(fd)

    def _read(self, fd: int, take: Callable[[bytes], None]) -> None:
        data = os.read(fd, _CHUNK)
        if data:
            take(data)
        else:
            self.selector.unregister(fd)

    def _take_output(self, data: bytes) -> None:
        cap = self.limits.output_kb << 10
        self.printed += len(data)
        self.output += data
        del self.output[:-cap]
        if self.printed > cap:
            self._kill("output", f"printed more than {self.limits.output_kb} kB")

    def _take_result(self, data: bytes) -> None:
        if self.malformed:
            return
        self.reader.feed(data)
        try:
            while (frame := self.reader.next()) is not None:
                if self.ready is None:
                    self._child_is_ready(frame[0])
                elif self.result is None:
                    self.result = frame
                else:
                    raise wire.FrameError("more than one result")
        except wire.FrameTooLarge as error:
            self.malformed = str(error)
            self._kill("output", f"returned more than {self.limits.result_mb} MB")
        except wire.FrameError as error:
            self.malformed = str(error)

    def _child_is_ready(self, header: dict) -> None:
        if not header["ready"]:
            raise SandboxError(f"the child could not be set up:\n{header['message']}")
        self.ready = header
        self.base_rss = _resident(self.pid)
        self.started = time.monotonic()
        self.next_memory_check = self.started + _MEMORY_EVERY_S
        self.deadline = self.started + self.limits.wall_s

    def _take_report(self) -> None:
        data = self.control.recv(MAX_MESSAGE)
        if not data:
            raise SandboxError("the zygote died")
        self.ended = json.loads(data)
        self.finished = time.monotonic()
        self.selector.unregister(self.control)

    # ---- the end

    def _outcome(self) -> Outcome:
        status, detail = self.limit_hit or self._end_of_process()
        header, blobs, error = {}, (), None
        if status == "ok":
            status, detail, header, blobs, error = self._end_of_job()
        waited = self.ended["status"]
        return Outcome(
            status=status,
            detail=detail,
            header=header,
            blobs=tuple(blobs),
            error=error,
            output=self.output.decode("utf-8", "replace"),
            cpu_s=self.ended["cpu_s"],
            wall_s=self.finished - self.started,
            maxrss_mb=self.ended["maxrss_kb"] / 1024,
            exit_code=os.WEXITSTATUS(waited) if os.WIFEXITED(waited) else None,
            signal=_signal_name(os.WTERMSIG(waited)) if os.WIFSIGNALED(waited) else None,
            protections=tuple(self.ready["protections"]),
        )

    def _end_of_process(self) -> tuple[str, str]:
        """Status and detail of how the process ended, when no limit of ours was hit; "ok" for an exit."""
        waited = self.ended["status"]
        if not os.WIFSIGNALED(waited):
            return "ok", ""
        number = os.WTERMSIG(waited)
        if number == signal.SIGSYS:
            return "violation", "made a system call that only an attack on the grader makes"
        # A hard limit of processor time and the kernel's out-of-memory killer both show as a SIGKILL that was not ours.
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.ended["cpu_s"] > self.limits.cpu_s - 0.5):
            return "time", f"used more than {self.limits.cpu_s} s of processor time"
        if number == signal.SIGKILL:
            grown = self.ended["maxrss_kb"] * 1024 - self.base_rss
            if grown > _FULL * self.limits.memory_mb * MIB:
                return "memory", f"used up {self.limits.memory_mb} MB of memory"
            return "killed", "was killed by something outside the grader, such as a machine short of memory"
        if any(text in self.output.decode("utf-8", "replace") for text in _NATIVE_OUT_OF_MEMORY):
            return "memory", f"needed more than {self.limits.memory_mb} MB of memory"
        return "crashed", f"was ended by {_signal_name(number)}"

    def _end_of_job(self) -> tuple[str, str, dict, list[bytes], JobError | None]:
        """Judge the frame of a process that exited. Its content is the child's word: only its form is checked."""
        if self.result is None or self.malformed or self.reader.pending:
            code = os.WEXITSTATUS(self.ended["status"])
            detail = f"ended with exit status {code} without handing over a result"
            if self.malformed or self.reader.pending:
                detail = f"handed over a malformed result ({self.malformed or 'cut short, or followed by more'})"
            return "no_result", detail, {}, [], None
        frame, blobs = self.result
        if frame.get("status") == "ok" and isinstance(frame.get("header"), dict):
            return "ok", "", frame["header"], blobs, None
        error = JobError(*(str(frame.get(key, "")) for key in ("type", "message", "traceback")))
        if frame.get("out_of_memory") is True:
            return "memory", f"needed more than {self.limits.memory_mb} MB of memory", {}, [], error
        return "error", f"{error.type}: {error.message}", {}, [], error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRT{number}"


def _pid_of(pidfd: int) -> int:
    """Give the process id as this process's /proc has it: the zygote may count in a namespace of its own."""
    with open(f"/proc/self/fdinfo/{pidfd}") as info:
        return next((int(line.split()[1]) for line in info if line.startswith("Pid:")), 0)


def _resident(pid: int) -> int:
    """Bytes of memory in use by a process; 0 once it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0

"""Says which protections are really in force: it attacks the sandbox from inside, and reads no version numbers."""

import builtins
import contextlib
import ctypes
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from .attacks import ATTACKS
from .client import Zygote
from .limits import MIB, Limits
from .outcome import Outcome

_LIMITS = Limits(wall_s=120.0, memory_mb=64)  # an attack that a busy machine cuts short has not been stopped
_ONLY_LEVEL_2 = "files cannot be seen to exist"  # neither Landlock nor a filter by number can hide names and sizes
_SENTINEL = b"intact"
_LEVELS = {
    0: "unprotected: submissions can reach the grader; run only what you trust",
    1: "locked down: Landlock, seccomp and resource limits",
    2: "locked down inside bubblewrap: the file system is hidden too",
    3: "locked down, on a machine of its own",
}


@dataclass(frozen=True)
class Report:
    """What the self-attack found."""

    level: int  # 0 to 3, see str(report)
    probes: tuple[tuple[str, bool], ...]  # (what should hold, it held)
    kernel: str  # e.g. "Landlock 7, seccomp, user net ipc uts pid namespaces"

    def __str__(self) -> str:
        """A table for a terminal."""
        rows = [f"  {'held' if held else 'OPEN'}  {name}" for name, held in self.probes]
        return "\n".join([f"level {self.level}, {_LEVELS[self.level]}", f"  ({self.kernel})", *rows])


OWN_MACHINE = "GRADER_OWN_MACHINE"  # environment variable; "1" is the operator's word


def protections(zygote: Zygote | None = None, own_machine: bool | None = None) -> Report:
    """Attack the children of `zygote`, or of a bare one with the default options; takes about 0.2 s.

    own_machine: the operator's word that this container or virtual machine serves nothing but grading, and holds
    nothing that students may not have; nothing inside could tell. By default what OWN_MACHINE says. Raises SandboxError when the zygote fails.
    """
    if own_machine is None:
        own_machine = os.environ.get(OWN_MACHINE) == "1"
    if zygote is None:
        with Zygote(trust=True) as bare:
            return protections(bare, own_machine)
    with _target() as target:
        probes = tuple((name, _held(zygote, name, target)) for name in ATTACKS)
    broken = {name for name, held in probes if not held}
    if broken - {_ONLY_LEVEL_2}:
        level = 0
    elif own_machine:
        level = 3
    else:
        level = 1 if broken else 2
    return Report(level, probes, _describe(zygote.info))


@dataclass(frozen=True)
class Target:
    """Something to attack: files, sockets, a piece of this process's memory."""

    fields: dict  # what the attacks are told
    memory: ctypes.Array
    udp: socket.socket

    def damaged(self) -> bool:
        """The memory was written, a datagram came, or the hidden file is not as it was."""
        try:
            state = os.stat(self.fields["secret"])
            with open(self.fields["secret"]) as file:
                same = file.read() == self.fields["marker"] and state.st_mode & 0o777 == 0o644
        except OSError:
            return True
        return not same or self.memory.value != _SENTINEL or self._datagram()

    def _datagram(self) -> bool:
        try:
            return bool(self.udp.recv(16))
        except BlockingIOError:
            return False


@contextlib.contextmanager
def _target() -> Iterator[Target]:
    memory = ctypes.create_string_buffer(_SENTINEL, 64)
    marker = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="grader-doctor-") as directory,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        os.chmod(directory, 0o755)  # permissions must not be what protects it
        secret = os.path.join(directory, "hidden.py")
        with open(secret, "w") as file:
            file.write(marker)
        os.chmod(secret, 0o644)
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        fields = {
            "directory": directory,
            "secret": secret,
            "marker": marker,
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "pid": os.getpid(),
            "address": ctypes.addressof(memory),
            "too_much": 2 * _LIMITS.memory_mb * MIB,
        }
        yield Target(fields, memory, udp)


def _held(zygote: Zygote, name: str, target: Target) -> bool:
    outcome = zygote.run("grader.sandbox.attacks:attack", {"attack": name, "target": target.fields}, (), _LIMITS)
    return _stopped(outcome, target.fields["marker"]) and not target.damaged()


def _stopped(outcome: Outcome, marker: str) -> bool:
    """The kernel refused the attack or killed it. Whatever else happened (a crash, a bug, silence) proves nothing."""
    if outcome.status == "error":
        error = getattr(builtins, outcome.error.type, None)
        return isinstance(error, type) and issubclass(error, OSError)
    return outcome.status in ("memory", "violation") and marker not in outcome.output


def _describe(info: dict) -> str:
    parts = [
        f"Landlock {info['landlock']}" if info["landlock"] else "no Landlock",
        "seccomp" if info["seccomp"] else "no seccomp",
        f"{' '.join(info['namespaces'])} namespaces" if info["namespaces"] else "no namespaces of its own",
    ]
    return ", ".join(parts + (["bubblewrap"] if info["bwrap"] else []))


if __name__ == "__main__":
    print(protections())

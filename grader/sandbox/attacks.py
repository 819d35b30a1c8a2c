"""The attacks that `doctor` makes on its own sandbox. A job: it runs in a locked child like any submission.

Each attack returns normally when it got through, and raises or dies when it was stopped.
"""

import ctypes
import mmap
import os
import resource
import socket
from collections.abc import Callable

from . import kernel

TIMEOUT_S = 10.0  # a busy machine must not look like a wall


def attack(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """Carry out request["attack"] on request["target"] (see doctor.Target); an OSError and the like mean: stopped."""
    ATTACKS[request["attack"]](request["target"])
    return {}, []


def read_hidden_file(target: dict) -> None:
    with open(target["secret"]) as file:
        file.read()


def list_directory(target: dict) -> None:
    os.listdir(target["directory"])


def write_file(target: dict) -> None:
    os.close(os.open(target["secret"], os.O_WRONLY))


def create_file(target: dict) -> None:
    os.mkdir(os.path.join(target["directory"], "made"))


def change_mode(target: dict) -> None:
    os.chmod(target["secret"], 0o666)


def delete_file(target: dict) -> None:
    os.unlink(target["secret"])


def see_file(target: dict) -> None:
    os.stat(target["secret"])


def connect_tcp(target: dict) -> None:
    socket.create_connection(("127.0.0.1", target["tcp"]), TIMEOUT_S).close()


def send_udp(target: dict) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", target["udp"]))


def signal_grader(target: dict) -> None:
    os.kill(target["pid"], 0)


def write_grader_memory(target: dict) -> None:
    with open(f"/proc/{target['pid']}/mem", "r+b", buffering=0) as memory:
        memory.seek(target["address"])
        memory.write(b"broken")


def write_grader_memory_directly(target: dict) -> None:
    mine = ctypes.create_string_buffer(b"broken")
    size = len(mine.value)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(mine), size)
    remote = (ctypes.c_size_t * 2)(target["address"], size)
    kernel.syscall("process_vm_writev", target["pid"], local, 1, remote, 1, 0)


def set_grader_limits(target: dict) -> None:
    resource.prlimit(target["pid"], resource.RLIMIT_NOFILE)


def pin_grader(target: dict) -> None:
    os.sched_setaffinity(target["pid"], os.sched_getaffinity(0))


def start_process(target: dict) -> None:
    if os.fork() == 0:
        os._exit(0)


def run_program(target: dict) -> None:
    # A program in the child's place ends without a result; the marker tells that it ran.
    os.execv("/bin/sh", ["sh", "-c", f"echo {target['marker']}"])


def take_memory(target: dict) -> None:
    mmap.mmap(-1, target["too_much"]).close()


def take_uncounted_memory(target: dict) -> None:
    os.close(os.memfd_create("hidden"))


ATTACKS: dict[str, Callable[[dict], None]] = {
    "hidden files cannot be read": read_hidden_file,
    "directories cannot be listed": list_directory,
    "files cannot be written": write_file,
    "files cannot be created": create_file,
    "files cannot be deleted": delete_file,
    "file modes cannot be changed": change_mode,
    "no TCP": connect_tcp,
    "no UDP": send_udp,
    "the grader cannot be signalled": signal_grader,
    "the grader's memory cannot be written through /proc": write_grader_memory,
    "the grader's memory cannot be written by system call": write_grader_memory_directly,
    "the grader's limits cannot be touched": set_grader_limits,
    "the grader's processors cannot be chosen": pin_grader,
    "no new processes": start_process,
    "no other programs": run_program,
    "memory is limited": take_memory,
    "no memory outside the limit": take_uncounted_memory,
    "files cannot be seen to exist": see_file,
}

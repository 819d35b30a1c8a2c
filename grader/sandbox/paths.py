"""What a locked child may read: Python, its installed packages, shared libraries. Never the grader's own secrets."""

import os
import site
import sys
import sysconfig
from collections.abc import Iterable

PACKAGE = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))

# Parts of this package that a child may import late. All the rest (problems, references, rules) is hidden.
_OPEN_PARTS = ("__init__.py", "sandbox", "vgpu")

_SYSTEM = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/usr/local/cuda",
)


def readable(extra: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Give the paths beneath which a child may read, and those beneath which it may only list names.

    Landlock cannot take anything out of an allowed directory, so a directory with this package somewhere beneath it is
    replaced by its entries, and itself becomes listable: importing needs that.
    """
    roots = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots += site.getsitepackages()
    roots += [
        entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages", "lib-dynload")
    ]
    roots += _SYSTEM
    roots += [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    files: list[str] = []
    listable: list[str] = []
    for root in dict.fromkeys(os.path.realpath(root) for root in roots if os.path.exists(root)):
        _without_package(root, files, listable)
    files += [os.path.join(PACKAGE, part) for part in _OPEN_PARTS]
    files += [os.path.realpath(path) for path in extra]
    return list(dict.fromkeys(files)), list(dict.fromkeys(listable))


def _without_package(root: str, files: list[str], listable: list[str]) -> None:
    if root == PACKAGE:
        return
    if not PACKAGE.startswith(root.rstrip("/") + "/"):
        files.append(root)
        return
    listable.append(root)
    for name in os.listdir(root):
        _without_package(os.path.realpath(os.path.join(root, name)), files, listable)

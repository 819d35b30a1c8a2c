"""LLVM IR to machine code, with the object files kept on disk by what they were made from."""

import functools
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

KEPT_VERSIONS = 3  # folders of compiled code; older ones are removed

_target = None


def target_machine():
    """The host's target machine, made once."""
    global _target
    if _target is None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten()
        _target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True, codemodel="jitdefault"
        )
    return _target


@functools.cache
def version() -> str:
    """Stamp of all source that compiled code depends on: what another version compiled is not used."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{sys.version}|{llvmlite.__version__}|{numba.__version__}|{np.__version__}".encode())
    for folder in ("ptx", "jit", "machine", "sanitize", "model"):
        for path in sorted((root / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def version_dir() -> Path:
    """Folder of this version's compiled code in the user's cache; made when something is written to it."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "cuda-camp" / f"vgpu-{version()}"
    if not folder.exists():
        old = sorted(folder.parent.glob("vgpu-*"), key=_last_change)
        for path in old[: -KEPT_VERSIONS + 1]:
            shutil.rmtree(path, ignore_errors=True)
    return folder


def _last_change(path: Path) -> float:
    """Of a folder that another process may be removing."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def cache_dir() -> Path | None:
    """Where compiled kernels are kept: GRADER_CACHE_DIR, else the user's cache folder; None when it is switched off ("")."""
    named = os.environ.get("GRADER_CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    return version_dir() / "kernels"


def cache_key(text: str) -> str:
    """Name of what is compiled from `text` by this version on this processor."""
    host = f"{llvm.get_host_cpu_name()}{llvm.get_host_cpu_features().flatten()}"
    return hashlib.sha256(f"{version()}|{host}|{text}".encode()).hexdigest()


def load_cached(key: str) -> bytes | None:
    folder = cache_dir()
    if folder is None:
        return None
    try:
        return (folder / key[:2] / key).read_bytes()
    except OSError:
        return None


def store_cached(key: str, data: bytes):
    """Write atomically. A folder that cannot be written (a locked-down child's) means that nothing is kept."""
    folder = cache_dir()
    if folder is None:
        return
    try:
        place = folder / key[:2]
        place.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=place)
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(name, place / key)
    except OSError:
        return


def optimise(module):
    """Clean up inside blocks: more passes cost more than they gain on this code."""
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(target_machine(), options)
    passes = llvm.create_new_function_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    for fn in module.functions:
        if not fn.is_declaration:
            passes.run(fn, builder)


def compile_object(text: str) -> bytes:
    """An object file from LLVM IR text."""
    module = llvm.parse_assembly(text)
    optimise(module)
    return target_machine().emit_object(module)


_loaded: dict[bytes, dict[str, int]] = {}  # by the object's digest
_objects: list[bytes] = []  # LLVM may go on reading what it was given


def load(obj: bytes, names: tuple[str, ...]) -> dict[str, int]:
    """Put an object file into memory, for the rest of the process. -> the addresses of the functions named.

    The engine is never disposed of: llvmlite's disposal during garbage collection crashed the process now and then, and
    a kernel's machine code is some tens of kilobytes. Raises LookupError for a function that is not there.
    """
    key = hashlib.sha256(obj).digest()
    if key not in _loaded:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _fresh_target())
        engine.add_object_file(llvm.ObjectFileRef.from_data(obj))
        engine.finalize_object()
        addresses = {name: engine.get_function_address(name) for name in names}
        engine.detach()
        missing = [name for name, address in addresses.items() if not address]
        if missing:
            raise LookupError(", ".join(missing))
        _objects.append(obj)
        _loaded[key] = addresses
    return _loaded[key]


def _fresh_target():
    """An engine takes its target machine over, so each needs its own."""
    target_machine()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=1,
        jit=True,
        codemodel="jitdefault",
    )

"""The shared object, and how the driver gets into and out of a process."""

import struct
import subprocess
import sys

import pytest

from grader.vgpu import libcuda


def run(code: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400, **kwargs)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_is_an_elf_shared_object_for_the_machine(machine, number):
    image = libcuda.build(machine=machine)
    kind, e_machine = struct.unpack_from("<HH", image, 16)
    assert (image[:4], kind, e_machine) == (b"\x7fELF", 3, number)
    assert b"libcuda.so.1\0" in image


def test_aarch64_jumps_reach_their_slots():
    image = libcuda.build(machine="aarch64")
    text = image.index(struct.pack("<I", 0xD61F0200)) - 4  # the first `br x16`
    first, last = (struct.unpack_from("<I", image, text + 16 * k)[0] for k in (0, libcuda.SLOTS - 1))
    offsets = [4 * (word >> 5 & 0x7FFFF) for word in (first, last)]
    assert [word & 0xFF00001F for word in (first, last)] == [0x58000010] * 2  # ldr x16, literal
    assert offsets[0] % 0x10000 == -text % 0x10000
    assert offsets[1] - offsets[0] == (8 - 16) * (libcuda.SLOTS - 1)


def test_no_other_machine():
    with pytest.raises(NotImplementedError, match="riscv64"):
        libcuda.build(machine="riscv64")


def test_is_found_under_both_names_and_reports_its_version():
    done = run(
        "import ctypes, grader.vgpu; grader.vgpu.activate('t4')\n"
        "for name in ('libcuda.so.1', 'libcuda.so'):\n"
        "    n = ctypes.c_int(); print(ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(n)), n.value)"
    )
    assert done.stdout == "0 13050\n0 13050\n", done.stderr


def test_leaves_no_file_behind(tmp_path):
    done = run("import grader.vgpu; grader.vgpu.activate()", env={"TMPDIR": str(tmp_path), "PATH": ""})
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_refuses_where_a_real_driver_is_loaded(tmp_path):
    other = tmp_path / "libcuda.so.1"
    other.write_bytes(libcuda.build())
    done = run(f"import ctypes; ctypes.CDLL({str(other)!r})\nimport grader.vgpu; grader.vgpu.activate()")
    assert done.returncode == 1
    assert f"a real CUDA driver is already loaded in this process ({other})" in done.stderr


def test_works_in_a_forked_child_and_in_the_child_of_a_process_that_has_it():
    done = run(
        "import os, sys, grader.vgpu\n"
        "from cuda.bindings import driver as cu\n"
        "grader.vgpu.activate()\n"
        "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(0)\n"
        "if os.fork() == 0:\n"
        "    grader.vgpu.activate()\n"
        "    (e, c), (f,) = cu.cuDevicePrimaryCtxRetain(0), cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])\n"
        "    err, p = cu.cuMemAlloc(64)\n"
        "    print(e.name, f.name, err.name); sys.stdout.flush(); os._exit(0)\n"
        "os.wait()"
    )
    assert done.stdout == "CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS\n", done.stderr


def test_calls_after_the_interpreters_end_are_told_that_the_driver_is_shutting_down():
    done = run(
        "import atexit, ctypes, grader.vgpu\n"
        "atexit.register(lambda: print(lib.cuInit(0)))\n"  # registered before the driver's: runs after it
        "grader.vgpu.activate(); lib = ctypes.CDLL('libcuda.so.1'); print(lib.cuInit(0))"
    )
    assert done.stdout == "0\n4\n", done.stderr


def test_a_missing_entry_point_names_itself_and_does_not_succeed():
    done = run(
        "import grader.vgpu; grader.vgpu.activate()\n"
        "from cuda.bindings import driver as cu\n"
        "for _ in range(2): print(cu.cuMulticastGetGranularity(cu.CUmulticastObjectProp(), 0)[0].name)"
    )
    assert done.stdout == "CUDA_ERROR_NOT_SUPPORTED\n" * 2
    assert done.stderr.count("cuMulticastGetGranularity is not implemented by the virtual GPU") == 1


def test_the_runtime_library_fails_and_says_what_to_use():
    done = run(
        "import grader.vgpu; grader.vgpu.activate()\n"
        "from cuda.bindings import runtime as rt\n"
        "print(rt.cudaFree(0)[0] == rt.cudaError_t.cudaSuccess)"
    )
    assert done.stdout == "False\n"
    assert "use cuda.bindings.driver or cuda.core" in done.stderr


def test_an_unknown_card_is_refused_with_the_names():
    import grader.vgpu

    with pytest.raises(ValueError, match="t4, a100, l4, rtx4090, h100, h200"):
        grader.vgpu.activate("b200")
    with pytest.raises(ValueError, match="1 to 16"):
        grader.vgpu.activate("a100*99")


def test_a_process_has_one_virtual_gpu():
    import grader.vgpu

    assert len(grader.vgpu.activate("a100")) == 2  # no other card, and no more of them
    with pytest.raises(RuntimeError, match="start a new one"):
        grader.vgpu.activate("t4")

"""Time a CUDA C++ kernel on a modelled card, with the blocks run that the clock looks at, and no others."""

from functools import cache
from pathlib import Path

import numpy as np
from cuda.bindings import nvrtc

from grader.vgpu import devices
from grader.vgpu.driver import facts
from grader.vgpu.machine import LaunchOptions, Memory, Module, launch
from grader.vgpu.model import Estimate, cards, kernel_time, sass

HERE = Path(__file__).parent
ARCH = {(7, 0): "80", (7, 5): "75", (8, 0): "80", (8, 6): "86", (8, 9): "89", (9, 0): "90"}

cards.add(HERE / "cards.toml")


@cache
def compile(source: str, arch: str) -> bytes:
    """CUDA C++ to PTX."""
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])
    options = [f"--gpu-architecture=compute_{arch}".encode(), b"--std=c++17", b"-default-device"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error):
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx


def time(card: str, source: str, kernel: str, grid, block, args, shared: int = 0) -> Estimate:
    """The modelled time of one launch. args: np.ndarray (becomes device memory) or NumPy scalars."""
    arch = ARCH[devices.CARDS[card].cc]
    ptx = compile(source, arch)
    memory = Memory()
    module = Module(ptx, memory)
    code = module.kernels[kernel]
    words, block_bytes = [], bytearray(code.param_bytes)
    for (offset, size), arg in zip(code.params, args, strict=True):
        if isinstance(arg, int):  # that many bytes of device memory
            arg = np.uint64(memory.allocate(arg, "device").address)
        words.append(arg)
        block_bytes[offset : offset + size] = arg.tobytes()
    options = LaunchOptions(racecheck=False, initcheck=False, samples_only=True)
    result = launch(code, grid, block, bytes(block_bytes), shared, options)
    if result.fault:
        raise RuntimeError(result.fault.message)
    kept = facts.assemble(ptx, f"sm_{arch}")[kernel]
    mix = sass.mix(facts.cubin(ptx, f"sm_{arch}"), kernel)
    total = code.dynamic_at + shared if shared else code.shared_bytes
    return kernel_time(devices.CARDS[card], code, grid, block, total, kept.registers, result, mix)

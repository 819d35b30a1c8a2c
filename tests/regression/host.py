"""python -m tests.regression.host CARD: copies and kernels in one stream and in four, timed by events of the clock.

The program of M. Harris, "How to Overlap Data Transfers in CUDA C/C++" (NVIDIA Technical Blog, 2012): 16 MiB to the
device, a kernel, 16 MiB back. A process has one virtual GPU, so this runs in one of its own; it prints JSON, in ms.
"""

import ctypes
import json
import sys

from grader import vgpu

if __name__ == "__main__":
    vgpu.activate(sys.argv[1])
    vgpu.options().racecheck = vgpu.options().initcheck = False

from cuda.bindings import driver as cu

from .harness import ARCH, HERE, compile

BLOCK, STREAMS = 256, 4
N = 4 * 1024 * BLOCK * STREAMS  # floats


def ok(result):
    """The value of a call that must succeed."""
    code, *values = result
    if int(code):
        raise RuntimeError(code.name)
    return values[0] if values else None


class Program:
    """The buffers and the kernel; each method is a version of the program and gives its time in ms."""

    def __init__(self, card: str, pinned: bool):
        source = (HERE / "overlap.cu").read_text()
        module = ok(cu.cuModuleLoadData(compile(source, ARCH[vgpu.active()[0].cc])))
        self.kernel = ok(cu.cuModuleGetFunction(module, b"work"))
        self.device = int(ok(cu.cuMemAlloc(4 * N)))
        self.pageable = None if pinned else ctypes.create_string_buffer(4 * N)
        self.host = int(ok(cu.cuMemHostAlloc(4 * N, 0))) if pinned else ctypes.addressof(self.pageable)
        self.streams = [ok(cu.cuStreamCreate(0)) for _ in range(STREAMS)]
        self.first, self.last = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))

    def _timed(self, enqueue) -> float:
        ok(cu.cuEventRecord(self.first, 0))
        enqueue()
        ok(cu.cuEventRecord(self.last, 0))
        ok(cu.cuEventSynchronize(self.last))
        return float(ok(cu.cuEventElapsedTime(self.first, self.last)))

    def _launch(self, offset: int, n: int, stream) -> None:
        args = ((self.device, offset), (ctypes.c_uint64, ctypes.c_int))
        ok(cu.cuLaunchKernel(self.kernel, n // BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, args, 0))

    def one_stream(self) -> float:
        """Everything one after the other."""

        def enqueue():
            ok(cu.cuMemcpyHtoD(self.device, self.host, 4 * N))
            self._launch(0, N, 0)
            ok(cu.cuMemcpyDtoH(self.host, self.device, 4 * N))

        return self._timed(enqueue)

    def chunk_by_chunk(self) -> float:
        """Each stream copies, computes and copies back its quarter: a loop over the streams."""

        def enqueue():
            for k, stream in enumerate(self.streams):
                self._in(k, stream)
                self._launch(k * N // STREAMS, N // STREAMS, stream)
                self._out(k, stream)

        return self._timed(enqueue)

    def stage_by_stage(self) -> float:
        """The same, submitted as all copies, then all kernels, then all copies back."""

        def enqueue():
            for k, stream in enumerate(self.streams):
                self._in(k, stream)
            for k, stream in enumerate(self.streams):
                self._launch(k * N // STREAMS, N // STREAMS, stream)
            for k, stream in enumerate(self.streams):
                self._out(k, stream)

        return self._timed(enqueue)

    def _in(self, k: int, stream) -> None:
        at = k * 4 * N // STREAMS
        ok(cu.cuMemcpyHtoDAsync(self.device + at, self.host + at, 4 * N // STREAMS, stream))

    def _out(self, k: int, stream) -> None:
        at = k * 4 * N // STREAMS
        ok(cu.cuMemcpyDtoHAsync(self.host + at, self.device + at, 4 * N // STREAMS, stream))


def main() -> None:
    ok(cu.cuInit(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(0))))
    found = {}
    for memory in ("pinned", "pageable"):
        program = Program(sys.argv[1], memory == "pinned")
        program.one_stream()  # the first launch loads the kernel
        found[memory] = [program.one_stream(), program.chunk_by_chunk(), program.stage_by_stage()]
    print(json.dumps(found))


if __name__ == "__main__":
    main()

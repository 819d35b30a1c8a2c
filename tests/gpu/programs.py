"""Host programs whose results do not depend on the GPU they run on: `python -m tests.gpu.programs DEVICE FILE` runs them.

DEVICE is "cuda", the driver of this machine, or a virtual GPU, "virtual:a100". FILE, an .npz, gets the arrays that each
program returned, as "program/number".
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

PROGRAMS: dict[str, Callable[[], tuple]] = {}
N = 5000


def program(run: Callable[[], tuple]):
    """Register a program: a function that returns arrays."""
    PROGRAMS[run.__name__] = run
    return run


def _define() -> None:
    """Numba is imported when the driver has been chosen, not before."""
    from cuda.bindings import driver as cu
    from cuda.core import Device
    from numba import cuda, float32, int32

    from grader.devices.driver import call

    Device(0).set_current()  # each program can be run alone

    @cuda.jit
    def scale(x, by, plus):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] = x[i] * by + plus

    @cuda.jit
    def block_sums(x, out):
        part = cuda.shared.array(128, int32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        part[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        half = cuda.blockDim.x // 2
        while half:
            if t < half:
                part[t] += part[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            out[cuda.blockIdx.x] = part[0]

    @cuda.jit
    def histogram(x, out):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(out, x[i] % out.size, 1)

    @cuda.jit
    def transpose(a, out):
        tile = cuda.shared.array((32, 33), float32)
        x, y = cuda.grid(2)
        if x < a.shape[1] and y < a.shape[0]:
            tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
        cuda.syncthreads()
        x = cuda.blockIdx.y * 32 + cuda.threadIdx.x
        y = cuda.blockIdx.x * 32 + cuda.threadIdx.y
        if x < out.shape[1] and y < out.shape[0]:
            out[y, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]

    @cuda.jit
    def warp_scan(x):
        lane = cuda.threadIdx.x & 31
        value, step = x[cuda.grid(1)], 1
        while step < 32:
            other = cuda.shfl_up_sync(0xFFFFFFFF, value, step)
            if lane >= step:
                value += other
            step *= 2
        x[cuda.grid(1)] = value

    integers = np.random.default_rng(1).integers(0, 1000, N).astype(np.int32)

    @program
    def maps_and_reductions():
        d, sums, bins = cuda.to_device(integers), cuda.device_array(40, np.int32), cuda.to_device(np.zeros(7, np.int32))
        block_sums[40, 128](d, sums)
        histogram[40, 128](d, bins)
        scale[3, 96](d, 3, 1)
        scanned = cuda.to_device(integers[:4096])
        warp_scan[32, 128](scanned)
        return d.copy_to_host(), sums.copy_to_host(), bins.copy_to_host(), scanned.copy_to_host()

    @program
    def a_transpose_of_odd_size():
        a = np.arange(77 * 45, dtype=np.float32).reshape(77, 45)
        out = cuda.device_array((45, 77), np.float32)
        transpose[(2, 3), (32, 32)](cuda.to_device(a), out)
        return (out.copy_to_host(),)

    @program
    def chunks_over_streams():
        host, out = cuda.pinned_array(N, np.int32), cuda.pinned_array(N, np.int32)
        host[:] = integers
        streams = [cuda.stream() for _ in range(3)]
        for k, at in enumerate(range(0, N, 700)):
            s = streams[k % 3]
            d = cuda.to_device(host[at : at + 700], stream=s)
            scale[2, 128, s](d, 5, k)
            d.copy_to_host(out[at : at + 700], stream=s)
        for s in streams:
            s.synchronize()
        return (out.copy(),)

    @program
    def events_order_streams():
        one, two, e = cuda.stream(), cuda.stream(), cuda.event()
        d = cuda.to_device(integers, stream=one)
        for k in range(20):
            scale[20, 256, one](d, 2, k)
            e.record(one)
            e.wait(two)
            scale[20, 256, two](d, 3, -k)
            e.record(two)
            e.wait(one)
        return (d.copy_to_host(stream=one), one.synchronize())[:1]

    @program
    def a_captured_graph():
        s = Device(0).create_stream()
        d = cuda.to_device(integers)
        scale[20, 256, s](d, 1, 0)
        s.sync()
        builder = s.create_graph_builder()
        builder.begin_building()
        for k in range(5):
            scale[20, 256, builder.stream](d, 2, k)
        graph = builder.end_building().complete()
        for _ in range(3):
            graph.launch(s)
        s.sync()
        return (d.copy_to_host(),)

    @program
    def a_forked_graph():
        dev = Device(0)
        a, b = cuda.to_device(integers), cuda.to_device(integers)
        scale[20, 256](a, 1, 0)
        cuda.synchronize()
        s = dev.create_stream()
        first = dev.create_graph_builder()
        first.begin_building()
        left, right = first.split(2)
        scale[20, 256, left.stream](a, 3, 1)
        scale[20, 256, right.stream](b, 5, 2)
        whole = type(first).join(left, right)
        scale[20, 256, whole.stream](a, 7, 3)
        graph = whole.end_building().complete()
        graph.launch(s)
        graph.launch(s)
        s.sync()
        return a.copy_to_host(), b.copy_to_host()

    @program
    def stream_ordered_memory():
        s = Device(0).create_stream()
        parts = []
        for k in range(6):
            p = call(cu.cuMemAllocAsync, 4096, int(s.handle))
            call(cu.cuMemsetD32Async, p, 7 * k + 1, 1024, int(s.handle))
            got = np.empty(1024, np.uint32)
            call(cu.cuMemcpyDtoHAsync, got.ctypes.data, p, 4096, int(s.handle))
            call(cu.cuMemFreeAsync, p, int(s.handle))
            parts.append(got)
        s.sync()
        return tuple(parts)

    @program
    def copies_in_two_dimensions():
        wide = int(call(cu.cuMemAlloc, 64 * 100))
        call(cu.cuMemsetD8, wide, 1, 6400)
        call(cu.cuMemsetD2D8, wide + 10, 64, 9, 20, 50)
        c = cu.CUDA_MEMCPY2D()
        c.srcMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
        c.srcDevice, c.srcPitch, c.srcXInBytes, c.srcY = wide, 64, 5, 3
        out = np.zeros((40, 32), np.uint8)
        c.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_HOST
        c.dstHost, c.dstPitch, c.WidthInBytes, c.Height = out.ctypes.data, 32, 30, 40
        call(cu.cuMemcpy2D, c)
        call(cu.cuMemFree, wide)
        return (out,)

    @program
    def managed_memory():
        x = cuda.managed_array(N, np.int32)
        x[:] = integers
        scale[20, 256](x, 2, 1)
        cuda.synchronize()
        half = int(x.sum())
        x[::2] = half % 1000
        scale[20, 256](x, 3, 0)
        cuda.synchronize()
        return (np.asarray(x).copy(),)

    @program
    def mapped_and_registered_memory():
        m = cuda.mapped_array(N, np.int32)
        m[:] = integers
        scale[20, 256](m, 2, 1)
        mine = integers.copy()
        with cuda.mapped(mine) as there:
            scale[20, 256](there, 3, 2)
            cuda.synchronize()
        return np.asarray(m).copy(), mine

    @program
    def a_cooperative_grid():
        @cuda.jit
        def rounds(x):
            g = cuda.cg.this_grid()
            i = cuda.grid(1)
            for _ in range(4):
                other = x[(i + 1) % x.size]
                g.sync()
                x[i] += other
                g.sync()

        d = cuda.to_device(integers[:1024])
        rounds[8, 128](d)
        return (d.copy_to_host(),)

    @program
    def errors_are_the_same():
        codes = []
        p = int(call(cu.cuMemAlloc, 64))
        for attempt in (
            lambda: cu.cuMemAlloc(0),
            lambda: cu.cuMemFree(p + 4),
            lambda: cu.cuMemsetD32(p + 2, 0, 1),
            lambda: cu.cuEventElapsedTime(call(cu.cuEventCreate, 0), call(cu.cuEventCreate, 0)),
            lambda: cu.cuDeviceGet(99),
            lambda: cu.cuStreamCreate(99),
            lambda: cu.cuMemHostGetDevicePointer(np.zeros(4).ctypes.data, 0),
            lambda: cu.cuModuleLoadData(b"this is no code\0"),
        ):
            codes.append(int(attempt()[0]))
        call(cu.cuMemFree, p)
        return (np.array(codes),)


def run(names: list[str]) -> dict[str, np.ndarray]:
    """The arrays of the programs named (all where none is), by "program/number"."""
    _define()
    found = {}
    for name in names or PROGRAMS:
        for number, array in enumerate(PROGRAMS[name]()):
            found[f"{name}/{number}"] = np.array(array)
    return found


def main(device: str, path: str, *names: str) -> None:
    """See the module's text."""
    if device.startswith("virtual"):
        import grader.vgpu

        grader.vgpu.activate(device.partition(":")[2] or "a100")
    np.savez(path, **run(list(names)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""python docs/images/make.py [FOLDER]: draw the pictures of the documentation, on the virtual GPU.

    streams.png     copies and kernels of three streams, as `%%timeline` draws them
    warps.png       the warps of one block that fetch and that compute, as `%%warps` draws them

Into FOLDER go these and others, so that there is one of each kind: graph, managed, peers, reduction.
"""

import sys
from pathlib import Path

from grader import vgpu

vgpu.activate("a100*2")
vgpu.options().racecheck = vgpu.options().initcheck = False

import numpy as np  # noqa: E402
from numba import cuda, float32, uint64  # noqa: E402

from grader.kit import cp_async, cp_async_arrive, mbarrier_arrive, mbarrier_init, mbarrier_wait  # noqa: E402
from grader.vgpu.timeline import Timeline  # noqa: E402
from grader.vgpu.warps import watch  # noqa: E402

HERE = Path(__file__).parent
N, TILE, STAGES = 1 << 20, 128, 2


@cuda.jit
def work(x, rounds):
    i = cuda.grid(1)
    v = x[i]
    for _ in range(rounds):
        v = v * float32(1.0001) + float32(0.5)
    x[i] = v


@cuda.jit
def ring(x, y, tiles):
    """One warp fetches, four compute; a ring of STAGES tiles lies between them."""
    tile = cuda.shared.array((STAGES, TILE), float32, alignment=16)
    full, empty = cuda.shared.array(STAGES, uint64), cuda.shared.array(STAGES, uint64)
    t = cuda.threadIdx.x
    if t < STAGES:
        mbarrier_init(full, t, 32)
        mbarrier_init(empty, t, TILE)
    cuda.syncthreads()
    first = cuda.blockIdx.x * tiles * TILE
    if t < 32:
        for k in range(tiles):
            s = k % STAGES
            if k >= STAGES:
                mbarrier_wait(empty, s, (k // STAGES - 1) & 1)
            cp_async(tile, (s, 4 * t), x, first + TILE * k + 4 * t, 16)
            cp_async_arrive(full, s)
    else:
        total = float32(0)
        for k in range(tiles):
            s = k % STAGES
            mbarrier_wait(full, s, (k // STAGES) & 1)
            for j in range(6):
                total += tile[s, (t - 32) ^ j]
            mbarrier_arrive(empty, s)
        y[cuda.blockIdx.x * TILE + t - 32] = total


@cuda.jit
def reduction(x, out):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def timeline(run) -> Timeline:
    """What `run` does, the second time: the first one compiles."""
    run()
    vgpu.finish()
    spans, calls = len(vgpu.spans()), len(vgpu.calls())
    run()
    vgpu.finish()
    return Timeline.now(spans, calls)


def streams() -> Timeline:
    """Eight chunks in three streams: copied in, computed, copied out."""
    host, device = cuda.pinned_array(N, np.float32), cuda.device_array(N, np.float32)
    host[:] = 1
    three = [cuda.stream() for _ in range(3)]

    def run():
        size = N // 8
        for k in range(8):
            part, stream = slice(k * size, (k + 1) * size), three[k % 3]
            device[part].copy_to_device(host[part], stream=stream)
            work[size // 256, 256, stream](device[part], 400)
            device[part].copy_to_host(host[part], stream=stream)
        cuda.synchronize()

    return timeline(run)


def managed() -> Timeline:
    """A kernel that faults its data in, and the host that wants them back."""
    x = cuda.managed_array(N, np.float32)

    def run():
        x[:] = 1
        work[N // 256, 256](x, 10)
        cuda.synchronize()
        work[N // 256, 256](x, 10)
        cuda.synchronize()
        x[: N // 4].sum()

    return timeline(run)


def peers() -> Timeline:
    """Two devices work and exchange what they have."""
    halves = []
    for k in range(2):
        with cuda.gpus[k]:
            halves.append([cuda.device_array(N, np.float32) for _ in range(2)])

    def run():
        for k in range(2):
            with cuda.gpus[k]:
                work[N // 256, 256](halves[k][0], 200)
        for k in range(2):
            with cuda.gpus[k]:
                cuda.synchronize()
                halves[k][1].copy_to_device(halves[1 - k][0])
                cuda.synchronize()
                work[N // 256, 256](halves[k][1], 200)
        for k in range(2):
            with cuda.gpus[k]:
                cuda.synchronize()

    return timeline(run)


def graph() -> Timeline:
    """A graph of three small kernels, launched four times; then the same kernels one by one."""
    from cuda.core import Device

    device = Device()
    device.set_current()
    stream = device.create_stream()
    x = cuda.device_array(N // 64, np.float32)
    own = cuda.external_stream(int(stream.handle))
    work[N // 64 // 256, 256, own](x, 10)
    cuda.synchronize()
    builder = stream.create_graph_builder()
    builder.begin_building()
    captured = cuda.external_stream(int(builder.stream.handle))
    for _ in range(3):
        work[N // 64 // 256, 256, captured](x, 10)
    whole = builder.end_building().complete()

    def run():
        for _ in range(4):
            whole.launch(stream)
        for _ in range(3):
            work[N // 64 // 256, 256, own](x, 10)
        stream.sync()

    return timeline(run)


def warps(kernel, grid: int, block: int, *args):
    """The warps of the first block."""
    kernel[grid, block](*args)
    with watch() as blocks:
        kernel[grid, block](*args)
    return blocks[0]


def main(folder: Path, everything: bool) -> None:
    x, y = cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32)
    streams().figure().savefig(folder / "streams.png", dpi=100)
    warps(ring, 64, 32 + TILE, x, y, 32).figure(cycles=5000).savefig(folder / "warps.png", dpi=100)
    if everything:
        for make in (graph, managed, peers):
            make().figure().savefig(folder / f"{make.__name__}.png", dpi=100)
        warps(reduction, N // 256, 256, x, y).figure().savefig(folder / "reduction.png", dpi=100)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    target.mkdir(exist_ok=True)
    main(target, everything=len(sys.argv) > 1)

"""What runs inside the process that holds a device. No student Python ever runs there."""

import hashlib
import os
from dataclasses import replace

from grader import program_check  # noqa: F401  (imported now: a locked child cannot read it later)
from grader.devices import parcel
from grader.program import Buffer, Launch, Program, Relocation

_PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry warm(.param .u64 x)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<3>;
    .shared .align 4 .b8 tile[128];
    ld.param.u64 %rd1, [x];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 1065353216;
    st.shared.u32 [tile], %r1;
    bar.sync 0;
    ld.shared.u32 %r2, [tile];
    st.global.u32 [%rd2], %r2;
    ret;
}
"""
_LAUNCH = Launch(0, "warm", (1, 1, 1), (1, 1, 1), 0, bytes(8), (Relocation(0, 0, 0),))


def warm_virtual() -> None:
    """Switch the virtual GPU on (GRADER_DEVICE says which) and import what a replay needs."""
    import grader.vgpu

    grader.vgpu.activate(os.environ["GRADER_DEVICE"])
    from grader.devices.player import Player
    from grader.devices.probe import VirtualProbe

    # One launch of each kind: what it compiles and loads is then there in every child, which cannot keep it on disk.
    # Two streams at once have racecheck look at what launches leave behind.
    player, probe = Player(), VirtualProbe(launch_s=60.0)
    made = [Buffer(4, "device", "output", "x", "<f4", (1,))], [_PTX]
    apart = replace(_LAUNCH, stream=1), replace(_LAUNCH, stream=2)
    streams = ("legacy", "non-blocking", "non-blocking")
    for program in (Program.make(*made, [_LAUNCH]), Program.make(*made, apart, streams=streams, clock="host")):
        for sanitize in (True, False):
            probe.start(sanitize, profile=not sanitize)
            player.play(program, {}, poison=None)
    probe.stop()


def warm_assembler() -> None:
    """Import the assembler."""
    import cuda.core  # noqa: F401


def count() -> int:
    """How many devices the driver offers."""
    from cuda.bindings import driver as cu

    if cu.cuInit(0)[0]:
        return 0
    error, n = cu.cuDeviceGetCount()
    return 0 if error else n


def describe(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """A job: {"name", "kind", "cc", "driver"} of the virtual GPU."""
    return {**_about(0), "kind": "modelled"}, []


def assemble(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """A job: PTX -> cubin for the compute capability asked for."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    arch = "sm_{}{}".format(*request["cc"])
    linker = Linker(ObjectCode.from_ptx(blobs[0]), options=LinkerOptions(arch=arch))
    return {}, [bytes(linker.link("cubin").code)]


def replay_virtual(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """A job: the runs of a request on the virtual GPU."""
    from grader.devices.player import Player
    from grader.devices.probe import VirtualProbe

    probe = VirtualProbe(request["launch_s"])
    return _replay(request, blobs, Player(watcher=probe), probe)


def serve_cuda() -> None:
    """Be the process that holds a real GPU: requests on standard input, replies on standard output."""
    from cuda.bindings import driver as cu

    from grader.devices.nvml import Nvml
    from grader.devices.player import Player
    from grader.sandbox import wire

    ordinal = int(os.environ["GRADER_CUDA_ORDINAL"])
    out = os.dup(1)
    os.dup2(2, 1)  # whatever a kernel or a library prints must not end up among the frames
    cubins: dict[str, bytes] = {}
    player = Player(ordinal, assemble=lambda ptx: cubins[hashlib.sha256(ptx).hexdigest()])
    flush = _about(ordinal)["l2_bytes"] * 2
    _no_persisting_l2(cu)
    nvml = Nvml(cu.cuDeviceGetPCIBusId(20, cu.cuDeviceGet(ordinal)[1])[1].split(b"\0")[0].decode())
    reader = wire.Reader(max_header=1 << 24, max_blobs=1 << 36)
    while data := os.read(0, 1 << 20):
        reader.feed(data)
        while (frame := reader.next()) is not None:
            request, blobs = frame
            if "describe" in request:
                free = cu.cuMemGetInfo()[1]
                reply = _about(ordinal) | {"free_bytes": free, "watched": not nvml.why, "not_watched": nvml.why}, []
            else:
                cubins |= {d: blobs[i] for d, i in request["cubins"].items()}
                reply = _replay(request | {"flush": flush}, blobs, player, None, nvml)
            for piece in wire.pack(*reply):
                view = memoryview(piece)
                while view:
                    view = view[os.write(out, view) :]


def _replay(request: dict, blobs: list[bytes], player, probe, nvml=None) -> tuple[dict, list[bytes]]:
    from grader.devices.driver import DeviceError

    reply: dict = {"device": _about(player.ordinal)["name"], "runs": []}
    out: list[bytes] = []
    for run in parcel.unpack_request(request, blobs):
        sanitize = run["sanitize"] and probe is not None
        entry = {"outputs": {}, "seconds": None, "fault": None, "sanitized": sanitize}
        entry |= {"overrun": [], "changed": [], "late": []}
        entry |= {"host_seconds": None, "card": None}
        if probe:
            probe.start(sanitize, profile=run["timed"])
        # A sanitized run leaves fresh memory as the allocator made it: then initcheck knows that nobody wrote it.
        poison = None if sanitize else run["poison"]
        flush = request["flush"] if run["timed"] else 0
        try:
            played = player.play(run["program"], run["inputs"], poison, request.get("guard", 0), flush)
            entry["seconds"] = played.seconds
            entry |= {k: list(getattr(played, k)) for k in ("overrun", "changed", "late")}
            if probe is None:  # a model's seconds have nothing to do with the host's
                entry |= {"host_seconds": played.host_seconds, "card": nvml.state() if nvml else None}
            for name, contents in played.outputs.items():
                entry["outputs"][name] = len(out)
                out.append(contents)
        except DeviceError as e:
            if probe and e.error == "CUDA_ERROR_UNKNOWN":  # the virtual GPU's word for a defect of its own
                raise
            entry["fault"] = (probe and probe.fault()) or {"kind": e.kind, "message": str(e), "line": None, "file": ""}
        entry |= {"findings": probe.findings(), "counters": probe.counters()} if probe else _NOTHING
        reply["runs"].append(entry)
        if entry["fault"]:
            break
    return reply, out


_NOTHING: dict = {"findings": [], "counters": {}}


def _about(ordinal: int) -> dict:
    from cuda.bindings import driver as cu

    from grader.devices.driver import call

    call(cu.cuInit, 0)
    device = call(cu.cuDeviceGet, ordinal)
    name = call(cu.cuDeviceGetName, 256, device).split(b"\0")[0].decode()
    cc = tuple(_attribute(device, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    # Two transfers a clock; a fused multiply-add is two operations, and tensor cores do float32 in the shape of TF32 up
    # to 8 times as fast (A100: 156 against 19.5 TFLOP/s, NVIDIA A100 datasheet).
    bus_bytes = _attribute(device, "GLOBAL_MEMORY_BUS_WIDTH") / 8
    lanes = _lanes(cc) * _attribute(device, "MULTIPROCESSOR_COUNT")
    there = range(ordinal, call(cu.cuDeviceGetCount))
    return {
        "name": name,
        "cc": list(cc),
        "devices": len(there),
        "uuids": [bytes(call(cu.cuDeviceGetUuid, k).bytes).hex() for k in there],
        "driver": call(cu.cuDriverGetVersion),
        "memory_bytes_per_s": 2 * bus_bytes * _attribute(device, "MEMORY_CLOCK_RATE") * 1e3,
        "flop_per_s": 8 * 2 * lanes * _attribute(device, "CLOCK_RATE") * 1e3,
        "l2_bytes": _attribute(device, "L2_CACHE_SIZE"),
    }


def _no_persisting_l2(cu) -> None:
    """No part of the L2 cache is set aside for data that outlives the flush."""
    cu.cuCtxSetLimit(cu.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0)  # refused where there is no such part


def _lanes(cc: tuple[int, int]) -> int:
    """float32 lanes of a multiprocessor (CUDA C++ Programming Guide, compute capabilities, arithmetic throughput)."""
    return 64 if cc in ((7, 0), (7, 2), (7, 5), (8, 0)) else 128


def _attribute(device, name: str) -> int:
    """CU_DEVICE_ATTRIBUTE_<name>; clock rates are in kHz, widths in bits."""
    from cuda.bindings import driver as cu

    from grader.devices.driver import call

    return call(cu.cuDeviceGetAttribute, getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), device)

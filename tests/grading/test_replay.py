"""Programs replayed by the device process: every kind of operation, faults, hazards, times and counters."""

import os
import subprocess
import sys

import numpy as np
import pytest

from grader import caches
from grader.devices import CARDS, Run, UnknownDevice, parcel, resolve
from grader.program import Buffer, Copy, Fill, Launch, Place, Program, Record, Relocation, Sync, Wait

N = 64
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y)
{
    .reg .b64 %rd<8>;
    .reg .b32 %r<4>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f1, [%rd6];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd7], %f2;
    ret;
}
.visible .entry forever(.param .u64 x, .param .u64 y)
{
    .reg .b32 %r<2>;
    mov.u32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    bra again;
}
"""


def array(role: str, name: str, n: int = N) -> Buffer:
    return Buffer(4 * n, "device", role, name, "<f4", (n,))


X, Y = array("input", "x"), array("output", "y")


def launch(source: int = 0, target: int = 1, threads: int = N, kernel: str = "twice", **more) -> Launch:
    places = (Relocation(0, source, 0), Relocation(8, target, 0))
    return Launch(0, kernel, (1, 1, 1), (threads, 1, 1), 0, bytes(16), places, **more)


def program(*ops, buffers=(X, Y), **more) -> Program:
    return Program.make(buffers, [PTX], ops, **more)


def inputs():
    return {"x": np.arange(N, dtype="<f4") + 1}


def play(bench, *programs, **options):
    return bench.device.replay([Run(p, inputs(), **options) for p in programs])


def test_a_launch_gets_the_inputs_of_each_run(bench):
    runs = [Run(program(launch()), {"x": np.full(N, k, "<f4")}) for k in (1, 5)]
    first, second = bench.device.replay(runs)
    assert (first.outputs["y"] == 2).all() and (second.outputs["y"] == 10).all()
    assert first.kind == "modelled" and "A100" in first.device


def test_copies_fills_streams_and_events_are_replayed(bench):
    temp = Buffer(4 * N, "device", "temp")
    table = Buffer(16, "pageable", "temp", initial=0)
    ops = (
        Fill(Place(2, 0), 4, 0, N, stream=1),
        Copy(Place(2, 0), Place(0, 0), 4 * N, stream=1),
        Record(9, 1),
        Wait(2, 9),
        launch(2, 1, stream=2),
        Sync("stream", 2),
        Copy(Place(1, 0), Place(3, 0), 16, blocking=True),
        Copy(Place(1, 16), None, 4, blob=1, blocking=True),
        Sync("event", 9),
        Sync("context"),
    )
    contents = np.array([7, 8, 9, 10], "<f4").tobytes()
    streams = ("legacy", "non-blocking", "non-blocking")
    built = program(*ops, buffers=(X, Y, temp, table), blobs=(contents, np.float32(-1).tobytes()), streams=streams)
    (result,) = play(bench, built, sanitize=True)
    assert result.fault is None
    assert result.outputs["y"].tolist() == [7, 8, 9, 10, -1, *(2 * inputs()["x"][5:]).tolist()]


def test_outputs_are_poisoned_and_inputs_watched(bench):
    nothing, backwards = program(), program(launch(0, 0))
    one, other = play(bench, nothing, poison=0x11)[0], play(bench, nothing, poison=0x22)[0]
    assert set(one.outputs["y"].tobytes()) == {0x11} and set(other.outputs["y"].tobytes()) == {0x22}
    assert play(bench, backwards)[0].changed == ("x",)


@pytest.mark.parametrize("kind", ["device", "host", "managed"])
def test_guard_bands_tell_of_writes_next_to_a_buffer(bench, kind):
    """As on a real GPU, where no sanitizer watches: the buffers lie inside larger allocations."""
    y = Buffer(4 * N, kind, "output", "y", "<f4", (N,))
    plain = Buffer(4 * N, "pageable", "inout", "p", "<f4", (N,))
    copied = Copy(Place(2, 0), Place(1, 0), 4 * N, blocking=True)
    for threads, overrun in ((N, ()), (N + 4, ("y",))):
        built = program(launch(threads=threads), copied, buffers=(X, y, plain), clock="host")
        run = Run(built, inputs() | {"p": np.zeros(N, "<f4")})
        request, blobs = parcel.pack([run], launch_s=6.0, flush=0, guard=256)
        outcome = bench.device._run("grader.devices.worker:replay_virtual", request, blobs)
        (result,) = parcel.unpack_reply(outcome.header, outcome.blobs, [run], "modelled")
        assert (result.fault, result.overrun) == (None, overrun)
        assert (result.outputs["p"] == 2 * inputs()["x"]).all()


def test_out_of_bounds_is_a_fault_that_names_the_array_and_ends_the_batch(bench):
    results = play(bench, program(launch()), program(launch(threads=N + 32)), program(launch()))
    assert [r.fault and r.fault.kind for r in results] == [None, "illegal_address"]
    assert "array x" in results[1].fault.message


def test_the_device_is_as_new_after_a_fault(bench):
    play(bench, program(launch(threads=N + 32)))
    assert play(bench, program(launch()))[0].fault is None


def test_reading_what_nobody_wrote_is_found(bench):
    (result,) = play(bench, program(launch(1, 1)), sanitize=True)
    assert {f.tool for f in result.findings} == {"initcheck"}
    assert play(bench, program(launch(1, 1)))[0].findings == ()


def test_a_kernel_that_never_ends_is_a_fault_in_time(bench):
    (result,) = play(bench, program(launch(kernel="forever")))
    assert result.fault.kind in ("timeout", "deadlock")


def test_a_timed_run_has_a_time_and_exact_counters(bench):
    (result,) = play(bench, program(launch()), timed=True)
    assert 0 < result.seconds < 1e-3
    assert (result.counters["global_load_requests"], result.counters["global_load_sectors"]) == (2, 8)
    assert (result.counters["global_store_sectors"], result.counters["shared_requests"]) == (8, 0)


def test_a_kernel_that_is_not_there_and_arguments_that_are_too_short_are_faults(bench):
    short = Launch(0, "twice", (1, 1, 1), (1, 1, 1), 0, bytes(8), (Relocation(0, 0, 0),))
    for built in (program(launch(kernel="nope")), program(short)):
        assert play(bench, built)[0].fault.kind == "launch"


def test_a_module_that_is_nonsense_is_a_fault_of_the_program(bench):
    built = Program.make((X, Y), [b".version 7.0\n.target sm_75\nnonsense;"], [launch()])
    assert play(bench, built)[0].fault.kind == "launch"


@pytest.mark.parametrize("spec", ["tpu", "cuda:x", "auto:1", "", "cuda:7", "h100:1"])
def test_unknown_devices_are_refused(spec):
    with pytest.raises(UnknownDevice):
        resolve(spec)


def test_names_are_completed():
    assert resolve("virtual") == "virtual:a100"
    assert resolve(" Virtual:T4 ") == "virtual:t4"
    assert resolve("H100") == "virtual:h100" and resolve("a100*4") == "virtual:a100*4"


def test_the_cards_names_are_those_of_the_virtual_gpu():
    """Asked in a process of its own: here other tests may have added cards."""
    said = "from grader.vgpu import devices; print(*devices.CARDS)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert tuple(done.stdout.split()) == CARDS


def test_what_python_calls_is_compiled_before_a_child_is_locked():
    """A child cannot keep machine code on disk, and would fail on a machine whose cache is new."""
    said = "from grader.devices.worker import warm_virtual\nfrom grader.vgpu.sanitize.race import survey\n"
    said += "warm_virtual()\nprint(len(survey.signatures))"
    environment = {**os.environ, **caches.environment(), "GRADER_DEVICE": "virtual:a100"}
    done = subprocess.run([sys.executable, "-c", said], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"

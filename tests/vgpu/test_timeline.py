"""Timelines: measures, trace files, pictures, magics."""

import json

import pytest

from grader.vgpu.driver.clock import Span
from grader.vgpu.timeline import Timeline, short_name


def span(kind, start, end, stream=1, engine=None, **more):
    name = more.pop("name", kind)
    return Span(
        name, kind, more.pop("device", 0), stream, engine or {"kernel": "compute"}.get(kind, kind), start, end, **more
    )


PIPELINE = Timeline(
    [
        span("h2d", 0, 10, nbytes=4_000_000),
        span("kernel", 10, 30, name="_ZN8__main__5scaleB2v1B4abcdE5ArrayIfLi1E1C7mutable7alignedEi"),
        span("h2d", 10, 20, stream=2, nbytes=4_000_000),
        span("kernel", 32, 40, stream=2),
        span("d2h", 30, 40, nbytes=4_000_000),
    ],
    [span("call", 0, 2, engine="api", name="cuLaunchKernel")],
)


def test_overlap_is_the_part_of_the_copies_time_with_a_kernel_running():
    assert PIPELINE.overlap == pytest.approx((10 + 8) / 30)


def test_idle_time_lies_between_work():
    assert PIPELINE.idle == 0
    apart = Timeline([span("kernel", 0, 10), span("kernel", 15, 20), span("kernel", 21, 30)])
    assert (apart.idle, apart.gaps) == (6, [(10, 15), (20, 21)])
    assert apart.overlap == 0


def test_faults_are_added_up():
    assert Timeline([span("kernel", 0, 100), span("fault", 0, 60, engine="faults")]).faults == 60


def test_rows_are_host_streams_and_engines():
    assert [row.label for row in PIPELINE.rows()] == [
        "driver calls", "stream 1", "stream 2", "copy engine H2D", "copy engine D2H",
    ]  # fmt: skip


def test_launches_of_a_graph_are_one_span_each():
    nodes = [span("kernel", at, at + 1, graph=7) for at in (0, 1.2, 2.4, 50, 51.2)]
    row = Timeline(nodes).rows()[0]
    assert row.label == "graph 7"
    assert [(s.start_us, s.end_us) for s in row.spans] == [(0, 3.4), (50, 52.2)]


def test_devices_have_their_own_rows():
    both = Timeline([span("kernel", 0, 1), span("kernel", 0, 1, device=1), span("p2p", 1, 3, engine="p2p")])
    assert [(row.group, row.label) for row in both.rows()] == [
        ("GPU 0", "stream 1"), ("GPU 0", "peer copies"), ("GPU 1", "stream 1"),
    ]  # fmt: skip


def test_the_trace_is_what_perfetto_reads(tmp_path):
    PIPELINE.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {"name", "ph", "pid", "tid", "ts", "dur"} <= events[0].keys()
    assert sorted(e["dur"] for e in events if e["cat"] == "kernel") == [8, 20]
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] in ("process_name", "thread_name")}
    assert {"host", "GPU 0", "stream 1", "copy engine H2D"} <= names


def test_the_picture_says_what_is_in_it(tmp_path):
    PIPELINE.save(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    axes = PIPELINE.figure().axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()][:2] == ["driver calls", "stream 1"]
    assert axes.get_xlabel() == "time, us (modelled)"
    assert "60% while a kernel ran" in axes.get_title(loc="left")
    assert "scale" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("add_one", "add_one"),
        ("_ZN8__main__5scaleB2v1B4abcdE5ArrayIfLi1E1C7mutable7alignedEi", "scale"),
        ("_Z5saxpyifPfS_", "saxpy"),
    ],
)
def test_names_of_kernels_are_shown_without_mangling(name, short):
    assert short_name(name) == short


def test_an_empty_timeline_has_no_measures_and_a_picture():
    empty = Timeline([])
    assert (empty.overlap, empty.idle, empty.faults) == (0, 0, 0)
    assert empty.figure()


CELL = """
import numpy as np
from numba import cuda

@cuda.jit
def triple(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 3

d = cuda.to_device(np.ones(1000, np.float32))
triple[8, 128](d)
"""


@pytest.fixture(scope="module")
def shell():
    from IPython.core.interactiveshell import InteractiveShell

    from grader.vgpu import magics

    shell = InteractiveShell.instance()
    magics.register(shell)
    yield shell
    InteractiveShell.clear_instance()


def test_the_timeline_magic_draws_the_cell_and_waits_for_what_it_queued(shell, tmp_path, capsys):
    shell.run_cell_magic("timeline", str(tmp_path / "t.json"), CELL)
    assert "<Timeline:" in capsys.readouterr().out
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e.get("cat") == "kernel"] == ["triple"]


def test_the_profile_magic_prints_a_table_for_each_kernel(shell, capsys):
    shell.run_cell_magic("profile", "", CELL)
    out = capsys.readouterr().out
    assert "triple  grid 8x1x1, block 128x1x1" in out
    assert "every block counted" in out


def test_the_profile_magic_can_be_asked_for_one_kernel(shell, capsys):
    shell.run_cell_magic("profile", "other", CELL)
    assert "no such kernel was launched" in capsys.readouterr().out


def test_a_cell_without_work_says_so(shell, capsys):
    shell.run_cell_magic("timeline", "", "x = 1")
    assert "nothing to do" in capsys.readouterr().out

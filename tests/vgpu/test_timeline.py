"""Timelines: measures, trace files, pictures, magics."""

import itertools
import json

import pytest

from grader.vgpu.driver.clock import Span
from grader.vgpu.names import short_name
from grader.vgpu.timeline import Timeline


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


def test_overlap_counts_what_lies_across_several_spans_once():
    kernels = [span("kernel", at, at + 4) for at in (0, 5, 10, 30)]
    copies = [span("h2d", 2, 12), span("d2h", 12, 13), span("h2d", 31, 32), span("h2d", 33, 40)]
    assert Timeline(kernels + copies).copies == 19
    assert Timeline(kernels + copies).overlap == pytest.approx((2 + 4 + 3 + 1 + 1) / 19)


def test_a_timeline_of_very_many_spans_has_its_measures():
    many = [s for k in range(20_000) for s in (span("kernel", 4 * k, 4 * k + 2), span("h2d", 4 * k + 1, 4 * k + 3))]
    assert Timeline(many).overlap == pytest.approx(0.5)


def test_idle_time_lies_between_work():
    assert PIPELINE.idle == 0
    apart = Timeline([span("kernel", 0, 10), span("kernel", 15, 20), span("kernel", 21, 30)])
    assert (apart.idle, apart.gaps) == (6, [(10, 15), (20, 21)])
    assert apart.overlap == 0


def test_idle_time_is_the_devices_and_in_all_has_the_hosts_calls_as_well():
    work, calls = [span("kernel", 10, 20), span("kernel", 24, 30)], [span("call", 0, 5), span("call", 31, 37)]
    shown = Timeline(work, calls)
    assert (shown.length, shown.kernels, shown.idle, shown.gaps) == (37, 16, 4, [(20, 24)])
    assert shown.length == Timeline(work).length + 10 + 7
    assert shown.summary() == "37.0 us in all; kernels 16.0 us; the device idle 4.0 us between work (modelled)"
    assert sum(b - a for a, b in shown.gaps) == shown.idle


def test_a_host_that_takes_most_of_the_time_before_any_work_is_told():
    shown = Timeline([span("kernel", 60, 100)], [span("call", 0, 50)])
    assert shown.lead == 60
    assert shown.summary().startswith(
        "100.0 us in all, the first 60.0 us of it before the device had work; kernels 40.0"
    )
    assert Timeline([], [span("call", 0, 50)]).lead == 0


def test_faults_are_added_up():
    assert Timeline([span("kernel", 0, 100), span("fault", 0, 60, engine="faults")]).faults == 60


def test_rows_are_host_streams_and_engines():
    assert [row.label for row in PIPELINE.rows()] == [
        "driver calls", "stream 1", "stream 2", "copy engine H2D", "copy engine D2H",
    ]  # fmt: skip


def test_launches_of_a_graph_are_one_span_each():
    nodes = [span("kernel", at, at + 1, graph=7, launch=1 + (at > 2)) for at in (0, 1.2, 2.4, 3.6, 51.2)]
    row = Timeline(nodes).rows()[0]
    assert row.label == "graph 7"
    assert [(s.start_us, s.end_us) for s in row.spans] == [(0, 2.2), (2.4, 52.2)]


def test_the_hosts_page_faults_are_the_hosts_and_keep_no_device_busy():
    both = Timeline([span("kernel", 0, 10), span("fault", 10, 50, 0, "host faults"), span("kernel", 50, 60)])
    assert [(row.group, row.label) for row in both.rows()] == [("host", "page faults"), ("GPU 0", "stream 1")]
    assert (both.idle, both.faults) == (40, 40)


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


def test_every_event_of_a_trace_is_complete_and_within_its_rows_time(tmp_path):
    """Chrome's trace event format: metadata (M) names processes and threads; complete events (X) have ts and dur >= 0."""
    both = Timeline([*PIPELINE.spans, span("kernel", 3, 9, device=1, graph=4, launch=1)], PIPELINE.calls)
    both.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"] == {"times": "modelled"} and trace["displayTimeUnit"] in ("ms", "ns")
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X") and isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert (event["pid"], event["tid"]) in named
            assert event["ts"] >= 0 and event["dur"] >= 0
    kernels = {(e["ts"], e["dur"]) for e in trace["traceEvents"] if e.get("cat") == "kernel"}
    assert kernels == {(s.start_us, s.end_us - s.start_us) for s in both.spans if s.kind == "kernel"}
    for row in both.rows():  # what stands in a stream or on an engine does not overlap
        if row.label.startswith(("stream", "copy engine")):
            at = sorted((s.start_us, s.end_us) for s in row.spans)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(at)), row.label


def test_a_title_that_is_wider_than_the_picture_takes_two_lines():
    much = Timeline([*PIPELINE.spans, span("fault", 0, 5, engine="faults")], PIPELINE.calls)
    title = much.figure().axes[0].get_title(loc="left")
    assert title.replace("\n", " ") == much.summary() and "page faults" in title
    assert [len(line) <= 133 for line in title.split("\n")] == [True, True]
    assert "\n" not in PIPELINE.figure().axes[0].get_title(loc="left")


def test_a_measured_timeline_says_so_everywhere():
    measured = Timeline(PIPELINE.spans, how="measured")
    assert measured.summary().endswith("(measured)") and measured.trace()["otherData"] == {"times": "measured"}
    assert measured.figure().axes[0].get_xlabel() == "time, us (measured)"


@pytest.mark.parametrize("name", ["t.bmp", "t", "t.json.gz", "png"])
def test_a_name_that_is_neither_picture_nor_trace_is_refused_and_the_good_ones_are_told(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf, or as a \.json trace"):
        PIPELINE.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*none"):
        PIPELINE.save(tmp_path / "none" / "t.png")


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

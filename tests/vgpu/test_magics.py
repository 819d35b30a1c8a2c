"""Cell magics: on the virtual GPU, on a GPU with and without CUPTI (as fakes), and in a process of their own."""

import enum
import json
from types import SimpleNamespace

import pytest
from IPython.core.error import UsageError

import grader.vgpu
from grader.vgpu import collectors, magics
from grader.vgpu.timeline import Timeline

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

    shell = InteractiveShell.instance()
    magics.register(shell)
    yield shell
    InteractiveShell.clear_instance()


def test_timeline_draws_the_cell_and_waits_for_what_it_queued(shell, tmp_path, capsys):
    shell.run_cell_magic("timeline", str(tmp_path / "t.json"), CELL)
    assert "<Timeline:" in capsys.readouterr().out
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e.get("cat") == "kernel"] == ["triple"]


def test_timeline_refuses_a_file_of_another_kind_before_the_cell_runs(shell, tmp_path, capsys):
    with pytest.raises(UsageError, match=r"t\.bmp: a timeline is saved as a picture"):
        shell.run_cell_magic("timeline", str(tmp_path / "t.bmp"), "ran = True")
    assert "ran" not in shell.user_ns and not list(tmp_path.iterdir())


def test_profile_prints_a_table_for_each_kernel(shell, capsys):
    shell.run_cell_magic("profile", "", CELL)
    out = capsys.readouterr().out
    assert "triple  grid 8x1x1, block 128x1x1" in out
    assert "every block counted" in out


def test_profile_and_warps_can_be_asked_for_one_kernel(shell, capsys):
    for name in ("profile", "warps"):
        shell.run_cell_magic(name, "other", CELL)
        assert "no kernel whose name holds 'other' was launched" in capsys.readouterr().out


def test_warps_draws_one_block_of_each_kernel_once(shell, capsys):
    shell.run_cell_magic("warps", "", CELL + "triple[8, 128](d)")
    out = capsys.readouterr().out
    assert out.count("BlockTimeline(kernel='triple', warps=4)") == 1


def test_a_cell_without_work_says_so(shell, capsys):
    shell.run_cell_magic("timeline", "", "x = 1")
    assert capsys.readouterr().out == magics.NOTHING + "\n"
    shell.run_cell_magic("profile", "", "x = 1")
    assert capsys.readouterr().out == "no kernel was launched\n"


# ---------------------------------------------------------------- a GPU, as fakes
@pytest.fixture
def on_a_gpu(monkeypatch):
    """The session has no virtual GPU, as far as the magics can see. Its driver does what a GPU's would."""
    monkeypatch.setattr(collectors.vgpu, "active", list)
    monkeypatch.setattr(collectors, "_cupti", no_cupti)
    return monkeypatch


def no_cupti():
    raise ModuleNotFoundError("No module named 'cupti'", name="cupti")


def test_without_cupti_the_whole_is_measured_and_what_is_missing_is_said(shell, on_a_gpu, capsys):
    shown = []
    on_a_gpu.setattr(magics, "_display", shown.append)
    shell.run_cell_magic("timeline", "", CELL)
    out = capsys.readouterr().out
    assert "Only the time of the whole cell is measured here." in out
    assert "`pip install cupti-python`" in out and "--virtual" in out
    (timeline,) = shown
    assert timeline.how == "measured" and [s.kind for s in timeline.spans] == ["whole"]
    assert timeline.summary().endswith("in all (measured)")
    assert timeline.figure().axes[0].get_xlabel().endswith("(measured)")


def test_profile_says_how_to_get_counters_and_measures_what_it_can(shell, on_a_gpu, capsys):
    on_a_gpu.setattr("shutil.which", lambda name: None)
    shell.run_cell_magic("profile", "", CELL)
    out = capsys.readouterr().out
    assert "Counters of a running notebook cannot be read on a GPU." in out
    assert "(ncu) is not on this machine's path" in out and "--virtual" in out
    assert "us (measured)" in out


def test_profile_names_ncu_where_it_is_and_a_machine_that_forbids_it(on_a_gpu):
    on_a_gpu.setattr("shutil.which", lambda name: f"/opt/{name}")
    on_a_gpu.setattr("pathlib.Path.exists", lambda self: True)
    on_a_gpu.setattr("pathlib.Path.read_text", lambda self: "Mobile: 4294967295\nRmProfilingAdminOnly: 1\n")
    first, second, third = collectors.counters_missing()
    assert "Nsight Compute is here (/opt/ncu)" in first
    assert "only its administrator" in second and third == collectors.ELSEWHERE


def test_warps_are_seen_on_the_virtual_gpu_only(shell, on_a_gpu, capsys):
    shell.run_cell_magic("warps", "", "ran = 1")
    assert "is seen on the virtual GPU only" in capsys.readouterr().out
    assert shell.user_ns["ran"] == 1


class Kind(enum.IntEnum):
    MEMCPY, MEMSET, DRIVER, CONCURRENT_KERNEL, MEMCPY2, OTHER = 1, 2, 4, 10, 22, 99


class Way(enum.IntEnum):
    HTOD, DTOH, DTOD, PTOP = 1, 2, 8, 10


class FakeCupti:
    """The part of the module cupti.cupti that the collector uses; `records`: what the device is to have done."""

    ActivityKind, ActivityMemcpyKind = Kind, Way
    CallbackDomain = SimpleNamespace(DRIVER_API=1)

    class cuptiError(Exception):
        pass

    def __init__(self, records=(), refuses=None):
        self.records, self.refuses, self.on = list(records), refuses, set()

    def activity_register_callbacks(self, requested, completed):
        assert requested() == (8 << 20, 0)
        self.completed = completed

    def activity_enable(self, kind):
        if self.refuses:
            raise self.refuses
        self.on.add(kind)

    def activity_disable(self, kind):
        self.on.discard(kind)

    def activity_flush_all(self, flag):
        assert flag == 1
        for record in self.records:  # one by one, and gone once they have been read
            if record.kind in self.on:
                self.completed([record])
            vars(record).clear()

    def get_timestamp(self):
        return 1_000_000

    def get_callback_name(self, domain, cbid):
        return {17: "cuMemcpyHtoDAsync_v2"}[cbid]

    def get_stream_id_ex(self, context, stream, per_thread):
        return 7


def record(kind, start, end, **more):
    """An activity that starts and ends so many ns after the collector's start."""
    where = {"device_id": 0, "stream_id": 13, "graph_id": 0}
    return SimpleNamespace(kind=kind, start=1_000_000 + start, end=1_000_000 + end, **(where | more))


def test_cuptis_records_become_the_same_timeline(on_a_gpu):
    fake = FakeCupti(
        [
            record(Kind.DRIVER, 100, 600, cbid=17),
            record(Kind.MEMCPY, 1000, 5000, copy_kind=Way.HTOD, bytes=4096),
            record(Kind.CONCURRENT_KERNEL, 4000, 9000, name="_Z5saxpyifPfS_", stream_id=7),
            record(Kind.MEMCPY, 9000, 10000, copy_kind=Way.DTOH, bytes=64),
            record(Kind.MEMCPY2, 9000, 10000, bytes=64, device_id=1),
            record(Kind.MEMSET, 20000, 21000, bytes=16, graph_id=3),
            record(Kind.CONCURRENT_KERNEL, -500, -100, name="before"),
        ]
    )
    on_a_gpu.setattr(collectors, "_cupti", lambda: fake)
    collector = collectors.choose()
    collector.start()
    shown = collector.stop()
    assert fake.on == set()
    assert isinstance(shown, Timeline) and shown.how == "measured"
    assert [(s.kind, s.stream, s.start_us, s.end_us, s.nbytes) for s in shown.spans] == [
        ("h2d", 13, 1, 5, 4096), ("kernel", 0, 4, 9, 0), ("d2h", 13, 9, 10, 64), ("p2p", 13, 9, 10, 64), ("set", 13, 20, 21, 16),
    ]  # fmt: skip
    assert [(c.name, c.start_us) for c in shown.calls] == [("cuMemcpyHtoDAsync", 0.1)]
    assert shown.overlap == pytest.approx(1 / 5) and shown.idle == 10
    labels = [row.label for row in shown.rows()]
    assert labels[:3] == ["driver calls", "graph 3", "default stream"]


@pytest.mark.parametrize(
    "error", [FakeCupti.cuptiError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"), RuntimeError("CUDA driver is not found")]
)
def test_cupti_that_does_not_work_gives_way_to_events_and_says_why(on_a_gpu, error):
    on_a_gpu.setattr(collectors, "_cupti", lambda: FakeCupti(refuses=error))
    collector = collectors.choose()
    assert isinstance(collector, collectors.Events)
    assert f"CUPTI does not work here ({error})" in collector.missing[0]


# ---------------------------------------------------------------- the virtual run of the same cell
def test_the_same_cell_is_run_on_a_virtual_gpu_elsewhere(shell, on_a_gpu, capsys):
    shown = []
    on_a_gpu.setattr(magics, "_display", shown.append)
    setup, rest = CELL.split("d = ")
    on_a_gpu.setitem(
        shell.user_ns, "In", ["", setup, "raise ValueError('as it did before')", "%%timeline --virtual=t4"]
    )
    shell.run_cell_magic("timeline", "--virtual=t4", "d = " + rest + "\nprint('ran')")
    out = capsys.readouterr().out
    assert out == "ran\non the virtual GPU Tesla T4, in a process of its own; times are modelled\n"
    (timeline,) = shown
    assert timeline.how == "modelled" and [s.kind for s in timeline.spans] == ["h2d", "kernel"]


def test_a_virtual_gpu_that_there_is_not_is_a_sentence(shell, on_a_gpu, capsys):
    shell.run_cell_magic("timeline", "--virtual=gtx1", "x = 1")
    out = capsys.readouterr().out
    assert out.startswith(
        "the virtual run of this cell ended with status 1: ValueError: no virtual GPU is called 'gtx1'"
    )


def test_the_session_has_its_own_device_still():
    assert grader.vgpu.active()

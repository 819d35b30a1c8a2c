"""Each rule on host functions, on recordings made by hand; and the listing of one."""

from dataclasses import replace

import pytest

from grader import cli, listing
from grader.evidence import Built, CaseRun, Evidence, RunResult, Side, Timing
from grader.problems.model import Case
from grader.program import (
    Advise,
    Alloc,
    Buffer,
    Copy,
    Fill,
    Free,
    Graph,
    GraphLaunch,
    GraphUpdate,
    HostCopy,
    HostWrite,
    Launch,
    Node,
    Place,
    Prefetch,
    Program,
    Record,
    Register,
    Relocation,
    Sync,
    Unregister,
    Wait,
)
from grader.rules import host
from grader.rules.host import Given
from grader.rules.kernels import code

CASE = Case({"n": 4})
BUFFERS = (
    Buffer(16, "host", "input", "x", "<f4", (4,)),
    Buffer(16, "pageable", "output", "y", "<f4", (4,)),
    Buffer(16, "device", "scratch", "d", "<f4", (4,)),
    Buffer(16, "managed", "inout", "m", "<f4", (4,)),
    Buffer(64, "device", "temp"),
)
STREAMS = ("legacy", "blocking", "non-blocking")
IN, OUT = Copy(Place(2, 0), Place(0, 0), 16, stream=1), Copy(Place(1, 0), Place(2, 0), 16, stream=1, blocking=True)


KERNEL = "_ZN3foo4stepB2v1E"


def ptx(name: str = KERNEL, body: str = "ret;", line: int = 1) -> bytes:
    return f"// by hand\n.version 8.0\n.visible .entry {name}()\n{{\n.loc 1 {line} 0\n{body}\n}}\n".encode()


def launch(stream=1, grid=(2, 1, 1), block=(32, 1, 1), module=0) -> Launch:
    return Launch(module, KERNEL, grid, block, 0, bytes(8), (Relocation(0, 2, 4),), stream)


def program(*ops, blobs=(bytes(4), bytes(8)), **more) -> Program:
    modules = [ptx(), ptx(body="trap;")]
    return Program.make(BUFFERS, modules, ops, blobs=blobs, streams=STREAMS, clock="host", **more)


def evidence(*ops, late=(), given=("_ZN5other4stepB2v7E",), reference=1e-3, **counters) -> Evidence:
    if counters:
        counters |= {"kernels_us": 10.0}
    run = CaseRun(CASE, {}, {}, (RunResult("A100", "modelled", late=late, counters=counters, sanitized=True),))
    sides = {"submission": Side(1e-3, counters, 1), "reference": Side(reference, {}, 1)}
    timing = Timing("A100", "modelled", CASE, sides, 2.0, (2.0, 2.0), 1.0, 1)
    known = {code(ptx(name, line=7), name): "step" for name in given}
    return Evidence(None, Built({CASE.name: program(*ops)}), (run,), timing, given=known)


NEEDED = {"needed_copies_us": 9.0, "needed_overlapped": 0.5, "needed_streams": 2.0, "unneeded": 1.0}
FOUR = {"launches": lambda s: {"step": Given((2, 32), s["n"])}}
ANY = {"launches": lambda s: {"step": Given()}}
HALVES = {"kernel": "step", "output": "y", "rounds": 4}  # two parts may come at once, when one round is late
FIRST, SECOND = HostWrite(Place(1, 0), 1), HostCopy(Place(1, 8), Place(0, 8), 8)
CAPTURED = Graph(0, (Node(launch()), Node(launch(), (0,))))
SWITCHED_OFF = GraphUpdate(0, (Node(launch(), enabled=False), Node(launch(), (0,), enabled=False)))
RULES = {
    "a kernel": (host.works_on_device, (launch(),), {}, {}, True),
    "a kernel in a graph": (host.works_on_device, (CAPTURED, GraphLaunch(0, 1)), {}, {}, True),
    "copies only": (host.works_on_device, (IN, OUT), {}, {}, False),
    "a graph whose kernel is switched off": (
        host.works_on_device, (CAPTURED, SWITCHED_OFF, GraphLaunch(0, 1)), {}, {}, False,
    ),
    "a graph whose kernel is switched off later": (
        host.works_on_device, (CAPTURED, GraphLaunch(0, 1), SWITCHED_OFF), {}, {}, True,
    ),
    "a graph that is never launched": (host.works_on_device, (CAPTURED,), {}, {}, False),
    "on time": (host.waits_for_results, (), {}, {}, True),
    "late": (host.waits_for_results, (), {"late": ("y",)}, {}, False),
    "enough overlap": (host.overlaps, (), NEEDED | {"needed_overlapped": 0.6}, {"share": 0.5}, True),
    "too little overlap": (
        host.overlaps, (), NEEDED | {"needed_overlapped": 0.4, "copies_us": 9.0, "copies_overlapped": 1.0}, {"share": 0.5}, False,
    ),
    "no copies": (host.overlaps, (), NEEDED | {"needed_copies_us": 0.0, "copies_us": 9.0}, {"share": 0.5}, False),
    "overlap on a device that does not tell": (host.overlaps, (), {}, {}, None),
    "two streams": (host.spreads_over_streams, (), NEEDED, {}, True),
    "one stream": (host.spreads_over_streams, (launch(1), launch(2)), NEEDED | {"needed_streams": 1.0}, {}, False),
    "streams on a device that does not tell": (host.spreads_over_streams, (launch(1), launch(2)), {}, {}, None),
    "pinned copies": (host.copies_pinned_memory, (IN, launch()), {}, {}, True),
    "pageable copies": (host.copies_pinned_memory, (IN, OUT), {}, {}, False),
    "a pageable copy": (host.copies_pinned_memory, (IN, Copy(Place(2, 0), None, 4, blob=0)), {}, {}, False),
    "one wait": (host.few_host_waits, (launch(), Sync("context")), {}, {"most": 1}, True),
    "waits by copies to pageable memory": (
        host.few_host_waits, (launch(), replace(OUT, blocking=False), launch(), Sync("context")), {}, {"most": 1}, False,
    ),
    "copies to memory that is page-locked": (
        host.few_host_waits, (Register(Place(1, 0), 16), replace(OUT, blocking=False), Sync("context")), {}, {"most": 1}, True,
    ),
    "waits by frees": (host.few_host_waits, (Alloc(4), launch(), Free(4), launch(), Sync("context")), {}, {"most": 1}, False),
    "frees at the end": (host.few_host_waits, (Alloc(4), launch(), Free(4), Sync("context")), {}, {"most": 1}, True),
    "a wait and a blocking copy": (host.few_host_waits, (OUT, Sync("context")), {}, {"most": 1}, False),
    "few launches": (host.few_launches, (CAPTURED, GraphLaunch(0), launch()), {}, {"most": lambda s: 2}, True),
    "many launches": (host.few_launches, (launch(),) * 5, {}, {"most": lambda s: s["n"]}, False),
    "all in a graph": (host.launches_as_graph, (CAPTURED, GraphLaunch(0), GraphLaunch(0)), {}, {}, True),
    "half in a graph": (host.launches_as_graph, (CAPTURED, GraphLaunch(0), launch(), launch()), {}, {}, False),
    "many graphs": (
        host.launches_as_graph, (CAPTURED, GraphLaunch(0), replace(CAPTURED, exec=1), GraphLaunch(1)), {}, {}, False,
    ),
    "memory from a pool": (host.allocates_nothing_between, (Alloc(4, 1), Free(4, 1)), {}, {}, True),
    "memory at once": (host.allocates_nothing_between, (Alloc(4), Free(4, 1)), {}, {}, False),
    "no faults": (host.no_page_faults, (), {"faults_us": 5.0}, {}, True),
    "faults": (host.no_page_faults, (), {"faults_us": 500.0}, {}, False),
    "faults on a device that does not tell": (host.no_page_faults, (), {}, {}, None),
    "faults, beside a kernel that does nothing": (host.no_page_faults, (), {"faults_us": 15.0, "reference": 2e-4}, {}, False),
    "a kernel as given": (host.as_given, (launch(grid=(3, 1, 1)),), {}, ANY, True),
    "another kernel of the same name": (host.as_given, (launch(), launch(module=1)), {}, ANY, False),
    "another kernel in a graph": (host.as_given, (Graph(0, (Node(launch(module=1)),)), GraphLaunch(0)), {}, ANY, False),
    "kernels that nobody knows": (host.as_given, (launch(module=1),), {"given": ()}, ANY, None),
    "another shape": (host.as_given, (launch(grid=(4, 1, 1)),) * 4, {}, FOUR, False),
    "another shape in a graph": (host.as_given, (CAPTURED, *[GraphLaunch(0)] * 2), {}, {"launches": lambda s: {"step": Given((3, 32))}}, False),
    "a flat shape asked, a grid of two dimensions": (host.as_given, (launch(grid=(2, 2, 1)),) * 4, {}, FOUR, False),
    "the number as given": (host.as_given, (CAPTURED, GraphLaunch(0), GraphLaunch(0)), {}, FOUR, True),
    "one too few": (host.as_given, (launch(),) * 3, {}, FOUR, False),
    "a part after every round": (host.takes_turns, (launch(), FIRST, launch(), SECOND), {}, HALVES, True),
    "rounds by a graph": (
        host.takes_turns, (Graph(0, (Node(launch()),)), GraphLaunch(0), FIRST, GraphLaunch(0), SECOND), {}, HALVES, True,
    ),
    "rounds by a graph whose kernel is switched off": (
        host.takes_turns, (launch(), launch(), Graph(0, (Node(launch(), enabled=False),)), GraphLaunch(0), FIRST, GraphLaunch(0), SECOND),
        {}, HALVES, False,
    ),
    "a part before the first round": (host.takes_turns, (FIRST, launch(), launch(), SECOND), {}, HALVES, False),
    "everything at the end": (host.takes_turns, (launch(), launch(), FIRST, SECOND), {}, HALVES, False),
    "everything by a copy": (host.takes_turns, (launch(), OUT, launch()), {}, HALVES, False),
    "a round that another kernel ends": (host.takes_turns, (launch(), FIRST, launch(module=1), SECOND), {}, HALVES, False),
}  # fmt: skip


def test_a_thousand_million_kernels_are_counted_without_going_through_them():
    many = Graph(0, tuple(Node(launch()) for _ in range(10_000)))
    fewer = GraphUpdate(0, tuple(Node(launch(), enabled=n < 2) for n in range(10_000)))
    shot = program(launch(), many, *[GraphLaunch(0)] * 100_000)
    changed = program(many, *[GraphLaunch(0)] * 3, fewer, *[GraphLaunch(0)] * 2)
    assert host.kernels_launched(shot) == (1, 1_000_000_000)
    assert host.kernels_launched(changed) == (0, 3 * 10_000 + 2 * 2)


@pytest.mark.parametrize("what", RULES)
def test_a_rule_holds_or_fails_with_a_sentence_of_numbers(what):
    rule, ops, given, options, passed = RULES[what]
    check = rule(evidence(*ops, **given), **options)
    assert check.passed is passed, check.message
    assert rule.__doc__.splitlines()[0].endswith(".")
    assert check.message


SHOWN = """
12 operations, 2 modules of PTX, timed by the host's clock
buffers
  x            host      input         16 B  <f4 (4,)
  y            pageable  output        16 B  <f4 (4,)
  d            device    scratch       16 B  <f4 (4,)
  m            managed   inout         16 B  <f4 (4,)
  #4           device    temp          64 B
streams
  0            legacy
  1            blocking
  2            non-blocking
operations
      0  line 3            copy 16 B: x -> d, stream 1
      1  line 4            kernel step[2, 32](d[1]), stream 1  (2 times)
      3  cell 2, line 1    instantiate graph 0 of 2 nodes
                             0  after -         kernel step[2, 32](d[1])
                             1  after 0         kernel step[2, 32](d[1])
      4                    launch graph 0, stream 0
      5                    allocate #4, at once
      6                    copy 2 rows of 4 B: bytes of the host's own -> #4 + 8 bytes, stream 0
      7                    fill #4 with 2 x 0x7 of 4 bytes, stream 0
      8                    prefetch 16 B at m to the device, stream 2
      9                    host writes 8 B to m[2]
     10                    copy 16 B: d -> y, stream 1, blocking
     11                    host waits for stream 1
"""


def test_a_program_is_listed_with_its_lines_and_equal_operations_once():
    ops = (
        *(IN, launch(), launch(), CAPTURED, GraphLaunch(0), Alloc(4)),
        Copy(Place(4, 8), None, 4, blob=0, rows=2, to_pitch=16, source_pitch=4),
        *(Fill(Place(4, 0), 4, 7, 2), Prefetch(Place(3, 0), 16, "device", 2), HostWrite(Place(3, 8), 0), OUT),
        Sync("stream", 1),
    )
    places = (("submission.py", 3), *(("submission.py", 4),) * 2, ("cell 2", 1), *(("", 0),) * 8)
    text = "\n".join(listing.lines(program(*ops, blobs=(bytes(8),), places=places)))
    assert text == SHOWN.strip()


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Free(4, 1), "free #4, stream 1"),
        (HostCopy(Place(1, 4), Place(0, 0), 8), "host copies 8 B: x -> y[1]"),
        (Register(Place(1, 0), 16), "register 16 B at y"),
        (Unregister(Place(1, 0)), "unregister y"),
        (Advise(Place(3, 0), 16, "unset_read_mostly", "host"), "advise unset read mostly (host) for m"),
        (Record(2, 1), "record event 2, stream 1"),
        (Wait(2, 5), "wait for event 5, stream 2"),
        (Sync("context"), "host waits for the device"),
        (GraphUpdate(3, (Node(None),)), "update graph 3 of 1 nodes\n  0  after -         nothing"),
    ],
)
def test_every_operation_has_words(op, words):
    assert listing.describe(Program(BUFFERS, (), (op,)), op) == words


def test_the_command_shows_and_saves_programs(tmp_path, capsys):
    program(IN, launch(), OUT).save(tmp_path / "a.prog")
    assert cli.main(["program", "show", str(tmp_path / "a.prog")]) == 0
    assert "kernel step[2, 32](d[1]), stream 1" in capsys.readouterr().out
    assert cli.main(["program", "save", str(tmp_path / "a.prog"), "-o", str(tmp_path / "b.prog")]) == 0
    assert Program.load(tmp_path / "b.prog") == program(IN, launch(), OUT)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "gone.prog"], "there is no file 'gone.prog'"),
        (["save", "a.py"], "-o FILE"),
        (["show", "."], "is a folder"),
        (["save", "a.py", "-o", "gone/b.prog"], "there is no folder gone"),
        (["show", "a.py"], "name it with --exercise"),
        (["show", "a.py", "--exercise", "nope"], "no exercise 'nope'"),
        (["show", "a.py", "--exercise", "06_overlap", "--case", "n = 3"], "no size 'n = 3'"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    assert cli.main(["program", *arguments]) == 2
    err = capsys.readouterr().err.strip()
    assert words in err and "\n" not in err


def test_a_card_without_a_timeline_is_judged_by_the_one_that_watches():
    e = evidence()
    seen = NEEDED | {"kernels_us": 5.0, "needed_overlapped": 0.7, "faults_us": 600.0}
    result = RunResult("NVIDIA H100 (virtual)", "modelled", seconds=1e-3, counters=seen, sanitized=True)
    e = replace(e, runs=(replace(e.runs[0], results=(result, RunResult("H100", "measured"))),))
    check = host.overlaps(e, share=0.5)
    assert check.passed is True and "70%" in check.message and "modelled for NVIDIA H100 (virtual)" in check.message
    assert host.no_page_faults(e).passed is False


def test_evidence_without_a_timing_is_judged_by_the_size_that_asks_for_most():
    small, large = program(launch()), program(launch(1), launch(2))
    e = Evidence(None, Built({"n = 1": small, "n = 2": large}), ())
    assert host.copies_pinned_memory(e).message == "0 copies, none from or to pageable memory"
    assert host.few_host_waits(
        replace(e, built=Built({"n = 1": small, "n = 2": program(launch(), Sync("context"))}))
    ).message.startswith("the host waits 1 times")
    assert sum(host.kernels_launched(large)) == 2


def test_a_kernel_is_told_by_its_code_and_not_by_its_text():
    same = ptx("_ZN1a4stepE", line=3)
    assert code(ptx(), KERNEL) == code(same, "_ZN1a4stepE") != ""
    assert code(ptx(body="  ret; // done"), KERNEL) == code(ptx(), KERNEL)
    assert code(ptx(body=".section .debug_str { .b8 7 }\nret;"), KERNEL) == code(ptx(), KERNEL)
    assert code(ptx(body="trap;"), KERNEL) != code(ptx(), KERNEL)


@pytest.mark.parametrize(
    "hidden",
    [
        ".loc 1 1 0 trap;\nret;",
        '.file 1 "a" trap;\nret;',
        ".section .debug_str { } trap;\nret;",
        ".section .text { trap; }\nret;",
        "// \r trap;\nret;",
        "// \\\nret;",
        "#define ret trap\nret;",
        "ret;\n} .entry other() { ret;",
        "/* ret; */ ret;",
        "ret;" + "/*" * (1 << 21),
    ],
)
def test_nothing_that_does_work_hides_in_what_is_left_out(hidden):
    assert code(ptx(body=hidden), KERNEL) != code(ptx(), KERNEL)

"""Reports: what others wrote is shown and never obeyed; files are written whole, or it is said beforehand why not."""

import json
import os
import re
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from grader import problems, report
from grader.report import files, html, junit, overview
from grader.report.html import fragment
from grader.report.printable import lines, printable
from grader.verdict import CODES

PROBLEM = problems.get("00_mend")
DEVICE = {"name": "NVIDIA A100 (virtual)", "spec": "virtual:a100"}
EVIL = "anna\x1b]0;owned\x07\n<script>alert(1)</script>[bold red]\u202egnp\x00\ud800.py"


def record(submission="anna.py", code="CE", speedup=None, interval=(2.0, 2.0), **more):
    made = report.refusal(submission, PROBLEM, "CE", "said", device=DEVICE, seed=1) | {"code": code, **more}
    if speedup:
        made["speedup"] = {
            "over_baseline": speedup, "interval": list(interval), "time_to_reference": 1.0, "rounds": 13,
            "dropped_rounds": 0, "ambiguous": False, "kind": "measured", "device": "GPU",
        }  # fmt: skip
    return made


def shown(thing) -> str:
    console = Console(width=400, force_terminal=False)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()


# ---- nothing is obeyed


def test_control_characters_are_spelled_out():
    assert printable("a\x1b[2Jb\nc\td\x7f") == "a\\x1b[2Jb\\nc\\td\\x7f"
    assert printable("\u202eevil\u200b\ud800") == "\\u202eevil\\u200b\\ud800"
    assert printable("ünï 漢字 ψ²") == "ünï 漢字 ψ²"
    assert lines("a\r\nb\rc\n\td") == "a\nb\\rc\n\td"


@pytest.mark.parametrize("make", [lambda r: report.table([r, r]), report.detail], ids=["table", "detail"])
def test_names_and_students_text_do_nothing_to_a_terminal(make):
    evil = record(EVIL, failed_cells=[f"cell 1: {EVIL}"], flags=[EVIL], message=EVIL, speedup=2.0)
    evil["checks"][0] |= {"message": EVIL, "hint": EVIL}
    text = shown(make(evil))
    assert not {"\x1b", "\x07", "\x00", "\u202e", "\ud800"} & set(text)
    assert "[bold red]" in text


@pytest.mark.parametrize("make", [lambda r: report.page([r]), lambda r: report.page([r, r])], ids=["one", "class"])
def test_names_and_students_text_do_nothing_to_a_page(make):
    evil = record(EVIL, "SV", failed_cells=[EVIL], flags=[EVIL], message=EVIL, speedup=2.0)
    evil["checks"][0] |= {"message": EVIL, "hint": EVIL}
    html = make(evil)
    assert "<script" not in html and "&lt;script&gt;" in html
    assert not {"\x1b", "\x07", "\x00", "\u202e", "\ud800"} & set(html)
    assert "http" not in html


def test_junit_is_well_formed_whatever_is_in_it():
    evil = record(EVIL, message=EVIL, output=EVIL)
    evil["checks"][0] |= {"message": EVIL, "hint": EVIL, "passed": False}
    evil["checks"][1] |= {"passed": None}
    evil["checks"][2] |= {"passed": True}
    root = ET.fromstring(junit.document([evil, record(code="AC")]))
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures")) == (str(len(PROBLEM.rubric)), "1")
    assert root.get("tests") == str(2 * len(PROBLEM.rubric))
    assert "\\x1b" in suite.find("testcase/failure").get("message")
    assert suite[0].tag == "properties"  # the schema has them before any test
    properties = {p.get("name"): p.get("value") for p in suite.find("properties")}
    assert properties["code"] == "CE" and properties["seed"] == "1"


def test_a_fault_of_the_grader_is_an_error_and_no_failure_in_junit():
    made = report.refusal("a.py", PROBLEM, "IE", "the disk is full", device=DEVICE, seed=1)
    suite = ET.fromstring(junit.document([made]))[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")


def test_kernels_are_called_by_their_own_names():
    said = "kernel _ZN8__main__3addB2v1B96cw51cXTLSUwv1sDUaKthqYAfBkDlkKE5ArrayIfLi1E1C7mutable7alignedE: no"
    made = report.refusal("a.py", PROBLEM, "CE", said, device=DEVICE, seed=1)
    assert made["message"] == made["checks"][0]["message"] == "kernel add: no"


# ---- a fault of the grader says nothing of the student


def test_no_rule_passes_or_fails_when_the_grader_failed():
    made = report.refusal("a.py", PROBLEM, "IE", "the disk is full", device=DEVICE, seed=1)
    assert {c["passed"] for c in made["checks"]} == {None, "skipped"}
    assert made["checks"][0]["message"] == made["message"] == "the disk is full"
    assert {c["message"] for c in made["checks"][1:]} == {"not checked, because the grader failed"}
    assert sum(c["points"] for c in made["checks"]) == made["points"] == 0


# ---- the class


def test_the_class_is_counted_ranked_and_flagged():
    records = [
        record("a.py", "AC", 3.0, (2.9, 3.1), points=10),
        record("b.py", "AC", 2.95, (2.85, 3.05), points=9),
        record("c.py", "SLOW", 1.2, (1.1, 1.3), points=6, flags=["ambiguous"]),
        record("d.py", "WA", points=0),
        record("e.py", "SV", message="tried", points=0),
    ]
    (o,) = overview.overviews(records)
    assert [(code, n) for code, _, n in o.codes] == [("AC", 2), ("SLOW", 1), ("WA", 1), ("SV", 1)]
    assert [(k.rank, k.record["submission"]) for k in o.ranking] == [(1, "a.py"), (1, "b.py"), (3, "c.py")]
    assert dict(o.histogram)["90 to 100 %"] == 2 and dict(o.histogram)["0 to 10 %"] == 2
    assert o.ranking[0].high == 100 and o.ranking[0].low < o.ranking[0].at < 100
    flagged = [(r["submission"], why) for r, why in overview.flagged(records)]
    assert flagged == [("c.py", ["ambiguous"]), ("e.py", ["held for review: tried"])]


def test_times_of_different_cards_are_not_ranked_together():
    records = [record("a.py", "AC", 3.0), record("b.py", "AC", 2.0, device_name="another")]
    assert [len(o.ranking) for o in overview.overviews(records)] == [1, 1]


def test_a_page_each_and_one_for_the_class(tmp_path):
    made = dict(report.pages([record("/a/b/c/x/anna.py", "AC", 2.0), record("/etc/../etc/ben.py")]))
    assert list(made) == ["001-x-anna-00_mend.html", "002-etc-ben-00_mend.html", "index.html"]
    assert "ben.py" not in made["001-x-anna-00_mend.html"]
    assert "anna.py: " + PROBLEM.title in made["001-x-anna-00_mend.html"].split("</title>")[0]
    assert 'href="001-x-anna-00_mend.html"' in made["index.html"] and 'name="viewport"' in made["index.html"]


def test_a_page_is_named_after_its_author():
    made = dict(report.pages([record("in/anna/unit/k.py"), record("in/ben/unit/k.py")]))
    assert list(made) == ["001-anna-00_mend.html", "002-ben-00_mend.html", "index.html"]
    assert f"<title>anna: {PROBLEM.title}</title>" in made["001-anna-00_mend.html"]
    assert f"<h1>ben: {PROBLEM.title}</h1>" in made["002-ben-00_mend.html"]
    made = dict(report.pages([record(f"in/{name}/unit/{k}.py") for name in ("anna", "ben") for k in "kl"]))
    assert list(made)[::2] == ["001-anna-unit-k-00_mend.html", "003-ben-unit-k-00_mend.html", "index.html"]
    (alone, _) = report.pages([record("anna/k.py")])
    assert alone[0] == "001-anna-k-00_mend.html" and "<h1>anna/k.py: " in alone[1]


def test_a_page_for_a_student_does_not_tell_where_the_instructor_keeps_it():
    found = dict(report.pages([record("/home/staff/in/anna/mend.py"), record("/home/staff/in/ben/mend.py")]))
    assert not any("/home/staff" in page for page in found.values())


@pytest.mark.parametrize("show", [lambda r: shown(report.detail(r)), lambda r: report.page([r])], ids=["text", "page"])
def test_what_stopped_is_told_with_what_to_do(show):
    said = show(record(code="AC", failed_cells=["cell 7: cell 7, line 2: NameError: plt", "cell 9: SyntaxError: no"]))
    assert "Some of your code ended with an error; the rest was run and graded." in said
    assert "cell 7, line 2: NameError: plt" in said and "cell 9: SyntaxError: no" in said
    assert "cell 7: cell 7" not in said


def test_what_decided_stands_above_the_table_of_rules():
    page = fragment(record(code="WA", message="y[3] should be 1, is 2"))
    assert page.index("y[3] should be 1, is 2") < page.index("<table")
    assert 'class="why"' not in fragment(record(code="AC"))


def test_how_times_were_got_is_said_once_where_it_is_the_same_for_all():
    side = {"seconds": 1e-5, "kind": "modelled", "device": "A100", "case": "n = 2"}
    page = fragment(record(times={"submission": side, "baseline": side}))
    assert page.count("modelled for A100, n = 2") == 1
    page = fragment(record(times={"submission": side | {"kind": "measured"}, "baseline": side}))
    assert page.count("measured on A100, n = 2") == page.count("modelled for A100, n = 2") == 1


def test_a_check_in_a_notebook_is_not_called_one_that_was_not_run():
    assert "not run" in fragment(record(wall_seconds=0.0, protections=[]))
    assert "not run" not in fragment(record(wall_seconds=1.0, protections=[]))


def test_a_failure_of_the_grader_is_said_once():
    ((_, why),) = overview.flagged([record(code="IE", message="the grader failed: OSError: the disk is full")])
    assert why == ["the grader failed: OSError: the disk is full"]


def test_every_code_has_one_colour_of_its_own():
    css = (Path(html.__file__).parent / "verdict.css").read_text()
    colours = dict(re.findall(r"^\.code\.([A-Z]+), \.bar \.\1 { background: (#[0-9a-f]{6}); }$", css, re.MULTILINE))
    assert set(colours) == set(CODES) and len(set(colours.values())) == len(CODES)
    page = report.page([record(code=code) for code in CODES])
    for code in CODES:
        assert page.count(f".bar .{code} ") == page.count(f".code.{code}, ") == 1


def test_names_break_between_their_words():
    assert html._breakable("in/anna_b.py<i>") == "in/<wbr>anna_<wbr>b.<wbr>py&lt;i&gt;"
    assert html._breakable("__a\x1b") == "__<wbr>a\\x1b"


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["in/anna/u/k.py", "in/ben/u/k.py"], ["anna", "ben"]),
        (["in/anna_k.py", "in/ben_k.py"], ["anna_k.py", "ben_k.py"]),
        (["in/anna/k.py", "in/anna/l.py", "in/k.py"], ["anna/k.py", "anna/l.py", "k.py"]),
        (["k.py", "k.py"], ["k.py", "k.py"]),
    ],
)
def test_names_are_as_long_as_they_differ(paths, names):
    short = html._short(paths)
    assert [short({"submission": p}) for p in paths] == names


# ---- files


def test_submissions_named_from_here_and_from_the_root_are_shown_together():
    text = shown(report.table([record("here/anna.py"), record("/there/ben.py"), record("carla.py")]))
    assert "here/anna.py" in text and "/there/ben.py" in text
    assert "one/anna.py" in shown(report.table([record("/all/one/anna.py"), record("/all/two/ben.py")]))


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for path, why in (
        (tmp_path / "gone" / "x.json", "there is no folder"),
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "x.json", "there is no folder"),
    ):
        with pytest.raises(files.Unwritable, match=why):
            files.check(str(path))
    with pytest.raises(files.Unwritable, match="is a file"):
        files.make_folder(str(tmp_path / "file"))
    with pytest.raises(files.Unwritable, match="there is no folder"):
        files.make_folder(str(tmp_path / "gone" / "deep"))
    for ask in (files.check, lambda path: files.write(path, "x")):
        with pytest.raises(files.Unwritable, match=r"cannot be written: .+"):
            ask(str(tmp_path / ("n" * 300)))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nobody may write")
def test_a_folder_that_takes_nothing_is_found_before():
    with pytest.raises(files.Unwritable, match=r"^/proc/r.json cannot be written: .*/proc"):
        files.check("/proc/r.json")
    with pytest.raises(files.Unwritable, match=r"^/proc/p cannot be made: /proc takes no new folder"):
        files.make_folder("/proc/p")


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    files.check(str(pipe))
    files.write(str(pipe), "said")
    reader.join()
    assert got == ["said"] and pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_asking_leaves_nothing_and_touches_nothing(tmp_path):
    (tmp_path / "there").write_text("old")
    for name in ("there", "new"):
        files.check(str(tmp_path / name))
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_no_permission_is_said_before(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(files.Unwritable, match="no permission"):
        files.check(str(tmp_path / "x"))


def test_a_file_is_there_whole_or_as_it_was(tmp_path):
    path = tmp_path / "out.json"
    files.write(str(path), json.dumps([EVIL]))
    files.write(str(path), EVIL)
    assert "\\ud800" in path.read_text()
    assert list(tmp_path.iterdir()) == [path]

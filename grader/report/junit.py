"""Records as JUnit XML, which continuous integration servers show: a suite a submission, a test a rule.

The form is that of https://github.com/testmoapp/junitxml; a rule that could not be checked is `skipped`, a fault of the
grader an `error`.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from grader.report.printable import lines, printable

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(records: Sequence[dict]) -> str:
    """The whole file."""
    suites = ET.Element("testsuites", name="grader", tests=str(sum(len(r["checks"]) for r in records)))
    for r in records:
        suites.append(_suite(r))
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _suite(r: dict) -> ET.Element:
    name = f"{_text(r['submission'])} {r['exercise']}"
    suite = ET.Element("testsuite", name=name, time=f"{r['wall_seconds']:.3f}")
    properties = ET.SubElement(suite, "properties")  # the schema wants them first
    outcomes = [_case(suite, name, r, c) for c in r["checks"]]
    suite.attrib |= {"tests": str(len(outcomes)), "failures": str(outcomes.count("failure"))}
    suite.attrib |= {"errors": str(outcomes.count("error")), "skipped": str(outcomes.count("skipped"))}
    for key in ("code", "points", "max_points", "device", "device_name", "seed"):
        ET.SubElement(properties, "property", name=key, value=_text(str(r[key])))
    if r["speedup"]:
        speedup = f"{r['speedup']['over_baseline']:.3f} {r['speedup']['kind']}"
        ET.SubElement(properties, "property", name="speedup", value=speedup)
    if r["output"]:
        ET.SubElement(suite, "system-out").text = _NO_XML.sub("?", lines(r["output"]))
    return suite


def _case(suite: ET.Element, name: str, record: dict, check: dict) -> str:
    case = ET.SubElement(suite, "testcase", classname=name, name=_text(check["title"]))
    outcome = {True: "", False: "failure", None: "skipped", "skipped": "skipped"}[check["passed"]]
    if record["code"] == "IE" and check["message"] == record["message"]:
        outcome = "error"
    if outcome:
        found = ET.SubElement(case, outcome, message=_text(check["message"]))
        if check["hint"]:
            found.text = _text(check["hint"])
    else:
        ET.SubElement(case, "system-out").text = _text(check["message"])
    return outcome


def _text(text: str) -> str:
    return _NO_XML.sub("?", printable(text))

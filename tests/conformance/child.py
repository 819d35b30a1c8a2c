"""Run the tests of one module and write what becomes of each, a line of JSON apiece, as it happens.

    python child.py MODULE RESULTS [TEST...]

With TESTs, only those. Nothing of the tests is changed: they are loaded and run by unittest.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
import unittest


class Result(unittest.TestResult):
    """Writes a line when a test starts and another when it has ended."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.outcome, self.detail, self.started = "", "", 0.0

    def write(self, **line) -> None:
        """One line, at once on its way."""
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def startTest(self, test):
        self.outcome, self.detail, self.started = "passed", "", time.monotonic()
        self.write(start=test.id())
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        seconds = round(time.monotonic() - self.started, 3)
        self.write(test=test.id(), outcome=self.outcome, detail=self.detail, seconds=seconds, findings=findings())

    def addSuccess(self, test):
        pass

    def _bad(self, outcome: str, test, error) -> None:
        self.outcome = outcome if self.outcome != "errors" else "errors"
        self.detail += "".join(traceback.format_exception(*error))[-4000:]
        if not isinstance(test, unittest.TestCase):  # the set-up of a class: its tests are not run
            self.write(holder=test.id(), outcome=outcome, detail=self.detail)

    def addError(self, test, err):
        self._bad("errors", test, err)

    def addFailure(self, test, err):
        self._bad("failed", test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._bad("failed" if issubclass(err[0], test.failureException) else "errors", test, err)

    def addSkip(self, test, reason):
        self.outcome, self.detail = "skipped", reason
        if not isinstance(test, unittest.TestCase):
            self.write(holder=test.id(), outcome="skipped", detail=reason)

    def addExpectedFailure(self, test, err):
        self.outcome = "passed"  # as its author expects

    def addUnexpectedSuccess(self, test):
        self.outcome, self.detail = "failed", "succeeds, and its author expects it to fail"


_seen = 0


def findings() -> list[str]:
    """What the sanitizers have found since the last call."""
    global _seen
    if not os.environ.get("CONFORMANCE_DEVICE"):
        return []
    import grader.vgpu

    found = grader.vgpu.findings()
    fresh, _seen = found[_seen:], len(found)
    return [f"{finding.tool}: {finding.message}" for finding in fresh]


def flat(suite):
    """The tests of a suite, in order."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flat(item)
        else:
            yield item


def main(module: str, results: str, *chosen: str) -> None:
    """See the module's text."""
    with open(results, "a") as out:
        result = Result(out)
        suite = unittest.TestSuite()
        try:
            suite = unittest.TestLoader().loadTestsFromModule(importlib.import_module(module))
        except unittest.SkipTest as skip:
            result.write(test=module, outcome="skipped", detail=str(skip), seconds=0, findings=[])
        except BaseException as error:
            text = "".join(traceback.format_exception(error))[-4000:]
            result.write(test=module, outcome="errors", detail=text, seconds=0, findings=[])
        tests = list(flat(suite))
        result.write(tests=[test.id() for test in tests])
        if chosen:
            wanted = set(chosen)
            tests = [test for test in tests if test.id() in wanted]
        unittest.TestSuite(tests).run(result)
        result.write(end=True)
        # Exit handlers of clients may wait for what a test has left behind: the results are written.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

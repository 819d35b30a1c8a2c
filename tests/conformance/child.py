"""Run the tests of one module with pytest and write what becomes of each, a line of JSON apiece, as it happens.

    python child.py FILE MODULE RESULTS [TEST...]

With TESTs, only those. Nothing of the tests is changed. What is added is what their authors' own set-up has and the
wheel has not: that a module is imported by its name below `numba.cuda`, and one fixture.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

import pytest


class Module(pytest.Module):
    """A test module, imported by its own name."""

    def _getobj(self):
        return importlib.import_module(self.config.module_name)


class Plugin:
    """Collects, chooses, and writes a line when a test starts and another when it has ended."""

    def __init__(self, module: str, out, chosen: set[str]):
        self.module, self.out, self.chosen = module, out, chosen
        self.outcome, self.detail, self.started = "", "", 0.0

    def write(self, **line) -> None:
        """One line, at once on its way."""
        self.out.write(json.dumps(line) + "\n")
        self.out.flush()

    def name(self, nodeid: str) -> str:
        """`.../test_sync.py::TestSync::test_it` -> `numba.cuda.tests.cudapy.test_sync.TestSync.test_it`."""
        _, _, rest = nodeid.partition("::")
        return f"{self.module}.{rest.replace('::', '.')}" if rest else self.module

    @pytest.fixture(scope="class")
    def initialize_from_pytest_config(self, request):
        """Whether a failing FileCheck test writes its input to a file."""
        request.cls._dump_failed_filechecks = False

    def pytest_collect_directory(self, path, parent):
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_pycollect_makemodule(self, module_path, parent):
        return Module.from_parent(parent, path=module_path)

    def pytest_collectreport(self, report):
        if report.outcome == "passed" or "::" in report.nodeid:
            return
        skipped = report.outcome == "skipped"
        detail = str(report.longrepr[2] if skipped else report.longrepr)[-4000:]
        self.write(test=self.module, outcome="skipped" if skipped else "errors", detail=detail)

    def pytest_collection_modifyitems(self, items):
        self.write(tests=[self.name(item.nodeid) for item in items])
        if self.chosen:
            items[:] = [item for item in items if self.name(item.nodeid) in self.chosen]

    def pytest_runtest_logstart(self, nodeid):
        self.outcome, self.detail, self.started = "passed", "", time.monotonic()
        self.write(start=self.name(nodeid))

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.outcome = "passed" if hasattr(report, "wasxfail") else "skipped"  # or fails as its author expects
            self.detail = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)[-4000:]
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            failed = report.when == "call" and (crash is None or "AssertionError" in crash.message)
            self.outcome = "failed" if failed and self.outcome != "errors" else "errors"
            last = f"\n{crash.message}" if crash else ""
            self.detail = (self.detail + report.longreprtext + last)[-6000:]

    def pytest_runtest_logfinish(self, nodeid):
        seconds = round(time.monotonic() - self.started, 3)
        name = self.name(nodeid)
        self.write(test=name, outcome=self.outcome, detail=self.detail, seconds=seconds, findings=findings())
        if self.outcome in ("failed", "errors") and poisoned():
            self.write(poisoned=True)  # after a fault a context is of no use to the tests that follow
            os._exit(0)


_seen = 0


def findings() -> list[str]:
    """What the sanitizers have found since the last call."""
    global _seen
    if not os.environ.get("CONFORMANCE_DEVICE"):
        return []
    import grader.vgpu

    found = grader.vgpu.findings()
    fresh, _seen = found[_seen:], len(found)
    return [f"{finding.tool}, line {finding.line}: {finding.message}" for finding in fresh]


def poisoned() -> bool:
    """A fault has made a context of the virtual GPU unusable."""
    if not os.environ.get("CONFORMANCE_DEVICE"):
        return False
    from grader.vgpu.driver.state import driver

    return any(context.fault for context in driver.contexts)


def main(path: str, module: str, results: str, *chosen: str) -> None:
    """See the module's text."""
    with open(results, "a") as out:
        plugin = Plugin(module, out, set(chosen))
        pytest.Config.module_name = module
        options = [
            path,
            "-c",
            os.devnull,
            "--rootdir",
            os.path.dirname(path),
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        pytest.main([*options, "-q", "--tb=native", "--capture=sys"], plugins=[plugin])
        plugin.write(end=True)
        # Exit handlers of clients may wait for what a test has left behind: the results are written.
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

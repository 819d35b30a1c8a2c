"""`python -m tests.gpu`: all of tests/gpu on this machine's card; results go to tests/gpu/results/<card>-<date>.json.

Needs the project's dependencies and pytest, and no plugin of pytest.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from grader.devices import cuda

HERE = Path(__file__).parent


def main() -> int:
    """Exit status of pytest; 0 with one line where there is no card."""
    if not cuda.count():
        print("no NVIDIA GPU on this machine: nothing was run")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        notes, junit = Path(folder) / "notes.json", Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-ra", "-q", f"--junitxml={junit}", str(HERE)]
        done = subprocess.run([*command, *sys.argv[1:]], env={**os.environ, "CAMP_GPU_RESULTS": str(notes)})
        cases = {}
        for case in ET.parse(junit).iter("testcase"):
            bad = next((e.tag for e in case if e.tag in ("failure", "error", "skipped")), "passed")
            cases[f"{case.get('classname')}::{case.get('name')}"] = bad
        found = json.loads(notes.read_text()) if notes.exists() else {}
    about = cuda.open("cuda:0", trust=True)
    try:
        described = about.describe()
    finally:
        about.close()
    now = datetime.datetime.now(datetime.UTC)
    result = {"device": described, "date": now.isoformat(timespec="seconds"), "figures": found, "tests": cases}
    name = "".join(c if c.isalnum() else "-" for c in described["name"].lower())
    target = HERE / "results" / f"{name}-{now:%Y-%m-%d}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"written: {target}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

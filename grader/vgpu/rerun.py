"""python -m grader.vgpu.rerun: run a notebook's cells on the virtual GPU, in this process, and look at the last one.

Reads JSON from its standard input, {"cells": [...], "cell": str, "what": "timeline" | "profile" | "warps", "device": name},
and writes {"card", and "spans" and "calls", or "profiles", or "blocks"} to the file that is its argument. Cells before
the last one are run quietly; one that fails is passed over, as it was in the notebook.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from grader import vgpu


class Failed(RuntimeError):
    """The process did not come to an end as it should; the text says what it wrote last."""


def elsewhere(cells: list[str], cell: str, what: str, device: str) -> dict:
    """Run the cells on that virtual GPU in a process of their own. Raises Failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        job = json.dumps({"cells": cells, "cell": cell, "what": what, "device": device})
        env = {**os.environ, "GRADER_DEVICE": f"virtual:{device}", "MPLBACKEND": "Agg"}
        command = [sys.executable, "-m", "grader.vgpu.rerun", str(result)]
        done = subprocess.run(command, input=job, capture_output=True, text=True, env=env)
        if done.returncode or not result.exists():
            last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
            raise Failed(f"the virtual run of this cell ended with status {done.returncode}: {last}")
        print(done.stdout, end="")
        return json.loads(result.read_text())


def main(result: str) -> None:
    """In that process: the job is on standard input, `result` is the file to write."""
    job = json.load(sys.stdin)
    vgpu.activate(job["device"])
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    from grader.vgpu import magics

    magics.register(shell)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for cell in job["cells"]:
            shell.run_cell(cell, silent=True)
        vgpu.finish()
    seen = {"card": vgpu.describe(), **_look(shell, job["what"], job["cell"])}
    Path(result).write_text(json.dumps(seen))


def _look(shell, what: str, cell: str) -> dict:
    if what == "timeline":
        from grader.vgpu.collectors import Virtual

        collector = Virtual()
        collector.start()
        shell.run_cell(cell)
        seen = collector.stop()
        return {"spans": [asdict(s) for s in seen.spans], "calls": [asdict(s) for s in seen.calls]}
    if what == "profile":
        from grader.vgpu.profile import collect

        with collect() as found:
            shell.run_cell(cell)
        return {"profiles": [[p.kernel, str(p)] for p in found]}
    from grader.vgpu.warps import watch

    with watch() as blocks:
        shell.run_cell(cell)
    return {"blocks": [asdict(b) for b in blocks]}


if __name__ == "__main__":
    main(sys.argv[1])

"""Run a Python script, unmodified, on the virtual GPU: the engine of `python -m grader run`."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from grader import vgpu
from grader.vgpu.devices import DEFAULT, parse
from grader.vgpu.jit.compile import version_dir
from grader.vgpu.targets import target

FOUND = 1  # exit status where the script succeeded and the sanitizers did not agree


def run(
    script: str,
    arguments: Sequence[str] = (),
    device: str = DEFAULT,
    *,
    timeline: str | None = None,
    profile: bool = False,
) -> int:
    """Run the script as `python script arguments...` would, and give its exit status.

    Says on stderr first which device it is and that times are modelled, and last what the sanitizers found. If they
    found something, a script that ended with 0 gives 1. `timeline`: a file for a picture (.png, .svg, .pdf) or a trace
    (.json) of what the device did; `profile`: print a table for each kernel on stderr. Raises ValueError for an unknown
    device and for such a file that cannot be, DriverAlreadyLoaded, and FileNotFoundError.
    """
    path = Path(script)
    if not path.is_file():
        raise FileNotFoundError(f"there is no script {script!r}")
    if timeline:
        target(timeline)
    parse(device)
    if not version_dir().exists():
        say("first run of this version here: compiling the virtual GPU, about half a minute")
    vgpu.activate(device)
    vgpu.options().announce = False  # the findings say it, with file and line
    say(banner())
    profiles = _watch_kernels() if profile else None
    status = _run_script(path, list(arguments))
    _finish()
    if profiles is not None:
        say(str(profiles))
    if timeline:
        from grader.vgpu.timeline import Timeline

        shown = Timeline.now()
        shown.save(timeline)
        say(f"{timeline}: {shown.summary()}")
    return report(status)


def _watch_kernels():
    """Profile every launch from now on."""
    from grader.vgpu.profile import Collected

    found = Collected()
    vgpu.options().profile = True
    vgpu.on_launch(found.add)
    return found


def banner() -> str:
    """The first line of every session: which device, and how times are got."""
    return f"virtual GPU: {vgpu.describe()}; times are modelled, not measured"


def _finish() -> None:
    """Execute what is still queued, and say so."""
    waiting = vgpu.finish()
    if waiting:
        say(f"operations still queued when the script ended, because nothing had waited for them: {waiting}")


def report(status: int) -> int:
    """Print the findings, and give the exit status."""
    found = vgpu.findings()
    for finding in found:
        say(sentence(finding))
    return FOUND if found and status == 0 else status


def sentence(finding) -> str:
    """One finding: tool, place, what happened."""
    place = f", {os.path.basename(finding.file)}" if finding.file else ""
    if finding.line:
        place += f":{finding.line}" if place else f", line {finding.line}"
    return f"{finding.tool}{place}: {finding.message}"


def say(text: str) -> None:
    """A line on stderr, after everything that the script has printed."""
    sys.stdout.flush()
    print(f"grader: {text}", file=sys.stderr, flush=True)


def _run_script(path: Path, arguments: list[str]) -> int:
    """Run it with the argv and import path that it would have on its own; its exit status."""
    argv, first = sys.argv, sys.path[0]
    sys.argv = [str(path), *arguments]
    sys.path[0] = str(path.resolve().parent)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return _exit_status(end.code)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except BaseException as error:
        _show(error, path)
        return 1
    finally:
        sys.argv, sys.path[0] = argv, first
    return 0


def _exit_status(code: object) -> int:
    """What the interpreter makes of SystemExit's argument."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException, path: Path) -> None:
    """The traceback from the script on, without the frames that started it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)

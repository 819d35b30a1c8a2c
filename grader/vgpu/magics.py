"""IPython cell magics: what a cell made the device do, as a picture or a table below it.

%%timeline [FILE]      when it did what: host, streams, engines, devices; with FILE, in it too: .png, .svg, .pdf, or .json,
                       a trace for ui.perfetto.dev
%%profile [KERNEL]     counters of each kernel, or of those whose name holds KERNEL
%%warps [KERNEL]       inside a kernel: what each warp of one block did, and what it waited for

On a GPU %%timeline shows what CUPTI collects, or the time of the whole cell, and each says what is missing there. With
--virtual[=NAME] the notebook's cells so far and this one are run again on the virtual GPU NAME (a100), in a process of
their own, whatever this one has.
"""

from dataclasses import dataclass, replace

from grader import vgpu
from grader.vgpu import collectors

NOTHING = "this cell gave the device nothing to do"
_ONLY_VIRTUAL = "What a kernel's warps do is seen on the virtual GPU only. "


@dataclass(frozen=True)
class _Asked:
    """What stands behind a magic's name."""

    word: str  # a file or a kernel
    device: str | None  # the virtual GPU that is to be used in another process


def register(shell) -> None:
    """Add the magics to an IPython shell."""
    for magic in (timeline, profile, warps):
        shell.register_magic_function(lambda line, cell, magic=magic: magic(shell, line, cell), "cell", magic.__name__)


def timeline(shell, line: str, cell: str) -> None:
    """Run the cell, and show the timeline of what it did, waiting for what it left queued."""
    from IPython.core.error import UsageError

    from grader.vgpu.driver.clock import Span
    from grader.vgpu.targets import target
    from grader.vgpu.timeline import Timeline

    asked = _read(line)
    try:
        if asked.word:
            target(asked.word)
    except ValueError as error:
        raise UsageError(str(error)) from None  # shown as one sentence; the cell has not run
    if asked.device:
        seen = _elsewhere(shell, cell, "timeline", asked.device)
        if seen is None:
            return
        shown = Timeline(*([Span(**s) for s in seen[kind]] for kind in ("spans", "calls")))
    else:
        collector = collectors.choose()
        _say(collector.missing)
        collector.start()
        shell.run_cell(cell)
        shown = collector.stop()
    if not shown.spans:
        print(NOTHING)
        return
    if asked.word:
        shown.save(asked.word)
    _display(shown)


def profile(shell, line: str, cell: str) -> None:
    """Run the cell with every block counted, and show a table for each kernel that it launched."""
    asked = _read(line)
    if asked.device:
        seen = _elsewhere(shell, cell, "profile", asked.device)
        if seen is not None:
            _print([text for name, text in seen["profiles"] if asked.word in name], asked.word)
        return
    if not vgpu.active():
        _say(collectors.counters_missing())
        _durations(shell, cell)
        return
    from grader.vgpu.profile import collect

    with collect() as found:
        shell.run_cell(cell)
    texts = [str(p) for p in found if asked.word in p.kernel]
    _print([str(found)] if texts and not asked.word else texts, asked.word)


def warps(shell, line: str, cell: str) -> None:
    """Run the cell, and show the warps of one block of each kernel that it launched."""
    from grader.vgpu.warps import BlockTimeline, Segment, watch

    asked = _read(line)
    if asked.device:
        seen = _elsewhere(shell, cell, "warps", asked.device)
        if seen is None:
            return
        blocks = [BlockTimeline(b["kernel"], b["warps"], [Segment(**s) for s in b["segments"]]) for b in seen["blocks"]]
    elif not vgpu.active():
        _say((_ONLY_VIRTUAL + collectors.ELSEWHERE,))
        shell.run_cell(cell)
        return
    else:
        with watch() as blocks:
            shell.run_cell(cell)
    wanted = {b.kernel: b for b in blocks if asked.word in b.kernel}  # of launches alike, the last
    if not wanted:
        _print([], asked.word)
    for block in wanted.values():
        _display(block)


def _durations(shell, cell: str) -> None:
    """On a GPU: how long each kernel took, where that is collected."""
    from grader.vgpu.names import short_name

    collector = collectors.choose()
    _say(collector.missing)
    collector.start()
    shell.run_cell(cell)
    for span in collector.stop().spans:
        if span.kind in ("kernel", "whole"):
            print(f"{short_name(span.name):30} {span.end_us - span.start_us:10.2f} us (measured)")


def _read(line: str) -> _Asked:
    found = _Asked("", None)
    for word in line.split():
        if word == "--virtual" or word.startswith("--virtual="):
            found = replace(found, device=word.partition("=")[2] or vgpu.DEFAULT)
        else:
            found = replace(found, word=word)
    return found


def _elsewhere(shell, cell: str, what: str, device: str) -> dict | None:
    """The cell's run in a process with a virtual GPU; None, with a sentence, if there was none."""
    from grader.vgpu import rerun

    before = [text for text in shell.user_ns.get("In", [])[:-1] if text.strip()]
    try:
        seen = rerun.elsewhere(before, cell, what, device)
    except rerun.Failed as error:
        print(error)
        return None
    print(f"on the virtual GPU {seen['card']}, in a process of its own; times are modelled")
    return seen


def _print(texts: list[str], word: str) -> None:
    print(
        "\n\n".join(texts)
        or (f"no kernel whose name holds {word!r} was launched" if word else "no kernel was launched")
    )


def _say(sentences) -> None:
    for sentence in sentences:
        print(sentence)


def _display(thing) -> None:
    from IPython.display import display

    display(thing)

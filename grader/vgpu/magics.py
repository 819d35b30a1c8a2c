"""IPython cell magics: %%timeline draws what a cell made the device do, %%profile says what its kernels did.

%%timeline [FILE]      a picture below the cell; with FILE, in it too (.png, .svg, or a trace for ui.perfetto.dev)
%%profile [KERNEL]     a table for each kernel, or for those whose name holds KERNEL
"""

from grader import vgpu

_ABSENT = (
    "%%{name} shows what the virtual GPU did, and this session runs on a real one. For the same figures there, use "
    "Nsight {tool}; or restart with the environment variable GRADER_DEVICE=virtual set, and run the cell again."
)


def register(shell) -> None:
    """Add the magics to an IPython shell."""
    shell.register_magic_function(lambda line, cell: timeline(shell, line, cell), "cell", "timeline")
    shell.register_magic_function(lambda line, cell: profile(shell, line, cell), "cell", "profile")


def timeline(shell, line: str, cell: str) -> None:
    """Run the cell, and show the timeline of what it did, waiting for what it left queued."""
    from grader.vgpu.timeline import Timeline

    if not _virtual("timeline", "Systems"):
        shell.run_cell(cell)
        return
    vgpu.finish()
    spans, calls = len(vgpu.spans()), len(vgpu.calls())
    shell.run_cell(cell)
    vgpu.finish()
    shown = Timeline.now(spans, calls)
    if not shown.spans:
        print("this cell gave the device nothing to do")
        return
    if line.strip():
        shown.save(line.strip())
    _display(shown)


def profile(shell, line: str, cell: str) -> None:
    """Run the cell with every block counted, and show a table for each kernel that it launched."""
    from grader.vgpu.profile import collect

    if not _virtual("profile", "Compute"):
        shell.run_cell(cell)
        return
    with collect() as found:
        shell.run_cell(cell)
    wanted = [p for p in found if line.strip() in p.kernel]
    print("\n\n".join(map(str, wanted)) if wanted else "no such kernel was launched" if line.strip() else found)


def _virtual(name: str, tool: str) -> bool:
    """Whether the virtual GPU is active; if not, say so."""
    if vgpu.active():
        return True
    print(_ABSENT.format(name=name, tool=tool))
    return False


def _display(thing) -> None:
    from IPython.display import display

    display(thing)

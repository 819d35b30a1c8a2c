"""The virtual GPU: a CUDA driver and a machine that executes PTX on the CPU.

    import grader.vgpu
    grader.vgpu.activate("a100")        # before anything imports numba.cuda or cuda.core
    ...                                 # an unmodified CUDA program
    grader.vgpu.findings()

Times are modelled, never measured.
"""

from __future__ import annotations

from grader.vgpu.devices import DEFAULT, Machine, parse

_machine: Machine | None = None


def activate(name: str = DEFAULT) -> list:
    """Make the virtual GPU this process's CUDA driver, and give its cards.

    `name`: a card of `grader.vgpu.devices.CARDS`, or several of it, linked as named: "a100*4", "a100*4@pcie". A second
    call does nothing if it asks for the same card, no more of them than there are, and several only if they are linked
    alike. Raises ValueError for an unknown name, DriverAlreadyLoaded if the process has a real driver, RuntimeError if
    another virtual device is active.
    """
    global _machine
    wanted = parse(name)
    if _machine:
        fewer = _machine.cards[: len(wanted.cards)] == wanted.cards
        if not fewer or (len(wanted.cards) > 1 and wanted.topology != _machine.topology):
            raise RuntimeError(f"this process already has the virtual GPU {describe()}; start a new one for {name!r}")
        return active()
    from grader.vgpu import numba_adapter
    from grader.vgpu.driver.install import install

    install(wanted)
    _machine = wanted
    numba_adapter.install()
    return active()


def active() -> list:
    """The cards of this process's virtual GPU; empty if it has none."""
    return list(_machine.cards) if _machine else []


_LINKED = {"nvlink": "linked by NVLink", "pcie": "in a tree of PCIe switches"}


def describe() -> str:
    """What is active, in words: "NVIDIA A100-SXM4-80GB" or "4 x NVIDIA A100-SXM4-80GB linked by NVLink"."""
    if not _machine:
        return "none"
    card, n = _machine.cards[0], len(_machine.cards)
    return f"{n} x {card.name} {_LINKED[_machine.topology]}" if n > 1 else card.name


def findings() -> list:
    """What the sanitizers and faults have reported so far in this process, in order."""
    from grader.vgpu.driver.abi import LOCK
    from grader.vgpu.driver.paging import settle
    from grader.vgpu.driver.state import driver

    with LOCK:
        settle()  # what the host has touched just now
        return list(driver.findings)


def spans() -> list:
    """The modelled timeline so far: `grader.vgpu.driver.clock.Span`, in order of execution."""
    from grader.vgpu.driver.clock import CLOCK

    return list(CLOCK.spans)


def calls() -> list:
    """The driver calls so far that took time on the host's modelled clock: Spans of kind "call"."""
    from grader.vgpu.driver.clock import CLOCK

    return list(CLOCK.calls)


def options():
    """What is checked, to be set: racecheck, initcheck, profile (bool), deadline (seconds of processor time that a launch
    may take, or None); hostcheck: without racecheck, whether the host touches page-locked memory too early;
    leakcheck: whether `finish` reports memory that was never freed; announce: whether a fault is printed at once."""
    from grader.vgpu.driver.state import driver

    return driver.options


def on_launch(observer) -> None:
    """Call `observer(kernel, work, result, span)` after each kernel has been executed."""
    from grader.vgpu.driver.state import driver

    driver.observers.append(observer)


def finish() -> int:
    """Execute what is still queued, so that all that was asked for is checked; how many operations that were."""
    from grader.vgpu import numba_adapter
    from grader.vgpu.driver.abi import LOCK
    from grader.vgpu.driver.memory import leaks
    from grader.vgpu.driver.queue import complete
    from grader.vgpu.driver.state import driver
    from grader.vgpu.driver.work import note

    if driver.options.leakcheck:
        numba_adapter.free_pending()
    with LOCK:
        streams = [stream for context in driver.contexts for stream in context.streams]
        waiting = sum(op.work.kind not in ("event", "wait", "free") for stream in streams for op in stream.pending)
        complete(*[stream.last for stream in streams])
        if driver.options.leakcheck:
            for finding in leaks():
                note(finding)
    return waiting

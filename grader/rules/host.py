"""Rules on a host function: what its recording asks of CUDA, and what the timeline of the timed run shows."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import NamedTuple

from grader.evidence import Evidence
from grader.program import (
    Alloc,
    Copy,
    Free,
    Graph,
    GraphLaunch,
    GraphUpdate,
    HostCopy,
    HostWrite,
    Launch,
    Program,
    Register,
    Sync,
    Unregister,
    work_of,
)
from grader.rules.check import Check, failed, passed, unknown
from grader.rules.kernels import codes, short_name

JUDGED = 64  # results; fewer may stay the same by chance
HOSTS_SHARE = 0.5  # of the results: more must not be the host's. Less may be a part that the host chose to skip
HINT = "The host may choose the calls by what it sees; the numbers in the results have to come from a kernel."
Sizes = Mapping[str, int]


class Given(NamedTuple):
    """How a kernel that an exercise gives has to be launched."""

    shape: tuple[int, int] | None = None  # blocks and threads of a block; None: any
    times: int | None = None  # how often it runs in all; None: any number


def works_on_device(e: Evidence, host_finishes: bool = False) -> Check:
    """The work is done by kernels.

    host_finishes: the exercise lets the host have the last word (the sum of partial sums). Elsewhere most of the
    results must follow when a recording of certain inputs is played with others, and the host's own bytes be few.
    """
    for name, program in e.built.recorded:
        if not sum(kernels_launched(program)):
            return failed(
                f"{name}: no kernel is launched", "Is the gap still empty? The kernels are given; launch them."
            )
    for swap in e.swaps if not host_finishes else ():
        if swap.size < JUDGED:
            continue
        if swap.same > HOSTS_SHARE * swap.size:
            return failed(
                f"{swap.case.name}: {swap.same} of {swap.size} results stay as they are when the recorded calls are"
                " played with other inputs: the host computed them, not the kernels",
                HINT,
            )
        if swap.hosts > HOSTS_SHARE * swap.results:
            return failed(
                f"{swap.case.name}: the host computes {swap.hosts} bytes of the arrays' numbers by itself and hands them"
                f" on, for results of {swap.results} bytes: that is the kernels' work",
                HINT,
            )
    return passed("kernels are launched at every size")


def as_given(e: Evidence, launches: Callable[[Sizes], dict[str, Given]]) -> Check:
    """The kernels that are given run, and no others, launched as the exercise says.

    launches: how each of them is to be launched, by its name, at certain sizes. A kernel is told by its compiled code.
    """
    if not e.given:
        return unknown("the kernels that are given are not known here")
    sizes = {run.case.name: run.case.sizes for run in e.runs}
    if e.timing:
        sizes[e.timing.case.name] = e.timing.case.sizes
    for name, program in e.built.recorded:
        asked, own = launches(sizes[name]) if name in sizes else {}, codes(program)
        ran: Counter[str] = Counter()
        for launch, times in _kernels(program):
            kernel = e.given.get(own[launch.module, launch.kernel])
            if kernel is None:
                return failed(
                    f"{name}: a kernel runs that the exercise does not give ({short_name(launch.kernel)}): its compiled code"
                    " is another one",
                    "What is asked is the host's code. Take the kernels as they are, with @cuda.jit as it is, and give them"
                    " whole arrays or contiguous parts.",
                )
            ran[kernel] += times
            wanted = asked.get(kernel, Given()).shape
            if wanted and (launch.grid, launch.block) != ((wanted[0], 1, 1), (wanted[1], 1, 1)):
                return failed(
                    f"{name}: {kernel} is launched with grid {launch.grid} and block {launch.block}, not with {wanted[0]}"
                    f" blocks of {wanted[1]}"
                )
        for kernel, given in asked.items():
            if given.times is not None and ran[kernel] != given.times:
                return failed(f"{name}: {kernel} runs {ran[kernel]} times, not {given.times}")
    return passed("every kernel is one that is given, and launched as it should be")


def takes_turns(e: Evidence, kernel: str, output: str, rounds: int) -> Check:
    """The host takes an equal part of the output after every round, as given.

    kernel: which ends a round; output: the array.
    """
    for name, program in e.built.recorded:
        array, own = program.named("output")[output], codes(program)
        b = program.buffers[array]
        part = -(-prod(b.shape) // rounds) * (b.nbytes // prod(b.shape))
        graphs: dict[int, int] = {}  # how often the kernel is in each
        done, took = 0, 0  # rounds; bytes taken since the last one
        for op in program.ops:
            inside = sum(e.given.get(own[w.module, w.kernel]) == kernel for w in _launches_of(op))
            if isinstance(op, Graph | GraphUpdate):
                graphs[op.exec] = inside
            elif ended := graphs[op.exec] if isinstance(op, GraphLaunch) else inside:
                done, took = done + ended, 0
            elif isinstance(op, HostWrite | HostCopy | Copy) and op.to.buffer == array:
                took += _length(program, op)
            if took > (2 * part if done else 0):  # the last one's may come while this one's kernel runs
                when = f"after {done} of {rounds} rounds" if done else "before the first round"
                return failed(
                    f"{name}: {when} the host takes {took} bytes of {output}, of which {part} are due after each round",
                    "Leave the loop as it is: a kernel, a wait, a part. What can be done before the loop?",
                )
    return passed(f"the host takes its part of {output} after every round")


def _launches_of(op: object) -> list[Launch]:
    """The kernels of an operation, or of a graph's nodes that are switched on."""
    if isinstance(op, Graph | GraphUpdate):
        return [n.work for n in op.nodes if n.enabled and isinstance(n.work, Launch)]
    return [op] if isinstance(op, Launch) else []


def _length(program: Program, op: HostWrite | HostCopy | Copy) -> int:
    if isinstance(op, HostWrite):
        return len(program.blobs[op.blob])
    return op.nbytes * getattr(op, "rows", 1)


def waits_for_results(e: Evidence) -> Check:
    """When the function returns, its results are there."""
    for run in e.runs:
        if late := {n for r in run.results for n in r.late}:
            return failed(
                f"{run.case.name}: {', '.join(sorted(late))} was not complete when the function returned",
                "Copies to pinned memory and kernels go on when the call is over: wait for every stream at the end.",
            )
    return passed("nothing was still under way when the function returned")


def overlaps(e: Evidence, share: float = 0.3) -> Check:
    """Copies run while kernels run, both for the results."""
    c, how = _needed(e)
    if "needed_copies_us" not in c:
        return unknown("this device does not tell what runs at the same time")
    if not c["needed_copies_us"]:
        hint = "A kernel that reads the host's memory waits for the link at every access."
        return failed(f"nothing is copied{how}", hint)
    got = c["needed_overlapped"]
    said = f"a kernel runs during {got:.0%} of the copies' time{how}"
    if got >= share:
        return passed(said)
    return failed(
        f"{said}; {share:.0%} is asked",
        "Work in one stream keeps its order. Which streams could copy the next chunk while this one is computed?",
    )


def spreads_over_streams(e: Evidence, least: int = 2) -> Check:
    """The work for the results is spread over several streams."""
    c, how = _needed(e)
    if "needed_streams" not in c:
        return unknown("this device does not tell what the results depend on")
    streams = int(c["needed_streams"])
    said = f"{streams} stream{'' if streams == 1 else 's'} with kernels or copies{how}"
    if streams >= least:
        return passed(said)
    return failed(f"{said}; at least {least} are asked", "Give every call its stream; without one it is the default.")


def copies_pinned_memory(e: Evidence) -> Check:
    """What is copied lies in pinned memory."""
    program = _program(e)
    copies = [w for op in program.ops for w in work_of(op) if isinstance(w, Copy)]
    plain = [c for c in copies if _pageable(program, c)]
    if not plain:
        return passed(f"{len(copies)} copies, none from or to pageable memory")
    return failed(
        f"{len(plain)} of {len(copies)} copies are from or to pageable memory",
        "A plain NumPy array is pageable, and a copy of a slice is a plain array: use the pinned array itself.",
    )


def few_host_waits(e: Evidence, most: int = 1) -> Check:
    """The host waits only where it must."""
    program = _program(e)
    waits = sum(isinstance(op, Sync) for op in program.ops)
    blocking, frees = _waiting_copies(program), _waiting_frees(program)
    said = f"the host waits {waits} times for the device and makes {blocking} copies that wait"
    said += f"; it frees memory {frees} times while there is more to launch, which waits as well" if frees else ""
    if waits + blocking + frees <= most:
        return passed(said)
    return failed(
        f"{said}; {most} in all are asked at most",
        "A stream can wait for an event of another one while the host goes on: event.record(a), event.wait(b).",
    )


def _waiting_copies(program: Program) -> int:
    """Copies after which the host goes on only when they are over: those without Async, and those to pageable memory."""
    locked: set[int] = set()  # pageable buffers that are page-locked, wholly or in part
    found = 0
    for op in program.ops:
        if isinstance(op, Register | Unregister):
            (locked.add if isinstance(op, Register) else locked.discard)(op.place.buffer)
        elif isinstance(op, Copy):
            to = op.to.buffer
            found += op.blocking or (program.buffers[to].kind == "pageable" and to not in locked)
    return found


def _waiting_frees(program: Program) -> int:
    """Frees that wait for the device (cuMemFree) before the last kernel or graph is launched."""
    last = max((k for k, op in enumerate(program.ops) if isinstance(op, Launch | GraphLaunch)), default=0)
    return sum(isinstance(op, Free) and op.stream is None for op in program.ops[:last])


def few_launches(e: Evidence, most: Callable[[Sizes], int]) -> Check:
    """Kernels and graphs are launched no more often than needed."""
    case = e.timing.case if e.timing else e.runs[-1].case
    program = e.built.programs[case.name]
    launches, allowed = sum(isinstance(op, Launch | GraphLaunch) for op in program.ops), most(case.sizes)
    said = f"{case.name}: the host launches {launches} times"
    if launches <= allowed:
        return passed(said)
    return failed(
        f"{said}; {allowed} are asked at most", "What always follows each other can be one kernel, or one graph."
    )


def launches_as_graph(e: Evidence, share: float = 0.9, graphs: int = 1) -> Check:
    """Short kernels are launched as a graph."""
    program = _program(e)
    alone, inside = kernels_launched(program)
    made = sum(isinstance(op, Graph) for op in program.ops)
    launches = sum(isinstance(op, GraphLaunch) for op in program.ops)
    said = f"{inside} of {alone + inside} kernels by {launches} launches of {made} graph{'' if made == 1 else 's'}"
    if made > graphs:
        return failed(f"{said}; {graphs} made once will do", "Capture and instantiate once, outside of the loop.")
    if inside >= share * (alone + inside):
        return passed(said)
    return failed(
        f"{said}; {share:.0%} is asked",
        "Capture one round of launches, instantiate it, and launch the graph as often as there are rounds.",
    )


def allocates_nothing_between(e: Evidence, most: int = 0) -> Check:
    """Nothing is allocated or freed between kernels by a call that waits."""
    slow = sum(isinstance(op, Alloc | Free) and op.stream is None for op in _program(e).ops)
    if slow <= most:
        return passed(f"{slow} calls that allocate or free outside the order of a stream")
    return failed(
        f"{slow} calls that allocate or free outside the order of a stream; at most {most} are asked",
        "Allocate once, before the loop, or from a pool in the order of the stream.",
    )


def no_page_faults(e: Evidence, share: float = 0.02) -> Check:
    """Nobody waits for page faults."""
    c, seconds, how = _timeline(e)
    if "faults_us" not in c:
        return unknown("this device does not tell of page faults")
    # By the reference's time where that is shorter: whoever makes the rest slow has no fewer faults.
    reference = e.timing.sides.get("reference") if e.timing else None
    waited, whole = c["faults_us"], min(seconds, reference.seconds if reference else seconds) * 1e6
    said = f"{waited:.0f} of {whole:.0f} us are page faults{how}"
    if waited <= share * whole:
        return passed(said)
    return failed(f"{said}; {share:.0%} is allowed", "Prefetch what the next kernel touches, in its stream.")


def kernels_launched(program: Program) -> tuple[int, int]:
    """How many kernels run because of (launches, launches of graphs)."""
    alone = len(program.launches())
    return alone, sum(times for _, times in _kernels(program)) - alone


def _kernels(program: Program) -> Iterator[tuple[Launch, int]]:
    """Every kernel and how often it runs, alone or as a node of a graph; while it is switched off it does not run.

    Not one by one: a program may launch its graphs a thousand million times over.
    """
    graphs: dict[int, list[Launch]] = {}
    launched: Counter[int] = Counter()  # since the graph was made or updated
    for op in program.ops:
        if isinstance(op, Launch):
            yield op, 1
        elif isinstance(op, GraphLaunch):
            launched[op.exec] += 1
        elif isinstance(op, Graph | GraphUpdate):
            if times := launched.pop(op.exec, 0):
                yield from ((work, times) for work in graphs[op.exec])
            graphs[op.exec] = _launches_of(op)
    for made, times in launched.items():
        yield from ((work, times) for work in graphs[made])


def _pageable(program: Program, copy: Copy) -> bool:
    ends = [copy.to, *([copy.source] if copy.source else [])]
    return copy.blob is not None or any(program.buffers[place.buffer].kind == "pageable" for place in ends)


def _program(e: Evidence) -> Program:
    """The recording of the timed size, else of the size that works the most."""
    if e.timing is not None:
        return e.built.programs[e.timing.case.name]
    return max(e.built.programs.values(), key=lambda p: (len(p.ops), sum(b.nbytes for b in p.buffers)))


def _timeline(e: Evidence) -> tuple[dict[str, float], float, str]:
    """(figures of the timeline, seconds that it is long, what to say of them) of the timed run.

    A real card tells none: then those of the largest replay on the virtual GPU that watches for hazards.
    """
    if e.timing is not None and "submission" in e.timing.sides:
        side = e.timing.sides["submission"]
        if "kernels_us" in side.counters:
            return side.counters, side.seconds, ""
    for run in reversed(e.runs):
        for r in run.results:
            if "kernels_us" in r.counters and r.seconds:
                return r.counters, r.seconds, f", modelled for {r.device} ({run.case.name})"
    return {}, 0.0, ""


def _needed(e: Evidence) -> tuple[dict[str, float], str]:
    """(figures of what the results depend on, what to say of them) of the largest replay that watched for hazards.

    Kernels and copies that nothing comes of are no way to have work in two streams, or something to run beside a copy.
    """
    for run in reversed(e.runs):
        for r in run.results:
            if "unneeded" in r.counters:
                left = int(r.counters["unneeded"])
                out = f"; {left} kernels or copies that no result depends on are left out" if left else ""
                return r.counters, f" ({run.case.name}, modelled for {r.device}{out})"
    return {}, ""

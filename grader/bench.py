"""What grading keeps warm between submissions: the process for student code, the device, the trusted programs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from grader import caches, devices, reply
from grader.devices import Device, Run
from grader.evidence import Arrays, Built, Draw, Side, Timing
from grader.measure.sizing import timed_case
from grader.problems.model import Case, HostFunction, Problem
from grader.program import Program
from grader.rules.kernels import codes, short_name
from grader.sandbox import Limits, SandboxError, Zygote, doctor
from grader.submission import Cell

# Who computes too long is ended by the processor time: on a busy machine the wall clock must not come first.
LIMITS = Limits(cpu_s=30, wall_s=120, memory_mb=3072, header_kb=32 << 10, threads=True)
LIVE = replace(LIMITS, result_mb=256)  # what the host computes comes back as bytes


class Bench:
    """A context manager. `device` takes times; `watcher` is the device that has the sanitizers (the same if it can)."""

    def __init__(self, spec: str = "auto", *, trust: bool = False):
        spec = devices.resolve(spec)
        caches.fill()
        # Slow starts at once. The pool lives as long as they do: a process may be tied to the thread that started it.
        self._pool = ThreadPoolExecutor(3)
        self._open = ExitStack()
        self._open.callback(self._pool.shutdown)
        try:
            self._start(spec, trust)
        except BaseException:
            self._open.close()
            raise
        self.trust = trust
        self.protections: tuple[str, ...] = ()  # in force while the last submission ran
        self._trusted: dict[tuple[str, str], dict[str, Program]] = {}
        self._known: dict[str, dict[str, Side]] = {}
        self._sized: dict[str, Case] = {}

    def _start(self, spec: str, trust: bool) -> None:
        first = self._pool.submit(devices.open, spec, trust=trust)
        card = spec if spec.startswith("virtual") else _like(self._keep(first))
        environment = {"GRADER_DEVICE": card, "MPLBACKEND": "Agg", **caches.environment()}
        students = self._pool.submit(Zygote, "grader.jobs:warm", env=environment, trust=trust)
        self.device: Device = self._keep(first)
        self.watcher: Device = (
            self.device if card == spec else self._keep(self._pool.submit(devices.open, card, trust=trust))
        )
        self._students: Zygote = self._keep(students)
        report = doctor.protections(self._students)
        self.level = report.level  # what holds, found out by attacking it: see grader.sandbox.doctor
        if not self.level and not trust:
            open_ = ", ".join(name for name, held in report.probes if not held)
            raise SandboxError(f"submissions would not be locked in here; not so: {open_}")

    def _keep(self, future: Future):
        """What was started, to be closed with the bench."""
        self._open.callback(future.result().close)
        return future.result()

    def record(self, cells: Sequence[Cell], problem: Problem, cases: Sequence[Case]) -> Built:
        """Run the student's cells in a locked child; what comes back is checked before it is believed.

        ValueError where the exercise needs more GPUs than this machine has.

        Where something else than the kernel fails (a cell of the student's own that faults on the device, say), the
        definitions alone are tried, so that it does not cost the answer. A process that is gone, by `os._exit` or by a
        crash, gets no second try: whoever wants an answer graded has to let it come to that.
        """
        self._check_machine(problem)
        named = {case.name: case for case in cases}
        built = self._record(cells, problem, named, definitions=False)
        if built.error is None or built.error.code != "RTE" or built.status not in ("ok", "error"):
            return built
        again = self._record(cells, problem, named, definitions=True)
        if again.error:
            return built
        said = f"graded by its definitions alone, because running all of it failed: {built.error.message}"
        flags = ("only its definitions were run",)
        failed = (*built.failed_cells, said)
        return replace(again, failed_cells=failed, output=built.output, flags=flags, definitions=True)

    def _check_machine(self, problem: Problem) -> None:
        """ValueError where the exercise asks for more GPUs than there are."""
        wanted, there = reply.devices_of(problem), self.device.describe().get("devices", 1)
        if wanted > there:
            said = f"{problem.name} needs a machine of {wanted} GPUs, and this one has {there}"
            raise ValueError(f"{said}: --device virtual:a100*{wanted}")

    def record_for(
        self, cells: Sequence[Cell], problem: Problem, built: Built, draws: Sequence[Draw]
    ) -> tuple[Built, list[Program]]:
        """What is known of the submission then, and the program for each draw; with an error there are none.

        Recorded in a new locked child that is given these inputs and sees no answer; see `grader.live`.
        """
        named = {str(k): case for k, (case, _) in enumerate(draws)}
        again = self._record(cells, problem, named, built.definitions, [inputs for _, inputs in draws])
        programs = list(again.programs.values())
        by_case, more = dict(built.programs), list(built.more)
        for (case, _), program in zip(draws, programs, strict=False):
            if case.name in by_case:
                more.append((case.name, by_case[case.name]))
            by_case[case.name] = program
        early = [e._replace(case=named[e.case].name) for e in again.early if e.case in named]
        known = replace(
            built,
            error=again.error,
            status=again.status,
            programs=by_case,
            more=tuple(more),
            early=(*built.early, *early),
            flags=tuple(dict.fromkeys((*built.flags, *again.flags))),
        )
        return known, programs

    def _record(
        self,
        cells: Sequence[Cell],
        problem: Problem,
        cases: Mapping[str, Case],
        definitions: bool,
        inputs: Sequence[Arrays] = (),
    ) -> Built:
        request, blobs = reply.request(cells, problem, cases, definitions, inputs)
        outcome = self._students.run("grader.jobs:record", request, blobs, LIVE if inputs else LIMITS)
        self.protections = outcome.protections
        return reply.built(outcome, problem, cases, live=bool(inputs))

    def timed_case(self, problem: Problem) -> Case:
        """The size that is timed on this bench's device; on a real card found by trying the reference."""
        if self.device.kind == "modelled":
            return problem.speed.modelled
        if problem.name not in self._sized:
            rng = np.random.default_rng()
            free = self.device.describe().get("free_bytes")
            self._sized[problem.name] = timed_case(problem, lambda case: self._once(problem, case, rng), free)
        return self._sized[problem.name]

    def _once(self, problem: Problem, case: Case, rng: np.random.Generator) -> float:
        """Seconds of the reference: the best of three, the first of which warms up."""
        program, inputs = self._own(problem, "reference", case), problem.inputs(rng, case.sizes)
        results = self.device.replay([Run(program, inputs, timed=True)] * 3)
        if results[-1].fault:
            raise RuntimeError(f"reference of {problem.name}, {case.name}: {results[-1].fault.message}")
        return min(r.seconds for r in results)

    def trusted(self, problem: Problem, case: Case) -> dict[str, Program]:
        """The baseline's and the reference's program for a case; recorded once, by the same job."""
        key = problem.name, case.name
        if key not in self._trusted:
            self._trusted[key] = {side: self._own(problem, side, case) for side in ("baseline", "reference")}
        return self._trusted[key]

    def given(self, problem: Problem) -> dict[str, str]:
        """Code -> name of the kernels that an exercise of host code gives: those of its reference."""
        if not (isinstance(problem.entry, HostFunction) and problem.speed):
            return {}
        found = codes(self.trusted(problem, problem.speed.modelled)["reference"])
        return {code: short_name(kernel) for (_, kernel), code in found.items()}

    def known_times(self, problem: Problem) -> dict[str, Side]:
        """Times of the trusted sides where they do not change: on a device that models time."""
        return self._known.get(problem.name, {}) if self.device.kind == "modelled" else {}

    def learn_times(self, problem: Problem, timing: Timing) -> None:
        """Keep the trusted sides' times."""
        if timing.sides:
            self._known[problem.name] = {s: timing.sides[s] for s in ("baseline", "reference")}

    def close(self) -> None:
        """End all processes."""
        self._open.close()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _own(self, problem: Problem, side: str, case: Case) -> Program:
        built = self.record([Cell(f"{side}.py", problem.source(side))], problem, [case])
        if built.error:
            raise RuntimeError(f"{side} of {problem.name}: {built.error.message}\n{built.error.detail}")
        if built.live:
            raise RuntimeError(f"{side} of {problem.name} must not depend on its inputs, and does: {built.live}")
        return built.programs[case.name]


def _like(device: Device) -> str:
    """The virtual GPU of the same compute capability, on which submissions are recorded and watched."""
    return {7: "virtual:t4", 8: "virtual:a100", 9: "virtual:h100"}.get(device.describe()["cc"][0], "virtual:h100")

"""The commands. Exit status: 0 done, whatever the verdicts; 2 not usable as given; 3 the grader itself failed."""

import argparse
import json
import os
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from rich.console import Console

USAGE, FAILED, INTERRUPTED = 2, 3, 130
QUIET_S = 15.0  # between two lines of progress, where the output is no terminal
TIMELINES = (".png", ".svg", ".pdf", ".json")
PLAIN_WIDTH = 120  # columns, where the output is no terminal


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    if not hasattr(args, "command"):
        parser.print_help()
        return USAGE
    try:
        return args.command(args)
    except KeyboardInterrupt:  # for the second time, or where there was nothing to finish
        print("interrupted", file=sys.stderr)
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # waits for no thread; what the sandbox runs ends with this process
    except BrokenPipeError:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grader", description="Run and grade CUDA kernels, with or without a GPU.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, function, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    p = command("grade", _grade, "grade submissions: .py files, notebooks or folders of them")
    p.add_argument("paths", nargs="+", metavar="PATH")
    p.add_argument("--exercise", metavar="NAME", help="which exercise they answer; else their metadata or name says")
    p.add_argument("--device", default="auto", help="auto, cuda[:N] or virtual[:NAME] (default: %(default)s)")
    p.add_argument("--seed", type=int, metavar="N", help="for inputs and secret sizes; fresh ones by default")
    p.add_argument("--json", metavar="FILE", help="write one record a submission")
    p.add_argument("--html", metavar="FILE", help="write a page: of the class, where there are several")
    p.add_argument("--pages", metavar="DIR", help="write a page a submission, and index.html for the class")
    p.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    p.add_argument("--gradescope", metavar="FILE", help="write results.json as Gradescope reads it; for one student")
    p.add_argument("--results", metavar="FILE", help="keep results here (SQLite); what is there is not graded again")
    p.add_argument(
        "--jobs", type=int, default=0, metavar="N", help="how many at a time (default: as suits the machine)"
    )
    p.add_argument("--detail", action="store_true", help="show every rule (always, for a single submission)")
    p.add_argument("--trust-submissions", action="store_true", help="grade where this machine cannot lock them in")
    p = command("autograde", _autograde, "nbgrader's autograde, several submissions at once")
    p.add_argument("assignment", help="a folder of the release directory, such as 00-first-kernels")
    p.add_argument("--course", default=".", metavar="DIR", help="where nbgrader_config.py is (default: here)")
    p.add_argument("--student", action="append", metavar="ID", help="only this one; may be repeated")
    p.add_argument("--jobs", type=int, default=0, metavar="N", help="how many at once (default: one a processor)")
    p.add_argument("--force", action="store_true", help="also those that were autograded before")
    p.add_argument("--feedback", action="store_true", help="generate feedback too")
    p.add_argument("--device", help="auto, cuda[:N] or virtual[:NAME] (default: as in nbgrader_config.py)")
    p.add_argument("--trust-submissions", action="store_true", help="grade where this machine cannot lock them in")
    p = command("run", _run, "run a Python script on the virtual GPU")
    p.add_argument("--device", default=None, metavar="NAME", help="which card it is: a100, t4, h100, ...")
    p.add_argument(
        "--timeline", metavar="FILE", help="draw what the device did: .png, .svg, .pdf, or .json for Perfetto"
    )
    p.add_argument("--profile", action="store_true", help="print what each kernel did, on stderr")
    p.add_argument("script")
    p.add_argument("arguments", nargs=argparse.REMAINDER)
    command("devices", _devices, "list the devices that can be graded on")
    command("list", _list, "list the exercises")
    p = command("hint", _hint, "show a hint for an exercise")
    p.add_argument("exercise")
    p.add_argument("step", nargs="?", type=int, choices=(1, 2, 3), default=1, help="1 says little, 3 nearly all")
    command("doctor", _doctor, "tell what protects this machine from submissions, and what it can grade on")
    p = command("program", _program, "show what a submission asks of CUDA, as it was recorded")
    p.add_argument("action", choices=("show", "save"), help="show: print it; save: write it to a file")
    p.add_argument("path", help="a submission, or a file that was saved")
    p.add_argument("--exercise", metavar="NAME", help="which exercise it answers; else its metadata or name says")
    p.add_argument("--case", metavar="SIZES", help='one of the sizes, such as "n = 1000" (default: the largest)')
    p.add_argument("--device", default="virtual", help="as for grade (default: %(default)s)")
    p.add_argument("-o", "--output", metavar="FILE", help="where save writes to")
    p.add_argument("--trust-submissions", action="store_true", help="run it where this machine cannot lock it in")
    p = command("check-course", _check_course, "prove that every exercise can be failed and solved")
    p.add_argument("--root", default=".", help="the folder with solutions/, exercises/ and tests/")
    p.add_argument("--device", default="virtual")
    return parser


def _grade(args: argparse.Namespace) -> int:
    from grader import batch, devices, problems
    from grader.report import files
    from grader.results import Store, Unusable

    try:
        exercise = problems.get(args.exercise).name if args.exercise else None
        spec = devices.resolve(args.device)
        _known_card(spec)
    except (LookupError, ValueError) as e:
        return _refuse(str(e))
    tasks = list(batch.plan(args.paths, exercise))
    status = 0
    for task in tasks:
        if isinstance(task, batch.Skipped):
            status = _refuse(task.message)
    tasks = [t for t in tasks if not isinstance(t, batch.Skipped)]
    if not tasks:
        return status or _refuse("nothing to grade: no .py file and no notebook there")
    try:
        _check_files(args)
        with Store(args.results) as store:
            return _grade_all(args, tasks, spec, store) or status
    except (files.Unwritable, Unusable) as e:
        return _refuse(str(e))


def _grade_all(args: argparse.Namespace, tasks: list, spec: str, store) -> int:
    from grader import batch, report
    from grader.bench import Bench

    console, records = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH), {}
    start, interrupted = time.perf_counter(), False
    jobs = 1 if spec.startswith("cuda") else args.jobs or _worth_while(len(tasks))
    open_bench = partial(Bench, spec, trust=args.trust_submissions)
    try:
        bench = open_bench()
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED
    with bench:
        about = bench.device.describe()
        console.print(f"Device: {about['name']}, times are {about['kind']}", highlight=False)
        if about.get("not_watched"):
            console.print(f"The card's clock and neighbours are not watched: {about['not_watched']}", highlight=False)
        warm = time.perf_counter() - start
        progress = Progress(len(tasks))
        try:
            with closing(batch.run(tasks, bench, open_bench, store, args.seed, jobs)) as results:
                for index, record in results:
                    records[index] = record
                    progress.show(record)
        except KeyboardInterrupt:
            interrupted = True
        progress.end()
    done = [records[i] for i in sorted(records)]
    if interrupted:
        kept = f"kept in {args.results}" if args.results else "not kept: --results FILE keeps them"
        print(f"interrupted; {len(done)} of {len(tasks)} were graded, and are {kept}", file=sys.stderr)
    if not done:
        return INTERRUPTED
    failed = _write_reports(args, done)
    if args.detail or len(done) == 1:
        for record in done:
            console.print(f"\n{report.printable(record['submission'])}", highlight=False, markup=False)
            console.print(report.detail(record))
    else:
        console.print(report.table(done))
    console.print(_pace(done, warm, time.perf_counter() - start - warm, jobs), highlight=False)
    for r in (r for r in done if r["code"] == "IE"):
        said = report.printable(f"{r['submission']}: {r['message']}")
        print(f"grader: {said}\n{report.lines(r['output'])}", file=sys.stderr)
        failed = FAILED
    return INTERRUPTED if interrupted else failed


def _check_files(args: argparse.Namespace) -> None:
    """Raise Unwritable for what could not be written, before anything is graded."""
    from grader.report import files

    for path in (args.json, args.html, args.junit, args.gradescope, args.results):
        if path is not None:
            files.check(path)
    if args.pages:
        files.make_folder(args.pages)


def _write_reports(args: argparse.Namespace, records: list[dict]) -> int:
    from grader import report
    from grader.report import files, junit

    try:
        if args.json:
            files.write(args.json, json.dumps(records, indent=1))
        if args.html:
            files.write(args.html, report.page(records))
        if args.junit:
            files.write(args.junit, junit.document(records))
        if args.pages:
            for name, text in report.pages(records):
                files.write(os.path.join(args.pages, name), text)
        return _gradescope(args.gradescope, records) if args.gradescope else 0
    except files.Unwritable as e:
        print(f"grader: {e}", file=sys.stderr)
        return FAILED


def _worth_while(tasks: int) -> int:
    """Benches to open: each takes seconds to start."""
    return max(1, min(len(os.sched_getaffinity(0)), tasks // 8))


def _pace(records: list[dict], warm: float, took: float, jobs: int) -> str:
    first, *others = (r["wall_seconds"] for r in records)
    median = sorted(others or [first])[len(others) // 2]
    rate = f", {60 * len(records) / took:.0f} a minute with --jobs {jobs}" if len(records) > 1 and took else ""
    return f"{len(records)} graded; start {warm:.1f} s, first {first:.1f} s, median of the others {median:.2f} s{rate}"


def _gradescope(path: str, records: list[dict]) -> int:
    from grader.report import files, gradescope

    try:
        files.write(path, json.dumps(gradescope.results(records), indent=1))
    except ValueError as e:
        print(f"grader: {e}", file=sys.stderr)
        return FAILED
    return 0


def _autograde(args: argparse.Namespace) -> int:
    # A format checker that nbgrader's imports pull in and never use; building its grammar takes seconds.
    sys.modules.setdefault("rfc3987_syntax", None)
    from grader.devices import UnknownDevice
    from grader.nb.nbgrader import autograde

    try:
        return autograde.main(
            args.assignment, Path(args.course), students=args.student, jobs=args.jobs, device=args.device,
            force=args.force, feedback=args.feedback, trust=args.trust_submissions,
        )  # fmt: skip
    except (autograde.Unusable, UnknownDevice) as e:
        return _refuse(str(e))
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED


def _known_card(spec: str) -> None:
    """ValueError for a virtual card that does not exist."""
    if spec.startswith("virtual"):
        from grader.vgpu import devices as cards

        cards.parse(spec)


class Progress:
    """How far it is and how long it will take: one line that changes on a terminal, else a line now and then."""

    def __init__(self, total: int):
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._said, self._live = self._start, sys.stderr.isatty()

    def show(self, record: dict) -> None:
        """One more is done."""
        from grader.report import printable

        self._done += 1
        now = time.monotonic()
        left = (now - self._start) / self._done * (self._total - self._done)
        line = f"[{self._done}/{self._total}] {record['code']:4} {printable(record['submission'])}, {left:.0f} s left"
        if self._live:
            print(f"\r\033[K{line[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}", end="", file=sys.stderr)
        elif now - self._said > QUIET_S and self._done < self._total:
            print(line, file=sys.stderr, flush=True)
            self._said = now

    def end(self) -> None:
        """Leave a clean line."""
        if self._live:
            print("\r\033[K", end="", file=sys.stderr)


def _refuse(message: str) -> int:
    from grader.report.printable import printable

    print(f"grader: {printable(message)}", file=sys.stderr)
    return USAGE


def _run(args: argparse.Namespace) -> int:
    from grader.report import files
    from grader.vgpu.libcuda import DriverAlreadyLoaded
    from grader.vgpu.run import run

    if args.timeline and Path(args.timeline).suffix not in TIMELINES:
        return _refuse(f"--timeline {args.timeline}: name a {', '.join(TIMELINES[:-1])} file, or a .json for Perfetto")
    try:
        if args.timeline:
            files.check(args.timeline)
        device = args.device or os.environ.get("GRADER_DEVICE", "virtual:")
        return run(args.script, args.arguments, device, timeline=args.timeline, profile=args.profile)
    except (FileNotFoundError, ValueError, DriverAlreadyLoaded) as e:  # Unwritable is a ValueError
        return _refuse(str(e))


def _devices(args: argparse.Namespace) -> int:
    from grader.devices import cuda, resolve
    from grader.vgpu.devices import CARDS

    default = resolve("auto")
    for n in range(cuda.count()):
        print(f"cuda:{n:<12} a real GPU; times are measured{'  (default)' if default == f'cuda:{n}' else ''}")
    for key, card in CARDS.items():
        name = f"virtual:{key}"
        print(f"{name:17} {card.name}; times are modelled{'  (default)' if default == name else ''}")
    return 0


def _list(args: argparse.Namespace) -> int:
    from grader import problems

    for name in problems.names():
        p = problems.get(name)
        print(f"{name:18} {p.max_points:4g} points  {p.title}: {p.entry.signature}")
    return 0


def _hint(args: argparse.Namespace) -> int:
    from grader import problems

    try:
        print(problems.get(args.exercise).hints[args.step - 1])
    except LookupError as e:
        return _refuse(str(e))
    return 0


def _program(args: argparse.Namespace) -> int:
    from grader import listing
    from grader.devices import UnknownDevice
    from grader.program import Program, ProgramError

    if args.action == "save" and not args.output:
        return _refuse("say where to save it: -o FILE")
    try:
        program = Program.load(args.path) if _is_program(args.path) else _recorded(args)
    except (ProgramError, LookupError, OSError, ValueError, UnknownDevice) as e:
        return _refuse(str(e))
    if args.action == "save":
        program.save(args.output)
        return 0
    for line in listing.lines(program):
        print(line)
    return 0


def _is_program(path: str) -> bool:
    from grader.program import MAGIC

    with open(path, "rb") as f:
        return f.read(len(MAGIC)) == MAGIC


def _recorded(args: argparse.Namespace):
    """The program of one size of a submission. ValueError says why there is none."""
    from grader import problems
    from grader import submission as submissions
    from grader.bench import Bench

    found = submissions.read(args.path)
    names = (problems.get(args.exercise).name,) if args.exercise else found.exercises
    if len(names) != 1:
        raise ValueError(f"{args.path} does not say which one exercise it answers: name it with --exercise")
    problem = problems.get(names[0])
    cases = {case.name: case for case in problem.cases}
    wanted = args.case or list(cases)[-1]
    if wanted not in cases:
        raise ValueError(f"{problem.name} has no size {wanted!r}; there are {', '.join(map(repr, cases))}")
    with Bench(args.device, trust=args.trust_submissions) as bench:
        built = bench.record(found.cells, problem, [cases[wanted]])
    if built.error:
        raise ValueError(f"{args.path}: {built.error.message}")
    return built.programs[wanted]


def _doctor(args: argparse.Namespace) -> int:
    from grader import doctor

    return doctor.main()


def _check_course(args: argparse.Namespace) -> int:
    from grader import course

    return course.main(Path(args.root), args.device)

"""The commands. Exit status: 0 done, whatever the verdicts; 2 not usable as given; 3 the grader itself failed."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

USAGE, FAILED = 2, 3
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
    except KeyboardInterrupt:
        print("interrupted; results so far are kept", file=sys.stderr)
        return 130
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
    p.add_argument("--html", metavar="FILE", help="write a page")
    p.add_argument("--gradescope", metavar="FILE", help="write results.json as Gradescope reads it; for one student")
    p.add_argument("--results", metavar="FILE", help="keep results here (SQLite); what is there is not graded again")
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
    p.add_argument("--timeline", metavar="FILE", help="draw what the device did: .png, .svg, or a trace for Perfetto")
    p.add_argument("--profile", action="store_true", help="print what each kernel did, on stderr")
    p.add_argument("script")
    p.add_argument("arguments", nargs=argparse.REMAINDER)
    command("devices", _devices, "list the devices that can be graded on")
    command("list", _list, "list the exercises")
    p = command("hint", _hint, "show a hint for an exercise")
    p.add_argument("exercise")
    p.add_argument("step", nargs="?", type=int, choices=(1, 2, 3), default=1, help="1 says little, 3 nearly all")
    command("doctor", _doctor, "tell what protects this machine from submissions, and what it can grade on")
    p = command("check-course", _check_course, "prove that every exercise can be failed and solved")
    p.add_argument("--root", default=".", help="the folder with solutions/, exercises/ and tests/")
    p.add_argument("--device", default="virtual")
    return parser


def _grade(args: argparse.Namespace) -> int:
    from grader import batch, devices, problems, report
    from grader.bench import Bench
    from grader.results import Store

    try:
    p = command("program", _program, "show what a submission asks of CUDA, as it was recorded")
    p.add_argument("action", choices=("show", "save"), help="show: print it; save: write it to a file")
    p.add_argument("path", help="a submission, or a file that was saved")
    p.add_argument("--exercise", metavar="NAME", help="which exercise it answers; else its metadata or name says")
    p.add_argument("--case", metavar="SIZES", help='one of the sizes, such as "n = 1000" (default: the largest)')
    p.add_argument("--device", default="virtual", help="as for grade (default: %(default)s)")
    p.add_argument("-o", "--output", metavar="FILE", help="where save writes to")
    p.add_argument("--trust-submissions", action="store_true", help="run it where this machine cannot lock it in")
        exercise = problems.get(args.exercise).name if args.exercise else None
        spec = devices.resolve(args.device)
        _known_card(spec)
    except (LookupError, ValueError) as e:
        return _refuse(str(e))
    console, status, records = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH), 0, []
    tasks = list(batch.plan(args.paths, exercise))
    for task in tasks:
        if isinstance(task, batch.Skipped):
            status = _refuse(task.message)
    tasks = [t for t in tasks if not isinstance(t, batch.Skipped)]
    if not tasks:
        return status or _refuse("nothing to grade: no .py file and no notebook there")
    start = time.perf_counter()
    try:
        bench = Bench(spec, trust=args.trust_submissions)
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED
    with Store(args.results) as store, bench:
        about = bench.device.describe()
        console.print(f"Device: {about['name']}, times are {about['kind']}", highlight=False)
        warm = time.perf_counter() - start
        for number, (found, problem) in enumerate(tasks, start=1):
            if isinstance(found, batch.Refused):
                record = batch.refuse(found, problem, bench, args.seed)
            else:
                record = batch.grade_one(found, problem, bench, store, args.seed)
            records.append(record)
            _progress(number, len(tasks), record)
            if args.json:
                _write(args.json, json.dumps(records, indent=1))
    if args.html:
        _write(args.html, report.page(records))
    if args.gradescope:
        status = _gradescope(args.gradescope, records) or status
    if args.detail or len(records) == 1:
        for record in records:
            console.print(f"\n{record['submission']}", highlight=False)
            console.print(report.detail(record))
    else:
        console.print(report.table(records))
    took = [r["wall_seconds"] for r in records]
    console.print(
        f"{len(records)} graded; start {warm:.1f} s, first {took[0]:.1f} s, median of the others "
        f"{sorted(took[1:] or took)[len(took[1:] or took) // 2]:.2f} s",
        highlight=False,
    )
    failed = [r for r in records if r["code"] == "IE"]
    for r in failed:
        print(f"grader: {r['submission']}: {r['message']}\n{r['output']}", file=sys.stderr)
    return FAILED if failed else status


def _gradescope(path: str, records: list[dict]) -> int:
    from grader.report import gradescope

    try:
        _write(path, json.dumps(gradescope.results(records), indent=1))
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


def _progress(number: int, total: int, record: dict) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K[{number}/{total}] {record['code']:4} {record['submission']}", end="", file=sys.stderr)
        if number == total:
            print("\r\033[K", end="", file=sys.stderr)


def _write(path: str, text: str) -> None:
    """Whole or not at all."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)


def _refuse(message: str) -> int:
    print(f"grader: {message}", file=sys.stderr)
    return USAGE


def _run(args: argparse.Namespace) -> int:
    from grader.vgpu.libcuda import DriverAlreadyLoaded
    from grader.vgpu.run import run

    try:
        device = args.device or os.environ.get("GRADER_DEVICE", "virtual:")
        return run(args.script, args.arguments, device, timeline=args.timeline, profile=args.profile)
    except (FileNotFoundError, ValueError, DriverAlreadyLoaded) as e:
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


def _doctor(args: argparse.Namespace) -> int:
    from grader import doctor

    return doctor.main()


def _check_course(args: argparse.Namespace) -> int:
    from grader import course

    return course.main(Path(args.root), args.device)
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



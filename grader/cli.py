"""The commands. Exit status: 0 done, whatever the verdicts; 2 not usable as given; 3 the grader failed; 130 interrupted."""

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

from grader.exits import FAILED, INTERRUPTED, USAGE, listed, refuse


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


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def _from_zero(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 on")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grader",
        description="Run and grade CUDA kernels, with or without a GPU.",
        epilog="`grader COMMAND --help` has the options. To begin: `jupyter lab`, or `grader run script.py`.",
    )
    parser.add_argument("--version", action="version", version=f"cuda-camp {version('cuda-camp')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, function, text: str, **exits: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=listed(**exits),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=function)
        return sub

    p = command(
        "grade", _grade, "grade submissions: .py files, notebooks, folders or archives (.zip, .tar.gz) of them",
        s0="graded, whatever the verdicts",
        s2="not usable as given; where only some of the paths are not, the others are graded",
        s3="the grader failed: on a submission (IE), at its start, or when it wrote a report",
        s130="interrupted; what was graded is reported, and kept with --results",
    )  # fmt: skip
    p.add_argument("paths", nargs="+", metavar="PATH")
    p.add_argument("--exercise", metavar="NAME", help="which exercise they answer; else their metadata or name says")
    p.add_argument("--device", default="auto", help="auto, cuda[:N] or virtual[:NAME] (default: %(default)s)")
    p.add_argument("--seed", type=_from_zero, metavar="N", help="for inputs and secret sizes; fresh ones by default")
    p.add_argument("--json", metavar="FILE", help="write one record a submission")
    p.add_argument("--html", metavar="FILE", help="write a page: of the class, where there are several")
    p.add_argument("--pages", metavar="DIR", help="write a page a submission, and index.html for the class")
    p.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    p.add_argument("--gradescope", metavar="FILE", help="write results.json as Gradescope reads it; for one student")
    p.add_argument("--results", metavar="FILE", help="keep results here (SQLite); what is there is not graded again")
    p.add_argument("--jobs", type=_at_least_one, metavar="N", help="how many at a time (default: as suits the machine)")
    p.add_argument("--detail", action="store_true", help="show every rule (always, for a single submission)")
    p.add_argument("--trust-submissions", action="store_true", help="grade where this machine cannot lock them in")
    p = command(
        "autograde", _autograde, "nbgrader's autograde, several submissions at once",
        s0="everybody has a state, whatever the verdicts", s3="the grader failed on someone, or at its start",
        s130="interrupted; run it again to go on",
    )  # fmt: skip
    p.add_argument("assignment", help="a folder of the release directory, such as 00-first-kernel")
    p.add_argument("--course", default=".", metavar="DIR", help="where nbgrader_config.py is (default: here)")
    p.add_argument("--student", action="append", metavar="ID", help="only this one; may be repeated")
    p.add_argument(
        "--jobs", type=_at_least_one, default=0, metavar="N", help="how many at once (default: one a processor)"
    )
    p.add_argument("--force", action="store_true", help="also those that were autograded before")
    p.add_argument("--feedback", action="store_true", help="generate feedback too")
    p.add_argument("--device", help="auto, cuda[:N] or virtual[:NAME] (default: as in nbgrader_config.py)")
    p.add_argument("--trust-submissions", action="store_true", help="grade where this machine cannot lock them in")
    p = command(
        "run", _run, "run a Python script on the virtual GPU",
        s0="the script ended with 0, and the sanitizers found nothing",
        s1="the script ended with 0, and the sanitizers found something; or it raised an exception",
        s2="not usable as given; this and any other may be the script's own", s3="",
    )  # fmt: skip
    p.add_argument(
        "--device",
        default=None,
        metavar="NAME",
        help="which card it is: a100, t4, h100, ...; four of it: a100*4, linked by PCIe: a100*4@pcie"
        " (default: GRADER_DEVICE, else a100)",
    )
    p.add_argument(
        "--timeline", metavar="FILE", help="draw what the device did: .png, .svg, .pdf, or .json for Perfetto"
    )
    p.add_argument("--profile", action="store_true", help="print what each kernel did, on stderr")
    p.add_argument("script", help="a .py file; options of grader's own stand before it")
    p.add_argument("arguments", nargs=argparse.REMAINDER, help="what stands behind it is the script's")
    p = command("devices", _devices, "list the devices that can be graded on", s3="")
    p.add_argument(
        "device", nargs="?", metavar="NAME", help="instead, show how several are linked: a100*4, a100*4@pcie"
    )
    p = command("list", _list, "list the exercises, and how far you are", s3="")
    p.add_argument("folder", nargs="?", default="exercises", help="your notebooks (default: %(default)s)")
    p = command("hint", _hint, "show a hint for an exercise", s3="")
    p.add_argument("exercise")
    p.add_argument("step", nargs="?", type=int, choices=(1, 2, 3), default=1, help="1 says little, 3 nearly all")
    command(
        "doctor", _doctor, "tell what protects this machine from submissions, and what it can grade on",
        s0="submissions are locked in here", s3="they are not",
    )  # fmt: skip
    p = command(
        "program", _program, "show what a submission asks of CUDA, as it was recorded", s3="the grader could not start"
    )
    p.add_argument("action", choices=("show", "save"), help="show: print it; save: write it to a file")
    p.add_argument("path", help="a submission, or a file that was saved")
    p.add_argument("--exercise", metavar="NAME", help="which exercise it answers; else its metadata or name says")
    p.add_argument("--case", metavar="SIZES", help='one of the sizes, such as "n = 1000" (default: the largest)')
    p.add_argument("--device", default="virtual", help="as for grade (default: %(default)s)")
    p.add_argument("-o", "--output", metavar="FILE", help="where save writes to")
    p.add_argument("--trust-submissions", action="store_true", help="run it where this machine cannot lock it in")
    p = command(
        "check-course", _check_course, "prove that every exercise can be failed and solved",
        s0="all is as it should be", s3="something is not, and is named",
    )  # fmt: skip
    p.add_argument("exercises", nargs="*", metavar="EXERCISE", help="only what is graded for these (default: for all)")
    p.add_argument("--root", default=".", help="the folder with solutions/, exercises/ and tests/")
    p.add_argument("--device", default="virtual")
    p.add_argument("--figures", metavar="FILE", help="instead, write the table of all exercises' modelled times there")
    return parser


def _grade(args: argparse.Namespace) -> int:
    from grader import cli_grade

    return cli_grade.main(args)


def _autograde(args: argparse.Namespace) -> int:
    # A format checker that nbgrader's imports pull in and never use; building its grammar takes seconds.
    sys.modules.setdefault("rfc3987_syntax", None)
    from grader import results
    from grader.cli_grade import known_card
    from grader.nb.nbgrader import autograde

    try:
        return autograde.main(
            args.assignment, Path(args.course), students=args.student, jobs=args.jobs, device=args.device,
            force=args.force, feedback=args.feedback, trust=args.trust_submissions, check_device=known_card,
        )  # fmt: skip
    except autograde.Unusable as e:
        return refuse(str(e))
    except results.Unusable as e:  # it could be written to at the start
        print(f"grader: {e}; what was graded before that is kept", file=sys.stderr)
        return FAILED
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED


def _run(args: argparse.Namespace) -> int:
    from grader.report import files
    from grader.vgpu.libcuda import DriverAlreadyLoaded
    from grader.vgpu.run import run

    try:
        if args.timeline:
            files.check(args.timeline)
        device = args.device or os.environ.get("GRADER_DEVICE", "virtual:")
        return run(args.script, args.arguments, device, timeline=args.timeline, profile=args.profile)
    except (FileNotFoundError, ValueError, DriverAlreadyLoaded) as e:  # Unwritable is a ValueError
        return refuse(str(e))


def _devices(args: argparse.Namespace) -> int:
    from grader.devices import cuda, resolve
    from grader.vgpu import topology
    from grader.vgpu.devices import CARDS, TOPOLOGIES, parse

    if args.device:
        try:
            print(topology.matrix(parse(args.device)))
        except ValueError as e:
            return refuse(str(e))
        return 0
    default = resolve("auto")
    for n in range(cuda.count()):
        print(f"cuda:{n:<12} a real GPU; times are measured{'  (default)' if default == f'cuda:{n}' else ''}")
    for key, card in CARDS.items():
        name = f"virtual:{key}"
        print(f"{name:17} {card.name}; times are modelled{'  (default)' if default == name else ''}")
    print(f"several of a card: virtual:a100*4; linked otherwise: virtual:a100*4@pcie (@{', @'.join(TOPOLOGIES)})")
    return 0


def _list(args: argparse.Namespace) -> int:
    from grader import problems, progress

    if not os.path.isdir(args.folder):
        print(f"grader: there is no folder {args.folder}: name the one with your notebooks", file=sys.stderr)
    done, had, total = progress.of(Path(args.folder)), 0.0, 0.0
    where = progress.notebooks(Path(args.folder))
    for name in problems.names():
        p = problems.get(name)
        code, points = done.get(name, ("-", 0.0))
        place = where.get(name, "(no notebook here)" if where else "")
        print(f"{name:15} {code:4} {points:4g} / {p.max_points:g}  {p.title:35} {place}".rstrip())
        had, total = had + points, total + p.max_points
    print(f"{had:g} of {total:g} points, as your saved notebooks have them")
    return 0


def _hint(args: argparse.Namespace) -> int:
    from grader import problems

    try:
        problem = problems.get(args.exercise)
    except LookupError as e:
        return refuse(str(e))
    print(problem.hints[args.step - 1])
    last = len(problem.hints)
    more = f"; the next: grader hint {problem.name} {args.step + 1}" if args.step < last else ""
    print(f"(hint {args.step} of {last}{more})")
    return 0


def _program(args: argparse.Namespace) -> int:
    from grader import listing
    from grader.program import Program, ProgramError
    from grader.report import files

    if args.action == "save" and not args.output:
        return refuse("say where to save it: -o FILE")
    if os.path.isdir(args.path):
        return refuse(f"{args.path} is a folder: name one submission, or a file that was saved")
    try:
        if args.action == "save":
            files.check(args.output)
        program = Program.load(args.path) if _is_program(args.path) else _recorded(args)
    except FileNotFoundError:
        return refuse(f"there is no file {args.path!r}")
    except OSError as e:
        return refuse(f"{args.path} cannot be read: {e.strerror or e}")
    except (ProgramError, LookupError, ValueError) as e:  # UnknownDevice and Unwritable are ValueErrors
        return refuse(str(e))
    except RuntimeError as e:
        print(f"grader: the grader could not start: {e}", file=sys.stderr)
        return FAILED
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
    import numpy as np

    from grader import problems
    from grader import submission as submissions
    from grader.bench import Bench
    from grader.evidence import Draw

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
        if built.live:
            print(f"{built.live}; this is what it asks for with one set of inputs", file=sys.stderr)
            draw = Draw(cases[wanted], problem.inputs(np.random.default_rng(), cases[wanted].sizes))
            built, _ = bench.record_for(found.cells, problem, built, [draw])
    if built.error:
        raise ValueError(f"{args.path}: {built.error.message}")
    return built.programs[wanted]


def _doctor(args: argparse.Namespace) -> int:
    from grader import doctor

    return doctor.main()


def _check_course(args: argparse.Namespace) -> int:
    from grader import course, devices, problems
    from grader.cli_grade import known_card

    if not os.path.isdir(os.path.join(args.root, "solutions")):
        return refuse(f"{args.root} is no course: there is no folder solutions in it; name one with --root")
    try:
        known_card(devices.resolve(args.device))
        for name in (*args.exercises, *problems.names()):
            problems.get(name)
    except (ValueError, LookupError) as e:
        return refuse(str(e))
    if args.figures:
        from grader.course import figures
        from grader.report import files

        try:
            files.check(args.figures)
        except files.Unwritable as e:
            return refuse(str(e))
        return figures.main(Path(args.root), Path(args.figures))
    return course.main(Path(args.root), args.device, args.exercises)

"""How large the timed part is, on a real card: so that the reference takes a few milliseconds on it."""

from collections.abc import Callable

from grader.problems.model import Case, Problem

SHORTEST, AIM, LONGEST = 1e-3, 3e-3, 10e-3  # seconds of the reference
OF_FREE_MEMORY = 0.4  # for all arrays together
MOST_BYTES = 2 << 30  # the judging process computes and compares all of it, for every repeat
GRAIN = 256  # sizes stay multiples of it; smaller ones are counts (of rounds, of streams), and stay as they are
TRIES = 4


def timed_case(problem: Problem, seconds: Callable[[Case], float], free_bytes: int | None) -> Case:
    """The exercise's size for real cards, grown or shrunk until the reference takes SHORTEST to LONGEST.

    seconds: the reference's time for a case. free_bytes: of the card's memory; None where it does not tell. Work is
    taken to be the product of the sizes that grow. Where memory runs out first, the largest that fits.
    """
    case = problem.speed.measured
    most = min(MOST_BYTES, OF_FREE_MEMORY * free_bytes if free_bytes else MOST_BYTES)
    for _ in range(TRIES):
        while nbytes(problem, case) > most and scaled(case, 0.5) != case:
            case = scaled(case, 0.5)
        taken = seconds(case)
        if SHORTEST <= taken <= LONGEST:
            break
        wanted = scaled(case, AIM / taken)
        if nbytes(problem, wanted) > most:
            wanted = scaled(case, 0.98 * most / nbytes(problem, case))
        if wanted == case or nbytes(problem, wanted) > most:
            break
        case = wanted
    return case


def scaled(case: Case, factor: float) -> Case:
    """A case with `factor` times the work: every size of at least GRAIN grows alike."""
    by = factor ** (1 / max(1, sum(size >= GRAIN for size in case.sizes.values())))
    return Case({name: _grown(size, by) if size >= GRAIN else size for name, size in case.sizes.items()})


def _grown(size: int, by: float) -> int:
    return max(GRAIN, round(size * by / GRAIN) * GRAIN)


def nbytes(problem: Problem, case: Case) -> int:
    """Bytes of all arrays."""
    return sum(a.nbytes(case.sizes) for a in problem.entry.arrays)

"""Every exercise: its reference is right in float32, and no simple-minded output passes at any size."""

import math

import numpy as np
import pytest

from grader import problems
from grader.rules.compare import compare

POISON = 0xCB
NAMES = problems.names()


def cases(name):
    problem, rng = problems.get(name), np.random.default_rng(7)
    for case in (*problem.cases, *problem.secret(rng)):
        inputs = problem.inputs(rng, case.sizes)
        yield problem, case, inputs, problem.reference(inputs, case.sizes)


def typed(problem, expected):
    return {a.name: expected[a.name].astype(a.dtype) for a in problem.entry.arrays if a.role in ("output", "inout")}


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_rounded_to_the_arrays_type_is_right(name):
    for problem, _, inputs, expected in cases(name):
        assert compare(expected, typed(problem, expected), problem.tolerance, inputs, POISON) is None


def filled(value):
    return lambda problem, inputs, right: {n: np.full_like(a, value) for n, a in right.items()}


def copied(problem, inputs, right):
    source = next(iter(inputs.values())).reshape(-1)
    return {n: np.resize(source, a.shape).astype(a.dtype) for n, a in right.items()}


def poisoned(problem, inputs, right):
    return {n: np.full(a.nbytes, POISON, np.uint8).view(a.dtype).reshape(a.shape) for n, a in right.items()}


def float16(problem, inputs, right):
    return {n: a.astype(np.float16).astype(a.dtype) for n, a in right.items()}


def shuffled(problem, inputs, right):
    return {n: a.reshape(-1)[::-1].reshape(a.shape) for n, a in right.items()}


def nearly_all(problem, inputs, right):
    def spoil(a):
        a = a.copy()
        a.reshape(-1)[a.size // 2] *= np.float32(1.01)
        return a

    return {n: spoil(a) for n, a in right.items()}


CHEATS = {
    "zeros": filled(0.0),
    "ones": filled(1.0),
    "NaN": filled(np.nan),
    "infinity": filled(np.inf),
    "copy of the input": copied,
    "poison": poisoned,
    "float16 inside": float16,
    "backwards": shuffled,
    "one element 1 % off": nearly_all,
}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("name", NAMES)
def test_no_simple_minded_output_passes(name, cheat):
    """A cheat must fail at some size; only where one element cannot be told from its transpose may it pass."""
    passed = []
    for problem, case, inputs, expected in cases(name):
        outputs = CHEATS[cheat](problem, inputs, typed(problem, expected))
        with np.errstate(all="ignore"):
            if compare(expected, outputs, problem.tolerance, inputs, POISON) is None:
                passed.append(case.name)
    trivial = [c.name for c in problems.get(name).cases if max(c.sizes.values()) == 1 or 1 in c.sizes.values()]
    assert set(passed) <= (set(trivial) if cheat in ("copy of the input", "backwards", "float16 inside") else set())


@pytest.mark.parametrize("name", NAMES)
def test_the_previous_output_fails(name):
    earlier = [expected for *_, expected in cases(name)]
    problem, rng = problems.get(name), np.random.default_rng(8)
    for case, old in zip(problem.cases, earlier, strict=False):
        inputs = problem.inputs(rng, case.sizes)
        assert compare(problem.reference(inputs, case.sizes), typed(problem, old), problem.tolerance, inputs, POISON)


@pytest.mark.parametrize("name", NAMES)
def test_the_right_answer_differs_from_zero_everywhere(name):
    for _, _, _, expected in cases(name):
        for array in expected.values():
            assert array.all()


@pytest.mark.parametrize("name", NAMES)
def test_sizes_hold_one_a_prime_and_secret_ones(name):
    problem = problems.get(name)
    sizes = {n for c in problem.cases for n in c.sizes.values()}
    secret = problem.secret(np.random.default_rng(1))
    grain = math.gcd(*sizes)  # a kernel that copies 16 bytes at a time is asked for multiples of 16 only
    sizes = {n // grain for n in sizes}
    assert 1 in sizes
    assert any(n > 2 and all(n % d for d in range(2, n)) for n in sizes)
    assert secret and all(c.secret and c.name not in {k.name for k in problem.cases} for c in secret)
    assert [c.name for c in secret] != [c.name for c in problem.secret(np.random.default_rng(2))]


@pytest.mark.parametrize("name", NAMES)
def test_points_add_up_to_ten_and_hints_are_a_ladder(name):
    problem = problems.get(name)
    assert problem.max_points == pytest.approx(10)
    assert len(set(problem.hints)) == 3
    assert (problem.folder / "baseline.py").is_file() and (problem.folder / "reference.py").is_file()


@pytest.mark.parametrize(
    ("label", "found"),
    [
        ("02_transpose", "02_transpose"),
        ("transpose", "02_transpose"),
        ("Transpose-v2 (final)", "02_transpose"),
        ("my_transpose", "02_transpose"),
        ("my_matmul", None),  # two units have one
        ("mended", None),
        ("transpose_and_matmul", None),
    ],
)
def test_names_speak_of_exercises(label, found):
    assert problems.find(label) == found

"""Unit 07: a kernel on managed memory, without a page fault of the kernel's or the host's."""

from grader import rules
from grader.problems.inputs import near, values
from grader.problems.model import Array, Case, HostFunction, Problem, Speed, Tolerance


def _shape(sizes):
    return (sizes["n"],)


def _inputs(rng, sizes):
    return {"x": values(rng, sizes["n"])}


def _reference(inputs, sizes):
    x = inputs["x"].astype("f8")
    return {"result": x * x + 2.0}


def _case(n, secret=False):
    return Case({"n": n}, secret)


def _secret(rng):
    return [_case(n, secret=True) for n in near(rng, 3000, 50_000)]


PROBLEM = Problem(
    name="07_prefetch",
    title="No page fault left",
    statement=(
        "x and y are managed arrays, and both lie at the host. The kernel square computes y from x; then the host takes y"
        " into result. Have every page where it is needed before it is needed: neither the kernel nor the host shall fault."
    ),
    entry=HostFunction(
        "fetch",
        (
            Array("x", _shape, where="managed"),
            Array("y", _shape, "scratch", where="managed"),
            Array("result", _shape, "output", where="pageable"),
        ),
    ),
    cases=tuple(_case(n) for n in (1, 2, 7, 1009, 16_384, 70_000)),
    secret=_secret,
    inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(relative=1e-6),
    rubric=(
        *rules.correct_host(values=3, hazards=1),
        rules.structure(rules.as_given, 0, code="SLOW", launches=lambda sizes: {"square": rules.Given()}),
        rules.fast(
            4, "Who touches which array first, and where is it then? There are three touches from the wrong side."
        ),
        rules.structure(rules.no_page_faults, 2),
    ),
    hints=(
        "Three touches come from the wrong side: the kernel reads x, the kernel writes y, the host reads y. What"
        " could be asked for before each of them?",
        "prefetch(array) is work in a stream, so it must come before the launch in the same stream. An array that"
        " the kernel only writes has to be there too. After the kernel it is the host who waits.",
        'prefetch(x, stream=stream), prefetch(y, stream=stream), the launch, prefetch(y, "host", stream).',
    ),
    version=2,
    speed=Speed(bar=1.5, modelled=_case(1 << 19), measured=_case(1 << 24)),
)

"""What comes back from the process that runs student Python, whatever the student wrote."""

import pytest

from grader import problems
from grader.bench import Bench
from grader.submission import Cell

PROBLEM = problems.get("00_grid_stride")
GOOD = """
from numba import cuda
@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
"""


def build(bench: Bench, *sources: str):
    cells = [Cell(f"cell {n}", s) for n, s in enumerate(sources, start=1)]
    return bench.record(cells, PROBLEM, PROBLEM.cases)


def kernel(body: str, head: str = "") -> str:
    return (
        f"from numba import cuda, float32\nimport numpy as np\n{head}\n@cuda.jit\ndef grid_stride(x, y):\n    {body}\n"
    )


def test_a_good_kernel_becomes_one_program_a_size(bench):
    built = build(bench, GOOD)
    assert built.error is None
    assert set(built.programs) == {c.name for c in PROBLEM.cases}
    for program in built.programs.values():
        assert [op.op for op in program.ops] == ["launch"]
        assert [(b.name, b.role) for b in program.buffers] == [("x", "input"), ("y", "output")]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "does not define grid_stride(x, y)"),
        ("def grid_stride(x, y): pass", "put @cuda.jit"),
        ("grid_stride = 7", "is an int, not a kernel"),
        ("from numba import cuda\n@cuda.jit\ndef grid_stride(x): pass", "takes 1 parameter (x); it is called as"),
        ("from numba import cuda\n@cuda.jit\ndef grid_stride(): pass", "takes no parameters; it is called as"),
        ("from numba import cuda\n@cuda.jit(device=True)\ndef grid_stride(x, y): pass", "leave out device=True"),
        (
            "from numba.cuda.dispatcher import CUDADispatcher\nclass Mine(CUDADispatcher): pass\n"
            "grid_stride = Mine(lambda x, y: None, {})",
            "grid_stride is of a class of its own, Mine: hand in what @cuda.jit returns",
        ),
        ("from numba import cuda\n@cuda.jit\ndef grid_stride(x, y, n): pass", "takes 3 parameters (x, y, n)"),
        ("1/0\ndef grid_stride(x, y): pass", "cell 1, line 1: ZeroDivisionError"),
        ("def grid_stride(x, y)\n    pass", "cell 1, line 1: SyntaxError"),
        (kernel("y[0] = nothing"), "cell 1, line 6: NameError: name 'nothing' is not defined"),
        (kernel("y[0] = np.exp(x[0])"), "np.exp has no code for a GPU: use math.exp"),
        (kernel("y[0] = x.nope"), "Unknown attribute 'nope'"),
        (kernel("s = cuda.shared.array(T + 1, float32); y[0] = s[0]", "T = 4"), "needs a shape of constants"),
        (kernel("s = cuda.shared.array((256, 256), float32); y[0] = s[0, x.size]"), "262144 bytes of shared memory"),
        (kernel("y[0] = 'a' + x[0]"), "has no code for add("),
    ],
)
def test_what_does_not_compile_is_said_in_one_sentence(bench, source, words):
    error = build(bench, source).error
    assert error.code == "CE"
    assert words in error.message and "\n" not in error.message


def test_cells_run_one_by_one_in_one_namespace(bench):
    built = build(
        bench, "A = 1", "raise SystemExit(3)", "%matplotlib inline\n!ls\nB = A + 1", GOOD.replace("+ 1", "+ B")
    )
    assert built.error is None
    assert built.failed_cells == ("cell 2: cell 2, line 1: SystemExit: 3",)


def test_cell_magics_go_and_line_numbers_stay(bench):
    built = build(bench, "%%time\n\n1/0", "%%bash\nrm -rf /", "%%writefile x\n'", GOOD)
    assert built.failed_cells == ("cell 1: cell 1, line 3: ZeroDivisionError: division by zero",)
    assert built.error is None


def test_a_table_that_nothing_uses_does_not_travel_with_the_program(bench):
    table = "from numba import cuda\nimport numpy as np\nT = cuda.to_device(np.arange(5, dtype=np.int64))\n"
    program = next(iter(build(bench, table + GOOD).programs.values()))
    assert [b for b in program.buffers if b.role == "temp"] == []


STREAMS = """
from numba import cuda
import numpy as np
h, m = cuda.pinned_array(64, np.float32), cuda.managed_array(64, np.float32)
h[:] = m[:] = 1
for s in (cuda.stream(), cuda.stream()):
    d = cuda.device_array(64, np.float32, stream=s)
    d.copy_to_device(h, stream=s)
    grid_stride[1, 64, s](d, d)
    grid_stride[1, 64, s](m, m)
    s.synchronize()
assert m[0] == 5
"""


def test_a_locked_child_has_all_that_work_in_several_streams_compiles(bench):
    """It cannot read what is kept on disk; `grader.jobs.warm` has to have loaded it."""
    built = build(bench, GOOD, STREAMS)
    assert (built.error, built.failed_cells, built.flags) == (None, (), ())


def test_plots_can_be_drawn(bench):
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('a'); plt.savefig(__import__('io').BytesIO())"
    built = build(bench, plot, GOOD)
    assert (built.error, built.failed_cells) == (None, ())


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import os\nos._exit(0)", "RTE"),
        ("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", "SV"),
        ("x = bytearray(50 << 30)\n" + GOOD, "MLE"),
        ("print('x' * 100_000_000)\n" + GOOD, "OLE"),
        ("import ctypes\nctypes.string_at(0)", "RTE"),
    ],
)
def test_violent_ends_have_their_codes(bench, source, code):
    error = build(bench, source).error
    assert (error and error.code) == code
    assert build(bench, GOOD).error is None


@pytest.mark.parametrize(
    "patch",
    [
        "R.end = lambda self: 7",
        "R.end = lambda self: type('P', (), {'to_parts': lambda s: ({}, [])})()",
        "R.end = lambda self: type('P', (), {'to_parts': lambda s: ('x' * 100, [b'y'])})()",
        "R.begin = lambda self, declared: None",
        "import grader.jobs as j; j._launch = lambda *a: 1/0",
    ],
)
def test_a_forged_reply_is_no_recording(bench, patch):
    source = f"from grader.recording import Recorder as R\n{patch}\n{GOOD}"
    assert build(bench, source).error.code in ("RTE", "CE")
    assert build(bench, GOOD).error is None

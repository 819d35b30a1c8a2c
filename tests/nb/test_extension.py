"""`%load_ext grader` and `check(...)` in a session, as a student meets them."""

import os
import re
import warnings

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

HEAD = "%load_ext grader\nimport numpy as np\nfrom numba import cuda, float32"
RIGHT = """
@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + 1
"""
STUB = """
@cuda.jit
def untouched(x, y):
    pass
"""
RACE = """
@cuda.jit
def race(x):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]      # a comment
    x[t] = tile[63 - t]
race[1, 64](cuda.to_device(np.ones(64, np.float32)))
cuda.synchronize()
"""
STRAY = """
@cuda.jit
def stray(x):
    x[cuda.grid(1) + 1000000] = 1
stray[1, 32](cuda.to_device(np.ones(32, np.float32)))
cuda.synchronize()
"""


HOST = """
@cuda.jit
def brighten(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] * x[i] + (float32(2) if x[i] > 0 else float32(1))

def overlap(h_x, h_y, d_x, d_y):
    for first in range(0, h_x.size, 1 << 16):
        part = slice(first, first + (1 << 16))
        stream = cuda.stream()
        d_x[part].copy_to_device(h_x[part], stream=stream)
        brighten[4, 128, stream](d_x[part], d_y[part])
        d_y[part].copy_to_host(h_y[part], stream=stream)
    cuda.synchronize()

n = 1000
h_x, h_y = cuda.pinned_array(n, np.float32), cuda.pinned_array(n, np.float32)
h_x[:] = 3
overlap(h_x, h_y, cuda.device_array(n, np.float32), cuda.device_array(n, np.float32))
"""


def session(*cells: str, device: str = "virtual:a100") -> list[dict]:
    """Each cell's stdout, stderr, displayed data and error, from a notebook that is run as JupyterLab would."""
    notebook = new_notebook(cells=[new_code_cell(source.strip()) for source in cells])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jupyter_client's own
        client = NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, coalesce_streams=True)
        client.execute(env={**os.environ, "GRADER_DEVICE": device})
    out = []
    for cell in notebook.cells:
        seen = {"stdout": "", "stderr": "", "shown": [], "error": None}
        for o in cell.outputs:
            if o.output_type == "stream":
                seen[o.name] += o.text
            elif o.output_type == "error":
                seen["error"] = o.ename
            else:
                seen["shown"].append(o.data)
        out.append(seen)
    return out


@pytest.fixture(scope="module")
def said() -> list[dict]:
    cells = [
        HEAD,
        RACE,
        "1 + 1",
        RIGHT + STUB,
        "right = check('00_grid_stride', grid_stride); right",
        "isinstance(right, float), right.code, right.points",
        "check('00_grid_stride', untouched)",
        "check('00_grid_stride', grid_stride, graded=True)",
        "check('00_grid_stride', untouched, graded=True)",
        "check('00_no_such', grid_stride)",
        "check('00_grid_stride', 3)",
        STRAY,
    ]
    names = (
        "load",
        "race",
        "quiet",
        "define",
        "right",
        "what",
        "wrong",
        "graded",
        "not_solved",
        "unknown",
        "no_kernel",
    )
    return dict(zip((*names, "stray"), session(*cells), strict=True))


def test_one_line_says_which_device_and_how_times_are_got(said):
    line = said["load"]["stdout"]
    assert re.fullmatch(
        r"Virtual GPU: NVIDIA A100-SXM4-80GB, cc 8\.0; times are modelled \(cuda-camp \d+\.\d+, numba-cuda 0\.30\)\n",
        line,
    )


def test_findings_stand_below_the_cell_that_caused_them_with_the_line_and_its_text(said):
    [box] = said["race"]["shown"]
    assert "racecheck, line 6: x[t] = tile[63 - t]\n" in box["text/plain"]
    assert "<b>racecheck</b>, line 6" in box["text/html"]
    assert "a comment" not in box["text/plain"] and "ipykernel" not in box["text/html"]
    assert said["quiet"]["shown"] == [{"text/plain": "2"}]


def test_a_fault_is_shown_in_the_box_and_not_on_stderr_without_addresses(said):
    [box] = said["stray"]["shown"]
    assert box["text/plain"].startswith("memcheck, line 3: x[cuda.grid(1) + 1000000] = 1")
    assert "0x" not in box["text/plain"] and said["stray"]["stderr"] == ""
    assert said["stray"]["error"] == "CudaAPIError"


def test_the_check_shows_the_graders_table(said):
    [table] = said["right"]["shown"]
    assert "AC  A grid-stride map: accepted, 10 / 10 points" in table["text/plain"]
    assert "<table" in table["text/html"]
    assert said["what"]["shown"] == [{"text/plain": "(False, 'AC', 10.0)"}]


def test_a_wrong_answer_raises_nothing_in_the_visible_check(said):
    assert said["wrong"]["error"] is None
    [table] = said["wrong"]["shown"]
    assert table["text/plain"].startswith("WA  A grid-stride map")


def test_the_graded_cell_ends_in_a_number_for_nbgrader_and_a_table_for_people(said):
    [points] = said["graded"]["shown"]
    assert points["text/plain"] == "10.0" and "<table" in points["text/html"]


def test_the_graded_cell_fails_when_the_answer_gets_nothing(said):
    assert said["not_solved"]["error"] == "NotSolved"
    assert said["not_solved"]["stderr"] == ""
    assert said["not_solved"]["shown"][0]["text/plain"].startswith("WA  A grid-stride map")


def test_an_unknown_exercise_names_those_that_exist(said):
    assert said["unknown"]["error"] == "UnknownExercise"


def test_what_is_no_kernel_does_not_compile(said):
    [table] = said["no_kernel"]["shown"]
    assert table["text/plain"].startswith("CE  A grid-stride map")


def test_the_environment_chooses_the_card():
    [load] = session("%load_ext grader", device="virtual:t4")
    assert load["stdout"].startswith("Virtual GPU: Tesla T4, cc 7.5;")


def test_a_host_function_whose_kernels_have_run_already_is_checked():
    right, wrong = 'check("06_overlap", overlap)', "def overlap(a, b, c, d): pass\n" + 'check("06_overlap", overlap)'
    _, _, first, second = session(HEAD, HOST, right, wrong)
    assert first["error"] is None and "AC" in first["shown"][0]["text/plain"]
    assert "no kernel is launched" in second["shown"][0]["text/plain"]


def test_a_lost_context_ends_without_a_word(capfd):
    lost = session(
        HEAD,
        "@cuda.jit\ndef quiet(x):\n    x[0] = 1",
        "x = cuda.to_device(np.ones(32, np.float32))\nevents = [cuda.event() for _ in range(12)]\nquiet[1, 1](x)",
        STRAY,
    )
    assert lost[-1]["error"] == "CudaAPIError"
    assert lost[-1]["stdout"].startswith("The context is lost: ")
    assert "Traceback" not in capfd.readouterr().err  # of the notebook's kernel, when it ends


def test_after_a_lost_context_nothing_is_judged():
    *_, lost, once_more, judged = session(HEAD, RIGHT, STRAY, "1 + 1", "check('00_grid_stride', grid_stride)")
    assert (lost["error"], once_more["stdout"], judged["error"]) == ("CudaAPIError", "", "ContextLost")

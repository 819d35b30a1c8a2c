"""Notebooks as text, and back."""

import nbformat
import pytest

from grader.nb import percent

TEXT = """# ---
# exercise: 00_grid_stride
# ---

# %% [markdown] locked="intro"
# # A heading
#
# Text.

# %%
# %load_ext grader
import numpy as np

# %% answer="my-answer"
def f():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% test="graded" points=10
f()

# %% tags=["raises-exception"] fold=true
# %%timeline
g()
"""


def test_text_survives_the_way_to_a_notebook_and_back():
    assert percent.write(percent.read(TEXT)) == TEXT


def test_a_cell_is_called_by_its_nbgrader_id_or_else_by_its_number():
    assert [c.id for c in percent.read(TEXT).cells] == ["intro", "cell-01", "my-answer", "graded", "cell-04"]


def test_magics_are_code_again():
    cells = percent.read(TEXT).cells
    assert cells[1].source.startswith("%load_ext grader\n")
    assert cells[4].source == "%%timeline\ng()"


def test_nbgrader_knows_answers_and_tests():
    cells = {c.id: c.metadata.get("nbgrader") for c in percent.read(TEXT).cells}
    assert cells["my-answer"]["solution"] and not cells["my-answer"]["locked"]
    assert (cells["graded"]["grade"], cells["graded"]["points"], cells["graded"]["locked"]) == (True, 10, True)
    assert cells["intro"]["locked"] and cells["cell-01"] is None


def test_the_exercise_is_named_where_the_grader_looks_for_it():
    assert percent.read(TEXT).metadata.grader == {"exercise": "00_grid_stride"}


def test_the_same_text_gives_the_same_bytes():
    assert percent.dumps(percent.read(TEXT)) == percent.dumps(percent.read(TEXT))


def test_an_empty_line_within_text_and_code_stays():
    notebook = percent.read("# %% [markdown]\n# a\n#\n# b\n\n# %%\nx = 1\n\ny = 2\n")
    assert [c.source for c in notebook.cells] == ["a\n\nb", "x = 1\n\ny = 2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = 1\n", "line 1: text before the first"), ("# %% points=ten\n1\n", "line 1: points is followed by no JSON")],
)
def test_what_is_no_notebook_is_refused_with_its_line(text, said):
    with pytest.raises(percent.BadText, match=said):
        percent.read(text)


def test_outputs_do_not_get_into_the_text():
    notebook = percent.read(TEXT)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello")]
    assert percent.write(notebook) == TEXT

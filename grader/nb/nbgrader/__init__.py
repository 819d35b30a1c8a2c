"""nbgrader with marks that a notebook cannot forge.

    nbgrader autograde UNIT        every submission of an assignment, one after the other
    grader autograde UNIT          the same, several at once, with a table of states

**No kernel is started and no student code runs in nbgrader's process.** Stock nbgrader executes the submitted notebook
and believes what its test cells print; a same-process test cannot be defended against the code that it tests. Here
the execution step is left out. A submission takes this way instead:

1. `exporter.Submissions` reads the file without trusting it and `graft` puts the student's cells onto the released
   notebook. All metadata, all test cells and all points are the staff's; the student's outputs are not even read.
2. `judge.Judge` reads the exercise of each test cell (`check("00_grid_stride", ...)`, or its grade_id), gives the code
   cells to the same path as `grader grade`, which runs them in the sandbox, and puts the verdict in the cell's place.
3. `judge.SaveVerdicts` writes the marks of the verdict, not of any output, into the gradebook.
4. nbgrader's own feedback shows the verdict's table; `export.StatesCsv` exports with the state of each submission.

What that gives up: outputs and plots of a student's cells are not remade for feedback. What a cell raised in the
sandbox stands below it.

Each notebook of each student ends in a state that says what happened (`states`); nothing becomes a 0 that nobody gave.
`grader.nb.nbgrader_config.configure` turns all of it on.
"""

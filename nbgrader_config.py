"""nbgrader: `solutions/` is the source, `exercises/` what students get."""

c = get_config()  # noqa: F821

c.CourseDirectory.course_id = "cuda-camp"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"

# The gap in an exercise is part of a function whose other lines stay, so the stub must be valid there.
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\npass"}

# Lessons and exercises import CUDA, which takes a few seconds; a kernel on the virtual GPU may take some more.
c.Execute.timeout = 120
c.ExecutePreprocessor.timeout = 120
c.Execute.iopub_timeout = 60
c.KernelManager.transport_encryption = "auto"

# Marks come from the grader's verdict; see docs/nbgrader.md.
from grader.nb.nbgrader_config import configure  # noqa: E402

configure(c)

"""What a course's nbgrader_config.py calls to have marks come from the grader."""

import os
import shutil
import sysconfig
import warnings


def configure(c, device: str = "auto") -> None:
    """Set nbgrader up; call it in nbgrader_config.py. What it does: see `grader.nb.nbgrader`.

    c: the configuration, from get_config(). device: what to grade on, see `grader devices`.
    """
    from nbgrader import preprocessors as stock
    from nbgrader.converters import GenerateAssignment
    from sqlalchemy.exc import SAWarning

    from grader.nb.nbgrader.export import StatesCsv
    from grader.nb.nbgrader.exporter import Submissions
    from grader.nb.nbgrader.feedback import Feedback
    from grader.nb.nbgrader.judge import Judge, SaveVerdicts
    from grader.nb.nbgrader.metadata import CompleteMetadata

    c.Judge.device = device
    usual = GenerateAssignment.class_traits()["preprocessors"].default()
    c.GenerateAssignment.preprocessors = [CompleteMetadata, *usual]
    c.Autograde.exporter_class = Submissions
    c.Autograde.sanitize_preprocessors = [stock.CheckCellMetadata]
    c.Autograde.autograde_preprocessors = [Judge, SaveVerdicts, stock.AssignLatePenalties, stock.CheckCellMetadata]
    c.GenerateFeedback.exporter_class = Feedback
    c.ExportApp.plugin_class = StatesCsv

    # `nbgrader validate` runs a student's own notebook: CUDA takes seconds to import.
    c.Execute.timeout = 120
    c.Execute.iopub_timeout = 60
    c.KernelManager.transport_encryption = "auto"  # else each kernel warns about TCP
    warnings.filterwarnings("ignore", category=SAWarning)  # three about nbgrader's own relations
    if shutil.which("alembic") is None:  # nbgrader calls it by name, also from an environment that is not activated
        os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])

"""On a machine with a GPU every process finds its driver; here a process finds it by this file, which the runner puts
on the path of the tests and, through the environment, of the processes that they start."""

import os

if os.environ.get("CONFORMANCE_DEVICE"):
    import grader.vgpu

    grader.vgpu.activate(os.environ["CONFORMANCE_DEVICE"])
    watch = bool(os.environ.get("CONFORMANCE_SANITIZERS"))
    grader.vgpu.options().racecheck = grader.vgpu.options().initcheck = watch

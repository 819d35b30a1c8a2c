"""What holds for all tests: nothing is decided by chance, or by how busy the machine is."""

import time
from queue import Empty

from hypothesis import HealthCheck, settings
from nbval.kernel import RunningKernel

PATIENCE_S = 300  # for a kernel that does not get to run

# The same examples in every run, however long they take. To look for new ones: --hypothesis-profile=default, and
# --hypothesis-seed=0, 1, 2, ...
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("same")


def _wait_for_outputs(kernel: RunningKernel) -> None:
    """Until both of a new kernel's channels are heard. nbval's own gives the first 10 s."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        asked = kernel.kc.kernel_info()
        try:
            kernel.await_reply(asked, timeout=PATIENCE_S)
            kernel.await_idle(asked, 5)
        except Empty:  # what it said before it was heard is lost: ask again
            continue
        return
    raise RuntimeError(f"the kernel said nothing for {PATIENCE_S} s")


RunningKernel._ensure_iopub_up = _wait_for_outputs


def pytest_collection_modifyitems(items) -> None:
    """A cell of a lesson whose reply is there may wait for its outputs; nbval gives them 5 s."""
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = PATIENCE_S

"""What holds for all tests: nothing is decided by chance, or by how busy the machine is."""

import time
import uuid
from pathlib import Path
from queue import Empty

import nbval.kernel
from hypothesis import HealthCheck, settings
from jupyter_client.manager import KernelManager
from jupyter_core.paths import jupyter_runtime_dir
from nbval.kernel import RunningKernel
from traitlets import CaselessStrEnum

from grader import caches

PATIENCE_S = 300  # for a kernel that does not get to run

# The same examples in every run, however long they take. To look for new ones: --hypothesis-profile=default, and
# --hypothesis-seed=0, 1, 2, ...
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("same")


class _Manager(KernelManager):
    """Talks over files: of TCP's ports, which are chosen before they are used, another process may take one meanwhile."""

    transport = CaselessStrEnum(["tcp", "ipc"], default_value="ipc", config=True)

    def _connection_file_default(self) -> str:
        """The sockets' names are made of it, for this process and the kernel's, which has another working directory."""
        folder = Path(jupyter_runtime_dir())
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"kernel-{uuid.uuid4()}.json")


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


nbval.kernel.KernelManager = _Manager
RunningKernel._ensure_iopub_up = _wait_for_outputs


def pytest_collection_modifyitems(items) -> None:
    """A cell of a lesson whose reply is there may wait for its outputs; nbval gives them 5 s."""
    lessons = [item for item in items if hasattr(item, "output_timeout")]
    for item in lessons:
        item.output_timeout = PATIENCE_S
    if lessons:
        caches.fill()  # else the first lesson on a machine says that it compiles, which is no output of its own

"""The virtual GPU as a device: each batch of runs in a locked child that no student Python ever ran in."""

from collections.abc import Sequence

from grader import caches
from grader.devices import DeviceLost, Run, parcel
from grader.evidence import Fault, RunResult
from grader.program import LAUNCH_S
from grader.sandbox import Limits, SandboxError, Zygote

LIMITS = Limits(cpu_s=120, wall_s=600, memory_mb=4096, result_mb=256, threads=True)
FLUSH = 16 << 20  # bytes written before a timed part, so that the launch queue is ahead of the GPU

_ENDED = {
    "time": Fault("timeout", "the program did not end in time"),
    "memory": Fault("memory", "the program needs too much memory"),
    "output": Fault("output", "the kernel prints too much"),
}


def open(spec: str, *, trust: bool = False) -> "VirtualDevice":
    """A virtual GPU, "virtual:a100". SandboxError when it does not start."""
    caches.fill()
    return VirtualDevice(spec, trust)


class VirtualDevice:
    """See `grader.devices.Device`."""

    kind = "modelled"
    sanitizes = True

    def __init__(self, spec: str, trust: bool):
        self.spec = spec
        environment = {"GRADER_DEVICE": spec, **caches.environment()}
        kept = [str(caches.folder())]  # compiled kernels: no secret, and no student's code ever runs here
        self._zygote = Zygote("grader.devices.worker:warm_virtual", env=environment, readable=kept, trust=trust)
        self._about: dict | None = None

    def describe(self) -> dict:
        """{"name", "kind", "cc", "driver", "spec"}."""
        if self._about is None:
            self._about = self._run("grader.devices.worker:describe", {}, []).header | {"spec": self.spec}
        return self._about

    def replay(self, runs: Sequence[Run]) -> list[RunResult]:
        """Run them in order; stops after the first that faults."""
        request, blobs = parcel.pack(runs, launch_s=LAUNCH_S, flush=FLUSH)
        outcome = self._run("grader.devices.worker:replay_virtual", request, blobs)
        if fault := _ENDED.get(outcome.status):
            return [RunResult(self.describe()["name"], self.kind, fault=fault)]
        return parcel.unpack_reply(outcome.header, outcome.blobs, runs, self.kind)

    def close(self) -> None:
        """End its process."""
        self._zygote.close()

    def _run(self, job: str, request: dict, blobs: list[bytes]):
        try:
            outcome = self._zygote.run(job, request, blobs, LIMITS)
        except SandboxError as e:
            raise DeviceLost(str(e)) from e
        if outcome.status not in ("ok", *_ENDED):
            why = outcome.error.traceback if outcome.error else outcome.detail
            raise DeviceLost(f"the virtual GPU failed ({outcome.status}): {why}\n{outcome.output[-2000:]}")
        return outcome

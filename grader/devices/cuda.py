"""An NVIDIA GPU as a device: a process of its own holds it, and is given machine code only."""

import hashlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from grader.devices import DeviceLost, Run, parcel
from grader.devices.turn import turn
from grader.evidence import Fault, RunResult
from grader.sandbox import Limits, SandboxError, Zygote, wire

WALL_S = 60.0  # for one batch; a kernel that runs longer is killed with the process
ASSEMBLE = Limits(cpu_s=30, wall_s=40)
GUARD = 256  # bytes on either side of each buffer; keeps the alignment that cuMemAlloc gives
_PROBE = "from grader.devices.worker import count; print(count())"
_SERVE = "from grader.devices.worker import serve_cuda; serve_cuda()"


def count() -> int:
    """How many GPUs the driver of this machine offers; asked in a process of its own, so that none is kept busy."""
    if not any(os.path.exists(p) for p in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu")):
        return 0
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdecimal() else 0


def open(spec: str, *, trust: bool = False) -> "CudaDevice":
    """A real GPU, "cuda:0"."""
    return CudaDevice(spec, trust)


class CudaDevice:
    """See `grader.devices.Device`. After a fault its process is replaced: the context is lost."""

    kind = "measured"
    sanitizes = False

    def __init__(self, spec: str, trust: bool):
        self.spec = spec
        self._ordinal = int(spec.partition(":")[2])
        self._assembler = Zygote("grader.devices.worker:warm_assembler", trust=trust)
        self._cubins: dict[str, bytes] = {}
        self._process: subprocess.Popen | None = None
        self._about: dict | None = None

    def describe(self) -> dict:
        """{"name", "kind", "cc", "driver", "spec", "uuids"}."""
        if self._about is None:
            header, _ = self._ask({"describe": True}, [])
            self._about = header | {"kind": self.kind, "spec": self.spec}
        return self._about

    def replay(self, runs: Sequence[Run]) -> list[RunResult]:
        """Run them in order; stops after the first that faults."""
        name = self.describe()["name"]
        modules = {hashlib.sha256(m).hexdigest(): m for run in runs for m in run.program.modules}
        for digest, ptx in modules.items():
            if digest not in self._cubins:
                cubin = self._assemble(ptx)
                if isinstance(cubin, Fault):
                    return [RunResult(name, self.kind, fault=cubin)]
                self._cubins[digest] = cubin
        request, blobs = parcel.pack(runs, guard=GUARD)
        request["cubins"] = {d: len(blobs) + i for i, d in enumerate(modules)}
        cards = self.describe()["uuids"][: max((run.program.devices for run in runs), default=1)]
        try:
            with turn(cards):
                header, outputs = self._ask(request, [*blobs, *(self._cubins[d] for d in modules)])
        except TimeoutError:
            return [RunResult(name, self.kind, fault=Fault("timeout", f"no end within {WALL_S:g} s on the GPU"))]
        results = parcel.unpack_reply(header, outputs, runs, self.kind)
        if any(r.fault for r in results):
            self._stop()
        return results

    def close(self) -> None:
        """Give the GPU back."""
        self._stop()
        self._assembler.close()

    def _assemble(self, ptx: bytes) -> bytes | Fault:
        """Machine code for this GPU, made in a locked child: the assembler is not meant for hostile text."""
        request = {"cc": self.describe()["cc"]}
        try:
            outcome = self._assembler.run("grader.devices.worker:assemble", request, [ptx], ASSEMBLE)
        except SandboxError as e:
            raise DeviceLost(str(e)) from e
        if outcome.status == "ok":
            return outcome.blobs[0]
        why = outcome.error.message if outcome.error else outcome.detail
        return Fault("launch", f"the assembler refuses the kernel: {why}")

    def _ask(self, request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "GRADER_CUDA_ORDINAL": str(self._ordinal)}
            command = [sys.executable, "-c", _SERVE]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._process = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
        try:
            for piece in wire.pack(request, blobs):
                self._process.stdin.write(piece)
            self._process.stdin.flush()
            return self._answer()
        except (OSError, wire.FrameError) as e:
            self._stop()
            if isinstance(e, TimeoutError):
                raise
            raise DeviceLost(f"the process that holds the GPU is gone: {e}") from e

    def _answer(self) -> tuple[dict, list[bytes]]:
        reader = wire.Reader(max_header=1 << 24, max_blobs=1 << 36)
        pipe, end = self._process.stdout.fileno(), time.monotonic() + WALL_S
        while (frame := reader.next()) is None:
            if not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError
            data = os.read(pipe, 1 << 20)
            if not data:
                raise ConnectionError("end of file")
            reader.feed(data)
        return frame

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                pipe.close()
            self._process = None

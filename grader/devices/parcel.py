"""Runs as one request, results as one reply: what travels between a device's front and its process."""

from collections.abc import Sequence

import numpy as np

from grader.devices import Run
from grader.evidence import CardState, Fault, Finding, RunResult
from grader.program import Program


class _Blobs:
    """A list of byte strings in which the same object lies once."""

    def __init__(self):
        self.list: list[bytes] = []
        self._seen: dict[int, tuple[int, object]] = {}

    def add(self, what: object, contents) -> int:
        """Index of `contents()`; `what` identifies it."""
        if id(what) not in self._seen:
            self.list.append(contents())
            self._seen[id(what)] = len(self.list) - 1, what
        return self._seen[id(what)][0]


def pack(runs: Sequence[Run], **options) -> tuple[dict, list[bytes]]:
    """(request, blobs) for the runs; programs, PTX and arrays that several runs share travel once."""
    blobs = _Blobs()
    programs: list[dict] = []
    index: dict[int, int] = {}
    wanted = []
    for run in runs:
        if id(run.program) not in index:
            header, contents = run.program.to_parts()
            index[id(run.program)] = len(programs)
            programs.append({"header": header, "blobs": [blobs.add(c, lambda c=c: c) for c in contents]})
        inputs = {n: blobs.add(a, lambda a=a: np.ascontiguousarray(a).tobytes()) for n, a in run.inputs.items()}
        wanted.append(
            {
                "program": index[id(run.program)],
                "inputs": inputs,
                "poison": run.poison,
                "sanitize": run.sanitize,
                "timed": run.timed,
            }
        )
    return {"programs": programs, "runs": wanted, **options}, blobs.list


def unpack_request(request: dict, blobs: Sequence[bytes]) -> list[dict]:
    """In the device's process: the runs, each with `program` a Program and `inputs` bytes by name."""
    programs = [Program.from_parts(p["header"], [blobs[i] for i in p["blobs"]]) for p in request["programs"]]
    return [
        r | {"program": programs[r["program"]], "inputs": {n: blobs[i] for n, i in r["inputs"].items()}}
        for r in request["runs"]
    ]


def unpack_reply(header: dict, blobs: Sequence[bytes], runs: Sequence[Run], kind: str) -> list[RunResult]:
    """The results, in order; outputs take dtype and shape from the program that was asked to run."""
    results = []
    for run, got in zip(runs, header["runs"], strict=False):
        outputs = {}
        for name, blob in got["outputs"].items():
            buffer = run.program.buffers[run.program.named("output", "inout")[name]]
            outputs[name] = np.frombuffer(blobs[blob], buffer.dtype).reshape(buffer.shape)
        fault = got["fault"]
        results.append(
            RunResult(
                device=header["device"],
                kind=kind,
                outputs=outputs,
                seconds=got["seconds"],
                host_seconds=got["host_seconds"],
                card=_card(got["card"]),
                counters=got["counters"],
                findings=tuple(Finding(**f) for f in got["findings"]),
                fault=Fault(**fault) if fault else None,
                overrun=tuple(got["overrun"]),
                changed=tuple(got["changed"]),
                late=tuple(got["late"]),
                poison=run.poison,
                sanitized=got["sanitized"],
            )
        )
    return results


def _card(said: dict | None) -> CardState | None:
    return CardState(**said | {"slowed": tuple(said["slowed"])}) if said else None

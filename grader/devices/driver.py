"""Driver calls that must succeed."""

import numpy as np
from cuda.bindings import driver as cu

FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "illegal_address",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "misaligned",
    "CUDA_ERROR_ASSERT": "assert",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "timeout",
    "CUDA_ERROR_OUT_OF_MEMORY": "memory",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "trap",
}


class DeviceError(Exception):
    """A driver call failed. `kind` as in grader.evidence.Fault."""

    def __init__(self, call: str, name: str):
        super().__init__(f"{call}: {name}")
        self.error = name
        self.kind = FAULTS.get(name, "launch")


def call(function, *args):
    """A driver call that must succeed; its result without the error code."""
    error, *rest = function(*args)
    if error != cu.CUresult.CUDA_SUCCESS:
        raise DeviceError(function.__name__, error.name)
    return rest[0] if len(rest) == 1 else (rest or None)


def pointer(contents: bytes) -> int:
    """The address of a byte string's bytes."""
    return np.frombuffer(contents, np.uint8).ctypes.data

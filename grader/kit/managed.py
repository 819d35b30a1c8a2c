"""Hints about managed memory: where it should be, and how it will be used.

    x = cuda.managed_array(n, np.float32)
    prefetch(x)                         # to the GPU, in stream order
    prefetch(x, "host")
    advise(x, "read mostly")

| here | driver API | CUDA C++ |
|---|---|---|
| `prefetch(x, where, stream)` | `cuMemPrefetchAsync` | `cudaMemPrefetchAsync(x, nbytes, location, 0, stream)` |
| `advise(x, "read mostly")` | `CU_MEM_ADVISE_SET_READ_MOSTLY` | `cudaMemAdviseSetReadMostly` |
| `advise(x, "preferred location", where)` | `CU_MEM_ADVISE_SET_PREFERRED_LOCATION` | `cudaMemAdviseSetPreferredLocation` |
| `advise(x, "accessed by", where)` | `CU_MEM_ADVISE_SET_ACCESSED_BY` | `cudaMemAdviseSetAccessedBy` |

They change no value and no result: only where the pages are, and so the time. A slice of an array stands for its bytes.
"""

from cuda.bindings import driver as cu

ADVICE = {
    "read mostly": cu.CUmem_advise.CU_MEM_ADVISE_SET_READ_MOSTLY,
    "preferred location": cu.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
    "accessed by": cu.CUmem_advise.CU_MEM_ADVISE_SET_ACCESSED_BY,
}
UNSET = {
    "read mostly": cu.CUmem_advise.CU_MEM_ADVISE_UNSET_READ_MOSTLY,
    "preferred location": cu.CUmem_advise.CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
    "accessed by": cu.CUmem_advise.CU_MEM_ADVISE_UNSET_ACCESSED_BY,
}


def prefetch(array, where: str | int = "device", stream=0) -> None:
    """Move a managed array in stream order, before it is needed.

    where: "device" (the current one), a device's number, or "host". stream: numba's or cuda.core's; 0 is the default
    stream. ValueError for an array that is not managed or not contiguous, or for another place.
    """
    address, nbytes = _range(array)
    _ask(cu.cuMemPrefetchAsync, address, nbytes, _location(where), 0, _stream(stream))


def advise(array, advice: str, where: str | int = "device", unset: bool = False) -> None:
    """Say how a managed array will be used: "read mostly", "preferred location" or "accessed by"; `unset` takes it back.

    where: as in `prefetch`; it means nothing for "read mostly". ValueError as there, and for other advice.
    """
    if advice not in ADVICE:
        raise ValueError(f"no advice {advice!r}: there is {', '.join(map(repr, ADVICE))}")
    address, nbytes = _range(array)
    _ask(cu.cuMemAdvise, address, nbytes, (UNSET if unset else ADVICE)[advice], _location(where))


def _range(array) -> tuple[int, int]:
    """(address, bytes) of a contiguous array."""
    about = getattr(array, "__cuda_array_interface__", None) or getattr(array, "__array_interface__", None)
    flags = getattr(array, "flags", None)
    if about is None or not (flags is None or flags["C_CONTIGUOUS"] or flags["F_CONTIGUOUS"]):
        raise ValueError("needs a contiguous array made by cuda.managed_array, or a contiguous slice of one")
    if not array.nbytes:
        raise ValueError("an empty array has no pages")
    return int(about["data"][0]), int(array.nbytes)


def _location(where: str | int) -> cu.CUmemLocation:
    location = cu.CUmemLocation()
    kinds = cu.CUmemLocationType
    if where == "host":
        location.type, location.id = kinds.CU_MEM_LOCATION_TYPE_HOST, 0
    elif where == "device" or isinstance(where, int):
        from numba import cuda

        location.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE
        location.id = cuda.get_current_device().id if where == "device" else where
    else:
        raise ValueError(f"no place {where!r}: there is 'device', a device's number, and 'host'")
    return location


def _stream(stream) -> int:
    handle = getattr(stream, "handle", stream)
    return int(getattr(handle, "value", handle) or 0)


def _ask(call, *args) -> None:
    (error,) = call(*args)
    if error == cu.CUresult.CUDA_ERROR_INVALID_VALUE:
        raise ValueError("this is not managed memory: make it with cuda.managed_array")
    if error:
        raise RuntimeError(f"{call.__name__}: {error.name}")

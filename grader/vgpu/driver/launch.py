"""Execution Control: launches and host functions."""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, ptr, u32
from grader.vgpu.driver.clock import CALL_US, launch_us
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.queue import Stream, submit
from grader.vgpu.driver.state import DEFAULT_HANDLE, FUNCTION, STREAM, Context
from grader.vgpu.driver.structs import LaunchAttribute, LaunchConfig
from grader.vgpu.driver.work import HostFunction, Launch

# CUlaunchAttributeID
IGNORE, ACCESS_POLICY, COOPERATIVE, SYNC_POLICY, CLUSTER, CLUSTER_POLICY = range(6)
SERIALIZATION, PROGRAMMATIC_EVENT, PRIORITY, SYNC_DOMAIN_MAP, SYNC_DOMAIN = range(6, 11)
COMPLETION_EVENT, UPDATABLE_NODE, CARVEOUT = 12, 13, 14
# These change when or how fast a kernel runs, never what it computes: hints that a device may ignore.
_HINTS = {
    IGNORE,
    ACCESS_POLICY,
    SYNC_POLICY,
    CLUSTER_POLICY,
    SERIALIZATION,
    PRIORITY,
    SYNC_DOMAIN_MAP,
    SYNC_DOMAIN,
    14,
    16,
}
# CU_LAUNCH_PARAM_*, in the `extra` array
_END, _BUFFER_POINTER, _BUFFER_SIZE = 0, 1, 2


def arguments(kernel, params: int, extra: int) -> bytes:
    """The parameter block, from either way of passing it. Raises CudaError INVALID_VALUE."""
    if params:
        pointers = (ctypes.c_void_p * len(kernel.params)).from_address(params)
        block = bytearray(kernel.param_bytes)
        for (offset, nbytes), pointer in zip(kernel.params, pointers, strict=True):
            if not pointer:
                raise CudaError(errors.INVALID_VALUE)
            block[offset : offset + nbytes] = ctypes.string_at(pointer, nbytes)
        return bytes(block)
    if extra:
        words, k, buffer, nbytes = ctypes.cast(extra, ctypes.POINTER(ctypes.c_size_t)), 0, 0, 0
        while words[k] != _END:
            if words[k] == _BUFFER_POINTER:
                buffer = words[k + 1]
            elif words[k] == _BUFFER_SIZE:
                nbytes = ctypes.c_size_t.from_address(words[k + 1]).value
            else:
                raise CudaError(errors.INVALID_VALUE)
            k += 2
        return ctypes.string_at(buffer, nbytes)[: kernel.param_bytes].ljust(kernel.param_bytes, b"\0")
    if kernel.params:
        raise CudaError(errors.INVALID_VALUE)
    return b""


def check(context: Context, work: Launch) -> None:
    """What cuLaunchKernel checks before it queues anything. Raises CudaError."""
    kernel, attributes = work.kernel, context.device.attributes
    for k in range(3):
        if not 0 < work.grid[k] <= attributes[5 + k] or not 0 < work.block[k] <= attributes[2 + k]:
            raise CudaError(
                errors.INVALID_VALUE,
                f"grid {work.grid} of blocks {work.block} is outside the limits: at most 1024 threads a block "
                "(64 in z), 2147483647 x 65535 x 65535 blocks, and no dimension of 0",
            )
    threads = work.block[0] * work.block[1] * work.block[2]
    if threads > attributes[1]:
        raise CudaError(errors.INVALID_VALUE, f"a block {work.block} has {threads} threads, and 1024 are the most")
    if kernel.launch_bound and threads > kernel.launch_bound:
        raise CudaError(
            errors.INVALID_VALUE, f"{threads} threads a block exceed the launch bounds {kernel.launch_bound}"
        )
    if threads > kernel.max_threads(context):
        raise CudaError(
            errors.LAUNCH_OUT_OF_RESOURCES,
            f"{threads} threads of {kernel.facts.registers} registers do not fit the 65536 registers of an SM",
        )
    if work.shared > kernel.max_dynamic:
        raise CudaError(
            errors.INVALID_VALUE,
            f"{work.shared} bytes of dynamic shared memory exceed {kernel.max_dynamic}: more than 48 KiB a block have "
            "to be asked for with cuKernelSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)",
        )
    if work.cooperative:
        blocks = work.grid[0] * work.grid[1] * work.grid[2]
        most = kernel.resident_blocks(context, work.block, work.shared)
        if blocks > most:
            raise CudaError(
                errors.COOPERATIVE_LAUNCH_TOO_LARGE,
                f"a cooperative launch needs all of its {blocks} blocks on the device at once, and {most} fit",
            )
    _check_cluster(context, work)
    kernel.compile(context)


def _check_cluster(context: Context, work: Launch) -> None:
    """A cluster of one block is what every block is without clusters; others are refused. Raises CudaError."""
    wanted = work.kernel.cluster
    if work.cluster and wanted not in (None, (1, 1, 1), work.cluster):
        raise CudaError(
            errors.INVALID_CLUSTER_SIZE,
            f"kernel {work.kernel.name} was compiled for clusters of {wanted} blocks and is launched with {work.cluster}",
        )
    size = work.cluster or wanted
    if size is None:
        raise CudaError(
            errors.INVALID_CLUSTER_SIZE,
            f"kernel {work.kernel.name} has to be launched with a cluster size (.explicitcluster); (1, 1, 1) is possible",
        )
    if size != (1, 1, 1):
        if not context.device.card.limits.clusters:
            name = context.device.card.name
            raise CudaError(
                errors.INVALID_CLUSTER_SIZE, f"{name} has no thread block clusters: launch without a cluster size"
            )
        asked = (
            f"kernel {work.kernel.name} asks for clusters of {size} blocks (__cluster_dims__); "
            if wanted == size
            else ""
        )
        raise CudaError(errors.NOT_SUPPORTED, asked + errors.NO_CLUSTERS)


def _launch(ctx: Context, stream: Stream, work: Launch) -> None:
    check(ctx, work)
    submit(stream, work, host_us=launch_us(stream.context.device.card))


@entry("cuLaunchKernel", FUNCTION, u32, u32, u32, u32, u32, u32, u32, STREAM, ptr, ptr)
def launch_kernel(ctx, kernel, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
    _launch(ctx, stream, Launch(kernel, (gx, gy, gz), (bx, by, bz), shared, arguments(kernel, params, extra)))


@entry("cuLaunchCooperativeKernel", FUNCTION, u32, u32, u32, u32, u32, u32, u32, STREAM, ptr)
def launch_cooperative_kernel(ctx, kernel, gx, gy, gz, bx, by, bz, shared, stream, params):
    args = arguments(kernel, params, 0)
    _launch(ctx, stream, Launch(kernel, (gx, gy, gz), (bx, by, bz), shared, args, cooperative=True))


def read_attributes(address: int, n: int) -> dict[int, object]:
    """The launch attributes that change what is executed. Raises CudaError for one that cannot be honoured."""
    found: dict[int, object] = {}
    for k in range(n):
        attribute = LaunchAttribute.from_address(address + k * ctypes.sizeof(LaunchAttribute))
        if attribute.id == COOPERATIVE:
            found[COOPERATIVE] = bool(attribute.value.integer)
        elif attribute.id == CLUSTER:
            found[CLUSTER] = tuple(attribute.value.dim)
        elif attribute.id not in _HINTS:
            raise CudaError(
                errors.NOT_SUPPORTED, f"launch attribute {attribute.id} is not supported by the virtual GPU"
            )
    return found


@entry("cuLaunchKernelEx", DEFAULT_HANDLE, ptr, FUNCTION, ptr, ptr)
def launch_kernel_ex(ctx, default_stream, config, kernel, params, extra):
    given = LaunchConfig.at(config)
    attributes = read_attributes(given.attrs, given.numAttrs) if given.numAttrs else {}
    stream = STREAM.convert(given.hStream, default_stream)
    args = arguments(kernel, params, extra)
    work = Launch(
        kernel,
        tuple(given.gridDim),
        tuple(given.blockDim),
        given.sharedMemBytes,
        args,
        cooperative=attributes.get(COOPERATIVE, False),
        cluster=attributes.get(CLUSTER),
    )
    _launch(ctx, stream, work)


@entry("cuLaunchHostFunc", STREAM, ptr, ptr)
def launch_host_func(ctx, stream, function, data):
    if not function:
        raise CudaError(errors.INVALID_VALUE)
    host_function(stream, HostFunction(function, data))


@entry("cuLaunchHostFunc", STREAM, ptr, ptr, u32, version=13020)
def launch_host_func_v2(ctx, stream, function, data, mode):
    if mode > 1:
        raise CudaError(errors.INVALID_VALUE)
    launch_host_func(ctx, stream, function, data)


def host_function(stream: Stream, work: HostFunction) -> None:
    """Queue a host function; a helper thread sees to it that it runs although nobody waits for it."""
    from grader.vgpu.driver.callbacks import see_to

    op = submit(stream, work, host_us=CALL_US)
    if op is not None:
        see_to(op)

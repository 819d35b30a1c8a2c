"""Occupancy: how many blocks of a kernel fit one SM.

The rules are those of NVIDIA's cuda_occupancy.h: warps, blocks, registers (given to warps in units of 256, from four
parts of the register file) and shared memory (rounded up, with 1 KiB for the system from cc 8.0 on).
"""

from __future__ import annotations

import ctypes

from grader.vgpu.devices import Card
from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, i32, out, ptr, size, u32
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.state import FUNCTION
from grader.vgpu.driver.structs import LaunchConfig

REGISTERS_PER_SM = 65536
REGISTER_UNIT = 256
PARTS = 4  # of an SM, each with its own warps and registers


def blocks_per_sm(card: Card, threads: int, registers: int, shared: int) -> int:
    """Blocks of so many threads, registers a thread and shared bytes (static and dynamic) that one SM holds at once."""
    limits = card.limits
    warps = -(-threads // 32)
    by_warps = limits.warps_per_sm // warps
    if registers:
        a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
        by_registers = REGISTERS_PER_SM // PARTS // a_warp * PARTS // warps
    else:
        by_registers = limits.blocks_per_sm
    taken = shared + limits.shared_reserved
    taken = -(-taken // limits.shared_granularity) * limits.shared_granularity
    by_shared = limits.shared_per_sm // taken if taken else limits.blocks_per_sm
    return max(0, min(by_warps, by_registers, by_shared, limits.blocks_per_sm))


def of_kernel(kernel, context, threads: int, dynamic: int) -> int:
    """Blocks of this kernel that one SM of the context's device holds at once."""
    card = context.device.card
    return blocks_per_sm(card, threads, kernel.facts.registers, kernel.static_shared + dynamic)


def _active_blocks(ctx, kernel, threads: int, dynamic: int) -> int:
    if threads <= 0:
        raise CudaError(errors.INVALID_VALUE)
    if threads > kernel.max_threads(ctx) or dynamic > kernel.max_dynamic:
        return 0
    return of_kernel(kernel, ctx, threads, dynamic)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor", out(i32), FUNCTION, i32, size)
def max_active_blocks(ctx, kernel, threads, dynamic):
    return _active_blocks(ctx, kernel, threads, dynamic)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", out(i32), FUNCTION, i32, size, u32)
def max_active_blocks_with_flags(ctx, kernel, threads, dynamic, flags):
    if flags & ~1:
        raise CudaError(errors.INVALID_VALUE)
    return _active_blocks(ctx, kernel, threads, dynamic)


def _potential(ctx, kernel, size_function: int, dynamic: int, limit: int) -> tuple[int, int]:
    """The block size with the most resident threads (the largest such), and the grid that fills the device with it."""
    dynamic_of = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(size_function) if size_function else None
    most = min(limit or 1024, kernel.max_threads(ctx))
    best = (0, 0, 0)
    for threads in sorted({most, *range(32, most + 1, 32)}):
        blocks = _active_blocks(ctx, kernel, threads, dynamic_of(threads) if dynamic_of else dynamic)
        best = max(best, (blocks * threads, threads, blocks))
    if not best[0]:
        raise CudaError(errors.INVALID_VALUE)
    return best[2] * ctx.device.card.sms, best[1]


@entry("cuOccupancyMaxPotentialBlockSize", out(i32), out(i32), FUNCTION, ptr, size, i32)
def max_potential_block_size(ctx, kernel, size_function, dynamic, limit):
    return _potential(ctx, kernel, size_function, dynamic, limit)


@entry("cuOccupancyMaxPotentialBlockSizeWithFlags", out(i32), out(i32), FUNCTION, ptr, size, i32, u32)
def max_potential_block_size_with_flags(ctx, kernel, size_function, dynamic, limit, flags):
    if flags & ~1:
        raise CudaError(errors.INVALID_VALUE)
    return _potential(ctx, kernel, size_function, dynamic, limit)


@entry("cuOccupancyAvailableDynamicSMemPerBlock", out(size), FUNCTION, i32, i32)
def available_dynamic_shared(ctx, kernel, blocks, threads):
    """The most dynamic shared memory with which `blocks` blocks still fit an SM."""
    limits = ctx.device.card.limits
    if blocks <= 0 or threads <= 0:
        raise CudaError(errors.INVALID_VALUE)
    if of_kernel(kernel, ctx, threads, 0) < blocks:
        raise CudaError(errors.INVALID_VALUE)
    share = limits.shared_per_sm // blocks // limits.shared_granularity * limits.shared_granularity
    return max(0, min(share - limits.shared_reserved, limits.shared_per_block_optin) - kernel.static_shared)


@entry("cuOccupancyMaxActiveClusters", out(i32), FUNCTION, ptr)
def max_active_clusters(ctx, kernel, config):
    LaunchConfig.at(config)
    raise CudaError(errors.NOT_SUPPORTED, errors.NO_CLUSTERS)


@entry("cuOccupancyMaxPotentialClusterSize", out(i32), FUNCTION, ptr)
def max_potential_cluster_size(ctx, kernel, config):
    LaunchConfig.at(config)
    raise CudaError(errors.NOT_SUPPORTED, errors.NO_CLUSTERS)

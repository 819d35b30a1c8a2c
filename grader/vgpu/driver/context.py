"""Primary Context Management and Context Management."""

from __future__ import annotations

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, i32, opt, out, ptr, size, u32, u64
from grader.vgpu.driver.clock import CLOCK, SYNC_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.queue import complete, wait_for_context
from grader.vgpu.driver.state import CONTEXT, CONTEXT_OR_NULL, DEVICE, Context, Device, current_context, driver

FLAGS = 0xFF  # scheduling, map host, local memory, coredump, sync memops
_SCHEDULES = (0, 1, 2, 4)


def _check_flags(flags: int) -> None:
    if flags & ~FLAGS or flags & 7 not in _SCHEDULES:
        raise CudaError(errors.INVALID_VALUE)


@entry("cuDevicePrimaryCtxRetain", out(u64), DEVICE, context=False)
def primary_ctx_retain(device):
    device.primary_references += 1
    return device.activate_primary().handle


@entry("cuDevicePrimaryCtxRelease", DEVICE, context=False)
def primary_ctx_release(device):
    if not device.primary_references:
        raise CudaError(errors.INVALID_CONTEXT)
    device.primary_references -= 1
    if not device.primary_references:
        _reset(device)


@entry("cuDevicePrimaryCtxReset", DEVICE, context=False)
def primary_ctx_reset(device):
    """References are kept, and a sticky error is gone with all else."""
    _reset(device)


def _reset(device: Device) -> None:
    """The primary context is inactive from now on: its handle can still be made current, and whoever then uses it gets
    CONTEXT_IS_DESTROYED until somebody retains it again, under the same handle (observed on a card, call by call, in
    https://github.com/lupinemachines/lupine/issues/844)."""
    old = device.primary
    if old is None:
        return
    complete(*[stream.last for stream in old.streams])  # what was asked for does not go unchecked
    old.destroy()
    driver.handles[old.handle] = old
    device.primary = None


@entry("cuDevicePrimaryCtxSetFlags", DEVICE, u32, context=False)
def primary_ctx_set_flags(device, flags):
    _check_flags(flags)
    device.primary_flags = flags
    if device.primary is not None:
        device.primary.flags = flags


@entry("cuDevicePrimaryCtxGetState", DEVICE, out(u32), out(i32), context=False)
def primary_ctx_get_state(device):
    return device.primary_flags, int(device.primary is not None)


def _create(flags: int, device: Device) -> int:
    _check_flags(flags)
    context = Context(device, flags)
    driver.stack.append(context)
    return context.handle


@entry("cuCtxCreate", out(u64), u32, DEVICE, context=False)
def ctx_create(flags, device):
    return _create(flags, device)


@entry("cuCtxCreate", out(u64), ptr, i32, u32, DEVICE, version=11040, context=False)
def ctx_create_v3(affinity, n, flags, device):
    if n:
        raise CudaError(errors.UNSUPPORTED_EXEC_AFFINITY)
    return _create(flags, device)


@entry("cuCtxCreate", out(u64), ptr, u32, DEVICE, version=12050, context=False)
def ctx_create_v4(params, flags, device):
    if params:
        raise CudaError(errors.NOT_SUPPORTED, "cuCtxCreate with parameters (affinity, graphics) is not supported")
    return _create(flags, device)


@entry("cuCtxDestroy", CONTEXT, context=False)
def ctx_destroy(context):
    if context is context.device.primary or context.green:
        raise CudaError(errors.INVALID_CONTEXT)
    if not context.fault:
        wait_for_context(context)
    context.destroy()
    if driver.stack and driver.stack[-1] is context:
        driver.stack.pop()


@entry("cuCtxPushCurrent", CONTEXT, context=False)
def ctx_push_current(context):
    driver.stack.append(context)


@entry("cuCtxPopCurrent", opt(u64), context=False)
def ctx_pop_current():
    if not driver.stack:
        raise CudaError(errors.INVALID_CONTEXT)
    context = driver.stack.pop()
    return context.handle if context else 0


@entry("cuCtxSetCurrent", CONTEXT_OR_NULL, context=False)
def ctx_set_current(context):
    """Replaces the top of the stack; NULL pops it."""
    stack = driver.stack
    if stack:
        stack.pop()
    if context is not None:
        stack.append(context)


@entry("cuCtxGetCurrent", out(u64), context=False)
def ctx_get_current():
    stack = driver.stack
    return stack[-1].handle if stack else 0


@entry("cuCtxGetDevice", out(i32), context=False)
def ctx_get_device():
    if not driver.stack:
        raise CudaError(errors.INVALID_CONTEXT)
    return driver.stack[-1].device.ordinal


@entry("cuCtxGetDevice", out(i32), CONTEXT_OR_NULL, version=13000, context=False)
def ctx_get_device_v2(context):
    return (context or current_context()).device.ordinal


@entry("cuCtxGetFlags", out(u32))
def ctx_get_flags(ctx):
    return ctx.flags


@entry("cuCtxSetFlags", u32)
def ctx_set_flags(ctx, flags):
    _check_flags(flags)
    ctx.flags = flags


@entry("cuCtxGetId", CONTEXT_OR_NULL, out(u64), context=False)
def ctx_get_id(context):
    return (context or current_context()).id


@entry("cuCtxGetApiVersion", CONTEXT_OR_NULL, out(u32), context=False)
def ctx_get_api_version(context):
    return 3020


def _synchronize(context: Context) -> None:
    from grader.vgpu.driver.capture import refuse_unsafe_call

    refuse_unsafe_call()
    CLOCK.spend(SYNC_US)
    if recorder.recording():
        recorder.emit("sync", context.device.ordinal, kind="context", id=None)
    wait_for_context(context)


@entry("cuCtxSynchronize")
def ctx_synchronize(ctx):
    _synchronize(ctx)


@entry("cuCtxSynchronize", CONTEXT_OR_NULL, version=13000, context=False)
def ctx_synchronize_v2(context):
    context = context or current_context()
    context.check()
    _synchronize(context)


@entry("cuCtxGetLimit", out(size), u32)
def ctx_get_limit(ctx, which):
    if which not in ctx.limits:
        raise CudaError(errors.UNSUPPORTED_LIMIT if which <= 10 else errors.INVALID_VALUE)
    return ctx.limits[which]


@entry("cuCtxSetLimit", u32, size)
def ctx_set_limit(ctx, which, value):
    if which not in ctx.limits or which == 7:
        raise CudaError(errors.UNSUPPORTED_LIMIT if which <= 10 else errors.INVALID_VALUE)
    ctx.limits[which] = value


@entry("cuCtxGetCacheConfig", out(u32))
def ctx_get_cache_config(ctx):
    return ctx.cache_config


@entry("cuCtxSetCacheConfig", u32)
def ctx_set_cache_config(ctx, config):
    if config > 3:
        raise CudaError(errors.INVALID_VALUE)
    ctx.cache_config = config


@entry("cuCtxResetPersistingL2Cache")
def ctx_reset_persisting_l2_cache(ctx):
    """No line persists in a cache that is only modelled."""

"""Green Contexts: a part of a device's SMs, with streams of its own.

A green context shares the memory of its device's primary context. What it changes is the part of the device that its
kernels can take, which the clock and cooperative launches go by.
"""

from __future__ import annotations

import ctypes

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, i32, out, ptr, u32, u64
from grader.vgpu.driver.clock import EVENT_US
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.event import ctx_record_event
from grader.vgpu.driver.queue import submit
from grader.vgpu.driver.state import (
    CONTEXT_OR_NULL,
    DEVICE,
    EVENT,
    GREEN,
    STREAM,
    Context,
    Device,
    Object,
    current_context,
)
from grader.vgpu.driver.stream import NON_BLOCKING, create
from grader.vgpu.driver.structs import DevResource, SmResourceGroupParams
from grader.vgpu.driver.work import EventWait

SM, WORKQUEUE_CONFIG, WORKQUEUE = 1, 1000, 10000  # CUdevResourceType


class Description(Object):
    """What a green context is to get."""

    def __init__(self, sms: int, device: int):
        super().__init__()
        self.sms = sms
        self.device = device


class GreenContext(Object):
    """A green context, and the context that it is seen as."""

    def __init__(self, device: Device, sms: int):
        super().__init__()
        device.primary_references += (
            1  # the manual's cuGreenCtxCreate: it retains the primary context until it is destroyed
        )
        self.parent = device.activate_primary()
        self.sms = sms
        self.context = Context(device, green=self)

    def destroy(self) -> None:
        """Drop it and what it holds. Whoever destroys it looks after the primary context."""
        self.context.destroy()
        self.context.device.primary_references -= 1
        self.release()


def granularity(device: Device) -> int:
    """SMs come in steps: 2 up to cc 8.x, 8 from 9.0 on (Driver API manual, Green Contexts)."""
    return 8 if device.card.cc >= (9, 0) else 2


def least(device: Device) -> int:
    """The fewest SMs of a partition."""
    major = device.card.cc[0]
    return 8 if major >= 9 else 4 if major == 8 else 2


def _fill(resource: DevResource, device: Device, sms: int) -> None:
    ctypes.memset(ctypes.addressof(resource), 0, ctypes.sizeof(resource))
    resource.type = SM if sms else 0
    resource.sm.smCount = sms
    resource.sm.minSmPartitionSize = least(device)
    resource.sm.smCoscheduledAlignment = granularity(device)
    resource._internal_padding[0] = device.ordinal  # so that a split knows whose they are


def _resource(address: int, kind: int, device: Device, sms: int) -> None:
    if kind != SM:
        raise CudaError(
            errors.INVALID_RESOURCE_TYPE if kind not in (WORKQUEUE, WORKQUEUE_CONFIG) else errors.NOT_SUPPORTED
        )
    _fill(DevResource.at(address), device, sms)


@entry("cuDeviceGetDevResource", DEVICE, ptr, u32, context=False)
def device_get_dev_resource(device, resource, kind):
    _resource(resource, kind, device, device.card.sms)


@entry("cuCtxGetDevResource", CONTEXT_OR_NULL, ptr, u32, context=False)
def ctx_get_dev_resource(context, resource, kind):
    context = context or current_context()
    _resource(resource, kind, context.device, context.green.sms if context.green else context.device.card.sms)


@entry("cuGreenCtxGetDevResource", GREEN, ptr, u32, context=False)
def green_ctx_get_dev_resource(green, resource, kind):
    _resource(resource, kind, green.context.device, green.sms)


@entry("cuStreamGetDevResource", STREAM, ptr, u32)
def stream_get_dev_resource(ctx, stream, resource, kind):
    context = stream.context
    _resource(resource, kind, context.device, context.green.sms if context.green else context.device.card.sms)


def _device_of(resource: DevResource) -> Device:
    if resource.type != SM:
        raise CudaError(errors.INVALID_RESOURCE_TYPE)
    return DEVICE.convert(resource._internal_padding[0], 0)


@entry("cuDevSmResourceSplitByCount", ptr, ptr, ptr, ptr, u32, u32, context=False)
def dev_sm_resource_split_by_count(groups, count, whole, rest, flags, minimum):
    """As many groups as asked for, or as fit, of at least `minimum` SMs each."""
    source = DevResource.at(whole)
    device = _device_of(source)
    if not count or flags & ~3:
        raise CudaError(errors.INVALID_VALUE)
    step = 2 if flags & 1 else granularity(device)  # IGNORE_SM_COSCHEDULING
    each = max(least(device), -(-max(minimum, 1) // step) * step)
    total = source.sm.smCount
    if each > total:
        raise CudaError(errors.INVALID_RESOURCE_CONFIGURATION)
    n = ctypes.c_uint.from_address(count)
    if not groups:
        n.value = total // each
        return
    n.value = min(n.value, total // each)
    for k in range(n.value):
        _fill(DevResource.from_address(groups + k * ctypes.sizeof(DevResource)), device, each)
    if rest:
        _fill(DevResource.at(rest), device, total - each * n.value)


@entry("cuDevSmResourceSplit", ptr, u32, ptr, ptr, u32, ptr, context=False)
def dev_sm_resource_split(groups, n, whole, rest, flags, params):
    """Groups of given sizes; a size of 0 is found out: all that is left. NULL groups: a dry run."""
    source = DevResource.at(whole)
    device = _device_of(source)
    if flags or not n or not params:
        raise CudaError(errors.INVALID_VALUE)
    left = source.sm.smCount
    step = granularity(device)
    for k in range(n):
        given = SmResourceGroupParams.at(params + k * ctypes.sizeof(SmResourceGroupParams))
        wanted = given.smCount or left // step * step
        backfill = given.flags & 1
        if wanted < least(device) or wanted > left or (wanted % (given.coscheduledSmCount or step) and not backfill):
            raise CudaError(errors.INVALID_RESOURCE_CONFIGURATION)
        given.smCount = wanted
        given.coscheduledSmCount = given.coscheduledSmCount or step
        left -= wanted
        if groups:
            _fill(DevResource.from_address(groups + k * ctypes.sizeof(DevResource)), device, wanted)
    if rest:
        _fill(DevResource.at(rest), device, left)


@entry("cuDevResourceGenerateDesc", out(u64), ptr, u32, context=False)
def dev_resource_generate_desc(resources, n):
    if not n or not resources:
        raise CudaError(errors.INVALID_VALUE)
    each = [DevResource.from_address(resources + k * ctypes.sizeof(DevResource)) for k in range(n)]
    device = _device_of(each[0])
    return Description(sum(resource.sm.smCount for resource in each), device.ordinal).handle


@entry("cuGreenCtxCreate", out(u64), u64, DEVICE, u32, context=False)
def green_ctx_create(description, device, flags):
    from grader.vgpu.driver.state import driver

    found = driver.handles.get(description)
    if not isinstance(found, Description) or found.device != device.ordinal or flags != 1:
        raise CudaError(errors.INVALID_VALUE)
    return GreenContext(device, found.sms).handle


@entry("cuGreenCtxDestroy", GREEN, context=False)
def green_ctx_destroy(green):
    from grader.vgpu.driver.context import primary_ctx_release
    from grader.vgpu.driver.queue import wait_for_context

    if not green.context.fault:
        wait_for_context(green.context)
    device = green.context.device
    device.primary_references += 1  # kept until all that is the green context's is gone
    green.destroy()
    primary_ctx_release(device)


@entry("cuCtxFromGreenCtx", out(u64), GREEN, context=False)
def ctx_from_green_ctx(green):
    return green.context.handle


@entry("cuGreenCtxGetId", GREEN, out(u64), context=False)
def green_ctx_get_id(green):
    return green.context.id


@entry("cuGreenCtxStreamCreate", out(u64), GREEN, u32, i32, context=False)
def green_ctx_stream_create(green, flags, priority):
    if flags != NON_BLOCKING:
        raise CudaError(errors.INVALID_VALUE)
    return create(green.context, flags, priority).handle


@entry("cuStreamGetGreenCtx", STREAM, out(u64))
def stream_get_green_ctx(ctx, stream):
    return stream.context.green.handle if stream.context.green else 0


@entry("cuGreenCtxRecordEvent", GREEN, EVENT)
def green_ctx_record_event(ctx, green, event):
    ctx_record_event(ctx, green.context, event)


@entry("cuGreenCtxWaitEvent", GREEN, EVENT)
def green_ctx_wait_event(ctx, green, event):
    event.not_captured()
    for stream in green.context.streams:
        submit(stream, EventWait(event), deps=[event.op] if event.op else [], host_us=EVENT_US)

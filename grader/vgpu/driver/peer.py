"""Peer Context Memory Access."""

from __future__ import annotations

from grader.vgpu.driver import errors, recorder
from grader.vgpu.driver.abi import entry, i32, out, u32
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.state import CONTEXT, DEVICE, Context, Device, driver


def can_access(device: Device, peer: Device) -> bool:
    """Devices of one process reach each other over NVLink or PCIe, except GeForce cards, whose driver forbids it."""
    return device is not peer and "GeForce" not in device.card.name and "GeForce" not in peer.card.name


@entry("cuDeviceCanAccessPeer", out(i32), DEVICE, DEVICE, context=False)
def device_can_access_peer(device, peer):
    return int(can_access(device, peer))


@entry("cuDeviceGetP2PAttribute", out(i32), u32, DEVICE, DEVICE, context=False)
def device_get_p2p_attribute(which, source, destination):
    """Performance rank (0: the machine's best link), access, native atomics, arrays."""
    if source is destination:
        raise CudaError(errors.INVALID_DEVICE)
    if which not in (1, 2, 3, 4):
        raise CudaError(errors.INVALID_VALUE)
    reachable, path = can_access(source, destination), source.fabric.path(source, destination)
    return {
        1: int(path == "PHB"),
        2: int(reachable),
        3: int(reachable and path.startswith("NV")),
        4: int(reachable),
    }[which]


@entry("cuCtxEnablePeerAccess", CONTEXT, u32)
def ctx_enable_peer_access(ctx, peer, flags):
    if flags:
        raise CudaError(errors.INVALID_VALUE)
    if not can_access(ctx.device, peer.device):
        raise CudaError(errors.PEER_ACCESS_UNSUPPORTED)
    if peer.device.ordinal in ctx.peers:
        raise CudaError(errors.PEER_ACCESS_ALREADY_ENABLED)
    ctx.peers.add(peer.device.ordinal)
    for allocation in _of(peer):
        allocation.show_to(ctx)
    _tell(ctx, peer, True)


@entry("cuCtxDisablePeerAccess", CONTEXT)
def ctx_disable_peer_access(ctx, peer):
    if peer.device.ordinal not in ctx.peers:
        raise CudaError(errors.PEER_ACCESS_NOT_ENABLED)
    ctx.peers.discard(peer.device.ordinal)
    for allocation in _of(peer):
        allocation.hide_from(ctx)
    _tell(ctx, peer, False)


def _of(peer: Context) -> list:
    """The peer's device memory; pools say for themselves who may touch theirs."""
    return [a for a in list(driver.allocations.values()) if a.context is peer and not a.shared and a.pool is None]


def _tell(ctx: Context, peer: Context, enabled: bool) -> None:
    if recorder.recording():
        recorder.emit("peer", ctx.device.ordinal, peer=peer.device.ordinal, enabled=enabled)

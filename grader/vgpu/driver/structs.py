"""The C structures of cuda.h that cross the edge. Field names are the header's."""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_int, c_longlong, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort

from grader.vgpu.driver import errors
from grader.vgpu.driver.errors import CudaError

P = c_size_t  # pointers and handles are numbers here


class Struct(ctypes.Structure):
    """A structure in the client's memory."""

    @classmethod
    def at(cls, address: int):
        """The structure at this address. Raises CudaError INVALID_VALUE for NULL."""
        if not address:
            raise CudaError(errors.INVALID_VALUE)
        return cls.from_address(address)


class LaunchAttributeValue(ctypes.Union):
    _fields_ = [("pad", c_char * 64), ("integer", c_int), ("dim", c_uint * 3)]


class LaunchAttribute(Struct):
    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", LaunchAttributeValue)]


class LaunchConfig(Struct):
    _fields_ = [
        ("gridDim", c_uint * 3),
        ("blockDim", c_uint * 3),
        ("sharedMemBytes", c_uint),
        ("hStream", P),
        ("attrs", P),
        ("numAttrs", c_uint),
    ]


class KernelNodeParams(Struct):
    _fields_ = [
        ("func", P),
        ("gridDim", c_uint * 3),
        ("blockDim", c_uint * 3),
        ("sharedMemBytes", c_uint),
        ("kernelParams", P),
        ("extra", P),
        ("kern", P),
        ("ctx", P),
    ]


class MemsetNodeParams(Struct):
    _fields_ = [
        ("dst", c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("elementSize", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    ]


class HostNodeParams(Struct):
    _fields_ = [("fn", P), ("userData", P)]


_COPY_2D = lambda side: [  # noqa: E731
    (f"{side}XInBytes", c_size_t),
    (f"{side}Y", c_size_t),
    (f"{side}MemoryType", c_uint),
    (f"{side}Host", P),
    (f"{side}Device", P),
    (f"{side}Array", P),
    (f"{side}Pitch", c_size_t),
]


def _copy_3d(side: str) -> list:
    return [
        (f"{side}XInBytes", c_size_t),
        (f"{side}Y", c_size_t),
        (f"{side}Z", c_size_t),
        (f"{side}LOD", c_size_t),
        (f"{side}MemoryType", c_uint),
        (f"{side}Host", P),
        (f"{side}Device", P),
        (f"{side}Array", P),
        (f"{side}Context", P),  # reserved in CUDA_MEMCPY3D
        (f"{side}Pitch", c_size_t),
        (f"{side}Height", c_size_t),
    ]


class Memcpy2D(Struct):
    _fields_ = [*_COPY_2D("src"), *_COPY_2D("dst"), ("WidthInBytes", c_size_t), ("Height", c_size_t)]


class Memcpy3D(Struct):
    _fields_ = [
        *_copy_3d("src"),
        *_copy_3d("dst"),
        ("WidthInBytes", c_size_t),
        ("Height", c_size_t),
        ("Depth", c_size_t),
    ]


class Memcpy3DPeer(Memcpy3D):
    """The same layout: the two reserved fields are the contexts."""


class MemcpyNodeParams(Struct):
    _fields_ = [("flags", c_int), ("reserved", c_int), ("copyCtx", P), ("copyParams", Memcpy3D)]


class MemLocation(Struct):
    _fields_ = [("type", c_int), ("id", c_int)]


class MemAccessDesc(Struct):
    _fields_ = [("location", MemLocation), ("flags", c_uint)]


class MemPoolProps(Struct):
    _fields_ = [
        ("allocType", c_uint),
        ("handleTypes", c_uint),
        ("location", MemLocation),
        ("win32SecurityAttributes", P),
        ("maxSize", c_size_t),
        ("usage", c_ushort),
        ("gpuDirectRDMACapable", c_ubyte),
        ("reserved", c_ubyte * 53),
    ]


class MemAllocNodeParams(Struct):
    _fields_ = [
        ("poolProps", MemPoolProps),
        ("accessDescs", P),
        ("accessDescCount", c_size_t),
        ("bytesize", c_size_t),
        ("dptr", c_uint64),
    ]


class ChildGraphNodeParams(Struct):
    _fields_ = [("graph", P), ("ownership", c_int)]


class ConditionalNodeParams(Struct):
    _fields_ = [("handle", c_uint64), ("type", c_int), ("size", c_uint), ("phGraph_out", P), ("ctx", P)]


class EventNodeParams(Struct):
    _fields_ = [("event", P)]


class FreeNodeParams(Struct):
    _fields_ = [("dptr", c_uint64)]


class _NodeUnion(ctypes.Union):
    _fields_ = [
        ("reserved1", c_longlong * 29),
        ("kernel", KernelNodeParams),
        ("memcpy", MemcpyNodeParams),
        ("memset", MemsetNodeParams),
        ("host", HostNodeParams),
        ("graph", ChildGraphNodeParams),
        ("event", EventNodeParams),
        ("alloc", MemAllocNodeParams),
        ("free", FreeNodeParams),
        ("conditional", ConditionalNodeParams),
    ]


class GraphNodeParams(Struct):
    _fields_ = [("type", c_uint), ("reserved0", c_int * 3), ("params", _NodeUnion), ("reserved2", c_longlong)]


class GraphInstantiateParams(Struct):
    _fields_ = [("flags", c_uint64), ("hUploadStream", P), ("hErrNode_out", P), ("result_out", c_uint)]


class GraphExecUpdateResultInfo(Struct):
    _fields_ = [("result", c_uint), ("errorNode", P), ("errorFromNode", P)]


class SmResource(Struct):
    _fields_ = [
        ("smCount", c_uint),
        ("minSmPartitionSize", c_uint),
        ("smCoscheduledAlignment", c_uint),
        ("flags", c_uint),
        ("localityDomainId", c_uint),
    ]


class DevResource(Struct):
    _fields_ = [
        ("type", c_uint),
        ("_internal_padding", c_ubyte * 92),
        ("sm", SmResource),
        ("_oversize", c_ubyte * 20),
        ("nextResource", P),
    ]


class SmResourceGroupParams(Struct):
    _fields_ = [
        ("smCount", c_uint),
        ("coscheduledSmCount", c_uint),
        ("preferredCoscheduledSmCount", c_uint),
        ("flags", c_uint),
        ("localityDomainId", c_uint),
        ("reserved", c_uint * 11),
    ]

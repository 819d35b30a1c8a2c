"""What the driver says of its devices."""

import pytest
from cuda.bindings import driver as cu
from driver_support import call, code

from grader.vgpu import devices

A = cu.CUdevice_attribute


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8),
        (A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 108),
        (A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152),
        (A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 166912),
        (A.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 167936),
        (A.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048),
        (A.CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32),
        (A.CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
        (A.CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1),
        (A.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0),
        (A.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
    ],
)
def test_a100_attributes(device, attribute, value):
    assert call(cu.cuDeviceGetAttribute(attribute, device)) == value


def test_names_and_identities_differ_between_two_of_a_card(device):
    assert call(cu.cuDeviceGetCount()) == 2
    assert call(cu.cuDeviceGetName(64, 0)).split(b"\0")[0] == b"NVIDIA A100-SXM4-80GB (virtual)"
    assert bytes(call(cu.cuDeviceGetUuid(0)).bytes) != bytes(call(cu.cuDeviceGetUuid(1)).bytes)
    bus = call(cu.cuDeviceGetPCIBusId(32, 1)).split(b"\0")[0]
    assert int(call(cu.cuDeviceGetByPCIBusId(bus))) == 1


def test_a_device_that_is_not_there(device):
    assert code(cu.cuDeviceGet(2)) == "INVALID_DEVICE"
    assert code(cu.cuDeviceGetAttribute(A.CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7)) == "INVALID_DEVICE"


def test_every_error_has_a_name_and_a_text(device):
    for result in cu.CUresult:
        assert call(cu.cuGetErrorName(result)).decode() == result.name
        assert call(cu.cuGetErrorString(result))


def test_the_table_is_consistent():
    for card in devices.CARDS.values():
        attributes = devices.attributes(card, 0)
        assert attributes[97] + attributes[111] == attributes[81]  # opt-in + reserved = all of an SM's shared memory
        assert attributes[16] * attributes[39] <= 132 * 2048
    assert [card.key for card in devices.parse("virtual:h100*3").cards] == ["h100"] * 3

"""Thread block clusters of more than one block are refused, whichever way they are asked for; of one block they work."""

import json
import subprocess
import sys

import pytest

NOT_THERE = "the virtual GPU has no thread block clusters of more than one block: launch without a cluster size"

PROGRAM = r"""
import ctypes, json
from grader import vgpu
vgpu.activate("h100")
from cuda.bindings import driver as cu
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from grader.vgpu.driver import abi

PTX = '''
.version 8.0
.target sm_90
.address_size 64
.visible .entry NAME(.param .u64 out) DIRECTIVES
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<6>;
    .shared .align 4 .b8 s[4];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %cluster_nctarank;
    mov.u32 %r2, %cluster_ctaid.x;
    mov.u32 %r3, s;
    st.shared.u32 [%r3], 40;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r4, %r3, %r2;
    ld.shared::cluster.u32 %r5, [%r4];
    add.u32 %r1, %r1, %r5;
    st.global.u32 [%rd1], %r1;
    ret;
}
'''

def ok(result):
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else result[1:]

device = Device(0)
device.set_current()
out = ok(cu.cuMemAlloc(4))
found = {}

def kernel(name, directives=""):
    text = PTX.replace("NAME", name).replace("DIRECTIVES", directives).encode()
    return ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(text)), name.encode()))

def said(name, action):
    "What came of it: the error's name or the word that the kernel wrote, and what was said the last time."
    abi.SAID.clear()
    ok(cu.cuMemsetD32(out, 0, 1))
    try:
        error = action()
    except Exception as problem:
        error = str(problem)
    if isinstance(error, tuple):
        error = error[0].name
    ok(cu.cuCtxSynchronize())
    word = ctypes.c_uint32()
    ok(cu.cuMemcpyDtoH(ctypes.addressof(word), out, 4))
    found[name] = [error, word.value, " ".join(abi.SAID)]

def start(function, grid=(2, 1, 1), cluster=None):
    config = cu.CUlaunchConfig()
    (config.gridDimX, config.gridDimY, config.gridDimZ), config.blockDimX = grid, 32
    config.blockDimY = config.blockDimZ = 1
    if cluster:
        attribute = cu.CUlaunchAttribute()
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
        config.attrs, config.numAttrs = [attribute], 1
    return cu.cuLaunchKernelEx(config, function, ((int(out),), (ctypes.c_uint64,)), 0)

plain = kernel("plain")
said("no cluster", lambda: start(plain))
said("cluster of one", lambda: start(plain, cluster=(1, 1, 1)))
said("attribute", lambda: start(plain, cluster=(2, 1, 1)))
two = kernel("two", ".reqnctapercluster 2")
said("in the PTX", lambda: start(two))
said("in the PTX, cuLaunchKernel", lambda: cu.cuLaunchKernel(two, 2, 1, 1, 32, 1, 1, 0, 0, ((int(out),), (ctypes.c_uint64,)), 0))
said("in the PTX, another in the launch", lambda: start(two, cluster=(4, 1, 1)))
said("in the PTX, one", lambda: start(kernel("one", ".reqnctapercluster 1, 1, 1")))
explicit = kernel("explicit", ".explicitcluster")
said("explicit, not said", lambda: start(explicit))
said("explicit, one", lambda: start(explicit, cluster=(1, 1, 1)))
said("explicit, two", lambda: start(explicit, cluster=(2, 1, 1)))
A = cu.CUfunction_attribute
said("function attribute", lambda: cu.cuFuncSetAttribute(plain, A.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2))
said("function attribute of one", lambda: cu.cuFuncSetAttribute(plain, A.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 1))

graph, params = ok(cu.cuGraphCreate(0)), cu.CUDA_KERNEL_NODE_PARAMS()
params.func, params.gridDimX, params.gridDimY, params.gridDimZ = plain, 2, 1, 1
params.blockDimX, params.blockDimY, params.blockDimZ = 32, 1, 1
params.kernelParams = ((int(out),), (ctypes.c_uint64,))
node = ok(cu.cuGraphAddKernelNode(graph, None, 0, params))
value = cu.CUkernelNodeAttrValue()
value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = 2, 1, 1
ID = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
said("graph node", lambda: cu.cuGraphKernelNodeSetAttribute(node, ID, value))
said("the graph afterwards", lambda: cu.cuGraphLaunch(ok(cu.cuGraphInstantiate(graph, 0)), 0))

module = Program("extern \"C\" __global__ void k(unsigned *out) { *out = 41; }", "c++", ProgramOptions(arch="sm_90")).compile("ptx")
core = module.get_kernel("k")
said("cuda.core", lambda: launch(device.default_stream, LaunchConfig(grid=1, cluster=2, block=32), core, int(out)))
said("cuda.core, without", lambda: launch(device.default_stream, LaunchConfig(grid=2, block=32), core, int(out)))
config = cu.CUlaunchConfig()
said("occupancy", lambda: cu.cuOccupancyMaxActiveClusters(plain, config))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=400)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "way", ["no cluster", "cluster of one", "in the PTX, one", "explicit, one", "the graph afterwards"]
)
def test_a_block_is_a_cluster_of_its_own(found, way):
    error, word, said = found[way]
    assert word == 41 and not said, (error, said)  # %cluster_nctarank is 1, and 40 is read through mapa


@pytest.mark.parametrize(
    "way",
    [
        "attribute", "in the PTX", "in the PTX, cuLaunchKernel", "explicit, two", "function attribute", "graph node",
        "cuda.core", "occupancy",
    ],
)  # fmt: skip
def test_more_blocks_are_refused_with_a_sentence_and_nothing_runs(found, way):
    error, word, said = found[way]
    assert "CUDA_ERROR_NOT_SUPPORTED" in str(error) and word == 0
    assert NOT_THERE in said


def test_the_kernel_that_asks_for_it_is_named(found):
    assert found["in the PTX"][2].startswith("kernel two asks for clusters of (2, 1, 1) blocks (__cluster_dims__); ")


def test_a_launch_that_does_not_fit_the_kernel_is_refused_as_cuda_does(found):
    for way, words in (
        (
            "in the PTX, another in the launch",
            "was compiled for clusters of (2, 1, 1) blocks and is launched with (4, 1, 1)",
        ),
        ("explicit, not said", "kernel explicit has to be launched with a cluster size"),
    ):
        error, word, said = found[way]
        assert (error, word) == ("CUDA_ERROR_INVALID_CLUSTER_SIZE", 0) and words in said


def test_what_is_refused_leaves_kernels_as_they_were(found):
    assert found["function attribute of one"][0] == "CUDA_SUCCESS"
    assert found["cuda.core, without"][1:] == [41, ""]

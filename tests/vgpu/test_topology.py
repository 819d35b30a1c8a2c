"""Several virtual devices: how they are linked, what the driver says of it, and what copies between them cost."""

import json
import os
import subprocess
import sys

import pytest

from grader.vgpu import devices, topology
from grader.vgpu.driver import clock
from grader.vgpu.model.cards import timing

N = 16 << 20  # bytes of a copy

PROGRAM = """
import json, sys
from grader import vgpu
vgpu.activate(sys.argv[1])
from cuda.bindings import driver as cu
N = int(sys.argv[2])

def call(result):
    code, *values = result
    assert int(code) == 0, code
    return values[0] if len(values) == 1 else values

call(cu.cuInit(0))
devices = range(call(cu.cuDeviceGetCount()))
contexts = [call(cu.cuDevicePrimaryCtxRetain(d)) for d in devices]

class on:
    def __init__(self, d): self.d = d
    def __enter__(self): call(cu.cuCtxPushCurrent(contexts[self.d]))
    def __exit__(self, *_): call(cu.cuCtxPopCurrent())

def alloc(d):
    with on(d):
        return call(cu.cuMemAlloc(N))

own = [alloc(d) for d in devices]
host = call(cu.cuCtxPushCurrent(contexts[0])) or call(cu.cuMemHostAlloc(N, 1))
call(cu.cuCtxPopCurrent())

def together(copies):
    "Of copies (from, to) that are submitted at once, us: from first start to last end, and the longest; -1: the host"
    before = len(vgpu.spans())
    for a, b in copies:
        d = b if a < 0 else a
        with on(d):
            stream = call(cu.cuStreamCreate(1))
            if a < 0 or b < 0:
                dst, src = (own[b] if b >= 0 else host), (own[a] if a >= 0 else host)
                (cu.cuMemcpyHtoDAsync if a < 0 else cu.cuMemcpyDtoHAsync)(dst, src, N, stream)
            else:
                call(cu.cuMemcpyPeerAsync(own[b], contexts[b], own[a], contexts[a], N, stream))
    for d in devices:
        with on(d):
            call(cu.cuCtxSynchronize())
    spans = vgpu.spans()[before:]
    assert len(spans) == len(copies)
    return max(s.end_us for s in spans) - min(s.start_us for s in spans), max(s.end_us - s.start_us for s in spans)

P = cu.CUdevice_P2PAttribute
names = ("PERFORMANCE_RANK", "ACCESS_SUPPORTED", "NATIVE_ATOMIC_SUPPORTED")
attributes = {f"{a}{b}": [call(cu.cuDeviceGetP2PAttribute(getattr(P, f"CU_DEVICE_P2P_ATTRIBUTE_{n}"), a, b)) for n in names]
              + [call(cu.cuDeviceCanAccessPeer(a, b))] for a in devices for b in devices if a != b}
jobs = json.loads(sys.argv[3])
staged = {name: together(copies) for name, copies in jobs.items()}
if attributes["01"][1]:
    for a in devices:
        with on(a):
            for b in devices:
                if a != b:
                    call(cu.cuCtxEnablePeerAccess(contexts[b], 0))
direct = {name: together(copies) for name, copies in jobs.items()}
print(json.dumps({"attributes": attributes, "staged": staged, "direct": direct}))
"""

JOBS = {
    "01": [(0, 1)], "02": [(0, 2)], "20": [(2, 0)], "there and back": [(0, 2), (2, 0)],
    "one uplink": [(0, 2), (1, 3)], "uplinks of their own": [(0, 2), (4, 6)], "through switches": [(0, 1), (2, 3)],
    "one from two": [(0, 2), (1, 4)], "two to one switch": [(0, 2), (4, 3)],
    "host to 0": [(-1, 0)], "host to 0 and 1": [(-1, 0), (-1, 1)], "host to 0 and 2": [(-1, 0), (-1, 2)],
    "0 and 1 to host": [(0, -1), (1, -1)], "0 to 1, 0 to host": [(0, 1), (0, -1)], "0 to 1, 2 to host": [(0, 1), (2, -1)],
}  # fmt: skip


def run(name: str, visible: str | None = None) -> dict:
    """What the program above says on these devices."""
    jobs = {key: copies for key, copies in JOBS.items() if not visible}
    env = {**os.environ} | ({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    command = [sys.executable, "-c", PROGRAM, name, str(N), json.dumps(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def pcie() -> dict:
    return run("a100*8@pcie")


@pytest.fixture(scope="module")
def nvlink() -> dict:
    return run("a100*8@nvlink")


def us(gbs: float) -> float:
    """Of a copy at this rate."""
    return clock.COPY_LATENCY_US + N / gbs / 1e3


PCIE, NVLINK = timing("a100").pinned_to_device_gbs, timing("a100").nvlink_gbs


# ---------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("name", "key", "n", "linked"),
    [
        ("a100", "a100", 1, "nvlink"),
        ("virtual:", "a100", 1, "nvlink"),
        ("a100*4", "a100", 4, "nvlink"),
        ("virtual:a100*4@pcie", "a100", 4, "pcie"),
        ("A100*2@PCIe", "a100", 2, "pcie"),
        ("h100*16@nvlink", "h100", 16, "nvlink"),
        ("t4*3", "t4", 3, "pcie"),
        ("l4*2@pcie", "l4", 2, "pcie"),
    ],
)
def test_names_say_card_number_and_topology(name, key, n, linked):
    machine = devices.parse(name)
    assert ([card.key for card in machine.cards], machine.topology) == ([key] * n, linked)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a100*4@ring", "no topology is called 'ring'; there are nvlink, pcie, as in 'a100*4@pcie'"),
        ("a100*4@", "no topology is called ''; there are nvlink, pcie"),
        ("t4*2@nvlink", "'t4*2@nvlink' asks for NVLink, which the Tesla T4 does not have; 't4*2@pcie' works"),
        ("a100@pcie*4", "no topology is called 'pcie*4'"),
        ("nothing*2@pcie", "no virtual GPU is called 'nothing'"),
        ("a100*17@pcie", "'a100*17@pcie' asks for 17 devices; 1 to 16 are possible"),
    ],
)
def test_other_names_are_refused_with_what_there_is(name, said):
    with pytest.raises(ValueError) as refused:
        devices.parse(name)
    assert said in str(refused.value)


def test_an_at_in_a_files_path_is_no_topology():
    with pytest.raises(ValueError, match=r"the card file my@home/none\.toml cannot be read"):
        devices.parse("my@home/none.toml*2@pcie")
    with pytest.raises(ValueError, match=r"the card file a@b\.toml cannot be read"):
        devices.parse("a@b.toml")


def test_the_command_line_takes_the_names_and_shows_the_paths(tmp_path, capsys):
    from grader import cli
    from grader.devices import UnknownDevice, resolve

    assert resolve("A100*4@PCIe") == resolve("virtual:a100*4@pcie") == "virtual:a100*4@pcie"
    assert resolve("virtual:My/Card.toml*2@pcie") == "virtual:My/Card.toml*2@pcie"
    with pytest.raises(UnknownDevice, match="a100\\*4@pcie"):
        resolve("v100@pcie")
    assert cli.main(["devices", "a100*3@pcie"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[:4] == [
        ["GPU0", "GPU1", "GPU2"],
        ["GPU0", "X", "PIX", "PHB"],
        ["GPU1", "PIX", "X", "PHB"],
        ["GPU2", "PHB", "PHB", "X"],
    ]
    assert cli.main(["devices", "h100*2"]) == 0
    assert "X   NV18" in capsys.readouterr().out
    assert cli.main(["devices", "a100*3@star"]) == 2
    assert "no topology is called 'star'" in capsys.readouterr().err


def test_a_process_has_one_topology():
    import grader.vgpu

    assert len(grader.vgpu.activate("a100*2@nvlink")) == len(grader.vgpu.activate("a100")) == 2
    assert grader.vgpu.describe() == "2 x NVIDIA A100-SXM4-80GB linked by NVLink"
    with pytest.raises(RuntimeError, match="already has the virtual GPU 2 x NVIDIA A100-SXM4-80GB linked by NVLink"):
        grader.vgpu.activate("a100*2@pcie")


def test_paths():
    a100, h200 = devices.CARDS["a100"], devices.CARDS["h200"]
    assert [topology.path("pcie", a100, 2, k) for k in range(5)] == ["PHB", "PHB", "X", "PIX", "PHB"]
    assert topology.path("nvlink", a100, 0, 7) == "NV12" and topology.path("nvlink", h200, 3, 0) == "NV18"


# ---------------------------------------------------------------- what the driver says
def test_attributes_of_the_tree(pcie):
    near, far = [0, 1, 0, 1], [1, 1, 0, 1]  # rank, access, native atomics, can access
    said = pcie["attributes"]
    assert said["01"] == said["10"] == said["67"] == near
    assert said["02"] == said["12"] == said["07"] == far


def test_attributes_of_nvlink(nvlink):
    assert set(map(tuple, nvlink["attributes"].values())) == {(0, 1, 1, 1)}


def test_geforce_cards_reach_each_other_through_host_memory_only():
    said = run("rtx4090*4", visible="0,1,2")["attributes"]
    assert said["01"] == [0, 0, 0, 0] and said["02"] == [1, 0, 0, 0]


def test_a_hidden_device_leaves_the_others_where_they_are():
    said = run("a100*4@pcie", visible="1,2,3")["attributes"]
    assert (said["01"][0], said["12"][0]) == (1, 0)  # places 1 and 2, 2 and 3


# ---------------------------------------------------------------- what copies cost
ALL, LONGEST = 0, 1


def test_peer_copies_in_the_tree_go_at_the_rate_of_their_path(pcie):
    direct, staged = pcie["direct"], pcie["staged"]
    assert direct["01"][ALL] == pytest.approx(us(0.98 * PCIE))
    assert direct["02"][ALL] == direct["20"][ALL] == pytest.approx(us(0.4 * PCIE))
    assert staged["01"][ALL] == staged["02"][ALL] == pytest.approx(us(0.78 * PCIE))


def test_peer_copies_over_nvlink_go_at_its_rate_and_without_access_through_the_host(nvlink):
    assert nvlink["direct"]["01"][ALL] == nvlink["direct"]["02"][ALL] == pytest.approx(us(0.84 * NVLINK))
    assert nvlink["staged"]["02"][ALL] == pytest.approx(us(0.78 * PCIE))


@pytest.mark.parametrize("name", ["one uplink", "one from two", "two to one switch"])
def test_pairs_that_share_an_uplink_take_twice_as_long(pcie, name):
    assert pcie["direct"][name][ALL] / pcie["direct"]["02"][ALL] == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("name", ["uplinks of their own", "there and back"])
def test_pairs_that_share_none_take_no_longer(pcie, name):
    for way in ("direct", "staged"):
        assert pcie[way][name][LONGEST] == pytest.approx(pcie[way]["02"][ALL])


def test_pairs_under_switches_of_their_own_take_no_longer(pcie):
    assert pcie["direct"]["through switches"][LONGEST] == pytest.approx(pcie["direct"]["01"][ALL])


def test_through_host_memory_the_second_pair_gets_what_the_first_leaves_of_the_uplink(pcie):
    """0.22 of it while the first takes 0.78, then as much as it can use."""
    expected = 1 + (1 - 0.22 / 0.78)
    assert pcie["staged"]["one uplink"][ALL] / pcie["staged"]["02"][ALL] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ["one uplink", "uplinks of their own", "through switches", "there and back"])
def test_over_nvlink_pairs_share_nothing(nvlink, name):
    assert nvlink["direct"][name][LONGEST] == pytest.approx(nvlink["direct"]["01"][ALL])


def test_copies_from_and_to_the_host_share_the_uplink_in_the_tree_only(pcie, nvlink):
    for machine, times in ((pcie, 2), (nvlink, 1)):
        found = machine["direct"]
        assert found["host to 0"][ALL] == pytest.approx(us(PCIE))
        assert found["host to 0 and 1"][ALL] / found["host to 0"][ALL] == pytest.approx(times, rel=0.01)
        assert found["host to 0 and 2"][LONGEST] == pytest.approx(found["host to 0"][ALL])
    back = timing("a100").pinned_to_host_gbs
    assert pcie["direct"]["0 and 1 to host"][ALL] == pytest.approx(2 * us(back), rel=0.01)


def test_a_copy_through_the_switch_leaves_the_uplink_to_others(pcie):
    found = pcie["direct"]
    assert found["0 to 1, 2 to host"][LONGEST] == pytest.approx(found["01"][ALL])
    assert found["0 to 1, 0 to host"][ALL] > 1.9 * found["01"][ALL]  # both out of one device


def test_every_run_gives_the_same_times(pcie):
    assert run("a100*8@pcie") == pcie

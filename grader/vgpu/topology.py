"""How the virtual devices of one machine are linked, chosen by name: NVLink between all of them, or a tree of PCIe switches.

nvlink: each device reaches every other one at its whole NVLink rate, through NVSwitch; each has a PCIe link to the host
of its own.

pcie: two devices under each switch, the switches under one host bridge. The two reach each other through their switch;
what goes to the host or to another switch takes the switch's uplink, which the two share. That the uplink is as wide as
one device's link is assumed: x16 both.

Paths have the names of `nvidia-smi topo -m`: NV#, PIX, PHB (NVIDIA's legend, as in https://github.com/NVIDIA/nccl/issues/814
and https://github.com/NVIDIA/nccl/issues/1357, where eight H100 are NV18 from each other). SYS, from one socket to
another, does not occur: there is one host bridge.
"""

from __future__ import annotations

from grader.vgpu import devices
from grader.vgpu.model.cards import timing

PER_SWITCH = 2  # devices
NVLINK_GBS = 25  # of one link in one direction, NVLink 2 to 4: 600 GB/s of 12 links (A100), 900 of 18 (H100), both ways

LEGEND = {
    "NV": "that many NVLinks",
    "PIX": "PCIe, through one switch",
    "PHB": "PCIe, through the host bridge",
}


def path(topology: str, card: devices.Card, a: int, b: int) -> str:
    """What lies between the devices in places a and b of the machine: "X" (one device), "NV12", "PIX", "PHB"."""
    if a == b:
        return "X"
    if topology == "nvlink":
        return f"NV{timing(card.key).nvlink_gbs / NVLINK_GBS:.0f}"
    return "PIX" if a // PER_SWITCH == b // PER_SWITCH else "PHB"


def matrix(machine: devices.Machine) -> str:
    """The paths between all devices as a table, and what their names mean."""
    n = len(machine.cards)
    paths = [[path(machine.topology, machine.cards[0], a, b) for b in range(n)] for a in range(n)]
    rows = ["".join(f"{cell:>7}" for cell in ["", *(f"GPU{k}" for k in range(n))])]
    rows += [f"{f'GPU{a}':>7}" + "".join(f"{cell:>7}" for cell in row) for a, row in enumerate(paths)]
    found = {cell.rstrip("0123456789") for row in paths for cell in row}
    rows += [f"{name + '#' * (name == 'NV'):>7}  {words}" for name, words in LEGEND.items() if name in found]
    return "\n".join(rows)

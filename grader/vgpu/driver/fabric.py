"""What links the devices of a machine, and what a copy takes of it: devices' links, switches' uplinks, the host bridge.

Links are resources of the clock, with a part for each direction. See `grader.vgpu.topology` for the two shapes.
"""

from __future__ import annotations

from grader.vgpu import devices, topology
from grader.vgpu.driver.clock import PEER, Resource


class Switch:
    """A PCIe switch with its link to the host bridge."""

    def __init__(self):
        self.up, self.down = Resource(), Resource()
        # What the host bridge turns round, from this switch and to it. No source says what two copies get of it that
        # share a port of the bridge; assumed: together what one gets.
        self.turned_up, self.turned_down = Resource(), Resource()


class Fabric:
    """The links between the devices of one machine, and between them and the host."""

    def __init__(self, machine: devices.Machine):
        self.topology = machine.topology
        n = len(machine.cards) if machine.topology == "pcie" else 1
        self._switches = [Switch() for _ in range(0, n, topology.PER_SWITCH)] if n > 1 else []

    def path(self, a, b) -> str:
        """Between two Devices, as `topology.path`."""
        return topology.path(self.topology, a.card, a.place, b.place)

    def to_host(self, device) -> list[Resource]:
        """The links from a Device to host memory."""
        return [device.resources["out"], *(switch.up for switch in self._above(device))]

    def from_host(self, device) -> list[Resource]:
        """The links from host memory to a Device."""
        return [*(switch.down for switch in self._above(device)), device.resources["in"]]

    def route(self, source, to, direct: bool) -> str:
        """The way of a copy between two Devices, a key of `clock.PEER`. direct: with peer access."""
        if not direct:
            return "staged"
        return {"PIX": "switch", "PHB": "bridge"}.get(self.path(source, to), "nvlink")

    def between(self, source, to, route: str) -> tuple[tuple[Resource, float], ...]:
        """(resource, part of it that full speed takes) of a copy from Device to Device."""
        if route == "nvlink":
            return (source.resources["nvlink out"], 1.0), (to.resources["nvlink in"], 1.0)
        if route == "switch":
            links = [source.resources["out"], to.resources["in"]]
        else:
            links = [*self.to_host(source), *self.from_host(to)]
        needs = tuple((link, PEER[route]) for link in links)
        if route == "bridge":
            turned = [switch.turned_up for switch in self._above(source)]
            turned += [switch.turned_down for switch in self._above(to)]
            needs += tuple((link, 1.0) for link in turned)
        return needs

    def _above(self, device) -> list[Switch]:
        """The switch that a Device is under; none where each has a port of its own."""
        return [self._switches[device.place // topology.PER_SWITCH]] if self._switches else []

"""What a real card says of itself, with a stand-in for the library; and where there is none."""

import os
from types import SimpleNamespace

from grader.devices.nvml import Nvml


class Library:
    """As cuda.bindings.nvml, with one card."""

    class NvmlError(Exception):
        pass

    pids = (os.getpid(), 4711)
    reasons = 0x04 | 0x40 | 0x01
    temperature = 61

    def init_v2(self):
        pass

    def device_get_handle_by_pci_bus_id_v2(self, bus):
        if bus != "0000:01:00.0":
            raise self.NvmlError("not found")
        return 7

    def device_get_current_clocks_event_reasons(self, card):
        return self.reasons

    def device_get_compute_running_processes_v3(self, card):
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def device_get_clock_info(self, card, clock):
        return {1: 1980}[clock]

    def device_get_temperature_v(self, card, sensor):
        if self.temperature is None:
            raise self.NvmlError("not supported")
        return self.temperature


def test_a_card_tells_its_clock_what_slows_it_and_who_else_is_there():
    card = Nvml("0000:01:00.0", Library())
    assert card.why == ""
    assert card.state() == {"sm_mhz": 1980, "celsius": 61, "slowed": ["heat", "power"], "strangers": 1}


def test_a_card_that_is_not_there_or_does_not_tell_is_said_why():
    assert Nvml("0000:02:00.0", Library()).why == "NvmlError: not found"
    silent = Library()
    silent.temperature = None
    card = Nvml("0000:01:00.0", silent)
    assert (card.state(), card.why) == (None, "NvmlError: not supported")


def test_without_a_driver_there_is_a_reason_and_no_state():
    card = Nvml("ffff:ff:1f.7")  # no machine has a card there
    assert card.state() is None
    assert card.why

"""What a real card says of itself, best effort, through the management library that comes with its driver.

Only reads: no setting of the card is ever changed. https://docs.nvidia.com/deploy/nvml-api/
"""

import os

# Bits of nvmlClocksEventReasons that make a card slower than it could be; the others are choices or idleness.
SLOWED = {0x04: "power", 0x08: "hardware", 0x20: "heat", 0x40: "heat", 0x80: "power brake"}
_SM, _GPU_SENSOR = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU


class Nvml:
    """One card. `why` says why there is nothing to be had from it, when there is nothing."""

    def __init__(self, pci_bus_id: str, library=None):
        """library: stands in for cuda.bindings.nvml."""
        self.why, self._card = "", None
        try:
            if library is None:
                from cuda.bindings import nvml as library
        except ImportError as e:
            self.why = f"cuda.bindings.nvml is missing: {e}"
            return
        self._nvml, self._errors = library, (library.NvmlError, RuntimeError, OSError)
        try:
            library.init_v2()
            self._card = library.device_get_handle_by_pci_bus_id_v2(pci_bus_id)
        except self._errors as e:
            self._give_up(e)
        self.state()

    def state(self) -> dict | None:
        """As grader.evidence.CardState; None when the card does not tell."""
        if self._card is None:
            return None
        try:
            return self._read()
        except self._errors as e:  # not supported here, or lost: time without it
            self._give_up(e)
            return None

    def _read(self) -> dict:
        reasons = self._nvml.device_get_current_clocks_event_reasons(self._card)
        others = [p for p in self._nvml.device_get_compute_running_processes_v3(self._card) if p.pid != os.getpid()]
        return {
            "sm_mhz": int(self._nvml.device_get_clock_info(self._card, _SM)),
            "celsius": int(self._nvml.device_get_temperature_v(self._card, _GPU_SENSOR)),
            "slowed": sorted({why for bit, why in SLOWED.items() if reasons & bit}),
            "strangers": len(others),
        }

    def _give_up(self, error: Exception) -> None:
        self._card = None
        self.why = f"{type(error).__name__}: {error}".split("\n")[0]

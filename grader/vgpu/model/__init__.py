"""The clock: how long a kernel takes on a card, and what it waits for. Times are modelled, never measured."""

from .cards import Timing, timing
from .estimate import Estimate, kernel_time
from .occupancy import Occupancy, occupancy

__all__ = ["Estimate", "Occupancy", "Timing", "kernel_time", "occupancy", "timing"]

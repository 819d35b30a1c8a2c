"""What a kernel did, under Nsight Compute's names: exact counters, and beside them what the clock makes of them."""

from .collect import Collected, collect
from .report import Metric, Profile, profile

__all__ = ["Collected", "Metric", "Profile", "collect", "profile"]

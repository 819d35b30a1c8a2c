"""Memory, modules and launches: what the driver asks of the machine."""

from ..sanitize.findings import Fault, Finding
from .launch import Counters, LaunchOptions, LaunchResult, launch
from .memory import POISON, Allocation, Memory
from .module import Kernel, Module, ModuleError

__all__ = [
    "POISON", "Allocation", "Counters", "Fault", "Finding", "Kernel", "LaunchOptions", "LaunchResult", "Memory", "Module",
    "ModuleError", "launch",
]  # fmt: skip

"""Theoretical occupancy: how many blocks an SM holds at once, and what limits it.

The rules are those of NVIDIA's occupancy calculator (CUDA C++ Programming Guide, "Compute Capabilities", and
cuda_occupancy.h): an SM has warp slots, block slots, 65536 registers in four parts, given to warps in units of 256, and
shared memory, rounded up, with 1 KiB a block for the system from cc 8.0 on.
"""

from dataclasses import dataclass

KIB = 1024
REGISTERS = 65536  # per SM
REGISTER_UNIT = 256  # a warp's registers are rounded up to this
PARTS = 4  # of an SM, each with its own warps and registers
MAX_REGISTERS = 255  # a thread


@dataclass(frozen=True)
class SM:
    """What an SM of a compute capability holds."""

    warps: int
    blocks: int
    shared: int  # bytes
    shared_a_block: int  # bytes, the most, opted in
    reserved: int  # bytes of each block that the system takes
    unit: int  # bytes to which a block's shared memory is rounded up


SMS = {
    (7, 0): SM(64, 32, 96 * KIB, 96 * KIB, 0, 256),
    (7, 5): SM(32, 16, 64 * KIB, 64 * KIB, 0, 256),
    (8, 0): SM(64, 32, 164 * KIB, 163 * KIB, KIB, 128),
    (8, 6): SM(48, 16, 100 * KIB, 99 * KIB, KIB, 128),
    (8, 9): SM(48, 24, 100 * KIB, 99 * KIB, KIB, 128),
    (9, 0): SM(64, 32, 228 * KIB, 227 * KIB, KIB, 128),
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks that an SM holds, by each resource and in all."""

    blocks: int
    warps: int  # active
    max_warps: int
    limits: dict[str, int]  # resource -> blocks that it allows: "warps", "blocks", "registers", "shared memory"

    @property
    def ratio(self) -> float:
        """Theoretical occupancy, 0 to 1."""
        return self.warps / self.max_warps

    @property
    def limited_by(self) -> list[str]:
        """The resources that allow no more."""
        return [name for name, n in self.limits.items() if n == self.blocks]


def occupancy(cc: tuple[int, int], threads: int, registers: int, shared: int) -> Occupancy:
    """Occupancy of blocks of `threads` threads with so many registers each.

    shared: a block's bytes, static and dynamic. Raises KeyError for a compute capability that is not in SMS.
    """
    sm = SMS[cc]
    warps = max(1, -(-threads // 32))
    limits = {"warps": sm.warps // warps, "blocks": sm.blocks}
    limits["registers"] = _by_registers(sm, warps, registers)
    taken = -(-(shared + sm.reserved) // sm.unit) * sm.unit
    limits["shared memory"] = 0 if shared > sm.shared_a_block else sm.shared // taken if taken else sm.blocks
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, sm.warps, limits)


def _by_registers(sm: SM, warps: int, registers: int) -> int:
    if not registers:
        return sm.blocks
    if registers > MAX_REGISTERS:
        return 0
    a_warp = -(-registers * 32 // REGISTER_UNIT) * REGISTER_UNIT
    if a_warp * -(-warps // PARTS) * PARTS > REGISTERS:
        return 0  # the launch check takes all parts to hold as many warps as the fullest
    return REGISTERS // PARTS // a_warp * PARTS // warps

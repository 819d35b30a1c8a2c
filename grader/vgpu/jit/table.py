"""The opcode table: rows register themselves with @op; `find` gives the row of an instruction or refuses it.

A row names its mnemonic, the types and the modifiers that it takes, and a function that lowers one instruction. To add an
opcode, write such a function in the ops_*.py file of its chapter of the PTX ISA manual, and a row test.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..ptx.parse import Instr, PtxError


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    types: frozenset
    modifiers: frozenset
    lower: Callable


ROWS: dict[str, Row] = {}

INTEGERS = "s16 u16 s32 u32 s64 u64"
BITS = "b16 b32 b64"
FLOATS = "f32 f64"


def op(names: str, types: str = "", modifiers: str = ""):
    """Add one row for each of `names`: `types` and `modifiers` are the suffixes it may carry."""

    def register(lower):
        for name in names.split():
            if name in ROWS:
                raise ValueError(f"two rows for {name}")
            ROWS[name] = Row(name, frozenset(types.split()), frozenset(modifiers.split()), lower)
        return lower

    return register


def find(instr: Instr) -> Row:
    """The row with the longest matching name. Raises PtxError naming opcode, line and where the table is."""
    parts = instr.parts
    for n in range(min(4, len(parts)), 0, -1):
        row = ROWS.get(".".join(parts[:n]))
        if row is not None:
            unknown = [p for p in parts[n:] if p not in row.types and p not in row.modifiers]
            if not unknown:
                return row
            raise PtxError(
                f"line {instr.line}: {instr.op} is not supported by the virtual GPU: no .{unknown[0]} in the row of "
                f"{row.name} (grader/vgpu/jit/ops_*.py)"
            )
    raise PtxError(
        f"line {instr.line}: {instr.op} is not supported by the virtual GPU (no row in grader/vgpu/jit/ops_*.py)"
    )

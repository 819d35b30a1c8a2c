"""Which of a kernel's parameters it may store through: where pointers go, whatever way the program takes.

Registers hold what has been computed from a parameter; an address that is computed from it may lie in its array. What
is read back from memory of the kernel's own (a local array, the stack of a kernel compiled for a debugger) may be any of
the parameters. Pointers that are read from the program's memory are nobody's parameter.
"""

from .cfg import dest_and_sources, registers
from .parse import TYPE_BYTES, Instr, Mem, Sym

WORD = 8  # bytes of a pointer
_OWN = {"global", "shared", "const", "param"}  # spaces in which a kernel keeps none of its pointers
_ADDRESS = {"st": 0, "red": 0, "cp": 0, "atom": 1}  # which operand says where it is written


def stored_through(code: list, params: dict[str, int]) -> frozenset[int] | None:
    """Offsets in the parameter block of the words through which the kernel may write memory; None: all of them.

    code: flat, as ptx/inline.py gives it; params: the offset of each parameter of the kernel.
    """
    held: dict[str, set] = {}  # register -> the words that it was computed from; None stands for all
    instrs = [item for item in code if isinstance(item, Instr)]
    grown = True
    while grown:
        grown = False
        for instr in instrs:
            dests, sources = dest_and_sources(instr)
            words = _loaded(instr, params)
            if words is None:
                words = set().union(*(held.get(r.name, ()) for s in sources for r in registers(s)))
            for dest in dests if words else ():
                known = held.setdefault(dest.name, set())
                if dest.kind != "pred" and not words <= known:
                    known |= words
                    grown = True
    found = set()
    for instr in instrs:
        at = _ADDRESS.get(instr.parts[0])
        if at is not None and not {"shared", "local"} & set(instr.parts[:2]):
            found |= {word for r in registers(instr.args[at]) for word in held.get(r.name, ())}
    return None if None in found else frozenset(found)


def _loaded(instr: Instr, params: dict[str, int]) -> set | None:
    """The words that a load may bring; None for an instruction that computes."""
    if instr.parts[0] not in ("ld", "ldu", "atom"):
        return None
    where = instr.args[1]
    if "param" in instr.parts:
        if isinstance(where, Mem) and isinstance(where.base, Sym) and where.base.name in params:
            first = params[where.base.name] + where.base.offset + where.offset
            width = TYPE_BYTES[instr.parts[-1]] * (2 if "v2" in instr.parts else 4 if "v4" in instr.parts else 1)
            return set(range(first // WORD * WORD, first + width, WORD))
        return {None}
    wide = TYPE_BYTES.get(instr.parts[-1], 0) == WORD and instr.parts[-1] != "f64"
    return {None} if wide and not _OWN & set(instr.parts) else set()

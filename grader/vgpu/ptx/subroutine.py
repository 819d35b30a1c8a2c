"""Functions that may call themselves: each has one copy of its code in the kernel, and a stack in local memory.

A call sets the parameters and the number of the place to return to, and branches. A call from within such a function
first puts the registers that it will need again on the stack; the function's local variables lie there too.
"""

from .cfg import compute_liveness, dest_and_sources, link, registers, split
from .parse import TYPE_BYTES, Function, Imm, Instr, Label, Mem, Reg, Sym, Variable, Vec

STACK_BYTES = 16 << 10  # a thread
STACK = "$stack"
POINTER = Reg("%stack", "b64")


def direct_calls(function: Function) -> set[str]:
    """Names of the functions that it calls by name."""
    calls = (i for i in function.code if isinstance(i, Instr) and i.parts[0] == "call")
    return {i.args[0].name for i in calls if isinstance(i.args[0], Label)}


def pointer_calls(function: Function) -> list[Instr]:
    """Its calls through pointers."""
    calls = (i for i in function.code if isinstance(i, Instr) and i.parts[0] == "call")
    return [i for i in calls if isinstance(i.args[0], Reg)]


def symbols(operand) -> set[str]:
    """Names of variables and functions whose address an operand takes."""
    if isinstance(operand, Sym):
        return {operand.name}
    if isinstance(operand, Mem):
        return symbols(operand.base)
    if isinstance(operand, (tuple, list)):
        return set().union(*map(symbols, operand)) if operand else set()
    return symbols(list(operand.items)) if hasattr(operand, "items") else set()


class Subroutines:
    """Those of one kernel. `flat`: the kernel's code as it grows (ptx/inline.py)."""

    def __init__(self, module, flat):
        self.module, self.flat = module, flat
        defined = {f.name: f for f in module.functions.values() if not f.is_entry and not f.declared_only}
        taken = {sym.name for v in module.variables.values() for _, sym in v.relocations}
        for function in module.functions.values():
            for item in function.code:
                if isinstance(item, Instr) and item.parts[0] != "call":
                    taken |= symbols(item.args)
        self._taken = [f for name, f in defined.items() if name in taken]
        edges = {name: direct_calls(f) & defined.keys() for name, f in defined.items()}
        for name, function in defined.items():
            for item in pointer_calls(function):
                edges[name] |= {candidate.name for candidate in self.candidates(item)}
        self._recursive = {name for name in edges if name in _reached(edges, name)}
        self._sites: dict[str, int] = {}  # function -> calls of it so far
        self._bodies: dict[str, list] = {}
        self._inside: str | None = None  # the one whose body is being written

    def candidates(self, item: Instr) -> list[Function]:
        """Functions that a call through a pointer may mean: their address is taken, and the parameters agree."""
        shape = (len(item.args[1]), len(item.args[2]))
        return [f for f in self._taken if (len(f.returns), len(f.params)) == shape]

    def has(self, name: str) -> bool:
        """True for a function that may call itself."""
        return name in self._recursive

    def call(self, callee: Function, item: Instr, returns: list, args: list):
        """Append a call. What is to be saved is known, and put in, when all is written."""
        name, flat = callee.name, self.flat
        number = self._sites[name] = self._sites.get(name, 0) + 1
        after = Label(f"$after{suffix(name)}.{number}")
        if self._inside is not None:
            flat.code.append(_make(SAVE, item, after))
        for (param, _, size), arg in zip(callee.params, args, strict=True):
            flat.code += flat.slots.copy(param + suffix(name), arg, size, item)
        if name not in self._bodies:
            self._write(callee)
        flat.code.append(_make("mov.b32", item, _return_to(name), Imm(number)))
        flat.code.append(_make("bra", item, Label(_entry(name))))
        flat.code.append(after)
        for (place, _, size), mine in zip(callee.returns, returns, strict=True):
            flat.code += flat.slots.copy(mine.name, Sym(place + suffix(name)), size, item)
        if self._inside is not None:
            flat.code.append(_make(RESTORE, item, after))

    def _write(self, function: Function):
        """The function's code, in a list of its own for now."""
        flat, name = self.flat, function.name
        self._bodies[name] = []
        outer, inside = flat.code, self._inside
        flat.code, self._inside = self._bodies[name], name
        flat.code.append(Label(_entry(name)))
        for place, offset, bits in _results(function):  # known before the first call that reads them
            flat.slots.put(place + suffix(name), offset, bits)
        flat.body(function, suffix(name), _end(name))
        flat.code.append(Label(_end(name)))
        flat.code, self._inside = outer, inside

    def finish(self):
        """Put the bodies after the kernel's own code, and the stack pointer's first value before it."""
        if not self._bodies:
            return
        flat = self.flat
        flat.code.insert(0, _make("mov.u64", None, POINTER, Sym(STACK)))
        flat.code.append(_make("ret", None))
        for name, body in self._bodies.items():
            flat.code += self._completed(name, body)
        flat.variables[STACK] = Variable(STACK, "local", 16, STACK_BYTES)

    def _registers_of_results(self, name: str) -> list[Reg]:
        """Those that hold what the function returns."""
        returns = self.module.functions[name].returns
        return [r for place, _, _ in returns for r in self.flat.slots.stored.get(place + suffix(name), {}).values()]

    def _completed(self, name: str, body: list) -> list:
        """The body with local variables on the stack, registers saved around calls, and the way back."""
        places, size = _frame(body, self.flat.variables)
        results = {r for other in self._bodies for r in self._registers_of_results(other)}
        live = _live_at_labels(body, [*self._registers_of_results(name), _return_to(name)])
        out = []
        for item in body:
            if isinstance(item, Label):
                out.append(item)
            elif item.op == SAVE:
                saved = sorted(live[item.args[0].name] - results, key=lambda reg: reg.name)
                bump = (size + 8 * len(saved) + 15) // 16 * 16
                for k, reg in enumerate(saved):
                    out += _push(reg, size + 8 * k, item)
                out.append(_make("add.s64", item, POINTER, POINTER, Imm(bump)))
            elif item.op == RESTORE:
                saved = sorted(live[item.args[0].name] - results, key=lambda reg: reg.name)
                bump = (size + 8 * len(saved) + 15) // 16 * 16
                out.append(_make("add.s64", item, POINTER, POINTER, Imm(-bump)))
                for k, reg in enumerate(saved):
                    out += _pop(reg, size + 8 * k, item)
            else:
                out += _on_the_stack(item, places)
        for number in range(1, self._sites[name] + 1):
            here = Reg(f"%here{suffix(name)}.{number}", "pred")
            out.append(_make("setp.eq.u32", None, here, _return_to(name), Imm(number)))
            out.append(Instr("bra", ("bra",), [Label(f"$after{suffix(name)}.{number}")], here))
        out.append(_make("trap", None))
        return out


SAVE, RESTORE = "$save", "$restore"  # stand in a body, until it is completed, before and after a call


def suffix(name: str) -> str:
    """What tells the registers and labels of a function's copy from others."""
    return f"#{name}"


def _entry(name: str) -> str:
    return f"$entry{suffix(name)}"


def _end(name: str) -> str:
    return f"$end{suffix(name)}"


def _return_to(name: str) -> Reg:
    """Holds the number of the call to return to."""
    return Reg(f"%return{suffix(name)}", "b32")


def _make(op: str, like: Instr | None, *args) -> Instr:
    line, file = (like.line, like.file) if like is not None else (0, 0)
    return Instr(op, tuple(op.split(".")), list(args), None, False, line, file)


def _reached(edges: dict[str, set], start: str) -> set[str]:
    """What can be reached from `start` in one step or more."""
    seen, work = set(), [start]
    while work:
        for name in edges[work.pop()]:
            if name not in seen:
                seen.add(name)
                work.append(name)
    return seen


def _results(function: Function) -> list[tuple[str, int, int]]:
    """(return parameter, offset, bits) of what the function stores there."""
    names, out = {name for name, _, _ in function.returns}, []
    for item in function.code:
        if isinstance(item, Instr) and item.parts[0] == "st" and "param" in item.parts:
            mem, value = item.args
            if isinstance(mem.base, Sym) and mem.base.name in names:
                bits = 8 * TYPE_BYTES[item.parts[-1]]
                count = len(value.items) if isinstance(value, Vec) else 1
                out += [(mem.base.name, mem.offset + k * bits // 8, bits) for k in range(count)]
    return out


def _frame(body: list, variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Where the local variables that the body uses lie in its frame, and the frame's size."""
    used = set().union(*(symbols(item.args) for item in body if isinstance(item, Instr)))
    places, size = {}, 0
    for v in variables.values():
        if v.space == "local" and v.name in used:
            size = (size + v.align - 1) // v.align * v.align
            places[v.name] = size
            size += v.nbytes
    return places, (size + 7) // 8 * 8


def _live_at_labels(body: list, at_end: list[Reg]) -> dict[str, set[Reg]]:
    """Label -> registers whose values are still needed there.

    To its caller a call is something that reads: what it overwrites is put back, and it goes on at the label after it.
    """
    straight, calling = [], False
    for item in body:
        if isinstance(item, Label):
            calling = calling and not item.name.startswith("$after")
            straight.append(item)
        elif item.op == SAVE:
            calling = True
        elif calling:
            straight.append(_make("$read", item, Imm(0), *dest_and_sources(item)[1]))
        else:
            straight.append(item)
    blocks = split([*straight, _make("ret", None, *at_end)])
    link(blocks)
    compute_liveness(blocks)
    named = {
        r.name: r for block in blocks for i in block.instrs for side in dest_and_sources(i) for r in registers(side)
    }
    return {label: {named[name] for name in block.live_in} for block in blocks for label in block.labels}


def _push(reg: Reg, offset: int, like: Instr) -> list[Instr]:
    """Put a register on the stack."""
    if reg.kind == "pred":
        flag = Reg(f"{reg.name}@flag", "b32")
        return [_make("selp.b32", like, flag, Imm(1), Imm(0), reg), *_push(flag, offset, like)]
    return [_make(f"st.local.b{8 * TYPE_BYTES[reg.kind]}", like, Mem(POINTER, offset), reg)]


def _pop(reg: Reg, offset: int, like: Instr) -> list[Instr]:
    """Take it from there."""
    if reg.kind == "pred":
        flag = Reg(f"{reg.name}@flag", "b32")
        return [*_pop(flag, offset, like), _make("setp.ne.u32", like, reg, flag, Imm(0))]
    return [_make(f"ld.local.b{8 * TYPE_BYTES[reg.kind]}", like, reg, Mem(POINTER, offset))]


def _on_the_stack(item: Instr, places: dict[str, int]) -> list[Instr]:
    """The instruction with the addresses of local variables taken from the stack pointer."""
    before = []

    def moved(operand):
        if isinstance(operand, Mem) and isinstance(operand.base, Sym) and operand.base.name in places:
            return Mem(POINTER, places[operand.base.name] + operand.base.offset + operand.offset)
        if isinstance(operand, Sym) and operand.name in places:
            place = Reg(f"%place{operand.name}+{operand.offset}", "b64")
            before.append(_make("add.s64", item, place, POINTER, Imm(places[operand.name] + operand.offset)))
            return place
        return operand

    args = [moved(operand) for operand in item.args]
    return [*before, Instr(item.op, item.parts, args, item.pred, item.pred_neg, item.line, item.file)]

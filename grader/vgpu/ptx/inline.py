"""Inline every call of a PTX function into its caller, so that a kernel is one flat list of instructions.

Parameters of .func and of call sequences live in the .param space; each (variable, byte offset) becomes a register,
and st.param/ld.param on it become moves (ptx/params.py). A call through a pointer becomes a choice among the functions
whose address the program takes. Functions that may call themselves are not inlined: ptx/subroutine.py gives each a
place of its own.
"""

from . import subroutine
from .params import Slots
from .parse import Function, Imm, Instr, Label, Mem, PtxError, PtxModule, Reg, Sym, Vec

MAX_INSTRUCTIONS = 200_000  # a kernel that inlines to more is refused: compiling it would take minutes

EXTERNAL = {  # functions of the machine, and the width of what they return
    "vprintf": 32, "__assertfail": 32, "__assert_fail": 32, "malloc": 64, "free": 32, "cudaCGSynchronize": 32,
    "cudaCGGetIntrinsicHandle": 64,
}  # fmt: skip
CODE_WINDOW = 1 << 58  # functions have addresses here, where no memory is
CODE_STEP = 16


def function_addresses(module: PtxModule) -> dict[str, int]:
    """What a pointer to each function of the module holds."""
    names = [f.name for f in module.functions.values() if not f.is_entry]
    return {name: CODE_WINDOW + CODE_STEP * (k + 1) for k, name in enumerate(names)}


def make(op: str, *args, like: Instr | None = None, pred=None, pred_neg=False) -> Instr:
    """An instruction at the line of another."""
    line, file = (like.line, like.file) if like is not None else (0, 0)
    return Instr(op, tuple(op.split(".")), list(args), pred, pred_neg, line, file)


def flatten(module: PtxModule, entry: Function) -> tuple[list, list]:
    """-> (code, variables) of `entry` with all calls inlined.

    Raises PtxError for calls of functions that are neither defined nor known to the machine, and for kernels over
    MAX_INSTRUCTIONS.
    """
    flat = _Flat(module, entry)
    flat.body(entry, "", None)
    flat.finish()
    return flat.code, list(flat.variables.values())


class _Names(dict):
    """What names of the .param space are called in an inlined copy of a function; other symbols keep their names."""

    def __init__(self, function: Function, suffix: str):
        super().__init__({name: name + suffix for name, _, _ in function.params + function.returns} if suffix else {})
        self.suffix = suffix

    def of(self, name: str) -> str:
        """A function's own parameters, and those of the calls in it (they have their scope's number after an @)."""
        return self.get(name) or (name + self.suffix if "@" in name else name)


class _Flat:
    """The code of one kernel as it grows."""

    def __init__(self, module: PtxModule, entry: Function):
        self.module, self.entry = module, entry
        self.code: list = []
        self.variables = {v.name: v for v in entry.variables}
        self.entry_params = {name for name, _, _ in entry.params}
        self.addresses = function_addresses(module)
        self.slots = Slots()
        self.copies = 0
        self.subroutines = subroutine.Subroutines(module, self)

    def body(self, function: Function, suffix: str, end: str | None):
        """Append the function's code; `ret` goes to the label `end` if there is one."""
        names = _Names(function, suffix)
        self.variables.update((v.name, v) for v in function.variables)
        for item in function.code:
            if len(self.code) > MAX_INSTRUCTIONS:
                raise PtxError(
                    f"{self.entry.name} is longer than {MAX_INSTRUCTIONS} instructions once its calls are inlined"
                )
            if isinstance(item, Label):
                self.code.append(Label(item.name + suffix))
                continue
            pred = Reg(item.pred.name + suffix, item.pred.kind) if item.pred else None
            if item.parts[0] == "call":
                self.call(item, suffix, names)
                continue
            args = [self.rename(a, suffix, names) for a in item.args]
            instr = Instr(item.op, item.parts, args, pred, item.pred_neg, item.line, item.file)
            if instr.parts[0] == "ret" and end is not None:
                self.code.append(make("bra", Label(end), like=instr, pred=pred, pred_neg=instr.pred_neg))
            elif self.is_call_param(instr):
                self.code += self.slots.moves(instr)
            else:
                self.code.append(instr)

    def rename(self, operand, suffix: str, names: _Names):
        """The operand as this copy of the function has it."""
        if isinstance(operand, Reg):
            return Reg(operand.name + suffix, operand.kind)
        if isinstance(operand, Label):
            return Label(operand.name + suffix)
        if isinstance(operand, Mem):
            return Mem(self.rename(operand.base, suffix, names), operand.offset)
        if isinstance(operand, Sym):
            if operand.name in self.addresses:
                return Imm(self.addresses[operand.name])
            return Sym(names.of(operand.name), operand.offset)
        if isinstance(operand, Vec):
            return Vec(tuple(self.rename(o, suffix, names) for o in operand.items))
        if isinstance(operand, tuple):
            return (operand[0], self.rename(operand[1], suffix, names))
        if isinstance(operand, list):
            return [self.rename(o, suffix, names) for o in operand]
        return operand

    def call(self, item: Instr, suffix: str, names: _Names):
        """A call, direct or through a pointer, of a function of the program or of one that the machine has."""
        target = item.args[0]
        returns, args = (self.rename(a, suffix, names) for a in item.args[1:])
        if isinstance(target, Reg):
            self.call_pointer(item, Reg(target.name + suffix, target.kind), returns, args)
            return
        callee = self.module.functions.get(target.name)
        if callee is not None and not callee.declared_only:
            self.call_function(callee, item, returns, args)
            return
        if target.name not in EXTERNAL:
            raise PtxError(
                f"line {item.line}: call of {target.name}, which is neither in the program nor known to the machine"
            )
        results = [self.slots.put(r.name, 0, EXTERNAL[target.name]) for r in returns]
        args = [target, results, [self.slots.first(a) for a in args]]
        pred = Reg(item.pred.name + suffix, item.pred.kind) if item.pred else None
        self.code.append(Instr(item.op, item.parts, args, pred, item.pred_neg, item.line, item.file))

    def call_function(self, callee: Function, item: Instr, returns: list, args: list):
        """Inline it, or go to it if it may call itself."""
        if self.subroutines.has(callee.name):
            self.subroutines.call(callee, item, returns, args)
            return
        self.copies += 1
        suffix = f"#{self.copies}"
        for (name, _, size), arg in zip(callee.params, args, strict=True):
            self.code += self.slots.copy(name + suffix, arg, size, item)
        end = f"$after{suffix}"
        self.body(callee, suffix, end)
        self.code.append(Label(end))
        for (name, _, size), place in zip(callee.returns, returns, strict=True):
            self.code += self.slots.copy(place.name, Sym(name + suffix), size, item)

    def call_pointer(self, item: Instr, pointer: Reg, returns: list, args: list):
        """Compare the pointer with every function that it may be; a wild one ends in a trap."""
        self.copies += 1
        number = self.copies
        for k, callee in enumerate(self.subroutines.candidates(item)):
            other, differs = Label(f"$other{number}.{k}"), Reg(f"%differs{number}.{k}", "pred")
            self.code.append(make("setp.ne.u64", differs, pointer, Imm(self.addresses[callee.name]), like=item))
            self.code.append(make("bra", other, like=item, pred=differs))
            self.call_function(callee, item, returns, args)
            self.code.append(make("bra", Label(f"$called{number}"), like=item))
            self.code.append(other)
        self.code.append(make("trap", like=item))
        self.code.append(Label(f"$called{number}"))

    # ---- the .param space
    def is_call_param(self, instr: Instr) -> bool:
        """True for an access to a .func's or call sequence's parameter; False for a kernel parameter."""
        if instr.parts[0] not in ("ld", "st") or "param" not in instr.parts:
            return False
        mem = instr.args[0] if instr.parts[0] == "st" else instr.args[1]
        return isinstance(mem, Mem) and isinstance(mem.base, Sym) and mem.base.name not in self.entry_params

    def finish(self):
        """Append the functions that may call themselves."""
        self.subroutines.finish()

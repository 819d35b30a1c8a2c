"""Inline every call of a PTX function into its caller, so that a kernel is one flat list of instructions.

Parameters of .func and of call sequences live in the .param space; each (variable, byte offset) becomes a register,
and st.param/ld.param on it become moves.
"""

from .parse import Function, Imm, Instr, Label, Mem, PtxError, PtxModule, Reg, Sym, Vec

MAX_INSTRUCTIONS = 200_000  # a kernel that inlines to more is refused: compiling it would take minutes

EXTERNAL = {  # functions of the machine, and the width of what they return
    "vprintf": 32, "__assertfail": 32, "__assert_fail": 32, "malloc": 64, "free": 32, "cudaCGSynchronize": 32, "cudaCGGetIntrinsicHandle": 64,
}  # fmt: skip


def _rename(operand, suffix, params):
    if isinstance(operand, Reg):
        return Reg(operand.name + suffix, operand.kind)
    if isinstance(operand, Label):
        return Label(operand.name + suffix)
    if isinstance(operand, Mem):
        return Mem(_rename(operand.base, suffix, params), operand.offset)
    if isinstance(operand, Sym):
        return Sym(params[operand.name], operand.offset) if operand.name in params else operand
    if isinstance(operand, Vec):
        return Vec(tuple(_rename(o, suffix, params) for o in operand.items))
    if isinstance(operand, tuple):
        return (operand[0], _rename(operand[1], suffix, params))
    if isinstance(operand, list):
        return [_rename(o, suffix, params) for o in operand]
    return operand


def _like(instr: Instr, op: str, args: list) -> Instr:
    """An instruction in the place of another, under its guard."""
    return Instr(op, tuple(op.split(".")), args, instr.pred, instr.pred_neg, instr.line, instr.file)


class _Slots:
    """Parameters of calls as registers, one for each (variable, byte offset, width) that is stored."""

    def __init__(self):
        self.stored: dict[str, dict[tuple[int, int], Reg]] = {}

    def put(self, name: str, offset: int, bits: int) -> Reg:
        reg = Reg(f"{name}+{offset}.{bits}", f"b{max(bits, 16)}")
        self.stored.setdefault(name, {})[offset, bits] = reg
        return reg

    def moves(self, instr: Instr) -> list[Instr]:
        """ld.param/st.param of a call's parameter as moves between registers, one for each element."""
        store = instr.parts[0] == "st"
        kind = instr.parts[-1]
        bits = int("".join(c for c in kind if c.isdigit()))
        mem, value = (instr.args[0], instr.args[1]) if store else (instr.args[1], instr.args[0])
        values = value.items if isinstance(value, Vec) else (value,)
        out = []
        for k, v in enumerate(values):
            at = mem.base.offset + mem.offset + k * bits // 8
            if store:
                op = f"mov.b{bits}" if bits >= 32 else f"cvt.u{bits}.u{bits}"
                out.append(_like(instr, op, [self.put(mem.base.name, at, bits), v]))
            else:
                out += self.load(instr, v, mem.base.name, at, bits, "s" if kind[0] == "s" else "u")
        return out

    def load(self, instr: Instr, dest, name: str, at: int, bits: int, sign: str) -> list[Instr]:
        """Read a parameter, or the part of one that was stored in a greater width (as NVVM does with bytes)."""
        over = [s for s in self.stored.get(name, {}) if s[0] < at + bits // 8 and at < s[0] + s[1] // 8]
        if not over or over == [(at, bits)]:
            slot = self.stored[name][at, bits] if over else Reg(f"{name}+{at}.{bits}", f"b{max(bits, 16)}")
            return [_like(instr, f"mov.b{bits}" if bits >= 32 else f"cvt.{sign}{bits}.{sign}{bits}", [dest, slot])]
        (offset, wide), *others = over
        if others or at < offset or at + bits // 8 > offset + wide // 8:
            raise PtxError(f"line {instr.line}: {instr.op} reads a parameter in another width than it was stored in")
        part = Reg(f"{name}+{at}.{bits}of{wide}", f"b{max(wide, 16)}")
        low = Reg(f"{name}+{at}.{bits}low", f"b{max(bits, 16)}")
        moved = _like(instr, f"shr.u{max(wide, 16)}", [part, self.stored[name][offset, wide], Imm(8 * (at - offset))])
        narrow = _like(instr, f"cvt.u{bits}.u{wide}", [low, part])
        return [moved, narrow, _like(instr, f"mov.b{bits}" if bits >= 32 else f"cvt.{sign}{bits}.{sign}{bits}", [dest, low])]


def flatten(module: PtxModule, entry: Function) -> tuple[list, list]:
    """-> (code, variables) of `entry` with all calls inlined.

    Raises PtxError for recursion, for calls of functions that are neither defined nor known to the machine, and for
    kernels over MAX_INSTRUCTIONS.
    """
    code, variables, counter, slots = [], list(entry.variables), [0], _Slots()
    entry_params = {name for name, _, _ in entry.params}

    def emit(function: Function, suffix: str, bound: dict, end_label: str | None, stack: tuple):
        params = {name: name + suffix for name, _, _ in function.params + function.returns} if suffix else {}
        del bound
        for item in function.code:
            if len(code) > MAX_INSTRUCTIONS:
                raise PtxError(f"{entry.name} is longer than {MAX_INSTRUCTIONS} instructions once its calls are inlined")
            if isinstance(item, Label):
                code.append(Label(item.name + suffix))
                continue
            instr = Instr(
                item.op, item.parts, [_rename(a, suffix, _ScopedParams(params, suffix)) for a in item.args],
                _rename(item.pred, suffix, params) if item.pred else None, item.pred_neg, item.line, item.file,
            )  # fmt: skip
            if instr.parts[0] == "call":
                call(instr, suffix, stack)
            elif instr.parts[0] in ("ret", "exit") and end_label is not None and instr.parts[0] == "ret":
                code.append(Instr("bra", ("bra",), [Label(end_label)], instr.pred, instr.pred_neg, instr.line, instr.file))
            elif is_call_param(instr, entry_params):
                code.extend(slots.moves(instr))
            else:
                code.append(instr)

    def call(instr: Instr, suffix: str, stack: tuple):
        label, returns, args = instr.args
        name = label.name[: len(label.name) - len(suffix)] if suffix else label.name
        callee = module.functions.get(name)
        if callee is None or callee.declared_only:
            if name not in EXTERNAL:
                raise PtxError(f"line {instr.line}: call of {name}, which is neither in the program nor known to the machine")
            results = [slots.put(r.name, 0, EXTERNAL[name]) for r in returns]
            instr.args = [Label(name), results, [_as_reg(a, slots) for a in args]]
            code.append(instr)
            return
        if name in stack:
            raise PtxError(f"line {instr.line}: {name} calls itself; recursion is not supported on this machine")
        counter[0] += 1
        inner = f"#{counter[0]}"
        for (pname, _, size), arg in zip(callee.params, args, strict=True):
            _copy_param(code, slots, pname + inner, arg, size, instr)
        variables.extend(callee.variables)
        emit(callee, inner, {}, f"$after{inner}", (*stack, name))
        code.append(Label(f"$after{inner}"))
        for (rname, _, size), ret in zip(callee.returns, returns, strict=True):
            _copy_param(code, slots, ret.name, Sym(rname + inner), size, instr)

    emit(entry, "", {}, None, (entry.name,))
    return code, variables


class _ScopedParams(dict):
    """Call-sequence parameters of an inlined function get its suffix too; other symbols keep their name."""

    def __init__(self, params, suffix):
        super().__init__(params)
        self.suffix = suffix

    def __contains__(self, name):
        return bool(self.suffix) and (super().__contains__(name) or "@" in name)

    def __getitem__(self, name):
        return super().__getitem__(name) if super().__contains__(name) else name + self.suffix


def is_call_param(instr: Instr, entry_params: set) -> bool:
    """True for an access to a .func's or call sequence's parameter; False for a kernel parameter."""
    if instr.parts[0] not in ("ld", "st") or "param" not in instr.parts:
        return False
    mem = instr.args[0] if instr.parts[0] == "st" else instr.args[1]
    return isinstance(mem, Mem) and isinstance(mem.base, Sym) and mem.base.name not in entry_params


def _as_reg(operand, slots: _Slots):
    if isinstance(operand, Sym):
        stored = slots.stored.get(operand.name, {})
        return next((reg for (offset, _), reg in stored.items() if offset == 0), Imm(0))
    if isinstance(operand, (Reg, Imm)):
        return operand
    raise PtxError(f"cannot pass {operand} to a call")


def _copy_param(code, slots: _Slots, dest: str, source, size: int, instr: Instr):
    """Copy a parameter of `size` bytes: every part of it that has been stored."""
    if not isinstance(source, Sym):
        bits = 8 * size
        op = f"mov.b{bits}" if bits >= 32 else f"cvt.u{bits}.u{bits}"
        code.append(Instr(op, tuple(op.split(".")), [slots.put(dest, 0, bits), source], None, False, instr.line, instr.file))
        return
    for (offset, bits), reg in list(slots.stored.get(source.name, {}).items()):
        kind = f"b{max(bits, 16)}"
        to = slots.put(dest, offset, bits)
        code.append(Instr(f"mov.{kind}", ("mov", kind), [to, reg], None, False, instr.line, instr.file))

"""Inline every call of a PTX function into its caller, so that a kernel is one flat list of instructions.

Parameters of .func and of call sequences live in the .param space; each (variable, byte offset) becomes a register,
and st.param/ld.param on it become moves.
"""

from .parse import Function, Imm, Instr, Label, Mem, PtxError, PtxModule, Reg, Sym, Vec

MAX_INSTRUCTIONS = 200_000  # a kernel that inlines to more is refused: compiling it would take minutes

EXTERNAL = {"vprintf", "__assertfail", "__assert_fail", "malloc", "free", "cudaCGSynchronize", "cudaCGGetIntrinsicHandle"}


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


def _param_moves(instr: Instr) -> list[Instr]:
    """ld.param/st.param of a call's parameter as moves between registers, one for each element."""
    store = instr.parts[0] == "st"
    kind = instr.parts[-1]
    bits = "".join(c for c in kind if c.isdigit())
    mem, value = (instr.args[0], instr.args[1]) if store else (instr.args[1], instr.args[0])
    values = value.items if isinstance(value, Vec) else (value,)
    out = []
    for k, v in enumerate(values):
        slot = Reg(f"{mem.base.name}+{mem.offset + k * int(bits) // 8}", f"b{bits}")
        args = [slot, v] if store else [v, slot]
        out.append(Instr(f"mov.b{bits}", ("mov", f"b{bits}"), args, instr.pred, instr.pred_neg, instr.line, instr.file))
    return out


def flatten(module: PtxModule, entry: Function) -> tuple[list, list]:
    """-> (code, variables) of `entry` with all calls inlined.

    Raises PtxError for recursion, for calls of functions that are neither defined nor known to the machine, and for
    kernels over MAX_INSTRUCTIONS.
    """
    code, variables, counter = [], list(entry.variables), [0]
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
                code.extend(_param_moves(instr))
            else:
                code.append(instr)

    def call(instr: Instr, suffix: str, stack: tuple):
        label, returns, args = instr.args
        name = label.name[: len(label.name) - len(suffix)] if suffix else label.name
        callee = module.functions.get(name)
        if callee is None or callee.declared_only:
            if name not in EXTERNAL:
                raise PtxError(f"line {instr.line}: call of {name}, which is neither in the program nor known to the machine")
            instr.args = [Label(name), [_as_reg(r) for r in returns], [_as_reg(a) for a in args]]
            code.append(instr)
            return
        if name in stack:
            raise PtxError(f"line {instr.line}: {name} calls itself; recursion is not supported on this machine")
        counter[0] += 1
        inner = f"#{counter[0]}"
        for (pname, _, size), arg in zip(callee.params, args, strict=True):
            _copy_param(code, pname + inner, arg, size, instr)
        variables.extend(callee.variables)
        emit(callee, inner, {}, f"$after{inner}", (*stack, name))
        code.append(Label(f"$after{inner}"))
        for (rname, _, size), ret in zip(callee.returns, returns, strict=True):
            _copy_param(code, ret.name, Sym(rname + inner), size, instr)

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


def _as_reg(operand):
    if isinstance(operand, Sym):
        return Reg(f"{operand.name}+0", "b64")
    if isinstance(operand, (Reg, Imm)):
        return operand
    raise PtxError(f"cannot pass {operand} to a call")


def _copy_param(code, dest: str, source, size: int, instr: Instr):
    """Copy a parameter of `size` bytes; accesses by other widths than 4 or 8 read what was stored by the same width."""
    if not isinstance(source, Sym):
        code.append(Instr("mov.b64", ("mov", "b64"), [Reg(f"{dest}+0", "b64"), source], None, False, instr.line, instr.file))
        return
    used = {
        arg.name: arg
        for i in code
        if isinstance(i, Instr) and i.parts[0] == "mov"
        for arg in i.args[:1]
        if isinstance(arg, Reg) and arg.name.startswith(source.name + "+")
    }
    for reg in used.values():
        offset = reg.name[len(source.name) :]
        bits = "".join(c for c in reg.kind if c.isdigit())
        op = (f"mov.b{bits}", ("mov", f"b{bits}"))
        code.append(Instr(*op, [Reg(dest + offset, reg.kind), reg], None, False, instr.line, instr.file))

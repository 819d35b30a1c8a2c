"""Parameters of calls as registers: the .param space of .func and of call sequences."""

from .parse import Imm, Instr, PtxError, Reg, Sym, Vec


def _like(instr: Instr, op: str, args: list) -> Instr:
    """An instruction in the place of another, under its guard."""
    return Instr(op, tuple(op.split(".")), args, instr.pred, instr.pred_neg, instr.line, instr.file)


class Slots:
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
        return [
            moved,
            narrow,
            _like(instr, f"mov.b{bits}" if bits >= 32 else f"cvt.{sign}{bits}.{sign}{bits}", [dest, low]),
        ]

    def copy(self, dest: str, source, size: int, instr: Instr) -> list[Instr]:
        """Copy a parameter of `size` bytes: every part of it that has been stored."""
        if not isinstance(source, Sym):
            op = f"mov.b{8 * size}" if size >= 4 else f"cvt.u{8 * size}.u{8 * size}"
            return [_unguarded(instr, op, [self.put(dest, 0, 8 * size), source])]
        parts = list(self.stored.get(source.name, {}).items())
        return [_unguarded(instr, f"mov.{reg.kind}", [self.put(dest, *part), reg]) for part, reg in parts]

    def first(self, operand) -> Reg | Imm:
        """A parameter of a function of the machine: a register or a number as it is, of a variable its first part."""
        if isinstance(operand, Sym):
            stored = self.stored.get(operand.name, {})
            return next((reg for (offset, _), reg in stored.items() if offset == 0), Imm(0))
        if isinstance(operand, (Reg, Imm)):
            return operand
        raise PtxError(f"cannot pass {operand} to a call")


def _unguarded(instr: Instr, op: str, args: list) -> Instr:
    return Instr(op, tuple(op.split(".")), args, None, False, instr.line, instr.file)

"""One kernel's body to an LLVM function: frames, masks, branches, and the way into and out of the dispatcher.

Between blocks of code, registers live in the warp's frame; inside a block they are LLVM values. Writes at the end of a
block are merged under the mask of the lanes that ran it.
"""

from dataclasses import dataclass

from llvmlite import ir

from ..ptx.cfg import Body, used_registers
from ..ptx.parse import Imm, Instr, Mem, PtxError, Reg, Special, Sym
from . import layout as L
from .table import find
from .values import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Builder,
    bits_to_float,
    constant,
    elem,
    is_vec,
    kind_type,
    vec,
    width,
)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the kernel that the machine reports on: a memory access, a barrier, a warp operation."""

    op: str
    line: int
    file: int
    block: int
    nbytes: int = 0  # a lane's bytes
    space: int = L.SPACE_GLOBAL
    kind: int = L.LOAD
    live: int = 15  # of a vector load: bits of the elements that the kernel uses


class Lowering:
    """State while a kernel is lowered; `lower_kernel` runs it."""

    def __init__(self, name: str, body: Body, params: dict, variables: dict, spaces: dict, sizes: dict):
        self.body, self.params, self.variables, self.spaces, self.sizes = body, params, variables, spaces, sizes
        self.module = ir.Module()
        self.fn = ir.Function(self.module, ir.FunctionType(I32, [PTR]), name)
        self.fn.attributes.add("nounwind")
        self.warp = self.fn.args[0]
        self.sites: list[Site] = []
        self.symbols: list[str] = []  # rows of the SYMBOLS table
        self.slots, self.frame_bytes = self._layout_frame()
        self.used = used_registers(body.blocks)
        self.env = {}
        self.index = 0  # block being lowered
        self.mask = None
        self._mask_vec = None
        self.bx = None  # Builder
        self.uses_async = self.uses_atomics = self.uses_grid = self.uses_mbarrier = self.uses_partial = False

    # ------------------------------------------------------------------ frame
    def _layout_frame(self):
        live = sorted(set().union(*(b.live_in for b in self.body.blocks)))
        sizes = {}
        for name in live:
            bits = width(kind_type(self.body.kinds[name]))
            uniform = name in self.body.uniform
            sizes[name] = 8 if uniform else 4 if bits == 1 else bits // 8 * L.LANES
        slots, offset = {}, L.FRAME
        for name in sorted(live, key=lambda n: -sizes[n]):  # vectors first: all but 16-bit ones are 64-byte aligned
            offset = (offset + min(sizes[name], 64) - 1) // min(sizes[name], 64) * min(sizes[name], 64)
            slots[name] = offset
            offset += sizes[name]
        return slots, offset

    def field(self, offset, t=I32):
        """Load a field of the warp's state."""
        return self.b.load(self.address(offset), typ=t)

    def set_field(self, offset, value):
        self.b.store(value, self.address(offset))

    def address(self, offset):
        return self.b.gep(self.warp, [ir.Constant(I64, offset)], source_etype=I8)

    def lanes_field(self, offset):
        return self.b.load(self.address(offset), typ=vec(I32))

    @property
    def b(self):
        return self.bx.b

    @property
    def mask_vec(self):
        if self._mask_vec is None:
            self._mask_vec = self.bx.to_mask(self.mask)
        return self._mask_vec

    # ------------------------------------------------------------------ operands
    def read(self, reg: Reg):
        """Value of a register, in its declared type."""
        value = self.env.get(reg.name)
        if value is None:
            t = kind_type(reg.kind)
            offset = self.slots.get(reg.name)
            if offset is None:  # read before any write: undefined in PTX; zero here, on every run
                value = constant(t, 0)
            elif reg.name in self.body.uniform:
                value = self.field(offset, I8 if t is I1 else t)
                value = self.b.trunc(value, I1) if t is I1 else value
            elif t is I1:
                value = self.bx.to_mask(self.field(offset))
            else:
                value = self.b.load(self.address(offset), typ=vec(t))
            self.env[reg.name] = value
        return value

    def src(self, operand, kind: str):
        """Value of an operand as PTX type `kind`; wider registers are truncated, as PTX allows."""
        t = kind_type(kind)
        if isinstance(operand, tuple) and operand[0] == "not":
            return self.b.not_(self.src(operand[1], kind))
        if isinstance(operand, Reg):
            return self.coerce(self.read(operand), t, operand)
        if isinstance(operand, Imm):
            if operand.kind == "int":
                if t in (F32, F64):
                    return constant(t, float(operand.value))
                return constant(t, operand.value if t is not I1 else operand.value != 0)
            value = bits_to_float(operand.value, operand.kind)
            if t in (F32, F64):
                if (operand.kind == "f32" and t is F32) or (operand.kind == "f64" and t is F64):
                    if value != value:  # keep the NaN's bits
                        raw = constant(I32 if t is F32 else I64, operand.value)
                        return self.b.bitcast(raw, t)
                return constant(t, value)
            return constant(t, operand.value)
        if isinstance(operand, Special):
            return self.coerce(self.special(operand.name), t, operand)
        if isinstance(operand, Sym):
            return self.coerce(self.symbol_address(operand), t, operand)
        raise PtxError(f"cannot use {operand} as a .{kind} operand")

    def coerce(self, v, t, what=None):
        have = elem(v)
        if have == t:
            return v
        if width(have) == width(t):
            return self.bx.cast("bitcast", v, t)
        if isinstance(have, ir.IntType) and isinstance(t, ir.IntType):
            return self.bx.cast("trunc" if have.width > t.width else "zext", v, t)
        if isinstance(have, ir.IntType) and have.width > width(t):
            return self.bx.cast("bitcast", self.bx.cast("trunc", v, ir.IntType(width(t))), t)
        raise PtxError(f"cannot use {what} as a value of another size")

    def special(self, name: str):
        base, _, axis = name.partition(".")
        k = "xyz".find(axis) if axis else 0
        if axis == "w":
            return constant(I32, 0)
        if base == "tid":
            return self.lanes_field((L.TID_X, L.TID_Y, L.TID_Z)[k])
        if base in ("ntid", "ctaid", "nctaid"):
            return self.field({"ntid": L.NTID, "ctaid": L.CTAID, "nctaid": L.NCTAID}[base] + 4 * k)
        if base == "laneid":
            return ir.Constant(vec(I32), list(range(L.LANES)))
        if base == "warpid":
            return self.field(L.WARPID)
        if base == "nwarpid":
            total = self.b.mul(self.b.mul(self.field(L.NTID), self.field(L.NTID + 4)), self.field(L.NTID + 8))
            return self.b.lshr(self.b.add(total, constant(I32, 31)), constant(I32, 5))
        if base.startswith("lanemask_"):
            lane = range(L.LANES)
            table = {
                "eq": [1 << i for i in lane], "lt": [(1 << i) - 1 for i in lane], "le": [(2 << i) - 1 for i in lane],
                "gt": [~((2 << i) - 1) & 0xFFFFFFFF for i in lane], "ge": [~((1 << i) - 1) & 0xFFFFFFFF for i in lane],
            }  # fmt: skip
            return ir.Constant(vec(I32), table[base[9:]])
        if base in ("clock", "clock64", "globaltimer", "globaltimer_lo", "clock_hi", "globaltimer_hi"):
            self.uses_atomics = True  # one clock for all blocks, so they take turns
            value = self.call_machine("vg_clock", I64, [(constant(I32, 1 if base.startswith("global") else 0))])
            if base.endswith("_hi"):
                value = self.b.lshr(value, constant(I64, 32))
            value = self.bx.splat(value)
            return self.bx.cast("trunc", value, I32) if base in ("clock", "globaltimer_lo") else value
        if base == "smid":
            return self.field(L.SMID)
        if base == "dynamic_smem_size":
            return self.field(L.DYNAMIC_BYTES)
        if base == "total_smem_size":
            return self.field(L.SHARED_BYTES)
        fixed = {"gridid": 0, "cluster_ctarank": 0, "cluster_nctarank": 1, "is_explicit_cluster": 0, "nsmid": 108}
        if base in fixed:
            return constant(I32, fixed[base])
        if base in ("cluster_ctaid",):
            return constant(I32, 0)
        if base == "cluster_nctaid":
            return constant(I32, 1)
        if base in ("clusterid", "nclusterid"):
            return self.field({"clusterid": L.CTAID, "nclusterid": L.NCTAID}[base] + 4 * k)
        raise PtxError(f"special register %{name} is not supported by the virtual GPU")

    def symbol_address(self, sym: Sym):
        space = self.spaces.get(sym.name)
        if space in ("shared", "local"):
            return constant(I64, self.variables[sym.name] + sym.offset)
        if sym.name not in self.symbols:
            self.symbols.append(sym.name)
        table = self.field(L.SYMBOLS, I64)
        row = self.b.inttoptr(self.b.add(table, constant(I64, 8 * self.symbols.index(sym.name))), PTR)
        return self.b.add(self.b.load(row, typ=I64), constant(I64, sym.offset))

    def mem_address(self, mem: Mem):
        """Byte address of a memory operand as i64, scalar or vector."""
        base = mem.base
        if isinstance(base, Sym):
            return self.symbol_address(Sym(base.name, base.offset + mem.offset))
        if isinstance(base, Imm):
            return constant(I64, base.value + mem.offset)
        v = self.read(base)
        if width(elem(v)) == 32:
            v = self.bx.cast("zext", v, I64)
        return self.bx.add(v, constant(I64, mem.offset)) if mem.offset else v

    # ------------------------------------------------------------------ results
    def dst(self, operand, value):
        """Write a register; under a guard, lanes whose guard is false keep what they had."""
        if isinstance(operand, Special) and operand.name == "_":
            return
        if not isinstance(operand, Reg):
            raise PtxError(f"{operand} cannot be written")
        value = self.coerce(value, kind_type(operand.kind), operand)
        if self.guard is not None:
            value = self.bx.select(self.guard, value, self.read(operand))
        self.env[operand.name] = value

    # ------------------------------------------------------------------ sites and calls
    def site(self, instr: Instr, nbytes=0, space=L.SPACE_GLOBAL, kind=L.LOAD, live=15) -> int:
        self.sites.append(Site(instr.op, instr.line, instr.file, self.index, nbytes, space, kind, live))
        return len(self.sites) - 1

    def call_machine(self, name: str, result, args):
        """Call a function of the machine: `result name(char *warp, args...)`."""
        fn = self.module.globals.get(name)
        if fn is None:
            fn = ir.Function(self.module, ir.FunctionType(result, [PTR] + [a.type for a in args]), name)
        return self.b.call(fn, [self.warp, *args])

    def first_lane(self, v):
        """Value of the first running lane of a vector; a scalar as it is."""
        if not is_vec(v):
            return v
        lane = self.bx.intrinsic("llvm.cttz", I32, [self.active(), constant(I1, 0)], [I32])
        return self.b.extract_element(v, self.b.and_(lane, constant(I32, 31)))

    def active(self):
        """i32 mask of the lanes that this instruction acts for: the group's, less those that its guard rules out."""
        if self.guard is None:
            return self.mask
        return self.b.and_(self.mask, self.bx.bitcast_mask(self.guard))

    # ------------------------------------------------------------------ control flow
    def run(self):
        blocks = self.body.blocks
        entry = self.fn.append_basic_block("entry")
        self.dispatch = self.fn.append_basic_block("dispatch")
        self.code = [self.fn.append_basic_block(f"code{i}") for i in range(len(blocks))]
        self.checks = [None] * len(blocks)
        self.b_entry(entry)
        for i, block in enumerate(blocks):
            self.lower_block(i, block)
        for i in range(len(blocks)):
            if self.checks[i] is not None:
                self.lower_check(i)
        return self

    def b_entry(self, entry):
        self.bx = Builder(ir.IRBuilder(entry), self.module)
        resume = self.field(L.RESUME)
        self.set_field(L.RESUME, constant(I32, -1))
        switch = self.b.switch(resume, self.dispatch)
        for i, block in enumerate(self.body.blocks):
            if i == 0 or self.is_resumed(i, block):
                switch.add_case(constant(I32, i), self.code[i])
        self.bx = Builder(ir.IRBuilder(self.dispatch), self.module)
        target = self.call_machine("vg_dispatch", I32, [])
        leave = self.fn.append_basic_block("leave")
        switch = self.b.switch(target, leave)
        for i, block in enumerate(self.code):
            switch.add_case(constant(I32, i), block)
        self.bx = Builder(ir.IRBuilder(leave), self.module)
        self.b.ret(self.b.sub(constant(I32, -1), target))  # the dispatcher gives -1 - status when no lane can run

    def goto(self, target: int):
        """Branch from the current block to a block of code, by way of the checks that it needs."""
        if target <= self.index:
            self.back_edge(target)
        else:
            self.b.branch(self.check(target))

    def check(self, target: int):
        if self.checks[target] is None:
            self.checks[target] = self.fn.append_basic_block(f"check{target}")
        return self.checks[target]

    def back_edge(self, target: int):
        budget = self.b.sub(self.field(L.BUDGET), constant(I32, 1))
        self.set_field(L.BUDGET, budget)
        out = self.fn.append_basic_block("out_of_budget")
        self.b.cbranch(self.b.icmp_signed("<", budget, constant(I32, 0)), out, self.check(target))
        self.bx = Builder(ir.IRBuilder(out), self.module)
        self._mask_vec = None
        self.set_field(L.SPUN, constant(I32, int(self.body.blocks[self.index].spin)))
        self.leave(target, 0, L.STATUS_YIELD)

    def lower_check(self, i: int):
        """Entry into block i: lanes that wait there or before it must be joined first."""
        self.bx = Builder(ir.IRBuilder(self.checks[i]), self.module)
        self._mask_vec = None
        slow = self.fn.append_basic_block(f"join{i}")
        stop = self.field(L.STOP_AT)
        self.b.cbranch(self.b.icmp_signed("<=", stop, constant(I32, i)), slow, self.code[i])
        self.bx = Builder(ir.IRBuilder(slow), self.module)
        self.mask = self.field(L.MASK)
        self.park(constant(I32, i))
        self.b.branch(self.dispatch)

    def park(self, where):
        """Write where the running lanes go on (a scalar or a vector of block indexes)."""
        p = self.address(L.PC)
        old = self.b.load(p, typ=vec(I32))
        self.b.store(self.b.select(self.bx.to_mask(self.mask), self.bx.splat(where), old), p)

    def spill(self, block):
        """Write the registers that later blocks read into the frame, under the mask."""
        for name in sorted(block.defs & block.live_out):
            value = self.env.get(name)
            if value is None:
                continue
            offset = self.slots[name]
            if name in self.body.uniform:
                if is_vec(value):
                    raise PtxError(f"internal: {name} was taken for uniform and is not")
                self.set_field(offset, self.b.zext(value, I8) if value.type == I1 else value)
            elif elem(value) == I1:
                bits = self.bx.bitcast_mask(value)
                old = self.field(offset)
                keep = self.b.and_(old, self.b.not_(self.mask))
                self.set_field(offset, self.b.or_(keep, self.b.and_(bits, self.mask)))
            else:
                value = self.bx.splat(value)
                p = self.address(offset)
                old = self.b.load(p, typ=value.type)
                self.b.store(self.b.select(self.mask_vec, value, old), p)

    def start_block(self, i):
        self.index = i
        self.bx = Builder(ir.IRBuilder(self.code[i]), self.module)
        self.env, self.guard = {}, None
        self.mask, self._mask_vec = self.field(L.MASK), None
        count = self.fn.append_basic_block(f"count{i}")
        body = self.fn.append_basic_block(f"body{i}")
        flagged = self.b.and_(self.field(L.FLAGS), constant(I32, L.OBSERVE_COUNT))
        self.b.cbranch(self.b.icmp_unsigned("!=", flagged, constant(I32, 0)), count, body)
        self.bx = Builder(ir.IRBuilder(count), self.module)
        self.call_machine("vg_enter", ir.VoidType(), [constant(I32, i)])
        self.b.branch(body)
        self.bx = Builder(ir.IRBuilder(body), self.module)

    def lower_block(self, i, block):
        self.start_block(i)
        for instr in block.instrs:
            base = instr.parts[0]
            self.instr = instr
            if base == "bra":
                self.spill(block)
                self.lower_branch(instr, block)
                return
            self.guard = None
            if instr.pred is not None:
                self.guard = self.src(instr.pred, "pred")
                if instr.pred_neg:
                    self.guard = self.b.not_(self.guard)
            if base in ("ret", "exit"):
                self.spill(block)
                self.lower_exit(block)
                return
            row = find(instr)
            row.lower(self, instr)
            if self.b.block.is_terminated:  # a barrier: the row has spilled and left
                return
            self.guard = None
        self.spill(block)
        self.goto(block.succs[0])

    def lower_branch(self, instr, block):
        if instr.pred is None:
            self.goto(block.succs[0])
            return
        taken, other = block.succs
        p = self.src(instr.pred, "pred")
        if instr.pred_neg:
            p = self.b.not_(p)
        yes = self.fn.append_basic_block("taken")
        no = self.fn.append_basic_block("not_taken")
        if is_vec(p):
            bits = self.b.and_(self.bx.bitcast_mask(p), self.mask)
            some = self.fn.append_basic_block("some")
            part = self.fn.append_basic_block("diverge")
            self.b.cbranch(self.b.icmp_unsigned("==", bits, constant(I32, 0)), no, some)
            mask = self.mask
            self.bx = Builder(ir.IRBuilder(some), self.module)
            self.b.cbranch(self.b.icmp_unsigned("==", bits, mask), yes, part)
            self.bx = Builder(ir.IRBuilder(part), self.module)
            self.park(self.bx.select(self.bx.to_mask(bits), constant(I32, taken), constant(I32, other)))
            self.call_machine("vg_split", ir.VoidType(), [constant(I32, self.index)])
            self.b.branch(self.dispatch)
        else:
            self.b.cbranch(p, yes, no)
        self.bx = Builder(ir.IRBuilder(yes), self.module)
        self.goto(taken)
        self.bx = Builder(ir.IRBuilder(no), self.module)
        self.goto(other)

    def lower_exit(self, block):
        if self.guard is None:
            last, some = self.fn.append_basic_block("last"), self.fn.append_basic_block("some_leave")
            self.b.cbranch(self.b.icmp_unsigned("==", self.mask, self.field(L.ALIVE)), last, some)
            self.bx = Builder(ir.IRBuilder(last), self.module)
            self.set_field(L.ALIVE, constant(I32, 0))
            self.b.ret(constant(I32, L.STATUS_DONE))
            self.bx, self._mask_vec = Builder(ir.IRBuilder(some), self.module), None
        leaving = self.active()
        p = self.address(L.PC)
        old = self.b.load(p, typ=vec(I32))
        self.b.store(self.b.select(self.bx.to_mask(leaving), self.bx.splat(constant(I32, L.EXITED)), old), p)
        alive = self.b.and_(self.field(L.ALIVE), self.b.not_(leaving))
        self.set_field(L.ALIVE, alive)
        if self.guard is not None:
            self.mask = self.b.and_(self.mask, self.b.not_(leaving))
            self.park(constant(I32, block.succs[0]))
        self.b.branch(self.dispatch)

    def suspend(self, bit: int, where: int):
        """Leave the running lanes waiting, to go on at block `where`, and let the dispatcher see who else can run."""
        self.spill(self.body.blocks[self.index])
        self.leave(where, bit, L.STATUS_BARRIER)

    def leave(self, where: int, bit: int, status: int):
        """Return `status` with the running lanes to go on at `where`; when they are not all, others may run first."""
        together, apart = self.fn.append_basic_block("together"), self.fn.append_basic_block("apart")
        self.b.cbranch(self.b.icmp_unsigned("==", self.mask, self.field(L.ALIVE)), together, apart)
        self.bx = Builder(ir.IRBuilder(together), self.module)
        self.set_field(L.RESUME, constant(I32, where))
        self.b.ret(constant(I32, status))
        self.bx, self._mask_vec = Builder(ir.IRBuilder(apart), self.module), None
        self.park(constant(I32, where | bit))
        if status == L.STATUS_YIELD:
            self.b.ret(constant(I32, status))
        else:
            self.b.branch(self.dispatch)

    def is_resumed(self, i, block) -> bool:
        """True when a warp may have been left to go on at block i: after a barrier, or at a back edge's target."""
        for j, other in enumerate(self.body.blocks):
            if i in other.succs and (
                j >= i or (other.instrs and other.instrs[-1].parts[0] in ("bar", "barrier", "call"))
            ):
                return True
        return False


def lower_kernel(name: str, body: Body, params: dict, variables: dict, spaces: dict, sizes: dict) -> Lowering:
    """Lower `body` into a function called `name`.

    params: parameter name -> byte offset; variables: shared/local variable -> byte offset; spaces: variable -> space;
    sizes: bytes of variables and parameters.
    Raises PtxError for an opcode without a row, with its line.
    """
    from . import ops_convert, ops_float, ops_int, ops_memory, ops_move, ops_sync  # noqa: F401  (rows register themselves)

    return Lowering(name, body, params, variables, spaces, sizes).run()

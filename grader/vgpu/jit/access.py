"""Checked loads and stores of a warp, as LLVM IR: one function for each of load/store, element size and space.

`void vg_ld4_g(char *warp, int32 mask, int32 site)` moves 4 bytes a lane from the addresses in the warp's scratch area to
its values. The common cases, consecutive addresses or addresses inside the allocation that this site touched last, are
handled here; anything else (another allocation, a misaligned or wild address) goes to vg_slow, lane by lane.
"""

from llvmlite import ir

from . import layout as L
from .state import CACHE_WORDS, G_PROGRESS
from .values import I1, I8, I16, I32, I64, PTR, Builder, constant, vec
from .watch import build_watches

SIZES = {1: I8, 2: I16, 4: I32, 8: I64}
COUNTS = (1, 2, 4)
LETTERS = {L.SPACE_GLOBAL: "g", L.SPACE_SHARED: "s", L.SPACE_LOCAL: "l"}


class _Access:
    """One access function; count elements of nbytes each for a lane, element k of all lanes side by side in the values."""

    def __init__(self, module, name, nbytes, count, store, space):
        self.module, self.nbytes, self.count, self.store, self.space = module, nbytes, count, store, space
        self.shared, self.total = space == L.SPACE_SHARED, nbytes * count
        self.fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I32, I32]), name)
        self.fn.attributes.add("nounwind")
        self.warp, self.mask, self.site = self.fn.args
        self.t = SIZES[nbytes]
        self.block("entry")

    def block(self, name):
        block = self.fn.append_basic_block(name)
        self.bx = Builder(ir.IRBuilder(block), self.module)
        self.b = self.bx.b
        return block

    def at(self, block):
        self.bx = Builder(ir.IRBuilder(block), self.module)
        self.b = self.bx.b

    def new(self, name):
        return self.fn.append_basic_block(name)

    def ptr(self, offset):
        return self.b.gep(self.warp, [constant(I64, offset)], source_etype=I8)

    def field(self, offset, t=I32):
        return self.b.load(self.ptr(offset), typ=t)

    def external(self, name, args):
        fn = self.module.globals.get(name)
        if fn is None:
            fn = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [a.type for a in args]), name)
        self.b.call(fn, args)

    def build(self):
        b, n = self.b, self.total
        done, slow = self.new("done"), self.new("slow")
        some = self.new("some")
        b.cbranch(b.icmp_unsigned("==", self.mask, constant(I32, 0)), done, some)
        self.at(some)
        b = self.b
        a = self.field(L.SCRATCH_ADDRESS, vec(I64))
        base = self.field(L.SHARED, I64) if self.shared else constant(I64, 0)
        if self.shared:
            low, high = constant(I64, 0), b.zext(self.field(L.SHARED_BYTES), I64)
        elif self.space == L.SPACE_LOCAL:
            low, high = constant(I64, 0), b.zext(self.field(L.LOCAL_BYTES), I64)
        else:
            cache = b.inttoptr(
                b.add(self.field(L.CACHE, I64), b.mul(b.zext(self.site, I64), constant(I64, 8 * CACHE_WORDS))), PTR
            )
            low = b.load(cache, typ=I64)
            high = b.load(b.gep(cache, [constant(I64, 8)], source_etype=I8), typ=I64)
        scattered = self.new("scattered")
        if self.count == 1 and self.space != L.SPACE_LOCAL:
            self.row_path(a, base, low, high, scattered, slow, done)
        else:
            b.branch(scattered)

        self.at(scattered)
        b = self.b
        room = b.sub(b.sub(high, low), constant(I64, n))
        fits = b.icmp_unsigned(">=", b.sub(high, low), constant(I64, n))
        inside = b.icmp_unsigned("<=", b.sub(a, self.bx.splat(low)), self.bx.splat(room))
        if n > 1:
            aligned = b.icmp_unsigned(
                "==", b.and_(a, ir.Constant(vec(I64), [n - 1] * L.LANES)), ir.Constant(vec(I64), [0] * L.LANES)
            )
            inside = b.and_(inside, aligned)
        ok = b.icmp_unsigned("==", b.or_(b.bitcast(inside, I32), b.not_(self.mask)), constant(I32, -1))
        move = self.new("move")
        b.cbranch(b.and_(ok, fits), move, slow)
        self.at(move)
        self.observe(scattered=True)
        b = self.b
        lanes = self.bx.to_mask(self.mask)
        where = b.add(a, self.bx.splat(base)) if self.shared else a
        if self.space == L.SPACE_LOCAL:
            lane = ir.Constant(vec(I64), list(range(L.LANES)))
            where = b.add(a, b.add(self.bx.splat(self.field(L.LOCAL, I64)), b.mul(lane, self.bx.splat(high))))
        over = [vec(self.t), ir.VectorType(PTR, L.LANES)]
        align = constant(I32, self.nbytes)
        if self.space == L.SPACE_LOCAL:
            self.watch_local(where, lanes, over, align)
            b = self.b
        for k in range(self.count):
            at = b.add(where, self.bx.splat(constant(I64, k * self.nbytes))) if k else where
            ptrs = b.inttoptr(at, ir.VectorType(PTR, L.LANES))
            if self.store:
                self.masked("llvm.masked.scatter", ir.VoidType(), [self.value(k), ptrs, align, lanes], over)
            else:
                zero = ir.Constant(vec(self.t), [0] * L.LANES)
                v = self.masked("llvm.masked.gather", vec(self.t), [ptrs, align, lanes, zero], over)
                self.b.store(v, self.ptr(L.SCRATCH_VALUE + 32 * self.nbytes * k), align=min(64, 32 * self.nbytes))
        self.b.branch(done)

        self.at(slow)
        kind = constant(I32, L.STORE if self.store else L.LOAD)
        space = constant(I32, self.space)
        sizes = [constant(I32, self.nbytes), constant(I32, self.count)]
        self.external("vg_slow", [self.warp, self.mask, self.site, *sizes, kind, space])
        self.b.branch(done)
        self.at(done)
        self.b.ret_void()

    def row_path(self, a, base, low, high, scattered, slow, done):
        """Consecutive addresses move as one vector."""
        b, n = self.b, self.nbytes
        first = self.count_zeros("llvm.cttz", self.mask)
        last = b.sub(constant(I32, 31), self.count_zeros("llvm.ctlz", self.mask))
        lane_address = b.gep(self.ptr(L.SCRATCH_ADDRESS), [b.zext(first, I64)], source_etype=I64)
        a_first = b.load(lane_address, typ=I64)
        start = b.sub(a_first, b.mul(b.zext(first, I64), constant(I64, n)))  # where lane 0 would be
        iota = ir.Constant(vec(I64), [n * k for k in range(L.LANES)])
        follow = b.icmp_unsigned("==", a, b.add(self.bx.splat(start), iota))
        is_row = b.icmp_unsigned("==", b.or_(b.bitcast(follow, I32), b.not_(self.mask)), constant(I32, -1))
        row = self.new("row")
        b.cbranch(is_row, row, scattered)

        self.at(row)
        b = self.b
        end = b.add(start, b.mul(b.zext(b.add(last, constant(I32, 1)), I64), constant(I64, n)))
        ok = b.and_(b.icmp_unsigned(">=", a_first, low), b.icmp_unsigned("<=", end, high))
        ok = b.and_(ok, b.icmp_unsigned("<", a_first, end))
        if n > 1:
            ok = b.and_(ok, b.icmp_unsigned("==", b.and_(a_first, constant(I64, n - 1)), constant(I64, 0)))
        move_row = self.new("move_row")
        b.cbranch(ok, move_row, slow)
        self.at(move_row)
        self.observe()
        b = self.b
        full, part = self.new("full"), self.new("part")
        p = b.inttoptr(b.add(base, start), PTR)
        b.cbranch(b.icmp_unsigned("==", self.mask, constant(I32, -1)), full, part)
        self.at(full)
        if self.store:
            self.b.store(self.value(), p, align=n)
        else:
            self.b.store(self.b.load(p, typ=vec(self.t), align=n), self.ptr(L.SCRATCH_VALUE))
        self.b.branch(done)
        self.at(part)
        lanes = self.bx.to_mask(self.mask)
        if self.store:
            self.masked(
                "llvm.masked.store", ir.VoidType(), [self.value(), p, constant(I32, n), lanes], [vec(self.t), PTR]
            )
        else:
            zero = ir.Constant(vec(self.t), [0] * L.LANES)
            v = self.masked("llvm.masked.load", vec(self.t), [p, constant(I32, n), lanes, zero], [vec(self.t), PTR])
            self.b.store(v, self.ptr(L.SCRATCH_VALUE))
        self.b.branch(done)

    def count_zeros(self, name, x):
        return self.bx.intrinsic(name, I32, [x, constant(I1, 1)], [I32])

    def value(self, k=0):
        return self.b.load(
            self.ptr(L.SCRATCH_VALUE + 32 * self.nbytes * k), typ=vec(self.t), align=min(64, 32 * self.nbytes)
        )

    def masked(self, name, result, args, overload):
        """A masked memory intrinsic; its name carries the value's and the pointer's type."""
        suffix = f".v{L.LANES}i{self.t.width}." + ("p0" if overload[1] == PTR else f"v{L.LANES}p0")
        fn = self.module.globals.get(name + suffix)
        if fn is None:
            fn = ir.Function(self.module, ir.FunctionType(result, [x.type for x in args]), name + suffix)
        return self.b.call(fn, args)

    def watch_local(self, where, lanes, over, align):
        """initcheck of local memory: a byte of marks for each byte, equal to the block's mark once written."""
        on, after = self.new("marks"), self.new("marked")
        watched = self.b.and_(self.field(L.FLAGS), constant(I32, L.OBSERVE_INIT))
        self.b.cbranch(self.b.icmp_unsigned("!=", watched, constant(I32, 0)), on, after)
        self.at(on)
        to_marks = self.bx.splat(self.b.sub(self.field(L.LOCAL_SHADOW, I64), self.field(L.LOCAL, I64)))
        mark = self.field(L.LOCAL_MARK, I64)
        mark = self.bx.splat(self.b.trunc(mark, self.t) if self.t != I64 else mark)
        same = None
        for k in range(self.count):
            at = self.b.add(self.b.add(where, to_marks), self.bx.splat(constant(I64, k * self.nbytes)))
            ptrs = self.b.inttoptr(at, ir.VectorType(PTR, L.LANES))
            if self.store:
                self.masked("llvm.masked.scatter", ir.VoidType(), [mark, ptrs, align, lanes], over)
            else:
                found = self.masked("llvm.masked.gather", vec(self.t), [ptrs, align, lanes, mark], over)
                equal = self.b.icmp_unsigned("==", found, mark)
                same = equal if same is None else self.b.and_(same, equal)
        if self.store:
            self.b.branch(after)
        else:
            tell = self.new("unwritten")
            self.b.cbranch(self.b.icmp_unsigned("==", self.b.bitcast(same, I32), constant(I32, -1)), after, tell)
            self.at(tell)
            self.external(
                "vg_local_init",
                [self.warp, self.mask, self.site, constant(I32, self.nbytes), constant(I32, self.count)],
            )
            self.b.branch(after)
        self.at(after)

    def observe(self, scattered=False):
        """Tell the observers, if there are any, of an access that is about to be made."""
        tell, count, watch, on = (self.new(n) for n in ("tell", "count", "watch", "go_on"))
        kind = constant(I32, L.STORE if self.store else L.LOAD)
        space, total = constant(I32, self.space), constant(I32, self.total)
        flags, zero = self.field(L.FLAGS), constant(I32, 0)
        self.b.cbranch(self.b.icmp_unsigned("!=", flags, zero), tell, on)
        self.at(tell)
        counted = self.b.and_(flags, constant(I32, L.OBSERVE_COUNT))
        self.b.cbranch(self.b.icmp_unsigned("!=", counted, zero), count, watch)
        self.at(count)
        self.external("vg_count", [self.warp, self.mask, self.site, total, kind, space])
        self.b.branch(watch)
        self.at(watch)
        if self.store:
            progress = self.b.inttoptr(self.b.add(self.field(L.GRID, I64), constant(I64, G_PROGRESS)), PTR)
            self.b.store(self.b.add(self.b.load(progress, typ=I64), constant(I64, 1)), progress)
        if self.space == L.SPACE_LOCAL:  # nobody else sees it
            self.b.branch(on)
            self.at(on)
            return
        watched = self.b.and_(flags, constant(I32, L.OBSERVE_RACE | L.OBSERVE_INIT))
        both = self.new("both")
        self.b.cbranch(self.b.icmp_unsigned("!=", watched, zero), both, on)
        self.at(both)
        name = f"vg_watch_{'st' if self.store else 'ld'}_{'s' if self.shared else 'g'}"
        self.b.call(self.module.globals[name], [self.warp, self.mask, self.site, total, constant(I32, int(scattered))])
        self.b.branch(on)
        self.at(on)


def build_permute(module):
    """`void vg_permute(char *warp)`: values[i + 32] = values[lanes[i]] for 32-bit values (shfl)."""
    fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "vg_permute")
    b = ir.IRBuilder(fn.append_basic_block("entry"))

    def at(offset):
        return b.gep(fn.args[0], [constant(I64, offset)], source_etype=I8)

    for k in range(L.LANES):
        lane = b.zext(b.load(at(L.SCRATCH_ADDRESS + 4 * k), typ=I32), I64)
        value = b.load(b.gep(at(L.SCRATCH_VALUE), [b.and_(lane, constant(I64, 31))], source_etype=I32), typ=I32)
        b.store(value, at(L.SCRATCH_VALUE + 256 + 4 * k))
    b.ret_void()


def function_name(store: bool, nbytes: int, count: int, space: int) -> str:
    """vg_ld4_g for one 4-byte element, vg_st4x2_s for two."""
    size = f"{nbytes}" if count == 1 else f"{nbytes}x{count}"
    return f"vg_{'st' if store else 'ld'}{size}_{LETTERS[space]}"


def functions():
    """(name, bytes an element, elements, store, space) of every access function."""
    for store in (False, True):
        for nbytes in SIZES:
            for count in COUNTS:
                for space in LETTERS:
                    yield function_name(store, nbytes, count, space), nbytes, count, store, space


def build_module() -> ir.Module:
    """All access functions in one module, compiled once and kept with the process."""
    module = ir.Module("access")
    build_watches(module)
    for name, nbytes, count, store, space in functions():
        _Access(module, name, nbytes, count, store, space).build()
    build_permute(module)
    return module

"""The common case of racecheck and initcheck, as LLVM IR over the warp's lanes.

`void vg_watch_ld_s(char *warp, int32 mask, int32 site, int32 nbytes, int32 scattered)` and its kin look at the shadows of the words that the
lanes touch and, when none of them can be in conflict, note the access there. Anything else (a possible conflict, an access
wider than a word of shadow, named barriers) goes to vg_sanitize (machine/observe.py), which decides and reports lane by
lane. sanitize/race.py says what the entries of the shadows mean.
"""

from llvmlite import ir

from . import layout as L
from . import state as S
from .values import I8, I32, I64, PTR, Builder, constant, vec

MANY = 1 << 62
SHARED_CROWD, GLOBAL_CROWD = MANY | 1 << 31, MANY | 1 << 61  # entries that do not name all who were there


class _Watch:
    def __init__(self, module, store, shared):
        self.module, self.store, self.shared = module, store, shared
        name = f"vg_watch_{'st' if store else 'ld'}_{'s' if shared else 'g'}"
        self.fn = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32, I32]), name)
        self.fn.attributes.add("nounwind")
        self.warp, self.mask, self.site, self.nbytes, self.scattered = self.fn.args
        self.at(self.fn.append_basic_block("entry"))
        self.slow = self.fn.append_basic_block("slow")
        self.done = self.fn.append_basic_block("done")

    def at(self, block):
        self.bx = Builder(ir.IRBuilder(block), self.module)
        self.b = self.bx.b

    def load(self, base, offset, t=I64):
        """Load from an integer address plus offset."""
        return self.b.load(self.b.inttoptr(self.b.add(base, constant(I64, offset)), PTR), typ=t)

    def store_at(self, base, offset, value):
        self.b.store(value, self.b.inttoptr(self.b.add(base, constant(I64, offset)), PTR))

    def field(self, offset, t=I64):
        return self.b.load(self.b.gep(self.warp, [constant(I64, offset)], source_etype=I8), typ=t)

    def require(self, ok):
        """Go on where `ok` (an i1) holds; else to the slow path."""
        here = self.fn.append_basic_block("go")
        self.b.cbranch(ok, here, self.slow)
        self.at(here)

    def splat(self, v):
        return self.bx.splat(v if not isinstance(v, int) else constant(I64, v))

    def all_lanes(self, p):
        """i1: the condition holds in every active lane."""
        b = self.b
        return b.icmp_unsigned("==", b.or_(b.bitcast(p, I32), b.not_(self.mask)), constant(I32, -1))

    def gather(self, where):
        b = self.b
        ptrs = b.inttoptr(where, ir.VectorType(PTR, L.LANES))
        name = "llvm.masked.gather.v32i64.v32p0"
        args = [ptrs, constant(I32, 8), self.bx.to_mask(self.mask), ir.Constant(vec(I64), [0] * L.LANES)]
        return b.call(self.declare(name, vec(I64), args), args)

    def scatter(self, value, where):
        b = self.b
        ptrs = b.inttoptr(where, ir.VectorType(PTR, L.LANES))
        args = [value, ptrs, constant(I32, 8), self.bx.to_mask(self.mask)]
        b.call(self.declare("llvm.masked.scatter.v32i64.v32p0", ir.VoidType(), args), args)

    def declare(self, name, result, args):
        fn = self.module.globals.get(name)
        if fn is None:
            fn = ir.Function(self.module, ir.FunctionType(result, [a.type for a in args]), name)
        return fn

    def build(self):
        b = self.b
        grid, block = self.field(L.GRID), self.field(L.STATE)
        warp_id = b.zext(self.field(L.WARPID, I32), I64)
        addresses = self.field(L.SCRATCH_ADDRESS, vec(I64))
        shift = self.load(grid, S.G_SHARED_SHIFT if self.shared else S.G_GLOBAL_SHIFT)
        one_word = b.icmp_unsigned("==", b.zext(self.nbytes, I64), b.shl(constant(I64, 1), shift))
        strong = self.load(
            b.add(self.load(grid, S.G_SITES), b.mul(b.zext(self.site, I64), constant(I64, 8 * S.SITE_WORDS))), 8
        )
        weak = b.icmp_unsigned("==", b.and_(strong, constant(I64, S.STRONG)), constant(I64, 0))
        plain = b.icmp_unsigned("==", self.load(block, S.B_NAMED), constant(I64, 0))
        self.require(b.and_(b.and_(one_word, weak), plain))
        b = self.b
        mine = self.load(b.add(block, b.mul(warp_id, constant(I64, 8))), S.B_CLOCK)
        barrier = self.load(block, S.B_BARRIER)
        synced = self.load(b.add(block, b.mul(warp_id, constant(I64, 8))), S.B_SYNCED)
        first_thread = b.mul(warp_id, constant(I64, 32))
        threads = b.add(self.splat(first_thread), ir.Constant(vec(I64), list(range(L.LANES))))
        if self.shared:
            self.shared_words(grid, block, addresses, shift, mine, synced, barrier, threads)
        else:
            self.global_words(grid, block, addresses, shift, mine, synced, barrier, threads)
        self.b.branch(self.done)
        self.at(self.slow)
        kind = constant(I32, L.STORE if self.store else L.LOAD)
        space = constant(I32, L.SPACE_SHARED if self.shared else L.SPACE_GLOBAL)
        args = [self.warp, self.mask, self.site, self.nbytes, kind, space]
        self.b.call(self.declare("vg_sanitize", ir.VoidType(), args), args)
        self.b.branch(self.done)
        self.at(self.done)
        self.b.ret_void()

    # ------------------------------------------------------------------ shared memory
    def shared_words(self, grid, block, addresses, shift, mine, synced, barrier, threads):
        b = self.b
        base = self.load(block, S.B_BASE)
        offset = b.shl(b.lshr(addresses, self.splat(shift)), self.splat(3))
        write_at = b.add(offset, self.splat(self.load(block, S.B_SHADOW_W)))
        read_at = b.add(offset, self.splat(self.load(block, S.B_SHADOW_R0)))
        entry = b.or_(b.shl(mine, constant(I64, 32)), b.shl(b.zext(self.site, I64), constant(I64, 10)))
        entry = b.or_(self.splat(entry), threads)
        last = self.gather(write_at)
        epoch = b.and_(b.lshr(last, self.splat(32)), self.splat(0x3FFFFFFF))
        written = b.icmp_unsigned(">=", epoch, self.splat(base))
        ok = self.ordered(last, epoch, synced, barrier, threads, SHARED_CROWD)
        not_flying = b.icmp_unsigned("!=", epoch, self.splat(0x3FFFFFFF))
        if not self.store:
            self.require(self.all_lanes(b.and_(b.and_(written, ok), not_flying)))
            b = self.b
            before = self.gather(read_at)
            same = b.icmp_unsigned("==", b.lshr(b.xor(before, entry), self.splat(32)), self.splat(0))
            note = self.fn.append_basic_block("note")
            b.cbranch(self.all_lanes(same), self.done, note)  # read in this epoch by a lane of this warp already
            self.at(note)
            b = self.b
            re = b.and_(b.lshr(before, self.splat(32)), self.splat(0x3FFFFFFF))
            current = b.icmp_unsigned(">", re, self.splat(barrier))
            other_warp = b.icmp_unsigned(
                "!=", b.lshr(b.and_(b.xor(before, threads), self.splat(1023)), self.splat(5)), self.splat(0)
            )
            was_many = b.icmp_unsigned("!=", b.and_(before, self.splat(MANY)), self.splat(0))
            many = b.and_(current, b.or_(other_warp, was_many))
            # whoever updates the word has read it last: the other reader is worth a name
            named = b.select(b.and_(current, other_warp), before, entry)
            named = b.or_(b.and_(entry, self.splat(~0xFFFFFFFF & (1 << 64) - 1)), b.and_(named, self.splat(0xFFFFFFFF)))
            self.scatter(b.or_(named, b.select(many, self.splat(MANY), self.splat(0))), read_at)
            return
        fresh = b.not_(written)
        self.require(self.all_lanes(b.and_(b.or_(fresh, ok), not_flying)))
        b = self.b
        before = self.gather(read_at)
        re = b.and_(b.lshr(before, self.splat(32)), self.splat(0x3FFFFFFF))
        unread = b.icmp_unsigned("<", re, self.splat(base))
        quiet = self.ordered(before, re, synced, barrier, threads, MANY)
        self.require(self.all_lanes(b.or_(unread, quiet)))
        self.scatter(entry, write_at)
        self.alone(entry, write_at)

    def alone(self, entry, where):
        """Lanes that store to the same word in this very instruction: when their addresses may coincide, see whose entry is there."""
        look = self.fn.append_basic_block("look")
        self.b.cbranch(self.b.icmp_unsigned("==", self.scattered, constant(I32, 0)), self.done, look)
        self.at(look)
        found = self.gather(where)
        self.require(self.all_lanes(self.b.icmp_unsigned("==", found, entry)))

    def ordered(self, entry, epoch, synced, barrier, threads, crowd):
        """Per lane: the access of `entry` is before the last barrier; or one thread's, this one's or before the last syncwarp of this warp."""
        b = self.b
        difference = b.and_(b.xor(entry, threads), self.splat(1023))
        own = b.icmp_unsigned("==", difference, self.splat(0))
        warp = b.icmp_unsigned("==", b.lshr(difference, self.splat(5)), self.splat(0))
        earlier = b.icmp_unsigned("<=", epoch, self.splat(synced))
        single = b.icmp_unsigned("==", b.and_(entry, self.splat(crowd)), self.splat(0))
        settled = b.icmp_unsigned("<=", epoch, self.splat(barrier))
        return b.or_(settled, b.and_(single, b.or_(own, b.and_(warp, earlier))))

    # ------------------------------------------------------------------ global memory
    def global_words(self, grid, block, addresses, shift, mine, synced, barrier, threads):
        b = self.b
        cache = b.add(self.field(L.CACHE), b.mul(b.zext(self.site, I64), constant(I64, 8 * S.CACHE_WORDS)))
        low, row = self.load(cache, 0), self.load(cache, 16)
        init = self.load(row, 8 * S.ALLOC_INIT)
        self.require(b.icmp_unsigned("==", init, constant(I64, 0)))  # every byte is known to be written
        b = self.b
        shadow = self.load(row, 8 * S.ALLOC_RACE)
        watched = self.fn.append_basic_block("watched")
        b.cbranch(b.icmp_unsigned("==", shadow, constant(I64, 0)), self.done, watched)
        self.at(watched)
        b = self.b
        start = self.load(grid, S.G_LAUNCH)
        index = self.load(block, S.B_INDEX)
        self.require(
            b.and_(
                b.icmp_unsigned("<", index, constant(I64, S.MAX_BLOCKS)),
                b.icmp_unsigned("<", b.sub(mine, start), constant(I64, S.MAX_EPOCHS)),
            )
        )
        b = self.b
        relative, settled, joined = b.sub(mine, start), b.sub(barrier, start), b.sub(synced, start)
        offset = b.shl(b.lshr(b.sub(addresses, self.splat(low)), self.splat(shift)), self.splat(4))
        write_at = b.add(offset, self.splat(shadow))
        read_at = b.add(write_at, self.splat(8))
        site = b.and_(b.zext(self.site, I64), constant(I64, S.SITE_MASK))
        entry = b.or_(
            b.shl(relative, constant(I64, S.EPOCH_SHIFT)),
            b.or_(b.shl(index, constant(I64, S.BLOCK_SHIFT)), b.shl(site, constant(I64, 10))),
        )
        entry = b.or_(self.splat(entry), threads)
        if not self.store:
            check = self.fn.append_basic_block("check_writes")
            note = self.fn.append_basic_block("reads")
            dirty = self.load(row, 8 * S.ALLOC_DIRTY)
            b.cbranch(
                b.icmp_unsigned("==", dirty, constant(I64, 0)), note, check
            )  # nothing in it was written in this launch
            self.at(check)
            b = self.b
            last = self.gather(write_at)
            ok = b.or_(
                b.icmp_unsigned("==", last, self.splat(0)),
                self.global_ordered(last, index, joined, settled, threads, GLOBAL_CROWD),
            )
            b.cbranch(self.all_lanes(ok), note, self.slow)
            self.at(note)
            b = self.b
            before = self.gather(read_at)
            same = b.icmp_unsigned("==", b.and_(b.xor(before, entry), self.splat(S.WHO_MASK)), self.splat(0))
            more = self.fn.append_basic_block("note")
            b.cbranch(self.all_lanes(same), self.done, more)  # this block read it in this epoch already
            self.at(more)
            b = self.b
            others = b.icmp_unsigned(
                "!=", b.and_(b.xor(before, entry), self.splat(S.BLOCK_MASK << S.BLOCK_SHIFT)), self.splat(0)
            )
            others = b.and_(others, b.icmp_unsigned("!=", before, self.splat(0)))
            acquired = self.load(b.add(self.load(grid, S.G_ACQUIRED), b.mul(index, constant(I64, 16))), 0)
            alone = b.icmp_unsigned("==", b.and_(b.bitcast(others, I32), self.mask), constant(I32, 0))
            self.require(b.or_(alone, b.icmp_unsigned("==", acquired, constant(I64, 0))))  # else they may be ordered
            b = self.b
            many = b.or_(b.and_(before, self.splat(MANY)), b.select(others, self.splat(MANY), self.splat(0)))
            self.scatter(b.or_(entry, many), read_at)
            return
        self.store_at(row, 8 * S.ALLOC_DIRTY, constant(I64, 1))
        last = self.gather(write_at)
        ok = b.or_(
            b.icmp_unsigned("==", last, self.splat(0)),
            self.global_ordered(last, index, joined, settled, threads, GLOBAL_CROWD),
        )
        before = self.gather(read_at)
        single = b.icmp_unsigned("==", b.and_(before, self.splat(MANY)), self.splat(0))
        quiet = b.and_(single, self.global_ordered(before, index, joined, settled, threads, GLOBAL_CROWD))
        quiet = b.or_(b.icmp_unsigned("==", before, self.splat(0)), quiet)
        self.require(self.all_lanes(b.and_(ok, quiet)))
        self.scatter(entry, write_at)
        self.alone(entry, write_at)

    def global_ordered(self, entry, index, joined, settled, threads, crowd):
        b = self.b
        mine = b.icmp_unsigned(
            "==", b.and_(b.lshr(entry, self.splat(S.BLOCK_SHIFT)), self.splat(S.BLOCK_MASK)), self.splat(index)
        )
        epoch = b.and_(b.lshr(entry, self.splat(S.EPOCH_SHIFT)), self.splat(S.MAX_EPOCHS - 1))
        return b.and_(mine, self.ordered(entry, epoch, joined, settled, threads, crowd))


def build_watches(module):
    """Add the four watch functions to `module`."""
    for store in (False, True):
        for shared in (False, True):
            _Watch(module, store, shared).build()

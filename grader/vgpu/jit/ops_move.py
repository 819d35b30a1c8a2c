"""mov, cvta and other moves without memory (PTX ISA: "Data Movement and Conversion Instructions")."""

from llvmlite import ir

from ..ptx.parse import PtxError, Vec
from . import layout as L
from .table import op
from .values import I1, I32, I64, constant, elem, kind_type, width


@op("mov", "pred b16 b32 b64 b128 u16 s16 u32 s32 u64 s64 f32 f64")
def mov(lw, i):
    dest, source, kind = i.args[0], i.args[1], i.parts[-1]
    if kind == "b128":
        raise PtxError(f"line {i.line}: {i.op} is not supported by the virtual GPU")
    if isinstance(source, Vec):
        return lw.dst(dest, pack(lw, source, kind))
    value = lw.src(source, kind)
    if isinstance(dest, Vec):
        return unpack(lw, dest, value)
    return lw.dst(dest, value)


def pack(lw, source, kind):
    """mov.b32 d, {a, b}: the first element is the least significant."""
    bx, t = lw.bx, kind_type(kind)
    part = ir.IntType(t.width // len(source.items))
    total = constant(t, 0)
    for k, item in enumerate(source.items):
        piece = bx.cast("zext", lw.src(item, f"b{part.width}"), t)
        total = bx.or_(total, bx.shl(piece, constant(t, k * part.width)))
    return total


def unpack(lw, dest, value):
    bx, t = lw.bx, elem(value)
    part = ir.IntType(width(t) // len(dest.items))
    value = bx.cast("bitcast", value, ir.IntType(width(t)))
    for k, item in enumerate(dest.items):
        lw.dst(item, bx.cast("trunc", bx.lshr(value, constant(elem(value), k * part.width)), part))


WINDOWS = {"shared": L.SHARED_WINDOW, "local": L.LOCAL_WINDOW}


@op("cvta", "u32 u64", "to global shared shared::cta shared::cluster local const param")
def cvta(lw, i):
    """Global and constant addresses are generic as they are; shared and local ones get or lose their window."""
    bx = lw.bx
    v = lw.src(i.args[1], i.parts[-1])
    space = next(
        (p.split("::")[0] for p in i.parts if p.split("::")[0] in ("global", "shared", "local", "const", "param")), None
    )
    if space in WINDOWS:
        if "to" in i.parts:
            v = bx.and_(v, constant(I64, (1 << 48) - 1))
        else:
            v = bx.or_(v, constant(I64, WINDOWS[space]))
    lw.dst(i.args[0], v)


@op("isspacep", "", "global shared shared::cta shared::cluster local const param")
def isspacep(lw, i):
    bx = lw.bx
    v = lw.src(i.args[1], "u64")
    window = bx.lshr(v, constant(I64, L.WINDOW_SHIFT))
    space = i.parts[1].split("::")[0]
    want = {"shared": 1, "local": 2, "global": 0}.get(space)
    lw.dst(i.args[0], bx.icmp("==", window, constant(I64, want)) if want is not None else constant(I1, 0))


@op("mapa", "u32 u64", "shared::cluster")
def mapa(lw, i):
    """Each block is a cluster of one: rank 0 is itself. Another rank's address lies in nobody's memory."""
    bx, kind = lw.bx, i.parts[-1]
    rank = lw.src(i.args[2], "u32")
    most = constant(I32, L.MAX_RANK)
    away = bx.shl(bx.select(bx.icmp("<", rank, most), rank, most), constant(I32, L.RANK_SHIFT))
    lw.dst(i.args[0], bx.add(lw.src(i.args[1], kind), away if kind == "u32" else bx.cast("zext", away, I64)))


@op("getctarank", "u32 u64", "shared::cluster")
def getctarank(lw, i):
    bx, kind = lw.bx, i.parts[-1]
    rank = bx.and_(
        bx.lshr(lw.src(i.args[1], kind), constant(I32 if kind == "u32" else I64, L.RANK_SHIFT)),
        constant(I32 if kind == "u32" else I64, L.MAX_RANK),
    )
    lw.dst(i.args[0], rank if kind == "u32" else bx.cast("trunc", rank, I32))


@op("prefetch prefetchu", "", "global L1 L2 L2::evict_last L2::evict_normal local")
def prefetch(lw, i):
    """A hint without a visible effect."""


@op("discard applypriority", "", "global L2 L2::evict_normal")
def hint(lw, i):
    """A hint without a visible effect."""


@op("setmaxnreg", "u32", "inc dec sync aligned")
def setmaxnreg(lw, i):
    """Moves registers between warps of a real SM; here each lane has all that it asks for."""


@op("griddepcontrol", "", "wait launch_dependents")
def griddepcontrol(lw, i):
    """Kernels of a stream run one after the other here, so what it waits for is over."""


@op("pmevent", "", "mask")
def pmevent(lw, i):
    """Triggers a performance monitor that is not there; no visible effect."""

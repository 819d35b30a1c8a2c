"""PTX modules and kernels: parsing, variables in memory, compilation at the first launch."""

import functools
import json
import struct
from dataclasses import dataclass

import numpy as np

from ..jit import compile
from ..jit import layout as L
from ..jit.lower import Site, lower_kernel
from ..ptx.cfg import build_body
from ..ptx.inline import flatten, function_addresses
from ..ptx.parse import Instr, PtxError, Sym, parse_ptx
from ..ptx.pointers import stored_through
from .memory import Memory
from .runtime import install

MAX_LOCAL = 512 << 10  # bytes a thread (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")
STRONG_PARTS = {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}


class ModuleError(PtxError):
    """A PTX module that cannot be loaded or compiled; the message names the opcode and the line."""


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled kernel."""

    address: int
    frame_bytes: int  # a warp's state, registers included
    sites: tuple[Site, ...]
    symbols: tuple[str, ...]  # rows of the table of variables
    quiet: np.ndarray  # per block: 1 when a lane only returns from there
    blocks: tuple  # per block: tuple of (opcode, line, file) of its instructions; a wait_group's has its number: ".. 1"
    grain: int  # log2 of the fewest bytes that an access to shared memory moves
    global_grain: int
    uses_async: bool
    uses_atomics: bool
    uses_grid: bool
    uses_mbarrier: bool
    uses_partial: bool  # a syncwarp of only some lanes
    succs: tuple  # per block: the blocks that may follow


class Kernel:
    """An entry of a module."""

    def __init__(self, module: "Module", function):
        self.module, self.function = module, function
        self.name = function.name
        self.max_threads = function.max_threads
        self.params: list[tuple[int, int]] = []  # (offset, size) in the parameter block
        self.param_offsets: dict[str, int] = {}
        at = 0
        for name, align, size in function.params:
            at = (at + align - 1) // align * align
            self.params.append((at, size))
            self.param_offsets[name] = at
            at += size
        self.param_bytes = at
        try:
            self._code, variables = flatten(module.parsed, function)
        except PtxError as error:
            raise ModuleError(str(error)) from None
        self._lay_out(variables)
        self._compiled: Code | None = None
        self.slots = {}  # launch.py keeps what it can use again
        self.prints = any(
            isinstance(i, Instr) and i.parts[0] == "call" and i.args[0].name == "vprintf" for i in self._code
        )

    def _lay_out(self, variables):
        used = {o.name for i in self._code if isinstance(i, Instr) for o in _symbols(i.args)}
        self.offsets, self.spaces = {}, {}
        self.sizes = {name: size for name, _, size in self.function.params}
        sizes = {"shared": 0, "local": 0}
        dynamic = []
        for var in [*variables, *(v for v in self.module.parsed.variables.values() if v.name in used)]:
            self.spaces[var.name], self.sizes[var.name] = var.space, var.nbytes
            if var.space not in sizes:
                continue
            if var.dynamic:
                dynamic.append(var)
                continue
            at = (sizes[var.space] + var.align - 1) // var.align * var.align
            self.offsets[var.name] = at
            sizes[var.space] = at + var.nbytes
        for var in dynamic:
            align = max(var.align, 16)
            self.offsets[var.name] = (sizes["shared"] + align - 1) // align * align
        self.shared_bytes = sizes["shared"]
        self.dynamic_at = max((self.offsets[v.name] for v in dynamic), default=(sizes["shared"] + 15) // 16 * 16)
        self.local_bytes = (sizes["local"] + 15) // 16 * 16
        if self.local_bytes > MAX_LOCAL:
            raise ModuleError(
                f"{self.name} needs {self.local_bytes} bytes of local memory a thread; the limit is {MAX_LOCAL}"
            )

    @property
    def files(self) -> dict:
        return self.module.parsed.files

    @functools.cached_property
    def stores(self) -> frozenset[int] | None:
        """Offsets of the parameters' words through which it may write memory; None: all of them."""
        return stored_through(self._code, self.param_offsets)

    def code(self) -> Code:
        """Compile, or take the machine code from the disk cache. Raises ModuleError for what is not supported."""
        if self._compiled is None:
            install()
            try:
                self._compiled = self._compile()
            except PtxError as error:
                raise ModuleError(str(error)) from None
        return self._compiled

    def _key(self) -> str:
        parts = [repr((self.param_offsets, self.offsets, self.spaces, self.sizes))]
        for item in self._code:
            parts.append(
                repr(item)
                if not isinstance(item, Instr)
                else f"{item.op}{item.args}{item.pred}{item.pred_neg}{item.line},{item.file}"
            )
        return compile.cache_key("\n".join(parts).replace(self.name, "kernel"))

    def _compile(self) -> Code:
        key = self._key()
        stored = compile.load_cached(key)
        if stored is not None:
            size = struct.unpack_from("<I", stored)[0]
            meta, obj = json.loads(stored[4 : 4 + size]), stored[4 + size :]
        else:
            meta, obj = self._lower()
            # The key does not depend on the kernel's name, so what is stored must not either.
            meta["symbols"] = [s.replace(self.name, "\0") for s in meta["symbols"]]
            head = json.dumps(meta).encode()
            compile.store_cached(key, struct.pack("<I", len(head)) + head + obj)
        return Code(
            address=compile.load(obj, ("kernel",))["kernel"],
            frame_bytes=meta["frame_bytes"],
            sites=tuple(Site(*s) for s in meta["sites"]),
            symbols=tuple(s.replace("\0", self.name) for s in meta["symbols"]),
            quiet=np.array(meta["quiet"], np.uint8),
            blocks=tuple(tuple(tuple(i) for i in b) for b in meta["blocks"]),
            grain=meta["grain"],
            global_grain=meta["global_grain"],
            uses_async=meta["uses_async"],
            uses_atomics=meta["uses_atomics"],
            uses_grid=meta["uses_grid"],
            uses_mbarrier=meta["uses_mbarrier"],
            uses_partial=meta["uses_partial"],
            succs=tuple(tuple(s) for s in meta["succs"]),
        )

    def _lower(self):
        body = build_body(self._code, set(self.param_offsets))
        lowered = lower_kernel("kernel", body, self.param_offsets, self.offsets, self.spaces, self.sizes)
        obj = compile.compile_object(str(lowered.module))
        sites = lowered.sites
        meta = {
            "frame_bytes": lowered.frame_bytes,
            "sites": [[s.op, s.line, s.file, s.block, s.nbytes, s.space, s.kind, s.live] for s in sites],
            "symbols": lowered.symbols,
            "quiet": _quiet(body),
            "blocks": [[[_opcode(i), i.line, i.file] for i in b.instrs] for b in body.blocks],
            "grain": _grain(sites, L.SPACE_SHARED),
            "global_grain": _grain(sites, L.SPACE_GLOBAL),
            "uses_async": lowered.uses_async,
            "uses_atomics": lowered.uses_atomics,
            "uses_grid": lowered.uses_grid,
            "uses_mbarrier": lowered.uses_mbarrier,
            "uses_partial": lowered.uses_partial,
            "succs": [list(b.succs) for b in body.blocks],
        }
        return meta, obj


def elements(op: str) -> int:
    """Elements that an access moves for a lane: 2 for ld.global.v2.f32."""
    return next((n for part, n in (("v2", 2), ("v4", 4)) if part in op.split(".")), 1)


def _grain(sites, space) -> int:
    """log2 of the smallest access that may touch a space: the unit in which its shadow is kept."""
    small = 8
    for s in sites:
        if s.nbytes and s.space in (space, L.SPACE_GENERIC):
            small = min(small, s.nbytes // elements(s.op))
    return {1: 0, 2: 1, 4: 2}.get(small, 3)


def _opcode(instr) -> str:
    """As it is written, with the number of groups that a wait leaves: counts of waits are told apart by it."""
    return f"{instr.op} {instr.args[0].value}" if instr.op == "cp.async.wait_group" else instr.op


def _quiet(body) -> list[int]:
    """Blocks from which a lane only returns, without a memory access, barrier or call."""
    loud = {
        "ld",
        "st",
        "atom",
        "red",
        "bar",
        "barrier",
        "call",
        "cp",
        "mbarrier",
        "shfl",
        "vote",
        "match",
        "redux",
        "membar",
        "fence",
    }
    quiet = [0] * len(body.blocks)
    for i in range(len(body.blocks) - 1, -1, -1):
        block = body.blocks[i]
        if any(instr.parts[0] in loud and "param" not in instr.parts for instr in block.instrs):
            continue
        quiet[i] = int(all(s > i and quiet[s] for s in block.succs))
    return quiet


def _symbols(operand):
    """All Syms in an operand or list of operands."""
    if isinstance(operand, Sym):
        yield operand
    elif isinstance(operand, (list, tuple)):
        for o in operand:
            yield from _symbols(o)
    elif hasattr(operand, "base"):
        yield from _symbols(operand.base)
    elif hasattr(operand, "items"):
        yield from _symbols(operand.items)


class Module:
    """A loaded PTX text: its kernels, and its variables in `memory`."""

    def __init__(self, ptx: str | bytes, memory: Memory):
        if isinstance(ptx, bytes):
            ptx = ptx.rstrip(b"\0").decode("utf-8", "replace")
        self.memory = memory
        try:
            self.parsed = parse_ptx(ptx)
        except PtxError as error:
            raise ModuleError(str(error)) from None
        self.symbols: dict[str, tuple[int, int]] = {}
        self._allocate()
        if {"malloc", "free"} & self.parsed.functions.keys():
            memory.heap()
        self.kernels = {f.name: Kernel(self, f) for f in self.parsed.functions.values() if f.is_entry}

    def _allocate(self):
        held = [v for v in self.parsed.variables.values() if v.space in ("global", "const")]
        held += [v for f in self.parsed.functions.values() for v in f.variables if v.space in ("global", "const")]
        for var in held:
            allocation = self.memory.allocate(
                max(var.nbytes, 1), "constant" if var.space == "const" else "device", label=var.name
            )
            self.symbols[var.name] = (allocation.address, var.nbytes)
        functions = function_addresses(self.parsed)
        for var in held:
            address = self.symbols[var.name][0]
            data = bytearray(var.data if var.data is not None else bytes(var.nbytes))
            for offset, sym in var.relocations:
                place = self.symbols[sym.name][0] if sym.name in self.symbols else functions.get(sym.name)
                if place is None:
                    raise ModuleError(f"{var.name} refers to {sym.name}, which the module does not have")
                struct.pack_into("<q", data, offset, place + sym.offset)
            self.memory.view(address, var.nbytes)[:] = np.frombuffer(bytes(data), np.uint8)[: var.nbytes]
            self.memory.written(address, var.nbytes)

    def unload(self):
        """Free the module's variables."""
        for address, _ in self.symbols.values():
            self.memory.free(address)
        self.symbols = {}

"""Basic blocks in the order in which a warp runs them, with liveness and warp-uniformity of every register.

Scheduling rule of the machine: of the groups of lanes in a warp, the one at the lowest block runs first. With blocks in
reverse postorder, loops contiguous and before their exits, lanes that part at a branch meet again at its immediate
post-dominator (the thread-frontier argument of Diamos et al., MICRO 2011).

A register is *uniform* when all lanes that reach a place in the program hold the same value in it, whatever way the
lanes are grouped. Uniform registers are kept once for each warp.
"""

from dataclasses import dataclass, field

from .parse import Imm, Instr, Label, Mem, PtxError, Reg, Special, Sym, Vec

NO_DEST = {
    "st", "red", "bra", "membar", "fence", "ret", "exit", "trap", "brkpt", "prefetch", "prefetchu", "nanosleep", "bar",
    "barrier", "cp", "discard", "applypriority", "setmaxnreg", "griddepcontrol", "pmevent", "stmatrix",
}  # fmt: skip
CARRY = Reg("cc", "pred")  # the condition code: add.cc and its kin write it, addc and its kin read it
UNIFORM_SPECIAL = {
    "ntid", "nctaid", "ctaid", "nwarpid", "smid", "nsmid", "gridid", "dynamic_smem_size", "total_smem_size",
    "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "clusterid", "nclusterid", "warpid",
    "is_explicit_cluster",
}  # fmt: skip
WARP_SYNC = {"shfl", "vote", "match", "redux", "elect"}  # with .sync: every named lane takes part
MEMORY_READS = {"ld", "atom", "mbarrier", "ldu", "ldmatrix"}


def ends_block(instr: Instr) -> bool:
    """True for instructions after which the warp may be suspended or elsewhere."""
    base = instr.parts[0]
    if base in ("bra", "ret", "exit", "trap"):
        return True
    if base in ("bar", "barrier"):
        return instr.parts[1] not in ("warp", "result")
    return base == "call" and instr.args[0].name == "cudaCGSynchronize"


def starts_block(instr: Instr) -> bool:
    """True for instructions that a lane may have to wait at, and so must be resumable at."""
    base = instr.parts[0]
    return (base in WARP_SYNC and "sync" in instr.parts) or (base in ("bar", "barrier") and instr.parts[1] == "warp")


def registers(operand) -> list[Reg]:
    """All registers in an operand."""
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Mem):
        return registers(operand.base)
    if isinstance(operand, Vec):
        return [r for o in operand.items for r in registers(o)]
    if isinstance(operand, (tuple, list)):
        return [r for o in operand for r in registers(o)]
    return []


def dest_and_sources(instr: Instr) -> tuple[list[Reg], list]:
    """(registers written, operands read). A guarded instruction also reads what it may not write."""
    base, args = instr.parts[0], instr.args
    if base == "call":
        dests, sources = registers(args[1]), list(args[2])
    elif base in ("bar", "barrier") and "red" in instr.parts:
        dests, sources = [], args[1:]
    elif instr.parts[:2] == ("bar", "result"):
        dests, sources = registers(args[0]), []
    elif base in NO_DEST or not args or (base == "mbarrier" and isinstance(args[0], Mem)):
        dests, sources = [], list(args)
    else:
        dests, sources = registers(args[0]), args[1:]
        if base in ("addc", "subc", "madc"):
            sources = [*sources, CARRY]
        if "cc" in instr.parts:
            dests = [*dests, CARRY]
    if instr.pred is not None:
        sources = [*sources, instr.pred]
        if base not in ("bra", "ret", "exit"):
            sources += dests
    return dests, sources


@dataclass(slots=True)
class Block:
    """Straight-line code; `succs` are block indexes, fall-through last."""

    instrs: list
    succs: list = field(default_factory=list)
    labels: list = field(default_factory=list)
    live_in: set = field(default_factory=set)
    live_out: set = field(default_factory=set)
    defs: set = field(default_factory=set)
    spin: bool = False  # a back edge from here may wait for another lane: the machine may run others first


@dataclass(slots=True)
class Body:
    """A kernel's blocks in running order, and what is known of its registers."""

    blocks: list
    uniform: set  # names of uniform registers
    kinds: dict  # register name -> declared type


def split(code: list) -> list[Block]:
    """Cut flat code into blocks; successors are still labels or None for the next block."""
    blocks, cur = [], Block([])

    def close():
        nonlocal cur
        if cur.instrs or cur.labels:
            blocks.append(cur)
            cur = Block([])

    for item in code:
        if isinstance(item, Label):
            if cur.instrs:
                close()
            cur.labels.append(item.name)
            continue
        if starts_block(item) and cur.instrs:
            close()
        cur.instrs.append(item)
        if ends_block(item):
            close()
        if item.parts[0] in ("bar", "barrier") and "red" in item.parts:
            kind = item.args[0].kind  # the vote is known only when all have arrived: taken where the warp goes on
            result = Instr(
                f"bar.result.{'pred' if kind == 'pred' else 'u32'}",
                ("bar", "result", "pred" if kind == "pred" else "u32"),
                [item.args[0]],
                item.pred,
                item.pred_neg,
                item.line,
                item.file,
            )
            cur.instrs.append(result)
    close()
    if not blocks:
        blocks = [Block([])]
    last = blocks[-1].instrs[-1] if blocks[-1].instrs else None
    if last is None or last.parts[0] not in ("ret", "exit", "trap") or last.pred is not None:
        if last is None or last.parts[0] != "bra" or last.pred is not None:
            blocks.append(Block([Instr("ret", ("ret",), [])]))
    return blocks


def link(blocks: list[Block]):
    """Fill in successors as indexes."""
    where = {label: i for i, b in enumerate(blocks) for label in b.labels}
    for i, block in enumerate(blocks):
        last = block.instrs[-1] if block.instrs else None
        base = last.parts[0] if last else None
        if base == "bra":
            target = last.args[0]
            if not isinstance(target, Label) or target.name not in where:
                raise PtxError(f"line {last.line}: branch to an unknown label")
            block.succs = [where[target.name]]
            if last.pred is not None:
                block.succs.append(i + 1)
        elif base in ("ret", "exit", "trap") and last.pred is None:
            block.succs = []
        else:
            block.succs = [i + 1]
        if any(s >= len(blocks) for s in block.succs):
            raise PtxError("control runs off the end of the kernel")


def dominators(n: int, preds: list, order: list, root: int) -> list[int]:
    """Bit set of dominators of every node; 0 for unreachable ones. `order` is reverse postorder."""
    full = (1 << n) - 1
    dom = [full] * n
    dom[root] = 1 << root
    changed = True
    while changed:
        changed = False
        for b in order:
            if b == root:
                continue
            new = full
            for p in preds[b]:
                new &= dom[p]
            new |= 1 << b
            if new != dom[b]:
                dom[b] = new
                changed = True
    return dom


def postorder(n: int, succs, root: int) -> list[int]:
    """Depth-first postorder; successors in the order given."""
    seen, out, stack = {root}, [], [(root, iter(succs(root)))]
    while stack:
        node, it = stack[-1]
        for s in it:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(succs(s))))
                break
        else:
            out.append(node)
            stack.pop()
    return out


def predecessors(n: int, succs: list) -> list[list[int]]:
    preds = [[] for _ in range(n)]
    for b in range(n):
        for s in succs[b]:
            preds[s].append(b)
    return preds


def natural_loops(succs: list, preds: list, dom: list, reachable: set) -> dict[int, int]:
    """header -> bit set of the blocks of its loop."""
    loops = {}
    for b in reachable:
        for h in succs[b]:
            if dom[b] >> h & 1:
                members, work = 1 << h, [b]
                while work:
                    x = work.pop()
                    if not members >> x & 1:
                        members |= 1 << x
                        work += [p for p in preds[x] if p in reachable]
                loops[h] = loops.get(h, 0) | members
    return loops


def order_blocks(blocks: list[Block]) -> list[Block]:
    """Reverse postorder with loops contiguous: from each block, ways out of its loops are visited first."""
    n = len(blocks)
    succs = [b.succs for b in blocks]
    reach = postorder(n, lambda b: succs[b], 0)
    reachable = set(reach)
    preds = predecessors(n, succs)
    preds = [[p for p in ps if p in reachable] for ps in preds]
    dom = dominators(n, preds, reach[::-1], 0)
    loops = natural_loops(succs, preds, dom, reachable)

    def stays(b, s):
        return sum(1 for m in loops.values() if m >> b & 1 and m >> s & 1)

    ordered = postorder(n, lambda b: sorted(succs[b], key=lambda s: stays(b, s)), 0)[::-1]
    new = {old: i for i, old in enumerate(ordered)}
    out = [blocks[old] for old in ordered]
    for b in out:
        b.succs = [new[s] for s in b.succs]
    return out


def used_registers(blocks: list[Block]) -> set[str]:
    """Names of the registers that some instruction reads."""
    return {
        r.name for block in blocks for i in block.instrs for source in dest_and_sources(i)[1] for r in registers(source)
    }


def compute_liveness(blocks: list[Block]):
    """Live registers (names) at the start and end of every block."""
    use, kill = [], []
    for block in blocks:
        u, d = set(), set()
        for instr in block.instrs:
            dests, sources = dest_and_sources(instr)
            u |= {r.name for s in sources for r in registers(s)} - d
            d |= {r.name for r in dests}
        block.defs = d
        use.append(u)
        kill.append(d)
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks) - 1, -1, -1):
            block = blocks[i]
            out = set().union(*(blocks[s].live_in for s in block.succs)) if block.succs else set()
            new = use[i] | (out - kill[i])
            if new != block.live_in or out != block.live_out:
                block.live_in, block.live_out = new, out
                changed = True


def _control_dependence(blocks: list[Block]) -> list[set]:
    """For each block, the blocks whose branch decides whether it runs (Ferrante, Ottenstein, Warren 1987)."""
    n = len(blocks)
    succs = [b.succs or [n] for b in blocks] + [[]]
    preds = predecessors(n + 1, succs)
    reverse = postorder(n + 1, lambda b: preds[b], n)[::-1]
    pdom = dominators(n + 1, succs, reverse, n)  # an endless loop keeps the full set: everything there is dependent
    out = [set() for _ in range(n)]
    for a in range(n):
        if len(succs[a]) < 2:
            continue
        for s in succs[a]:
            for b in range(n):
                if pdom[s] >> b & 1 and (b == a or not pdom[a] >> b & 1):
                    out[b].add(a)
    return out


def find_spin_loops(blocks: list[Block], loops: dict) -> int:
    """Bit set of the headers whose loop's exit depends on memory read inside it: such a loop may wait for others."""
    defs = {}
    for i, block in enumerate(blocks):
        for instr in block.instrs:
            for r in dest_and_sources(instr)[0]:
                defs.setdefault(r.name, []).append((i, instr))
    spin = 0
    for header, members in loops.items():
        work, seen = [], set()
        for b, block in enumerate(blocks):
            if members >> b & 1 and block.instrs:
                last = block.instrs[-1]
                if last.pred is not None and any(not members >> s & 1 for s in block.succs):
                    work.append(last.pred.name)
        while work:
            name = work.pop()
            if name in seen:
                continue
            seen.add(name)
            for b, instr in defs.get(name, ()):
                if not members >> b & 1:
                    continue
                if instr.parts[0] in MEMORY_READS and "param" not in instr.parts and "const" not in instr.parts:
                    spin |= 1 << header
                work += [r.name for s in dest_and_sources(instr)[1] for r in registers(s)]
        if all(all(members >> s & 1 for s in blocks[b].succs) for b in range(len(blocks)) if members >> b & 1):
            spin |= 1 << header  # no way out at all
    return spin


def _reads_uniform(operand, varying: set) -> bool:
    if isinstance(operand, Special):
        return operand.name.split(".")[0] in UNIFORM_SPECIAL
    if isinstance(operand, (Imm, Sym, Label)):
        return True
    return all(r.name not in varying for r in registers(operand))


VARYING_OPS = {"atom", "shfl", "vote", "match", "redux", "elect", "activemask", "mbarrier", "call", "bar", "barrier"}


def find_uniform(blocks: list[Block], entry_params: set) -> tuple[set, dict]:
    """Names of the registers that are uniform (see the module's text), and every register's kind."""
    n = len(blocks)
    succs = [b.succs for b in blocks]
    preds = predecessors(n, succs)
    dom = dominators(n, preds, list(range(n)), 0)
    loops = natural_loops(succs, preds, dom, set(range(n)))
    spin = find_spin_loops(blocks, loops)
    for i, block in enumerate(blocks):
        block.spin = any(s <= i and spin >> s & 1 for s in succs[i])
    around_spin = 0  # blocks of loops that hold a waiting loop: lanes may be at different turns of them
    for members in loops.values():
        if any(spin >> h & 1 and members >> h & 1 for h in loops):
            around_spin |= members
    control = _control_dependence(blocks)
    kinds, defs = {}, {}
    for i, block in enumerate(blocks):
        for instr in block.instrs:
            dests, sources = dest_and_sources(instr)
            for r in dests:
                kinds[r.name] = r.kind
                defs.setdefault(r.name, []).append((i, instr, sources))
            for s in sources:
                for r in registers(s):
                    kinds.setdefault(r.name, r.kind)
    varying = {name for name in kinds if name not in defs}
    for name, sites in defs.items():
        for b, instr, _ in sites:
            base = instr.parts[0]
            if base in VARYING_OPS or (len(sites) > 1 and around_spin >> b & 1):
                varying.add(name)
            elif base == "ld" or base == "ldu":
                mem = instr.args[1]
                in_param = "param" in instr.parts and isinstance(mem.base, Sym) and mem.base.name in entry_params
                if not in_param and "const" not in instr.parts:
                    varying.add(name)
    branch_varies = set()
    changed = True
    while changed:
        changed = False
        for i, block in enumerate(blocks):
            last = block.instrs[-1] if block.instrs else None
            if last is not None and last.pred is not None and i not in branch_varies and last.pred.name in varying:
                branch_varies.add(i)
                changed = True
        for name, sites in defs.items():
            if name in varying:
                continue
            if any(not _reads_uniform(s, varying) for _, _, sources in sites for s in sources) or (
                len(sites) > 1 and _reached_divergently([b for b, _, _ in sites], dom, control, branch_varies)
            ):
                varying.add(name)
                changed = True
    return set(kinds) - varying, kinds


def _reached_divergently(def_blocks: list, dom: list, control: list, branch_varies: set) -> bool:
    """True if, below the definitions' common dominator, a varying branch decides which definition is reached."""
    common = dom[def_blocks[0]]
    for b in def_blocks[1:]:
        common &= dom[b]
    top = max((d for d in range(len(dom)) if common >> d & 1), key=lambda d: dom[d].bit_count())
    work, seen = list(def_blocks), set()
    while work:
        b = work.pop()
        if b in seen:
            continue
        seen.add(b)
        for x in control[b]:
            if dom[x] >> top & 1:
                if x in branch_varies:
                    return True
                work.append(x)
    return False


def build_body(code: list, entry_params: set) -> Body:
    """Blocks, order, liveness and uniformity of a flat list of instructions and labels."""
    blocks = split(code)
    link(blocks)
    blocks = order_blocks(blocks)
    compute_liveness(blocks)
    uniform, kinds = find_uniform(blocks, entry_params)
    return Body(blocks, uniform, kinds)

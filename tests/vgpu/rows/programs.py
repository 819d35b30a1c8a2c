"""Small structured programs: made from choices, printed as PTX, and read lane by lane in Python.

Values that are the same in all lanes and values that differ are mixed, and control flow depends on either: what the
compiler must not confuse. Loop counters and temporaries stay readable after their loops, where lanes that left early hold
another value than those that stayed.
"""

from dataclasses import dataclass, field

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
WORDS, LONGS, PREDS = ("r0", "r1", "r2", "r3", "r4"), ("d0", "d1"), ("p0", "p1", "p2")
UNIFORM = ("u0", "u1", "u2")  # a parameter, the block's index, a word of constant memory; never written
TABLE = [(k * 0x9E3779B1 ^ k << 7) & M32 for k in range(64)]
LOCAL_WORDS = 8


def signed(x, n=32):
    return x - (1 << n) if x >> (n - 1) else x


BINARY = {
    "add.u32": lambda a, b: a + b, "sub.u32": lambda a, b: a - b, "mul.lo.u32": lambda a, b: a * b, "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b, "or.b32": lambda a, b: a | b, "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": max, "shl.b32": lambda a, b: a << b if b < 32 else 0, "shr.s32": lambda a, b: signed(a) >> min(b, 31),
    "mul.hi.u32": lambda a, b: a * b >> 32, "div.u32": lambda a, b: a // b if b else M32,
}  # fmt: skip
COMPARE = {
    "eq.u32": lambda a, b: a == b, "lt.s32": lambda a, b: signed(a) < signed(b), "ge.u32": lambda a, b: a >= b, "ne.u32": lambda a, b: a != b,
}  # fmt: skip


@dataclass
class Program:
    body: list
    counters: list = field(default_factory=list)  # registers of loops, all 32 bits wide


class Maker:
    """Builds a program; choose(n) gives a number below n."""

    def __init__(self, choose, size=14):
        self.choose, self.left, self.depth = choose, size, 0
        self.counters = []
        self.barriers = bool(choose(2))  # else threads may jump past everything to the end, which no barrier allows

    def pick(self, items):
        return items[self.choose(len(items))]

    def word(self):
        kind = self.choose(8)
        if kind == 0:
            return self.choose(9)
        if kind <= 2:
            return self.pick(UNIFORM)
        if kind == 3 and self.counters:
            return self.pick(self.counters)
        return self.pick(WORDS)

    def condition(self):
        return self.pick(PREDS), bool(self.choose(2))

    def simple(self):
        kind = self.choose(9)
        if kind <= 2:
            return ("set", self.pick(WORDS), self.pick(list(BINARY)), self.word(), self.word())
        if kind <= 4:
            return ("setp", self.pick(PREDS), self.pick(list(COMPARE)), self.word(), self.word())
        if kind == 5:
            return ("selp", self.pick(WORDS), self.word(), self.word(), self.pick(PREDS))
        if kind == 6:
            return ("long", self.pick(LONGS), self.pick(LONGS), self.word())
        if kind == 7:
            return ("short", self.pick(WORDS), self.pick(LONGS))
        return self.pick(
            [
                ("load", self.pick(WORDS), self.word()), ("const", self.pick(WORDS), self.pick(UNIFORM)),
                ("keep", self.word(), self.word()), ("recall", self.pick(WORDS), self.word()),
                ("logic", self.pick(PREDS), self.pick(("and", "or", "xor")), self.pick(PREDS), self.pick(PREDS)),
                ("mov", self.pick(WORDS), self.word()), ("carry", self.pick(WORDS), self.pick(WORDS), self.word(), self.word()),
            ]
        )  # fmt: skip

    def together(self):
        """An operation of all lanes of a warp, or of a block."""
        return self.pick(
            [
                ("ballot", self.pick(WORDS), self.pick(PREDS)), ("any", self.pick(PREDS), self.pick(PREDS)),
                ("rotate", self.pick(WORDS), self.word(), self.choose(31) + 1), ("sum", self.pick(WORDS), self.word()),
                *([("count", self.pick(WORDS), self.pick(PREDS)), ("barrier",)] if self.barriers else []),
            ]
        )  # fmt: skip

    def block(self, uniform, loop, least=1):
        out = []
        for _ in range(least + self.choose(4)):
            if self.left <= 0:
                break
            self.left -= 1
            out.append(self.statement(uniform, loop))
        return out or [self.simple()]

    def statement(self, uniform, loop):
        kind = self.choose(16)
        if kind <= 3 and self.depth < 4:
            self.depth += 1
            made = ("if", self.condition(), self.block(False, loop), self.block(False, loop) if self.choose(2) else [])
            self.depth -= 1
            return made
        if kind <= 6 and self.depth < 3:
            return self.loop(uniform)
        if kind == 7 and loop:
            return (self.pick(("break", "continue")), self.condition())
        if kind == 8 and self.choose(3) == 0:
            return ("exit" if self.barriers else self.pick(("exit", "leave")), self.condition())
        if kind == 9:
            return (
                "guard",
                self.condition(),
                ("set", self.pick(WORDS), self.pick(list(BINARY)), self.word(), self.word()),
            )
        if kind == 10 and self.depth < 3:  # two ways into one piece of code, as && and || make
            self.depth += 1
            made = ("either", self.condition(), self.condition(), self.block(False, loop), self.block(False, loop))
            self.depth -= 1
            return made
        if kind in (11, 12) and uniform:
            return self.together()
        return self.simple()

    def loop(self, uniform):
        counter, limit = f"c{len(self.counters)}", f"c{len(self.counters) + 1}"
        bound = self.choose(5) if self.choose(2) else self.word()
        fixed = isinstance(bound, int) or bound in UNIFORM
        plain = uniform and fixed and bool(self.choose(2))  # no way out of it but the end: all lanes stay together
        self.counters += [counter, limit]
        self.depth += 1
        made = ("for", counter, limit, bound, self.block(plain, not plain, least=2), bool(self.choose(2)))
        self.depth -= 1
        return made


def make(choose, size=14) -> Program:
    maker = Maker(choose, size)
    body = []
    while maker.left > 0:
        body += maker.block(True, False, least=3)
    return Program(body, maker.counters)


# ---------------------------------------------------------------- PTX
class Printer:
    def __init__(self, program):
        self.out, self.labels = [], 0
        self.block(program.body, None)

    def say(self, text):
        self.out.append("  " + text)

    def label(self):
        self.labels += 1
        return f"$L{self.labels}"

    @staticmethod
    def name(x):
        return str(x) if isinstance(x, int) else f"%{x}"

    @staticmethod
    def guard(condition, negate=False):
        p, negative = condition
        return f"@{'!' if negative != negate else ''}%{p}"

    def block(self, body, loop):
        for s in body:
            getattr(self, s[0] + "_", None)(*s[1:]) if s[0] not in CONTROL else self.control(s, loop)

    def set_(self, d, op, a, b):
        if isinstance(a, int) and isinstance(b, int):
            self.say(f"mov.b32 %t, {a};")
            self.say(f"{op} %{d}, %t, {b};")
        elif isinstance(a, int):
            self.say(f"mov.b32 %t, {a};")
            self.say(f"{op} %{d}, %t, {self.name(b)};")
        else:
            self.say(f"{op} %{d}, {self.name(a)}, {self.name(b)};")

    def setp_(self, p, op, a, b):
        self.say(f"mov.b32 %t, {self.name(a)};")
        self.say(f"setp.{op} %{p}, %t, {self.name(b)};")

    def selp_(self, d, a, b, p):
        self.say(f"selp.b32 %{d}, {self.name(a)}, {self.name(b)}, %{p};")

    def long_(self, d, e, a):
        self.say(f"mov.b32 %t, {self.name(a)};")
        self.say(f"cvt.s64.s32 %dt, %t; mad.lo.u64 %{d}, %{e}, 3, %dt;")

    def short_(self, d, e):
        self.say(f"shr.u64 %dt, %{e}, 3; cvt.u32.u64 %{d}, %dt;")

    def mov_(self, d, a):
        self.say(f"mov.b32 %{d}, {self.name(a)};")

    def carry_(self, d, e, a, b):
        self.say(f"mov.b32 %t, {self.name(a)}; add.cc.u32 %t, %t, {self.name(b)}; addc.u32 %{d}, %{e}, 0;")

    def address(self, index, mask, base):
        self.say(
            f"mov.b32 %t, {self.name(index)}; and.b32 %t, %t, {mask}; mul.wide.u32 %dt, %t, 4; add.u64 %dt, %dt, {base};"
        )

    def load_(self, d, a):
        self.address(a, 63, "%table")
        self.say(f"ld.global.u32 %{d}, [%dt];")

    def const_(self, d, a):
        self.address(a, 63, "%table")
        self.say(f"ld.const.u32 %{d}, [%dt];")

    def keep_(self, index, a):
        self.address(index, LOCAL_WORDS - 1, "%mine")
        self.say(f"mov.b32 %t, {self.name(a)}; st.local.u32 [%dt], %t;")

    def recall_(self, d, index):
        self.address(index, LOCAL_WORDS - 1, "%mine")
        self.say(f"ld.local.u32 %{d}, [%dt];")

    def logic_(self, p, op, q, s):
        self.say(f"{op}.pred %{p}, %{q}, %{s};")

    def ballot_(self, d, p):
        self.say(f"vote.sync.ballot.b32 %{d}, %{p}, %members;")

    def any_(self, p, q):
        self.say(f"vote.sync.any.pred %{p}, %{q}, %members;")

    def rotate_(self, d, a, n):
        self.say(f"mov.b32 %t, {self.name(a)}; add.u32 %t2, %lane, {n}; and.b32 %t2, %t2, 31;")
        self.say(f"shfl.sync.idx.b32 %{d}, %t, %t2, 31, %members; vote.sync.ballot.b32 %t, %yes, %members;")
        self.say(f"shr.u32 %t, %t, %t2; and.b32 %t, %t, 1; setp.ne.u32 %there, %t, 0; selp.b32 %{d}, %{d}, 0, %there;")

    def count_(self, d, p):
        self.say(f"bar.red.popc.u32 %{d}, 0, %{p};")

    def sum_(self, d, a):
        self.say(f"mov.b32 %t, {self.name(a)}; redux.sync.add.u32 %{d}, %t, %members;")

    def barrier_(self):
        self.say("bar.sync 0;")

    def control(self, s, loop):
        kind = s[0]
        if kind == "if":
            other, end = self.label(), self.label()
            self.say(f"{self.guard(s[1], True)} bra {other};")
            self.block(s[2], loop)
            if s[3]:
                self.say(f"bra.uni {end};" if len(s[2]) & 1 else f"bra {end};")
            self.out.append(f"{other}:")
            if s[3]:
                self.block(s[3], loop)
                self.out.append(f"{end}:")
        elif kind == "either":
            into, end = self.label(), self.label()
            self.say(f"{self.guard(s[1])} bra {into};")
            self.block(s[3], loop)
            self.say(f"{self.guard(s[2])} bra {into};")
            self.say(f"bra {end};")
            self.out.append(f"{into}:")
            self.block(s[4], loop)
            self.out.append(f"{end}:")
        elif kind == "for":
            _, counter, limit, bound, body, tested_last = s
            top, again, end = self.label(), self.label(), self.label()
            p = f"%q{counter[1:]}"
            self.say(f"mov.b32 %{limit}, {self.name(bound)}; and.b32 %{limit}, %{limit}, 3; mov.b32 %{counter}, 0;")
            self.out.append(f"{top}:")
            if not tested_last:
                self.say(f"setp.ge.u32 {p}, %{counter}, %{limit};")
                self.say(f"@{p} bra {end};")
            self.block(body, (again, end))
            self.out.append(f"{again}:")
            self.say(f"add.u32 %{counter}, %{counter}, 1;")
            if tested_last:
                self.say(f"setp.lt.u32 {p}, %{counter}, %{limit};")
                self.say(f"@{p} bra {top};")
            else:
                self.say(f"bra {top};")
            self.out.append(f"{end}:")
        elif kind in ("break", "continue"):
            self.say(f"{self.guard(s[1])} bra {loop[kind == 'break']};")
        elif kind == "exit":
            self.say(f"{self.guard(s[1])} exit;")
        elif kind == "leave":
            self.say(f"{self.guard(s[1])} bra $DONE;")
        elif kind == "guard":
            _, d, op, a, b = s[2]
            self.say(f"mov.b32 %t, {self.name(a)};")
            self.say(f"{self.guard(s[1])} {op} %{d}, %t, {self.name(b)};")


CONTROL = {"if", "either", "for", "break", "continue", "exit", "leave", "guard"}


def ptx_of(program: Program) -> str:
    """The program as a kernel k(in, out, u0): 64 words of table in; per thread all registers out."""
    counters = program.counters
    lines = [".visible .entry k(.param .u64 k_in, .param .u64 k_out, .param .u32 k_u)", "{"]
    lines.append(
        "  .local .align 4 .b8 scratch[32]; .reg .b64 %mine, %table, %out, %dt, %d<2>; .reg .pred %p<3>, %yes, %there;"
    )
    lines.append("  .reg .b32 %r<5>, %u<3>, %t, %t2, %lane, %tid, %members, %n;")
    lines += [f"  .reg .b32 %{c}; .reg .pred %q{c[1:]};" for c in counters]
    lines.append(
        "  ld.param.u64 %table, [k_in]; ld.param.u64 %out, [k_out]; ld.param.u32 %u0, [k_u]; mov.u32 %u1, %ctaid.x;"
    )
    lines.append(
        "  mov.u64 %mine, scratch; ld.const.u32 %u2, [%table+20]; mov.u32 %tid, %tid.x; mov.u32 %lane, %laneid;"
    )
    lines.append("  mov.b32 %members, -1;")
    lines += [f"  {t}" for t in INITIAL_PTX]
    lines += [f"  mov.b32 %{c}, {k};" for k, c in enumerate(counters)]
    for k in range(LOCAL_WORDS):
        lines.append(f"  st.local.u32 [%mine+{4 * k}], {k};")
    lines += Printer(program).out
    lines.append("$DONE:")
    total = outputs(program)
    lines.append("  mov.u32 %n, %ntid.x; mad.lo.u32 %n, %n, %u1, %tid;")
    lines.append(f"  mad.wide.u32 %out, %n, {4 * total}, %out;")
    at = 0
    for r in (*WORDS, *counters):
        lines.append(f"  st.global.u32 [%out+{at}], %{r};")
        at += 4
    for d in LONGS:
        lines.append(f"  shr.u64 %dt, %{d}, 32; cvt.u32.u64 %t, %{d}; st.global.u32 [%out+{at}], %t;")
        lines.append(f"  cvt.u32.u64 %t, %dt; st.global.u32 [%out+{at + 4}], %t;")
        at += 8
    for p in PREDS:
        lines.append(f"  selp.u32 %t, 1, 0, %{p}; st.global.u32 [%out+{at}], %t;")
        at += 4
    return "\n".join([*lines, "  ret;", "}"])


INITIAL_PTX = [
    "mov.b32 %r0, %tid; mov.b32 %r1, 7; and.b32 %r2, %tid, 3; mov.b32 %r3, %u0; mul.lo.u32 %r4, %tid, 0x9E3779B1;",
    "cvt.u64.u32 %d0, %tid; mov.b64 %d1, 0x123456789;",
    "setp.eq.u32 %yes, 0, 0; setp.lt.u32 %p0, %r2, 2; setp.ne.u32 %p1, %u1, 0; setp.gt.s32 %p2, %r4, 0;",
]


def outputs(program):
    return len(WORDS) + len(program.counters) + 2 * len(LONGS) + len(PREDS)


# ---------------------------------------------------------------- Python
class Lane:
    """One thread's reading of the program, as a generator that stops where threads must meet."""

    def __init__(self, program, tid, block, u0):
        table5 = TABLE[5]
        self.env = {
            "u0": u0,
            "u1": block,
            "u2": table5,
            "r0": tid,
            "r1": 7,
            "r2": tid & 3,
            "r3": u0,
            "r4": tid * 0x9E3779B1 & M32,
        }
        self.env |= {"d0": tid, "d1": 0x123456789}
        self.env |= {"p0": (tid & 3) < 2, "p1": block != 0, "p2": signed(self.env["r4"]) > 0}
        self.env |= {c: k for k, c in enumerate(program.counters)}
        self.local = list(range(LOCAL_WORDS))
        self.program, self.tid, self.returned = program, tid, False

    def run(self):
        self.returned = (yield from self.block(self.program.body)) == "exit"

    def value(self, x):
        return x if isinstance(x, int) else self.env[x]

    def holds(self, condition):
        return self.env[condition[0]] != condition[1]

    def block(self, body):
        for s in body:
            outcome = yield from self.statement(s)
            if outcome:
                return outcome
        return None

    def statement(self, s):
        env, v, kind = self.env, self.value, s[0]
        if kind == "set":
            env[s[1]] = BINARY[s[2]](v(s[3]), v(s[4])) & M32
        elif kind == "setp":
            env[s[1]] = COMPARE[s[2]](v(s[3]), v(s[4]))
        elif kind == "selp":
            env[s[1]] = v(s[2]) if env[s[4]] else v(s[3])
        elif kind == "long":
            env[s[1]] = (env[s[2]] * 3 + signed(v(s[3]))) & M64
        elif kind == "short":
            env[s[1]] = env[s[2]] >> 3 & M32
        elif kind == "mov":
            env[s[1]] = v(s[2])
        elif kind == "carry":
            env[s[1]] = (env[s[2]] + (v(s[3]) + v(s[4]) >> 32)) & M32
        elif kind in ("load", "const"):
            env[s[1]] = TABLE[v(s[2]) & 63]
        elif kind == "keep":
            self.local[v(s[1]) & 7] = v(s[2])
        elif kind == "recall":
            env[s[1]] = self.local[v(s[2]) & 7]
        elif kind == "logic":
            a, b = env[s[3]], env[s[4]]
            env[s[1]] = {"and": a and b, "or": a or b, "xor": a != b}[s[2]]
        elif kind in ("ballot", "any"):
            votes = yield ("warp", env[s[2]])
            bits = sum(1 << lane for lane, x in votes.items() if x)
            env[s[1]] = bits if kind == "ballot" else bits != 0
        elif kind == "rotate":
            values = yield ("warp", v(s[2]))
            source = (self.tid % 32 + s[3]) % 32
            env[s[1]] = values.get(source, 0)  # what a lane that has gone gives is open: the program asks who is there
        elif kind == "sum":
            values = yield ("warp", v(s[2]))
            env[s[1]] = sum(values.values()) & M32
        elif kind == "count":
            votes = yield ("block", env[s[2]])
            env[s[1]] = sum(votes.values())
        elif kind == "barrier":
            yield ("block", 0)
        else:
            return (yield from self.control(s))
        return None

    def control(self, s):
        kind = s[0]
        if kind == "if":
            return (yield from self.block(s[2] if self.holds(s[1]) else s[3]))
        if kind == "either":
            if not self.holds(s[1]):
                outcome = yield from self.block(s[3])
                if outcome or not self.holds(s[2]):
                    return outcome
            return (yield from self.block(s[4]))
        if kind == "for":
            _, counter, limit, bound, body, tested_last = s
            self.env[limit] = self.value(bound) & 3
            self.env[counter] = 0
            while tested_last or self.env[counter] < self.env[limit]:
                outcome = yield from self.block(body)
                if outcome == "break":
                    break
                if outcome in ("exit", "leave"):
                    return outcome
                self.env[counter] = self.env[counter] + 1 & M32
                if tested_last and not self.env[counter] < self.env[limit]:
                    break
            return None
        if kind == "guard":
            if self.holds(s[1]):
                yield from self.statement(s[2])
            return None
        return kind if self.holds(s[1]) else None


def read(program: Program, threads: int, block: int, u0: int):
    """-> per thread the list of its registers, or None for a thread that left without storing."""
    lanes = [Lane(program, t, block, u0) for t in range(threads)]
    waiting = {}
    runs = {t: lane.run() for t, lane in enumerate(lanes)}

    def step(t, answer):
        try:
            waiting[t] = runs[t].send(answer)
        except StopIteration:
            del runs[t]

    for t in list(runs):
        step(t, None)
    while runs:
        for warp in sorted({t // 32 for t in runs}):
            here = [t for t in runs if t // 32 == warp]
            while here and all(waiting[t][0] == "warp" for t in here):
                values = {t % 32: waiting[t][1] for t in here}
                for t in here:
                    step(t, values)
                here = [t for t in runs if t // 32 == warp]
        if runs and all(waiting[t][0] == "block" for t in runs):
            values = {t: waiting[t][1] for t in runs}
            for t in list(runs):
                step(t, values)
    names = (*WORDS, *program.counters)
    out = []
    for lane in lanes:
        if lane.returned:
            out.append(None)
            continue
        row = [lane.env[n] for n in names]
        for d in LONGS:
            row += [lane.env[d] & M32, lane.env[d] >> 32]
        out.append(row + [int(lane.env[p]) for p in PREDS])
    return out

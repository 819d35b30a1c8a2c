"""Read PTX text: directives, variables, functions and instructions, each instruction with its source line.

The grammar is that of the PTX ISA manual, chapters "Syntax", "State Spaces, Types, and Variables" and "Directives",
as far as NVVM and inline PTX emit it. Scopes (`{ .reg .pred p; ... }`) rename what they declare, so that the flat list
of instructions that comes out has one name for one thing.
"""

import re
import struct
from dataclasses import dataclass, field


class PtxError(ValueError):
    """PTX that this machine does not read; the message says what and where."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register; `kind` is its declared type ("pred", "b32", "f64", ...)."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An integer literal, or the bits of a floating-point one (`kind` "f32" or "f64")."""

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Sym:
    """A variable's address, with a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Mem:
    """`[base+offset]`: base is a Reg, a Sym or an Imm."""

    base: object
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """`{a, b, ...}`."""

    items: tuple


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target or a function's name."""

    name: str


SINK = Special("_")  # the bit bucket operand


@dataclass(slots=True)
class Instr:
    """One instruction. `op` is the whole opcode ("ld.global.f32"); `parts` is it split at the dots."""

    op: str
    parts: tuple
    args: list
    pred: object = None  # Reg that guards it
    pred_neg: bool = False
    line: int = 0  # the student's line, 0 when unknown
    file: int = 0  # index in PtxModule.files

    def __str__(self):
        guard = f"@{'!' if self.pred_neg else ''}{self.pred.name} " if self.pred else ""
        return f"{guard}{self.op}"


@dataclass(slots=True)
class Variable:
    """A module- or function-level variable in .global, .const, .shared or .local space."""

    name: str
    space: str
    align: int
    nbytes: int
    data: bytes | None = None  # initial bytes; None for zeros
    relocations: list = field(default_factory=list)  # (byte offset, Sym)
    dynamic: bool = False  # `extern .shared x[]`


@dataclass(slots=True)
class Function:
    """A .func or .entry: its parameters, return parameters, variables and flat code (Instr and Label)."""

    name: str
    params: list  # (name, align, nbytes)
    returns: list
    code: list
    variables: list
    is_entry: bool
    max_threads: int = 1024
    declared_only: bool = False


Entry = Function


@dataclass(slots=True)
class PtxModule:
    """All of a PTX text."""

    target: str
    variables: dict
    functions: dict
    files: dict  # index -> path
    debug: bool = False  # compiled for a debugger, without optimisation


TYPE_BYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_INLINED = re.compile(r"inlined_at[ \t]+(\d+)[ \t]+(\d+)")
_LIBRARY = re.compile(r"site-packages|[/\\]grader[/\\]kit[/\\]")  # in the path of a file that is not the program's own
_LOC = re.compile(r"^[ \t]*\.loc[ \t]+(\d+)[ \t]+(\d+)[ \t]+(\d+)[^\n]*$", re.M)
_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+"([^"]*)"[^\n]*$', re.M)
_HEADER = re.compile(r"^[ \t]*\.(version|target|address_size)[ \t]+([^\n]*)$", re.M)
_SECTION = re.compile(r"^[ \t]*\.section\b[^{]*\{[^}]*\}", re.M)
_INT = re.compile(r"^-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_SPECIAL = re.compile(
    r"^%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|lanemask_\w+|clock|clock_hi|clock64|globaltimer\w*|smid|nsmid|gridid"
    r"|cluster_\w+|clusterid|nclusterid|is_explicit_cluster|dynamic_smem_size|total_smem_size|envreg\d+|pm\d+)(\.[xyzw])?$"
)
_VARIABLE = re.compile(
    r"^(?:\.(?:visible|extern|weak|common)\s+)*\.(global|const|shared|local)\s+(?:\.align\s+(\d+)\s+)?(?:\.(v[24])\s+)?"
    r"\.(\w+)\s+([\w$]+)\s*((?:\[[^\]]*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)
_OPCODE = re.compile(r"^(?:@(!?)(%?[\w$]+)\s+)?([a-z][\w]*(?:(?:\.|::)\w+)*)\s*(.*)$", re.S)


def parse_int(text: str) -> int:
    """A PTX integer literal: decimal, hexadecimal, octal or binary, with an optional U."""
    text = text.rstrip("U")
    neg, digits = text.startswith("-"), text.lstrip("-")
    octal = len(digits) > 1 and digits[0] == "0"
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 8 if octal else 10)
    value = int(digits, base)
    return -value if neg else value


def split_commas(text: str) -> list[str]:
    """Split at the commas that are not inside (), [] or {}."""
    out, depth, start = [], 0, 0
    for i, ch in enumerate(text):
        if ch in "([{":
            depth += 1
        elif ch in ")]}":
            depth -= 1
        elif ch == "," and depth == 0:
            out.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    if last or out:
        out.append(last)
    return out


class _Scope:
    """Names declared in one `{}`; lookups fall through to the outer one."""

    def __init__(self, outer=None, suffix=""):
        self.outer, self.suffix = outer, suffix
        self.regs, self.ranges, self.params, self.labels = {}, {}, {}, set()

    def reg(self, name):
        scope = self
        while scope is not None:
            found = scope.regs.get(name)
            if found is not None:
                return found
            match = re.match(r"^(.*?)(\d+)$", name)
            if match and match[1] in scope.ranges and int(match[2]) < scope.ranges[match[1]][1]:
                reg = scope.regs[name] = Reg(name + scope.suffix, scope.ranges[match[1]][0])
                return reg
            scope = scope.outer
        return None

    def param(self, name):
        scope = self
        while scope is not None:
            if name in scope.params:
                return scope.params[name]
            scope = scope.outer
        return None


class _FunctionParser:
    def __init__(self, function: Function):
        self.function = function
        self.scope = _Scope()
        self.nscopes = 0
        self.branches = []  # (instruction, its scope): targets may come later
        self.line = self.file = 0
        for name, _, _ in function.params + function.returns:
            self.scope.params[name] = name

    def run(self, body: str):
        buffer, i, n = [], 0, len(body)
        for match in re.finditer(r"[;{}:]", body):
            ch = match.group()
            buffer.append(body[i : match.start()])
            i = match.end()
            text = "".join(buffer).strip()
            if ch == ";":
                buffer = []
                if text:
                    self.statement(text)
            elif ch == "{":
                if text:  # a vector operand or a list: part of the statement
                    buffer.append("{")
                else:
                    buffer = []
                    self.nscopes += 1
                    self.scope = _Scope(self.scope, f"@{self.nscopes}")
            elif ch == "}":
                if text:
                    buffer.append("}")
                else:
                    buffer = []
                    self.scope = self.scope.outer
                    if self.scope is None:
                        raise PtxError("unbalanced braces")
            elif i < n and (body[i] == ":" or body[match.start() - 1] == ":"):
                buffer.append(":")  # the `::` of a modifier
            elif re.fullmatch(r"[\w$]+", text):
                self.scope.labels.add(text)
                self.function.code.append(Label(text + self.scope.suffix))
                buffer = []
            else:
                buffer.append(":")
        if self.scope.outer is not None or "".join(buffer).strip() or body[i:].strip():
            raise PtxError(f"unexpected end of function {self.function.name}")
        for instr, scope in self.branches:
            while scope is not None and instr.args[0].name not in scope.labels:
                scope = scope.outer
            if scope is None:
                raise PtxError(f"line {instr.line}: branch to an unknown label {instr.args[0].name}")
            instr.args = [Label(instr.args[0].name + scope.suffix)]

    def statement(self, text: str):
        if text[0] == ".":
            self.directive(text)
            return
        match = _OPCODE.match(text)
        if not match:
            raise PtxError(f"cannot read {text[:80]!r} (line {self.line})")
        neg, pred, op, rest = match.groups()
        guard = None
        if pred is not None:
            guard = self.scope.reg(pred)
            if guard is None:
                raise PtxError(f"unknown predicate {pred} (line {self.line})")
        parts = tuple(op.split("."))
        if parts[0] == "call":
            args = self.call_operands(rest)
        elif parts[0] == "bra":
            args = [Label(rest.strip())]
        else:
            args = [self.operand(a) for a in split_commas(rest)]
        instr = Instr(op, parts, args, guard, neg == "!", self.line, self.file)
        if parts[0] == "bra":
            self.branches.append((instr, self.scope))
        self.function.code.append(instr)

    def directive(self, text: str):
        if text.startswith((".reg.", ".param.", ".shared.", ".local.", ".global.", ".const.")):
            text = text.replace(".", " .")  # `.reg.f32 x`: names have no dots
        words = text.split()
        if words[0] == ".loc":
            self.file, self.line = int(words[1]), int(words[2])
        elif words[0] == ".reg":
            kind = words[1].lstrip(".")
            names = " ".join(words[2:])
            if kind.startswith("v") and kind[1:].isdigit():
                raise PtxError("vector registers are not supported")
            for name in split_commas(names):
                spread = re.match(r"^(.*)<(\d+)>$", name)
                if spread:
                    self.scope.ranges[spread[1]] = (kind, int(spread[2]))
                else:
                    self.scope.regs[name] = Reg(name + self.scope.suffix, kind)
        elif words[0] == ".param":
            name, _, _ = parse_param(text)
            self.scope.params[name] = name + self.scope.suffix
        elif words[0] in (".shared", ".local", ".global", ".const"):
            self.function.variables.append(parse_variable(text))
        elif words[0] in (".pragma", ".branchtargets", ".callprototype"):
            if words[0] == ".branchtargets":
                raise PtxError(f"{words[0]} is not supported: indirect branches")
        else:
            raise PtxError(f"unknown directive {words[0]} (line {self.line})")

    def call_operands(self, rest: str) -> list:
        groups = split_commas(rest)
        returns = []
        if groups[0].startswith("("):
            returns = [self.operand(a) for a in split_commas(groups[0][1:-1])]
            groups = groups[1:]
        name = groups[0]
        given = len(groups) > 1 and groups[1].startswith("(")
        args = [self.operand(a) for a in split_commas(groups[1][1:-1])] if given else []
        return [self.scope.reg(name) or Label(name), returns, args]

    def operand(self, text: str):
        if not text:
            raise PtxError(f"empty operand (line {self.line})")
        if text[0] == "[":
            return self.memory(text[1:-1].strip())
        if text[0] == "{":
            return Vec(tuple(self.operand(a) for a in split_commas(text[1:-1])))
        if "|" in text:
            return Vec(tuple(self.operand(a.strip()) for a in text.split("|")))
        if text == "_":
            return SINK
        if text[0] == "!":
            return ("not", self.operand(text[1:].strip()))
        reg = self.scope.reg(text)
        if reg is not None:
            return reg
        if text[0] == "%":
            if _SPECIAL.match(text):
                return Special(text[1:])
            raise PtxError(f"unknown register {text} (line {self.line})")
        if text[:2] in ("0f", "0F") and len(text) == 10:
            return Imm(int(text[2:], 16), "f32")
        if text[:2] in ("0d", "0D") and len(text) == 18:
            return Imm(int(text[2:], 16), "f64")
        if _INT.match(text):
            return Imm(parse_int(text))
        if re.fullmatch(r"-?\d*\.\d+(?:[eE][-+]?\d+)?|-?\d+\.(?:[eE][-+]?\d+)?", text):
            return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "f64")
        if text == "WARP_SZ":
            return Imm(32)
        return self.symbol(text)

    def symbol(self, text: str):
        match = re.match(r"^([\w$%]+)\s*([+-]\s*-?\w+)?$", text)
        if not match:
            raise PtxError(f"cannot read the operand {text!r} (line {self.line})")
        offset = parse_offset(match[2])
        param = self.scope.param(match[1])
        if param is not None:
            return Sym(param, offset)
        return Sym(match[1], offset)

    def memory(self, text: str):
        if "," in text:
            raise PtxError(f"tensor and texture coordinates are not supported (line {self.line})")
        match = re.match(r"^([\w$%.]+)\s*(?:\+\s*(-?\w+)|(-\s*\w+))?$", text)
        if not match:
            raise PtxError(f"cannot read the address [{text}] (line {self.line})")
        offset = parse_int(match[2]) if match[2] else parse_int(match[3].replace(" ", "")) if match[3] else 0
        base = match[1]
        reg = self.scope.reg(base)
        if reg is not None:
            return Mem(reg, offset)
        if _INT.match(base):
            return Mem(Imm(parse_int(base)), offset)
        param = self.scope.param(base)
        return Mem(Sym(param if param is not None else base), offset)


def parse_offset(text: str | None) -> int:
    """`+8`, `+-8` or `-8` as an int; 0 for None."""
    if not text:
        return 0
    text = text.replace(" ", "")
    return parse_int(text[1:]) if text[0] == "+" else parse_int(text)


def parse_param(text: str) -> tuple[str, int, int]:
    """`.param .align 8 .b8 name[16]` -> (name, alignment, bytes)."""
    match = re.match(
        r"^\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s*(?:\.\w+\s*)*(?:\.align\s+\d+\s*)?)?([\w$]+)\s*(?:\[(\d+)\])?$",
        " ".join(text.split()),
    )
    if not match or match[2] not in TYPE_BYTES:
        raise PtxError(f"cannot read the parameter {text[:80]!r}")
    size = TYPE_BYTES[match[2]]
    return match[3], int(match[1] or size), size * int(match[4] or 1)


def parse_variable(text: str) -> Variable:
    """A .global/.const/.shared/.local declaration, with its initial value."""
    match = _VARIABLE.match(text.strip())
    if not match or match[4] not in TYPE_BYTES:
        raise PtxError(f"cannot read the variable {text[:80]!r}")
    space, align, vector, kind, name, dims, init = match.groups()
    size = TYPE_BYTES[kind] * (int(vector[1]) if vector else 1)
    count, dynamic = 1, False
    for dim in re.findall(r"\[([^\]]*)\]", dims or ""):
        if dim.strip():
            count *= parse_int(dim.strip())
        elif init is None:
            dynamic = True
    var = Variable(name, space, int(align or size), 0 if dynamic else size * count, dynamic=dynamic)
    if init is not None:
        initialise(var, init.strip(), kind)
    return var


def initialise(var: Variable, text: str, kind: str):
    """Fill `var.data` from `{1, 2}`, a scalar, a string or symbol names (generic(x), x+8)."""
    size = TYPE_BYTES[kind]
    if text.startswith('"'):
        data = text.strip('"').encode("latin-1").decode("unicode_escape").encode("latin-1") + b"\0"
        var.data = data.ljust(var.nbytes, b"\0")
        return
    items = [t.strip() for t in text.replace("{", " ").replace("}", " ").split(",")]
    data = bytearray()
    for item in filter(None, items):
        if _INT.match(item):
            data += (parse_int(item) & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        elif item[:2] in ("0f", "0F", "0d", "0D"):
            data += int(item[2:], 16).to_bytes(size, "little")
        else:
            match = re.match(r"^(?:generic\s*\(\s*)?([\w$]+)\s*\)?\s*([+-]\s*\w+)?$", item)
            if not match:
                raise PtxError(f"cannot read the initial value {item!r} of {var.name}")
            var.relocations.append((len(data), Sym(match[1], parse_offset(match[2]))))
            data += bytes(size)
    var.nbytes = max(var.nbytes, len(data))
    var.data = bytes(data).ljust(var.nbytes, b"\0")


_FUNCTION = re.compile(r"^(?:\.(?:visible|extern|weak|common)\s+)*\.(func|entry)\b(.*)$", re.S)


def parse_function(header: str) -> Function:
    """The text before the body: name, parameters, return parameters, performance directives."""
    match = _FUNCTION.match(header.strip())
    kind, rest = match.groups()
    rest = rest.strip()
    returns = []
    if kind == "func" and rest.startswith("("):
        end = rest.index(")")
        returns = [parse_param(p) for p in split_commas(rest[1:end])]
        rest = rest[end + 1 :].strip()
    name_match = re.match(r"^(?:\.noreturn\s+)?([\w$]+)\s*(?:\(([^)]*)\))?(.*)$", rest, re.S)
    if not name_match:
        raise PtxError(f"cannot read the function {header[:80]!r}")
    name, params, tail = name_match.groups()
    function = Function(name, [parse_param(p) for p in split_commas(params or "")], returns, [], [], kind == "entry")
    for directive, value in re.findall(r"\.(maxntid|reqntid)\s+([\d,\s]+)", tail):
        dims = [int(v) for v in value.replace(",", " ").split()]
        function.max_threads = dims[0] * (dims[1] if len(dims) > 1 else 1) * (dims[2] if len(dims) > 2 else 1)
        del directive
    return function


def parse_ptx(text: str) -> PtxModule:
    """Parse a whole PTX text.

    Raises PtxError, which names the construct and the line, for what is not PTX or is outside what this machine reads.
    """
    files = {int(i): path for i, path in _FILE.findall(text)}
    text = _SECTION.sub("", text)
    text = _FILE.sub("", text)
    libraries = {str(number) for number, path in files.items() if _LIBRARY.search(path)}

    def place(found):
        """A line of a library that was inlined stands for the line of the program that it was inlined at."""
        outer = _INLINED.search(found[0]) if found[1] in libraries else None
        return f".loc {outer[1]} {outer[2]};" if outer else f".loc {found[1]} {found[2]};"

    text = _LOC.sub(place, text)
    text = _COMMENT.sub(" ", text)
    headers = dict(_HEADER.findall(text))
    if "version" not in headers or "target" not in headers:
        raise PtxError("this is no PTX: .version or .target is missing")
    if headers.get("address_size", "64").strip() != "64":
        raise PtxError("only 64-bit PTX is supported")
    text = _HEADER.sub("", text)
    target, *options = (word.strip() for word in headers["target"].split(","))
    module = PtxModule(target, {}, {}, files, "debug" in options)
    i, n = 0, len(text)
    stop = re.compile(r"[;{]")
    while i < n:
        match = stop.search(text, i)
        if not match:
            if text[i:].strip():
                raise PtxError(f"unexpected text at the end: {text[i:].strip()[:60]!r}")
            break
        head = text[i : match.start()].strip()
        is_function = _FUNCTION.match(head)
        if match.group() == ";" or not is_function:
            end = text.find(";", i)
            if end < 0:
                raise PtxError(f"no ';' after {head[:60]!r}")
            statement = text[i:end].strip()
            i = end + 1
            if not statement or statement.startswith((".loc", ".pragma", ".alias")):
                continue
            if _FUNCTION.match(statement):
                function = parse_function(statement)
                function.declared_only = True
                module.functions.setdefault(function.name, function)
            else:
                var = parse_variable(statement)
                module.variables[var.name] = var
            continue
        depth, j = 1, match.end()
        for brace in re.compile(r"[{}]").finditer(text, j):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                j = brace.start()
                break
        else:
            raise PtxError(f"the body of {head[:60]!r} does not end")
        function = parse_function(head)
        _FunctionParser(function).run(text[match.end() : j])
        module.functions[function.name] = function
        i = j + 1
    return module

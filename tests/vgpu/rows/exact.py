"""IEEE 754 arithmetic by exact fractions: what an instruction must give, in any format and rounding."""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt


@dataclass(frozen=True)
class Format:
    ebits: int
    mbits: int

    @property
    def bias(self):
        return (1 << (self.ebits - 1)) - 1

    @property
    def width(self):
        return 1 + self.ebits + self.mbits

    @property
    def inf(self):
        return ((1 << self.ebits) - 1) << self.mbits

    @property
    def sign(self):
        return 1 << (self.width - 1)

    @property
    def biggest(self):
        return self.inf - 1


FORMATS = {"f16": Format(5, 10), "bf16": Format(8, 7), "f32": Format(8, 23), "f64": Format(11, 52)}
NAN, INF = "nan", "inf"


@dataclass(frozen=True)
class Value:
    """A number, an infinity or a NaN; the sign of a zero is kept."""

    negative: bool
    what: object  # NAN, INF or a Fraction that is not negative

    @property
    def number(self) -> Fraction:
        return -self.what if self.negative else self.what


def decode(bits: int, kind: str) -> Value:
    f = FORMATS[kind]
    negative, rest = bool(bits & f.sign), bits & (f.sign - 1)
    exponent, fraction = rest >> f.mbits, rest & ((1 << f.mbits) - 1)
    if exponent == (1 << f.ebits) - 1:
        return Value(negative, NAN if fraction else INF)
    scale = max(exponent, 1) - f.bias - f.mbits
    whole = fraction | ((1 << f.mbits) if exponent else 0)
    return Value(negative, Fraction(whole) * Fraction(2) ** scale)


def encode(value: Value, kind: str, mode: str = "rn") -> int | None:
    """Bits of `value` rounded once; None for NaN."""
    f = FORMATS[kind]
    sign = f.sign if value.negative else 0
    if value.what == NAN:
        return None
    if value.what == INF:
        return sign | f.inf
    x = value.what
    if x == 0:
        return sign
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    exponent = max(exponent, 1 - f.bias)
    scaled = x / Fraction(2) ** (exponent - f.mbits)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    rest = Fraction(rest, scaled.denominator)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": rest > 0 and value.negative,
        "rp": rest > 0 and not value.negative,
    }[mode]
    whole += bool(up)
    bits = whole if exponent == 1 - f.bias else ((exponent + f.bias - 1) << f.mbits) + whole
    if bits >= f.inf:
        away = mode in ("rn", "rna") or (mode == "rm" and value.negative) or (mode == "rp" and not value.negative)
        bits = f.inf if away else f.biggest
    return sign | bits


def flushed(bits: int, kind: str) -> int:
    """Subnormals to a zero of their sign."""
    f = FORMATS[kind]
    return bits & f.sign if bits & f.inf == 0 else bits


def signed(x: Fraction, zero_negative: bool = False) -> Value:
    return Value(x < 0 or (x == 0 and zero_negative), abs(x))


def add(x: Value, y: Value, mode="rn") -> Value:
    if NAN in (x.what, y.what) or (x.what == y.what == INF and x.negative != y.negative):
        return Value(False, NAN)
    if INF in (x.what, y.what):
        return x if x.what == INF else y
    return signed(
        x.number + y.number, x.negative if x.what == y.what == 0 and x.negative == y.negative else mode == "rm"
    )


def negate(x: Value) -> Value:
    return Value(not x.negative, x.what)


def multiply(x: Value, y: Value) -> Value:
    negative = x.negative != y.negative
    if NAN in (x.what, y.what) or {INF, 0} <= {x.what, y.what}:
        return Value(False, NAN)
    if INF in (x.what, y.what):
        return Value(negative, INF)
    return Value(negative, x.what * y.what)


def divide(x: Value, y: Value) -> Value:
    negative = x.negative != y.negative
    if NAN in (x.what, y.what) or (x.what == y.what and x.what in (INF, 0)):
        return Value(False, NAN)
    if x.what == INF or y.what == 0:
        return Value(negative, INF)
    return Value(negative, Fraction(0) if y.what == INF else x.what / y.what)


def root(x: Value) -> Value:
    """Square root; an irrational one is cut after 200 bits and made odd: no rounding can tell it from the true one."""
    if x.what == NAN or (x.negative and x.what != 0):
        return Value(False, NAN)
    if x.what in (INF, 0):
        return x
    shift = 1400  # more than the exponents of f64, and 200 bits besides
    scaled = x.what * (1 << (2 * shift))
    whole = isqrt(scaled.numerator // scaled.denominator)
    sticky = whole * whole != scaled
    return Value(False, Fraction(2 * whole + sticky, 1 << (shift + 1)))


def arithmetic(name, kind, mode="rn", *, ftz=False, sat=False, relu=False):
    """want() of add, sub, mul, fma, div, rcp or sqrt: bits to bits, or a check for NaN."""
    from harness import Nan

    def want(*operands):
        if ftz:
            operands = [flushed(o, kind) for o in operands]
        values = [decode(o, kind) for o in operands]
        result = {
            "add": lambda: add(values[0], values[1], mode),
            "sub": lambda: add(values[0], negate(values[1]), mode),
            "mul": lambda: multiply(values[0], values[1]),
            "fma": lambda: add(multiply(values[0], values[1]), values[2], mode),
            "div": lambda: divide(values[0], values[1]),
            "rcp": lambda: divide(Value(False, Fraction(1)), values[0]),
            "sqrt": lambda: root(values[0]),
            "same": lambda: values[0],
        }[name]()
        if sat:
            if result.what == NAN or result.negative or result.what == 0:
                return 0
            if result.what == INF or result.what > 1:
                result = Value(False, Fraction(1))
        if relu and result.what != NAN and result.negative:
            return 0
        bits = encode(result, kind, mode)
        if bits is None:
            return Nan(kind)
        return flushed(bits, kind) if ftz else bits

    return want


def pairwise(want):
    """want() of a two-in-one type (f16x2) from that of its halves."""

    def both(*operands):
        low, high = (want(*((o >> s) & 0xFFFF for o in operands)) for s in (0, 16))

        def accepts(got):
            return all(w(g) if callable(w) else g == w for g, w in ((got & 0xFFFF, low), (got >> 16, high)))

        if callable(low) or callable(high):
            return accepts
        return low | high << 16

    return both


def edges(kind: str, seed: int = 3, extra: int = 24) -> list[int]:
    """Bit patterns worth trying: zeros, units, ties, extremes, subnormals, infinities, NaNs, and some at random."""
    import random

    f = FORMATS[kind]
    one = f.bias << f.mbits
    least = 1 << f.mbits
    bits = [
        0,
        1,
        2,
        least - 1,
        least,
        least + 1,
        one - 1,
        one,
        one + 1,
        f.biggest,
        f.biggest - 1,
        f.inf,
        f.inf | 1 << (f.mbits - 1),
    ]
    bits += [
        (f.bias + n) << f.mbits for n in (1, -1, f.mbits, f.mbits + 1, -f.mbits - 1, -f.bias // 2, f.bias // 2, f.bias)
    ]
    bits += [one + (1 << (f.mbits - 1)), one + least // 2 + 1, encode(Value(False, Fraction(1, 3)), kind)]
    out = [b | s for b in bits for s in (0, f.sign)]
    rng = random.Random(seed)
    out += [rng.getrandbits(f.width) for _ in range(extra)]
    near = [one + rng.getrandbits(f.mbits) + (rng.randrange(-3, 4) << f.mbits) for _ in range(extra)]
    return out + [n | rng.choice((0, f.sign)) for n in near]

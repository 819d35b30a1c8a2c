"""Names of kernels as people know them."""

import re


def short_name(kernel: str) -> str:
    """A kernel's name without what compilers add to it: "_ZN8__main__5scaleB2v1B..." -> "scale"."""
    start = re.match(r"_ZN?", kernel)
    if not start:
        return kernel
    rest, name = kernel[start.end() :], kernel
    while digits := re.match(r"\d+", rest):
        end = digits.end() + int(digits[0])
        name, rest = rest[digits.end() : end], rest[end:]
    return name

"""Text that others wrote, made fit to be shown: nothing in it that a terminal or a browser would obey."""

import unicodedata

# Control characters, direction marks and other invisible format characters, lone surrogates, unassigned ones.
_HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def printable(text: str, keep: str = "") -> str:
    r"""The text with every such character written out ("\x1b"), except for those in `keep`."""
    return "".join(c if c in keep or unicodedata.category(c) not in _HIDDEN else _spelled(c) for c in text)


def lines(text: str) -> str:
    """The same for text of several lines."""
    return printable(text.replace("\r\n", "\n"), keep="\n\t")


def _spelled(c: str) -> str:
    return c.encode("unicode_escape").decode() if not 0xD800 <= ord(c) < 0xE000 else f"\\u{ord(c):04x}"

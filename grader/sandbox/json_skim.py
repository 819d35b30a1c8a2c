"""Walks over JSON text without building it: says where each value lies, so that only wanted ones are ever decoded.

A notebook with 100 MB of outputs is read this way in the memory of its text, and what is skipped cannot do harm: no
nesting is followed by recursion, no number is converted.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

MAX_TOKENS = 4_000_000  # brackets and strings walked over in one text: a bound on time, about 3 s

# Possessive, with an optional end: a string that never closes is met once, not again at each quote in it.
_STRING_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<end>")?'
_STRING = re.compile(_STRING_TEXT, re.DOTALL)
_STRUCTURE = re.compile(r"[\[\]{}]|" + _STRING_TEXT, re.DOTALL)
_SCALAR = re.compile(r"[-+.\w]++")
_SPACE = re.compile(r"[ \t\r\n]*+")

Span = tuple[int, int]  # start and end in the text
T = TypeVar("T")


class NotJson(ValueError):
    """Text that is not the JSON it should be, or too much of it."""


class Skimmer:
    """One JSON text whose only value is an object."""

    def __init__(self, text: str) -> None:
        """Skim `text`."""
        self.text = text
        self.tokens = 0

    def document(self) -> Iterator[tuple[str, Span]]:
        """Give the members of the outermost object. Raises NotJson."""
        end = yield from self._items(self._space(0), "{}", self._member)
        if self._space(end) != len(self.text):
            raise NotJson(f"more text after the end of the JSON, at character {end}")

    def members(self, span: Span) -> Iterator[tuple[str, Span]]:
        """Give the names and value spans of the object at `span`. Raises NotJson."""
        yield from self._items(span[0], "{}", self._member)

    def elements(self, span: Span) -> Iterator[Span]:
        """Give the spans of the elements of the array at `span`. Raises NotJson."""
        yield from self._items(span[0], "[]", lambda at: ((at, end := self._skip(at)), end))

    def value(self, span: Span, max_characters: int) -> object:
        """Decode what lies at `span`. Raises NotJson, also when it is longer than `max_characters`."""
        start, end = span
        if end - start > max_characters:
            raise NotJson(f"a value of {end - start} characters where {max_characters} are allowed")
        try:
            return json.loads(self.text[start:end])
        except (ValueError, RecursionError) as error:
            raise NotJson(str(error)) from None

    def _items(self, start: int, brackets: str, item: Callable[[int], tuple[T, int]]) -> Iterator[T]:
        """Give each item between the brackets; the generator's own value is where the closing bracket ends."""
        at = self._space(self._expect(brackets[0], start))
        if self.text[at : at + 1] == brackets[1]:
            return at + 1
        while True:
            found, end = item(at)
            yield found
            at = self._space(end)
            if self.text[at : at + 1] == brackets[1]:
                return at + 1
            at = self._space(self._expect(",", at))

    def _member(self, at: int) -> tuple[tuple[str, Span], int]:
        name_end = self._string(at)
        start = self._space(self._expect(":", self._space(name_end)))
        end = self._skip(start)
        return (str(self.value((at, name_end), 1000)), (start, end)), end

    def _skip(self, start: int) -> int:
        """Give the end of the value that starts at `start`."""
        first = self.text[start : start + 1]
        if first == '"':
            return self._string(start)
        if first in ("{", "["):
            return self._skip_brackets(start)
        scalar = _SCALAR.match(self.text, start)
        if scalar is None:
            raise NotJson(f"no value at character {start}")
        return scalar.end()

    def _skip_brackets(self, start: int) -> int:
        awaited: list[str] = []
        for match in _STRUCTURE.finditer(self.text, start):
            self.tokens += 1
            if self.tokens > MAX_TOKENS:
                raise NotJson(f"more than {MAX_TOKENS} brackets and strings")
            first = self.text[match.start()]
            if first in "{[":
                awaited.append("}" if first == "{" else "]")
            elif first == '"':
                if match["end"] is None:
                    break
            elif awaited.pop() != first:
                break
            if not awaited:
                return match.end()
        raise NotJson(f"what opens at character {start} does not close")

    def _string(self, at: int) -> int:
        match = _STRING.match(self.text, at)
        if match is None or match["end"] is None:
            raise NotJson(f"no string at character {at}")
        return match.end()

    def _expect(self, character: str, at: int) -> int:
        if self.text[at : at + 1] != character:
            found = self.text[at : at + 1] or "the end"
            raise NotJson(f"{found!r} instead of {character!r} at character {at}")
        return at + 1

    def _space(self, at: int) -> int:
        return _SPACE.match(self.text, at).end()

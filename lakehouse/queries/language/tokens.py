"""Tokens of a query's text, read one after the other: words, numbers, durations; and what is wrong with the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
# Times are held within +-2^60 us; sums of windows, slacks and periods must stay far inside.
LONGEST_US = 1_000 * 365 * UNITS["DAY"]
_SPAN = "a whole number of microseconds, such as 2 SECONDS or 0.5 MINUTES"


@dataclass(frozen=True)
class Fault:
    """One thing in a query that cannot be run. Lines and columns count from 1.

    ``about``: the stream that is not there, where that is what is wrong.
    """

    line: int
    column: int
    reason: str
    expected: str
    about: str | None = None

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: found {self.reason}; expected {self.expected}"


class QueryError(ValueError):
    """A query that cannot be run: the first fault's place and reason, and all of them in ``faults``."""

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.line, fault.column)))
        self.line, self.column = self.faults[0].line, self.faults[0].column
        self.reason, self.expected = self.faults[0].reason, self.faults[0].expected
        super().__init__("\n".join(f"{name}:{fault}" for fault in self.faults))


class Faults:
    """Faults of one text, collected by offset."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.found: list[Fault] = []

    def add(self, offset: int, reason: str, expected: str, about: str | None = None) -> None:
        """Note a fault; one that was noted before is not noted again."""
        line = self._text.count("\n", 0, offset) + 1
        fault = Fault(line, offset - (self._text.rfind("\n", 0, offset) + 1) + 1, reason, expected, about)
        if fault not in self.found:
            self.found.append(fault)


@dataclass(frozen=True)
class Span:
    """A duration and where it is written."""

    us: int
    offset: int


@dataclass(frozen=True)
class Named:
    """A column as a clause names it, in small letters, and where; without an ``alias`` that of any side that has it."""

    alias: str
    column: str
    offset: int


def kind_of(token: Token) -> str:
    """Return what sqlglot takes a token for."""
    return str(token.token_type.name)


def word_of(token: Token) -> str:
    """Return a bare word in capitals, nothing for quoted text."""
    return "" if kind_of(token) in ("STRING", "IDENTIFIER") else token.text.upper()


class Reader:
    """A place among tokens, which moves on as they are read; behind the last one the text ends at ``end``."""

    def __init__(self, tokens: Sequence[Token], at: int, end: int, faults: Faults) -> None:
        self.tokens, self.at, self.end, self.faults = tokens, at, end, faults

    def word(self) -> str:
        """Return the word that stands here, nothing for quoted text and at the end."""
        return word_of(self.tokens[self.at]) if self.at < len(self.tokens) else ""

    def offset(self) -> int:
        """Return where in the text this is."""
        return self.tokens[self.at].start if self.at < len(self.tokens) else self.end

    def take(self, *words: str) -> str:
        """Move past one of these words and return it; nothing where another stands there."""
        found = self.word()
        if found not in words:
            return ""
        self.at += 1
        return found

    def refuse(self, expected: str) -> None:
        """Note that what stands here is not what is expected."""
        found = repr(self.tokens[self.at].text) if self.at < len(self.tokens) else "the end"
        self.faults.add(self.offset(), found, expected)

    def number(self, expected: str) -> Fraction | None:
        """Read a number, exactly; None, with the reason noted, where there is none."""
        text = self.take(".", "-")
        at = self.at
        if at < len(self.tokens) and kind_of(self.tokens[at]) == "NUMBER":
            self.at += 1
            return Fraction(text + self.tokens[at].text)
        self.refuse(expected)
        return None

    def named(self) -> Named | None:
        """Read the name of a column, with an alias or without; None, with the reason noted, where there is none."""
        offset, alias, name = self.offset(), "", self._name()
        if name and self.take("."):
            alias, name = name, self._name()
        if not name:
            self.refuse("a column, such as device or a.device")
            return None
        return Named(alias, name, offset)

    def _name(self) -> str:
        """Move past a name and return it in small letters; nothing where something else stands there."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is None or not (kind_of(token) == "IDENTIFIER" or token.text.isidentifier()):
            return ""
        self.at += 1
        return token.text.lower()

    def span(self) -> Span | None:
        """Read a number and its unit; None, with the reason noted, where there are none."""
        offset = self.offset()
        number = self.number(_SPAN)
        if number is None:
            return None
        unit = UNITS.get(self.word().removesuffix("S"))
        if unit is None:
            self.refuse(f"a unit of {', '.join(f'{name}S' for name in UNITS)}")
            return None
        self.at += 1
        us = number * unit
        if us.denominator != 1 or not 0 <= us <= LONGEST_US:
            found = f"{number} {self.tokens[self.at - 1].text}"
            self.faults.add(offset, found, f"{_SPAN}, up to 1000 years")
            return None
        return Span(int(us), offset)

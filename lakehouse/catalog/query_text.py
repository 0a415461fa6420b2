"""The text of a registered query cut apart: windows in brackets and trailing clauses are ours, the rest is SQL.

    SELECT ... FROM requests [RANGE 2 SECONDS] r JOIN ... ON ... RECALL 0.95 OVER 1 MINUTE EVERY 1 SECOND
                             ^ window                             ^ clauses, to the end

What is ours is read here and blanked out with spaces, so that every place in the SQL that is left is its place in
the file. Quotes and comments are told apart by sqlglot's tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

DIALECT = "spark"
CLAUSES = ("RECALL", "EVERY", "IDLE", "AHEAD", "POLICY")
POLICIES = ("NEEDED_SLACK", "PAPER")
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
_NOT_YET = "a plain join of columns: aggregates are not run yet"
_INNER = "JOIN ... ON: only pairs that match are kept"
_ONE = "one SELECT over two streams"
_REFUSED = {
    "GROUP_BY": ("GROUP BY", _NOT_YET),
    "HAVING": ("HAVING", _NOT_YET),
    "LEFT": ("an outer join", _INNER),
    "RIGHT": ("an outer join", _INNER),
    "FULL": ("an outer join", _INNER),
    "OUTER": ("an outer join", _INNER),
    "SEMI": ("a semi join", _INNER),
    "ANTI": ("an anti join", _INNER),
    "NATURAL": ("NATURAL", "the columns that must be equal, named after ON"),
    "USING": ("USING", "the columns that must be equal, named after ON"),
    "LATERAL": ("LATERAL", _ONE),
    "ORDER_BY": ("ORDER BY", "no order: results come as they are found"),
    "LIMIT": ("LIMIT", "no limit: every pair is kept"),
    "OFFSET": ("OFFSET", "no offset: every pair is kept"),
    "DISTINCT": ("DISTINCT", "no DISTINCT: every pair is found exactly once"),
    "UNION": ("UNION", _ONE),
    "EXCEPT": ("EXCEPT", _ONE),
    "INTERSECT": ("INTERSECT", _ONE),
    "WITH": ("WITH", _ONE),
    "QUALIFY": ("QUALIFY", _NOT_YET),
    "CASE": ("CASE", "comparisons of columns"),
}
_QUOTES = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)


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
    """What is wrong with one text, collected by offset."""

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


@dataclass
class Parts:
    """A text cut apart.

    The SQL is from ``start`` to ``end``, both counted in; ``windows`` are by the offset of the name before the bracket.
    ``is_plain``: no word in the SQL, and no bracket, is one that is refused.
    """

    sql: str
    start: int
    end: int
    is_plain: bool = True
    windows: dict[int, Span] = field(default_factory=dict)
    recall: float | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    policy: str = POLICIES[0]


def description_of(text: str) -> str:
    """Return what the first comment lines say, as one line."""
    lines: list[str] = []
    for line in text.lstrip("\ufeff \t\n").splitlines():
        if not line.strip().startswith("--"):
            break
        lines.append(line.strip().lstrip("-").strip())
    return " ".join(filter(None, lines))


def cut(text: str, faults: Faults) -> Parts | None:
    """Return the parts of a text, None where it cannot be cut."""
    tokens = _tokens(text, faults)
    if tokens is None:
        return None
    if not tokens:
        faults.add(0, "no query", _ONE)
        return None
    start = _clauses_start(tokens)
    sql = _blanked(text, tokens[start].start, len(text)) if start < len(tokens) else text
    parts = Parts(sql, tokens[0].start, tokens[start - 1].end if start else 0)
    _refuse_words(tokens[:start], faults)
    _cut_windows(tokens[:start], parts, faults)
    parts.is_plain = not faults.found
    _Clauses(tokens[start:], parts, faults).read()
    return parts


def _tokens(text: str, faults: Faults) -> list[Token] | None:
    from sqlglot import Dialect
    from sqlglot.errors import TokenError

    try:
        tokens = list(Dialect.get_or_raise(DIALECT).tokenize(text))
    except TokenError:
        bare = _QUOTES.sub(lambda found: " " * len(found[0]), text)
        odd = re.search(r"['\"`]|/\*", bare)
        faults.add(odd.start() if odd else 0, "a quote or comment without end", "its end")
        return None
    semicolon = next((at for at, token in enumerate(tokens) if _kind(token) == "SEMICOLON"), len(tokens))
    if semicolon + 1 < len(tokens):
        faults.add(tokens[semicolon + 1].start, "a second statement", "one query in each file")
    return tokens[:semicolon]


def _kind(token: Token) -> str:
    return str(token.token_type.name)


def _word(token: Token) -> str:
    """Return a bare word in capitals, nothing for quoted text."""
    return "" if _kind(token) in ("STRING", "IDENTIFIER") else token.text.upper()


def _is_bare(tokens: Sequence[Token], at: int) -> bool:
    """Tell if a word stands for itself: it is no part of a dotted name and no alias."""
    before = _word(tokens[at - 1]) if at else ""
    is_dotted = (
        at + 1 < len(tokens) and tokens[at + 1].start == tokens[at].end + 1 and _word(tokens[at + 1]) == "."
    )
    return before not in (".", "AS") and not is_dotted


def _clauses_start(tokens: Sequence[Token]) -> int:
    depth, is_after_from = 0, False
    for at, token in enumerate(tokens):
        word = _word(token)
        depth += (word == "(") - (word == ")")
        is_after_from |= word == "FROM"
        if is_after_from and depth == 0 and word in CLAUSES and _is_bare(tokens, at):
            return at
    return len(tokens)


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _refuse_words(tokens: Sequence[Token], faults: Faults) -> None:
    for at, token in enumerate(tokens):
        if not _is_bare(tokens, at) or _kind(token) in ("STRING", "IDENTIFIER"):
            continue
        if at and _word(token) == "SELECT":
            faults.add(token.start, "a subquery", _ONE)
        elif _kind(token) in _REFUSED:
            faults.add(token.start, *_REFUSED[_kind(token)])


def _cut_windows(tokens: Sequence[Token], parts: Parts, faults: Faults) -> None:
    at = 0
    while at < len(tokens):
        if _word(tokens[at]) != "[":
            at += 1
            continue
        reader = _Reader(tokens, at + 1, parts.end + 1, faults)
        reader.take("RANGE")
        span = reader.span()
        if span and not reader.take("]"):
            reader.refuse("] at the end of the window")
        elif span and span.us == 0:
            faults.add(span.offset, "a window of 0", "a window above 0")
        elif span and at:
            parts.windows[tokens[at - 1].start] = span
        while reader.at < len(tokens) and _word(tokens[reader.at - 1]) != "]":
            reader.at += 1
        parts.sql = _blanked(parts.sql, tokens[at].start, tokens[reader.at - 1].end + 1)
        at = reader.at


class _Reader:
    """A place among tokens, which moves on as they are read."""

    def __init__(self, tokens: Sequence[Token], at: int, end: int, faults: Faults) -> None:
        self.tokens, self.at, self.end, self.faults = tokens, at, end, faults

    def word(self) -> str:
        return _word(self.tokens[self.at]) if self.at < len(self.tokens) else ""

    def offset(self) -> int:
        return self.tokens[self.at].start if self.at < len(self.tokens) else self.end

    def take(self, *words: str) -> str:
        """Move past one of these words and return it; nothing where another stands there."""
        found = self.word()
        if found not in words:
            return ""
        self.at += 1
        return found

    def refuse(self, expected: str) -> None:
        found = repr(self.tokens[self.at].text) if self.at < len(self.tokens) else "the end"
        self.faults.add(self.offset(), found, expected)

    def number(self, expected: str) -> Fraction | None:
        text = self.take(".", "-")
        at = self.at
        if at < len(self.tokens) and _kind(self.tokens[at]) == "NUMBER":
            self.at += 1
            return Fraction(text + self.tokens[at].text)
        self.refuse(expected)
        return None

    def span(self) -> Span | None:
        """Read a number and its unit."""
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
            self.faults.add(offset, f"{number} {self.tokens[self.at - 1].text}", f"{_SPAN}, up to 1000 years")
            return None
        return Span(int(us), offset)


class _Clauses(_Reader):
    """The trailing clauses, in any order, each at most once."""

    def __init__(self, tokens: Sequence[Token], parts: Parts, faults: Faults) -> None:
        super().__init__(tokens, 0, tokens[-1].end + 1 if tokens else parts.end + 1, faults)
        self.parts = parts
        self.seen: set[str] = set()

    def read(self) -> None:
        while self.at < len(self.tokens):
            offset, clause = self.offset(), self.take(*CLAUSES)
            if clause in self.seen:
                self.faults.add(offset, f"{clause} twice", f"{clause} once")
            self.seen.add(clause)
            if not (clause and self._read_one(clause)):
                if not clause:
                    self.refuse(f"one of {', '.join(CLAUSES)} or the end")
                self._skip()
        if "RECALL" not in self.seen:
            self.faults.add(
                self.end, "no RECALL", "RECALL <share> OVER <period>, such as RECALL 0.95 OVER 1 MINUTE"
            )

    def _skip(self) -> None:
        while self.at < len(self.tokens) and self.word() not in CLAUSES:
            self.at += 1

    def _read_one(self, clause: str) -> bool:
        if clause == "RECALL":
            return self._recall()
        if clause == "POLICY":
            return self._policy()
        return self._span_above_zero(clause)

    def _recall(self) -> bool:
        offset = self.offset()
        share = self.number("a share between 0 and 1, such as 0.95")
        if share is None:
            return False
        if not 0 < share < 1:
            self.faults.add(offset, f"a recall of {float(share):g}", "a share between 0 and 1, both left out")
        self.parts.recall = float(share)
        if not self.take("OVER"):
            self.refuse("OVER and the period, such as OVER 1 MINUTE")
            return False
        return self._span_above_zero("OVER")

    def _span_above_zero(self, clause: str) -> bool:
        span = self.span()
        if span is None:
            return False
        if span.us == 0:
            self.faults.add(span.offset, f"{clause} of 0", "a duration above 0")
        else:
            self.parts.spans[clause] = span
        return True

    def _policy(self) -> bool:
        found = self.take(*POLICIES)
        if not found:
            self.refuse(f"one of {', '.join(POLICIES)}")
            return False
        self.parts.policy = found
        return True

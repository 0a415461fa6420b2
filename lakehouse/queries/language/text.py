"""The text of a registered query cut apart: windows in brackets and trailing clauses are ours, the rest is SQL.

    SELECT ... FROM requests [RANGE 2 SECONDS] r JOIN ... ON ... RECALL 0.95 OVER 1 MINUTE EVERY 1 SECOND
                             ^ window                             ^ clauses, to the end

Clauses stand in any order, each at most once; each kind says which it has. What is ours is read here and blanked out
with spaces, so that every place in the SQL that is left is its place in the file. Quotes and comments are told apart
by sqlglot's tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.config.problems import nearest
from lakehouse.queries.kind import kinds
from lakehouse.queries.language.tokens import Faults, Named, Reader, Span, kind_of, word_of

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

# How what stands behind the word of a clause is read; False where it cannot be, and the fault is noted.
Reading = Callable[["ClauseReader", str], bool]
DIALECT = "spark"
_INNER = "JOIN ... ON: only rows that match are joined"
_ONE = "one SELECT over streams"
_PLAIN_GROUPS = "GROUP BY and the columns, by name"
_REFUSED = {
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
    "LIMIT": ("LIMIT", "no limit: every result is kept"),
    "OFFSET": ("OFFSET", "no offset: every result is kept"),
    "DISTINCT": ("DISTINCT", "no DISTINCT: every result is found, and counted, exactly once"),
    "UNION": ("UNION", _ONE),
    "EXCEPT": ("EXCEPT", _ONE),
    "INTERSECT": ("INTERSECT", _ONE),
    "WITH": ("WITH", _ONE),
    "QUALIFY": ("QUALIFY", "WHERE, or HAVING in an aggregate"),
    "ALL": ("ALL", _PLAIN_GROUPS),
    "ROLLUP": ("ROLLUP", _PLAIN_GROUPS),
    "CUBE": ("CUBE", _PLAIN_GROUPS),
    "GROUPING_SETS": ("GROUPING SETS", _PLAIN_GROUPS),
    "CASE": ("CASE", "comparisons of columns"),
}
# What a column follows: behind these a word of a clause is a name.
_BEFORE_NAMES = frozenset(
    {"FROM", "JOIN", "ON", "WHERE", "GROUP_BY", "HAVING", "COMMA", "AND", "OR", "NOT", "IN", "BETWEEN", "IS"}
    | {
        "EQ",
        "NEQ",
        "NULLSAFE_EQ",
        "LT",
        "LTE",
        "GT",
        "GTE",
        "LIKE",
        "ILIKE",
        "PLUS",
        "DASH",
        "STAR",
        "SLASH",
        "MOD",
    }
)
_QUOTES = re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)


@dataclass(frozen=True)
class Grammar:
    """Grammar of one kind of query: the words that it is known by, and its clauses.

    ``title``: the kind, in words. ``known_by``: the form of its SELECT (``tree.form_of``), or a clause that no other
    kind has. ``clauses``: how each is read; kinds that share one read it alike. ``unfit``: what is expected instead of
    a clause of another kind. ``needed``: a clause that must be there, and what is expected of it.
    """

    title: str
    known_by: str
    clauses: Mapping[str, Reading]
    unfit: Mapping[str, str] = field(default_factory=dict)
    needed: tuple[str, str] | None = None


@dataclass
class Clauses:
    """Clauses of a text.

    ``places``: by clause where it stands, for those that are there; ``end``: where the text ends. Durations are in
    ``spans``, the period of RECALL under OVER; ``columns`` are those that a clause names.
    """

    end: int
    places: dict[str, int] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    columns: dict[str, tuple[Named, ...]] = field(default_factory=dict)

    def us(self, clause: str) -> int | None:
        """Return the microseconds that a clause says, None where it is not there."""
        return self.spans[clause].us if clause in self.spans else None


def clauses_of_all_kinds() -> dict[str, Reading]:
    """Return every clause that some kind of query has, and how it is read."""
    return {
        clause: reading for kind in kinds() for clause, reading in kind.file("parse").GRAMMAR.clauses.items()
    }


def read_clauses(tokens: Sequence[Token], end: int, faults: Faults) -> Clauses:
    """Return what the tokens behind the SQL say, the first of them a clause; ``end``: where the SQL ends."""
    reader = ClauseReader(tokens, 0, tokens[-1].end + 1 if tokens else end, faults)
    reader.read()
    return reader.clauses


def check_clauses(clauses: Clauses, grammar: Grammar, faults: Faults) -> None:
    """Note the clauses that a kind of query cannot have, and the one that it must have."""
    for clause, place in clauses.places.items():
        if clause not in grammar.clauses:
            expected = grammar.unfit.get(clause, f"no {clause}")
            faults.add(place, f"{clause} in {grammar.title}", expected)
    needed, expected = grammar.needed or ("", "")
    if needed and needed not in clauses.places:
        faults.add(clauses.end, f"no {needed}", expected)


def duration(reader: ClauseReader, clause: str) -> bool:
    """Read a duration above 0."""
    return reader.duration(clause, may_be_zero=False)


def duration_or_zero(reader: ClauseReader, clause: str) -> bool:
    """Read a duration."""
    return reader.duration(clause, may_be_zero=True)


def nothing_more(reader: ClauseReader, clause: str) -> bool:
    """Read a clause that is a word alone."""
    return True


def one_of(words: tuple[str, ...]) -> Reading:
    """Return how one of some words is read."""
    return lambda reader, clause: reader.one_of(clause, words)


class ClauseReader(Reader):
    """Reads clause after clause into ``clauses``."""

    def __init__(self, tokens: Sequence[Token], at: int, end: int, faults: Faults) -> None:
        super().__init__(tokens, at, end, faults)
        self.clauses = Clauses(end)
        self.known = clauses_of_all_kinds()

    def read(self) -> None:
        """Read to the end; what cannot be read is noted and left out."""
        places = self.clauses.places
        while self.at < len(self.tokens):
            offset, clause = self.offset(), self.take(*self.known)
            if clause in places:
                self.faults.add(offset, f"{clause} twice", f"{clause} once")
            if clause:
                places.setdefault(clause, offset)
            if not (clause and self.known[clause](self, clause)):
                if not clause:
                    self.refuse(f"one of {', '.join(self.known)} or the end")
                self._skip()

    def _skip(self) -> None:
        while self.at < len(self.tokens) and self.word() not in self.known:
            self.at += 1

    def duration(self, clause: str, may_be_zero: bool) -> bool:
        """Read a duration."""
        span = self.span()
        if span is None:
            return False
        if span.us == 0 and not may_be_zero:
            self.faults.add(span.offset, f"{clause} of 0", "a duration above 0")
        else:
            self.clauses.spans[clause] = span
        return True

    def one_of(self, clause: str, words: tuple[str, ...]) -> bool:
        """Read one of some words."""
        found = self.take(*words)
        if found:
            self.clauses.words[clause] = found
        else:
            self.refuse(nearest(self.word(), words))
            self._skip()
        return True

    def columns(self, clause: str) -> bool:
        """Read names of columns with commas between."""
        found = []
        while (name := self.named()) is not None:
            found.append(name)
            if not self.take(","):
                self.clauses.columns[clause] = tuple(found)
                return True
        return False


@dataclass
class Parts:
    """A text cut apart.

    The SQL is from ``start`` to ``end``, both counted in; ``windows`` are by the offset of the name before the bracket.
    ``is_plain``: no word in the SQL, and no bracket, is one that is refused.
    """

    text: str
    sql: str
    start: int
    end: int
    clauses: Clauses
    is_plain: bool = True
    windows: dict[int, Span] = field(default_factory=dict)


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
    end = tokens[start - 1].end if start else 0
    parts = Parts(text, sql, tokens[0].start, end, read_clauses(tokens[start:], end + 1, faults))
    count = len(faults.found)
    _refuse_words(tokens[:start], faults)
    _cut_windows(tokens[:start], parts, faults)
    parts.is_plain = len(faults.found) == count
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
    semicolon = next((at for at, token in enumerate(tokens) if kind_of(token) == "SEMICOLON"), len(tokens))
    if semicolon + 1 < len(tokens):
        faults.add(tokens[semicolon + 1].start, "a second statement", "one query in each file")
    return tokens[:semicolon]


def _is_bare(tokens: Sequence[Token], at: int) -> bool:
    """Tell if a word stands for itself: it is no part of a dotted name and no alias."""
    before = word_of(tokens[at - 1]) if at else ""
    is_dotted = (
        at + 1 < len(tokens) and tokens[at + 1].start == tokens[at].end + 1 and word_of(tokens[at + 1]) == "."
    )
    return before not in (".", "AS") and not is_dotted


def _clauses_start(tokens: Sequence[Token]) -> int:
    depth, is_after_from, clauses = 0, False, clauses_of_all_kinds()
    for at, token in enumerate(tokens):
        word = word_of(token)
        depth += (word == "(") - (word == ")")
        is_after_from |= word == "FROM"
        is_name = kind_of(tokens[at - 1]) in _BEFORE_NAMES or not _is_bare(tokens, at)
        if is_after_from and depth == 0 and word in clauses and not is_name:
            return at
    return len(tokens)


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _refuse_words(tokens: Sequence[Token], faults: Faults) -> None:
    for at, token in enumerate(tokens):
        if not _is_bare(tokens, at) or kind_of(token) in ("STRING", "IDENTIFIER"):
            continue
        if kind_of(token) == "DISTINCT" and word_of(tokens[at - 1]) in ("IS", "NOT"):
            # IS [NOT] DISTINCT FROM is a comparison.
            continue
        if at and word_of(token) == "SELECT":
            faults.add(token.start, "a subquery", _ONE)
        elif kind_of(token) in _REFUSED:
            faults.add(token.start, *_REFUSED[kind_of(token)])


def _cut_windows(tokens: Sequence[Token], parts: Parts, faults: Faults) -> None:
    at = 0
    while at < len(tokens):
        if word_of(tokens[at]) != "[":
            at += 1
            continue
        reader = Reader(tokens, at + 1, parts.end + 1, faults)
        reader.take("RANGE")
        span = reader.span()
        if span and not reader.take("]"):
            reader.refuse("] at the end of the window")
        elif span and span.us == 0:
            faults.add(span.offset, "a window of 0", "a window above 0")
        elif span and at:
            parts.windows[tokens[at - 1].start] = span
        while reader.at < len(tokens) and word_of(tokens[reader.at - 1]) != "]":
            reader.at += 1
        parts.sql = _blanked(parts.sql, tokens[at].start, tokens[reader.at - 1].end + 1)
        at = reader.at


def windows_of(tables: Sequence[exp.Expr], parts: Parts, faults: Faults) -> list[list[Span]]:
    """Return the windows that stand at each stream: behind its name, behind its alias, or none."""
    windows = dict(parts.windows)
    given = []
    for table in tables:
        places = [table.this, table.args["alias"].this if table.args.get("alias") else table.this]
        found = [windows.pop(place.meta["start"], None) for place in places]
        given.append([span for span in found if span])
    for span in windows.values():
        faults.add(
            span.offset, "a window that stands at no stream", "[RANGE ...] behind the name of a stream"
        )
    return given

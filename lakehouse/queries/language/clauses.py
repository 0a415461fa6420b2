"""Trailing clauses of a query, which are ours: in any order, each at most once; each kind says which it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.declare.problems import nearest
from lakehouse.queries.kind import kinds
from lakehouse.queries.language.faults import Faults
from lakehouse.queries.language.tokens import Named, Reader, Span

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

# How what stands behind the word of a clause is read; False where it cannot be, and the fault is noted.
Reading = Callable[["ClauseReader", str], bool]


@dataclass(frozen=True)
class Grammar:
    """How one kind of query is known, and its clauses.

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
    """What the clauses say.

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

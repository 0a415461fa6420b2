"""Trailing clauses of a query, which are ours: in any order, each at most once; some fit one kind of query only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from lakehouse.declare.problems import nearest
from lakehouse.queries.aggregate.query import Method
from lakehouse.queries.language.faults import Faults
from lakehouse.queries.language.tokens import Reader, Span

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Kind = Literal["join", "multiway", "aggregate", "selection"]
CLAUSES = ("RECALL", "EVERY", "IDLE", "AHEAD", "POLICY", "SLACK", "METHOD", "DEADLINE", "ALARM")
POLICIES = ("NEEDED_SLACK", "PAPER")
METHODS = tuple(method.upper() for method in get_args(Method))
_KINDS = {
    "join": "a join of pairs",
    "multiway": "a join of three streams or more",
    "aggregate": "an aggregate",
    "selection": "a selection",
}
_DEADLINE = {"DEADLINE": "no DEADLINE: selections alone are run in slices of time"}
_NEEDED = {
    "join": ("RECALL", "RECALL <share> OVER <period>, such as RECALL 0.95 OVER 1 MINUTE"),
    "aggregate": ("EVERY", "EVERY <interval>, how far ticks are apart, such as EVERY 1 MINUTE"),
}
_UNFIT = {
    "join": {
        "SLACK": "no SLACK: it is chosen by the RECALL asked for",
        "METHOD": "no METHOD: pairs are found in one way",
        "ALARM": "no ALARM: groups that HAVING lets through raise alarms",
        **_DEADLINE,
    },
    "multiway": {
        "RECALL": "no RECALL: late rows find what SLACK holds at once, the repair all the rest",
        "POLICY": "no POLICY: slack is what SLACK says",
        "EVERY": "no EVERY: results come as they are found",
        "METHOD": "no METHOD: results are found in one way",
        "ALARM": "no ALARM: groups that HAVING lets through raise alarms",
        **_DEADLINE,
    },
    "aggregate": {
        "RECALL": "no RECALL: the answer at a tick is exact",
        "POLICY": "no POLICY: slack is what SLACK says",
        **_DEADLINE,
    },
    "selection": dict.fromkeys(
        ("RECALL", "EVERY", "IDLE", "AHEAD", "POLICY", "SLACK", "METHOD", "ALARM"),
        "DEADLINE or nothing: each row alone decides, whenever it comes",
    ),
}


@dataclass
class Clauses:
    """What the clauses say.

    ``places``: by clause where it stands, for those that are there; ``end``: where the text ends. Durations are in
    ``spans``, the period of RECALL under OVER.
    """

    end: int
    places: dict[str, int] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    recall: float | None = None
    policy: str = POLICIES[0]
    method: str | None = None

    def us(self, clause: str) -> int | None:
        """Return the microseconds that a clause says, None where it is not there."""
        return self.spans[clause].us if clause in self.spans else None


def read_clauses(tokens: Sequence[Token], end: int, faults: Faults) -> Clauses:
    """Return what the tokens behind the SQL say, the first of them a clause; ``end``: where the SQL ends."""
    reader = _Reader(tokens, 0, tokens[-1].end + 1 if tokens else end, faults)
    reader.read()
    return reader.clauses


def check_clauses(clauses: Clauses, kind: Kind, faults: Faults) -> None:
    """Note the clauses that this kind of query cannot have, and the one that it must have."""
    for clause, expected in _UNFIT[kind].items():
        if clause in clauses.places:
            faults.add(clauses.places[clause], f"{clause} in {_KINDS[kind]}", expected)
    needed, expected = _NEEDED.get(kind, ("", ""))
    if needed and needed not in clauses.places:
        faults.add(clauses.end, f"no {needed}", expected)


class _Reader(Reader):
    def __init__(self, tokens: Sequence[Token], at: int, end: int, faults: Faults) -> None:
        super().__init__(tokens, at, end, faults)
        self.clauses = Clauses(end)

    def read(self) -> None:
        places = self.clauses.places
        while self.at < len(self.tokens):
            offset, clause = self.offset(), self.take(*CLAUSES)
            if clause in places:
                self.faults.add(offset, f"{clause} twice", f"{clause} once")
            if clause:
                places.setdefault(clause, offset)
            if not (clause and self._read_one(clause)):
                if not clause:
                    self.refuse(f"one of {', '.join(CLAUSES)} or the end")
                self._skip()

    def _skip(self) -> None:
        while self.at < len(self.tokens) and self.word() not in CLAUSES:
            self.at += 1

    def _read_one(self, clause: str) -> bool:
        match clause:
            case "RECALL":
                return self._recall()
            case "POLICY":
                self.clauses.policy = self._one_of(POLICIES) or self.clauses.policy
            case "METHOD":
                self.clauses.method = self._one_of(METHODS)
            case "ALARM":
                pass
            case _:
                return self._span(clause)
        return True

    def _recall(self) -> bool:
        offset = self.offset()
        share = self.number("a share between 0 and 1, such as 0.95")
        if share is None:
            return False
        if not 0 < share < 1:
            self.faults.add(offset, f"a recall of {float(share):g}", "a share between 0 and 1, both left out")
        self.clauses.recall = float(share)
        if not self.take("OVER"):
            self.refuse("OVER and the period, such as OVER 1 MINUTE")
            return False
        return self._span("OVER")

    def _span(self, clause: str) -> bool:
        span = self.span()
        if span is None:
            return False
        if span.us == 0 and clause != "SLACK":
            self.faults.add(span.offset, f"{clause} of 0", "a duration above 0")
        else:
            self.clauses.spans[clause] = span
        return True

    def _one_of(self, words: tuple[str, ...]) -> str | None:
        found = self.take(*words)
        if not found:
            self.refuse(nearest(self.word(), words))
            self._skip()
        return found or None

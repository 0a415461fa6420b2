"""Readers of a stream, as chains of operators: selections, and sides of joins that call predicates.

Conditions of equal text are one predicate, which is asked once a row, whoever has it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lakehouse.algorithms.scheduling.contract import Chain, Operator, Query
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.queries.kind import DEADLINE_US, Conjunct
from lakehouse.queries.kind import Query as Registered
from lakehouse.queries.runtime.scan.calls import Call, Source
from lakehouse.queries.runtime.tasks.arrow_sql import mask_of


@dataclass(frozen=True)
class Reader:
    """Reader of a stream: conditions on its rows in the written order, and the columns wanted of those let through.

    ``side``: which one of the query it is, None of a selection, which has but one. ``deadline_us``: T.
    """

    query: str
    side: int | None
    stream: str
    conjuncts: tuple[Conjunct, ...]
    columns: tuple[str, ...]
    deadline_us: int = DEADLINE_US

    @property
    def name(self) -> str:
        """The query's, of a side with its number."""
        return self.query if self.side is None else f"{self.query}.{self.side}"

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read, sorted."""
        asked = {column for each in self.conjuncts for column in each.columns}
        return tuple(sorted(asked | {*self.columns}))


def readers_of(query: Registered) -> dict[int, Reader]:
    """Return, by side, what of a query is read row by row; sides whose conditions are one SQL text are not."""
    return {
        side: Reader(
            query.name,
            None if query.kernel is None else side,
            query.sides[side].stream,
            scan.conjuncts,
            scan.columns,
            scan.deadline_us,
        )
        for side, scan in query.row_scans().items()
    }


def scan_group(query: Registered, others: Collection[Registered]) -> list[Registered]:
    """Return the query and all that share scans with it, or with one of those, by name; no others are looked at."""
    streams = {each.name: {reader.stream for reader in readers_of(each).values()} for each in others}
    reached, grows = set(streams[query.name]), True
    while grows:
        tied = reached.union(*(each for each in streams.values() if reached & each))
        reached, grows = tied, tied != reached
    return sorted((each for each in others if reached & streams[each.name]), key=lambda each: each.name)


def written(readers: Sequence[Reader]) -> list[Query]:
    """Return chains as they are planned: operators by name, in the written order."""
    return [
        _chain(reader, [_Named(name=each.text, commutes=True, shared=each.text) for each in reader.conjuncts])
        for reader in readers
    ]


def runnable(readers: Sequence[Reader], sources: Mapping[str, Source], timeout_s: float) -> list[Query]:
    """Return chains as they are run; ``sources``: predicates of the operator's own by text."""
    runs = {
        each.text: Call(sources[each.text], timeout_s) if each.call else mask_of(each.text)
        for reader in readers
        for each in reader.conjuncts
    }
    return [
        _chain(
            reader,
            [
                Predicate(name=each.text, run=runs[each.text], columns=each.columns, shared=each.text)
                for each in reader.conjuncts
            ],
        )
        for reader in readers
    ]


def sources_of(readers: Sequence[Reader]) -> dict[str, Source]:
    """Return what the files of all predicates say now, by the text of the call."""
    calls = {each.text: each for reader in readers for each in reader.conjuncts if each.call}
    return {
        text: Source.of(each.call.name, each.columns, each.call.by_row, each.call.path)
        for text, each in calls.items()
        if each.call
    }


@dataclass(frozen=True, kw_only=True)
class _Named(Operator):
    """A condition that is only planned; ``shared`` is as it is of the one that is run."""

    shared: str


def _chain(reader: Reader, operators: Sequence[Operator]) -> Query:
    return Query(reader.name, Chain(reader.stream, tuple(operators)), reader.deadline_us)

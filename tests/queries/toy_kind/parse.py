"""A SELECT with SAMPLE, read into the sample that it asks for."""

from __future__ import annotations

from lakehouse.queries.kind import Side
from lakehouse.queries.language.text import ClauseReader, Grammar
from lakehouse.queries.language.tree import Asked, Names, read_outputs, sources_of, tables_of
from tests.queries.toy_kind.query import SampleQuery


def _whole_number(reader: ClauseReader, clause: str) -> bool:
    number = reader.number("a whole number above 0")
    if number is None:
        return False
    reader.clauses.numbers[clause] = float(number)
    return True


GRAMMAR = Grammar("a sample", "SAMPLE", {"SAMPLE": _whole_number})


def read(asked: Asked) -> SampleQuery | None:
    """Return the sample that a SELECT asks for; None, with every reason noted, where it cannot be run."""
    sources = sources_of(
        tables_of(asked.tree, (), asked.faults), asked.streams, 1, "one stream", asked.faults
    )
    if sources is None:
        return None
    outputs = read_outputs(asked.tree, Names(sources, asked.faults), frozenset({"row_id", "event_at"}))
    if asked.faults.found:
        return None
    return SampleQuery(
        **asked.named,
        sides=(Side(sources[0].stream, sources[0].alias),),
        outputs=outputs,
        one_in=int(asked.parts.clauses.numbers["SAMPLE"]),
    )

"""Random selections that share a scan, from their texts to the rows that tasks let through: what is wrong with them."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.policies import POLICIES
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.scan.readers import readers_of
from lakehouse.queries.runtime.scan.task import READER, ROW, Work
from lakehouse.queries.runtime.tables import ROW_HASH
from lakehouse.queries.runtime.tasks.arrow_sql import one_batch, select
from lakehouse.queries.selection.query import SelectionQuery
from tests.oracles.queries.conditions import Node, condition_on
from tests.oracles.queries.exact_aggregates import plain
from tests.queries.drawn import BASES, OF_KIND
from tests.queries.exact_rows import COLUMNS, FEW, SCALES, STREAMS, Row, raw, value_of

DEADLINES = ("", "DEADLINE 1 MILLISECOND", "DEADLINE 5 SECONDS")


def conditions_of(drawn: random.Random) -> list[Node]:
    """Return the conditions that the queries of a scan are made of: several have some of them."""
    return [condition_on(drawn, OF_KIND) for _ in range(drawn.randint(1, 6))]


def text_of(drawn: random.Random, nodes: Sequence[Node], columns: Sequence[str]) -> str:
    """Return a selection of the rows for which all conditions hold."""
    alias, prefix = drawn.choice([("", ""), (" r", "r.")])
    where = " AND ".join(re.sub(r"`(\w+)`", rf"{prefix}`\1`", each.sql) for each in nodes)
    shown = ", ".join(f"{prefix}{name} AS o{number}" for number, name in enumerate(columns))
    return f"SELECT {shown} FROM a{alias} WHERE {where} {drawn.choice(DEADLINES)}"


def rows_of(drawn: random.Random) -> list[Row]:
    """Return rows of one stream."""
    base = drawn.choice(BASES)
    return [
        {name: drawn.choice([*FEW[name], None]) for name in FEW}
        | {name: value_of(drawn, name) for name in SCALES}
        | {"line": line, "event_us": base + drawn.randint(0, 10**7)}
        for line in range(drawn.choice([1, 5, 20, 60]))
    ]


def work_of(queries: Sequence[SelectionQuery], policy: str) -> tuple[Work, list[str]]:
    """Return what a task of the scan of some queries does, and the columns of rows that it is given."""
    readers = tuple(readers_of(each)[0] for each in queries)
    read = dict.fromkeys(name for each in readers for name in each.read)
    columns = ["event_us", f"{ROW_HASH} AS `{ROW}`", *(f"`{name}`" for name in read)]
    [given] = select(raw([]), columns).to_batches() or [one_batch(select(raw([]), columns))]
    wanted = dict.fromkeys(("event_us", ROW, *(name for each in readers for name in each.columns)))
    answer = pa.schema(
        [(READER, pa.int32()), ("_told", pa.string()), *(given.schema.field(name) for name in wanted)]
    )
    return Work(readers, {}, None, Interval(), answer, is_strict=True, policy=policy), columns


def let_through(work: Work, batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, Row]]:
    """Yield the rows that come out, each with the number of its reader."""
    for found in work.run(batches):
        for row in found.to_pylist():
            if row[READER] is not None:
                yield row[READER], row


def wrong(seed: int) -> tuple[str, str | None]:
    """Return what plans a random scan, and what is wrong with the rows that its queries select, None for nothing."""
    drawn = random.Random(f"selections {seed}")
    policy, nodes, rows = drawn.choice([*POLICIES]), conditions_of(drawn), rows_of(drawn)
    asked = [drawn.sample(nodes, drawn.randint(1, len(nodes))) for _ in range(drawn.choice([1, 1, 2, 3]))]
    columns = [drawn.sample([*COLUMNS], drawn.randint(1, 4)) for _ in asked]
    texts = [text_of(drawn, *both) for both in zip(asked, columns, strict=True)]
    try:
        found = _found(texts, policy, rows, drawn)
    except Exception as error:
        return policy, f"selections {seed}: {texts}: {error!r}"
    for number, (own, names) in enumerate(zip(asked, columns, strict=True)):
        expected = [_shown(row, names) for row in rows if all(each.of(row) is True for each in own)]
        if Counter(found[number]) != Counter(expected):
            return policy, f"selections {seed}: {texts[number]}, {policy}: {found[number]}, not {expected}"
    return policy, None


def _found(
    texts: Sequence[str], policy: str, rows: Sequence[Row], drawn: random.Random
) -> list[list[tuple[Any, ...]]]:
    """Return by query the rows that one scan of rows in batches lets through."""
    queries = [parse_query(f"q{number}", text, STREAMS) for number, text in enumerate(texts)]
    asked = [each for each in queries if isinstance(each, SelectionQuery)]
    work, columns = work_of(asked, policy)
    size = drawn.choice([1, 7, len(rows)])
    parts = [raw(rows[first : first + size]) for first in range(0, len(rows), size)]
    given = [one_batch(select(each, columns)) for each in parts]
    lines = {row: line for one, part in zip(given, parts, strict=True) for row, line in _lines(one, part)}
    found: list[list[tuple[Any, ...]]] = [[] for _ in asked]
    for number, row in let_through(work, given):
        names = [each.column for each in asked[number].outputs]
        found[number].append(_shown(row | {"line": lines[row[ROW]]}, names))
    return found


def _lines(given: pa.RecordBatch, part: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    yield from zip(given.column(ROW).to_pylist(), part.column("source_line").to_pylist(), strict=True)


def _shown(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return row["line"], row["event_us"], *((type(row[name]), plain(row[name])) for name in names)

"""Meaning of aggregates: as read, and as DuckDB computes them over all rows, they are the same."""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import combinations
from typing import Any

import duckdb
import pytest
import sqlglot

from lakehouse.queries.aggregate.query import AggregateQuery, Measure
from tests.queries.declared_streams import aggregate_of, stream_of

TYPES = {"src": "string", "dest": "string", "location": "string", "x": "int", "y": "int", "ok": "boolean"}
STREAMS = {name: stream_of(name=name, columns=TYPES) for name in "abc"}
PAIR, THREE = "FROM a [1 DAY], b [1 DAY]", "FROM a [1 DAY], b [1 DAY], c [1 DAY]"
TEXTS = [
    f"SELECT COUNT(*) {PAIR} WHERE a.src = b.src AND a.dest = b.dest",
    f"SELECT a.location, COUNT(*) {PAIR} WHERE a.location = b.location AND a.x >= 2 AND b.y > 1 "
    "GROUP BY a.location HAVING COUNT(*) > 5",
    f"SELECT COUNT(*) {THREE} WHERE a.src = b.dest AND c.src = b.dest AND a.dest = c.src",
    "SELECT COUNT(*), SUM(a.x) FROM a [1 DAY] JOIN b [1 DAY] ON a.src = b.src JOIN c [1 DAY] ON c.dest = b.dest",
    f"SELECT c.src, b.dest AS goal, AVG(c.x), MIN(a.y), MAX(b.y) {THREE} "
    "WHERE a.src = b.src AND b.dest = c.dest AND c.src <> 'u' GROUP BY c.src, b.dest",
    "SELECT COUNT(p.src), COUNT(q.x), COUNT(p.ok) FROM b [1 DAY] q, a [1 DAY] p WHERE p.src = q.dest AND p.x = q.y",
    f"SELECT a.src, SUM(a.x * 2 - a.y / 4) AS v {PAIR} WHERE a.src = b.src GROUP BY a.src "
    "HAVING v > 3 OR a.src = 'u'",
    f"SELECT COUNT(*) AS n {PAIR} WHERE a.src = b.src GROUP BY a.dest HAVING SUM(b.x) > n AND MIN(a.y) < 4",
    f"SELECT AVG(a.x) {PAIR} WHERE a.src = b.src AND a.x = a.x AND b.x = b.y GROUP BY b.location, a.ok",
    f"SELECT MAX(x.y) {PAIR.replace('b [', 'a x [')} WHERE a.ok = x.ok AND (a.x IS NULL OR a.y BETWEEN 1 AND 2)",
    "SELECT COUNT(*), SUM(r.x) FROM a [1 DAY] r, a [1 DAY] q, a [1 DAY] p "
    "WHERE p.x = q.x AND q.y = r.y AND r.src = 'u' HAVING COUNT(*) BETWEEN 1 AND 999 AND SUM(p.y) > SUM(q.y)",
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_read_means_what_was_written(text: str, seed: int) -> None:
    query = aggregate_of("asked", f"{text} EVERY 1 DAY", STREAMS)

    written = _computed(seed, text.replace(" [1 DAY]", ""))
    read = _computed(seed, _rebuilt(query))

    # Columns of GROUP BY that SELECT leaves out stand behind those that it names.
    shown = len(written[0]) - sum(each.is_shown for each in query.measures) if written else 0
    kept = [(*row[:shown], *row[len(query.groups) :]) for row in read]
    assert sorted(kept, key=repr) == sorted(written, key=repr)


def test_every_text_has_answers_to_compare() -> None:
    assert all(_computed(0, text.replace(" [1 DAY]", "")) for text in TEXTS)


def _rebuilt(query: AggregateQuery) -> str:
    """Return the SQL that the parts of a query are."""
    tables = ", ".join(
        f"(SELECT * FROM {side.stream} WHERE {side.where or 'true'}) AS s{at}"
        for at, side in enumerate(query.sides)
    )
    columns = [(at, number, column) for at, side in enumerate(query.sides) for number, column in side.keys]
    equal = [
        f"s{one[0]}.`{one[2]}` = s{two[0]}.`{two[2]}`"
        for one, two in combinations(columns, 2)
        if one[1] == two[1]
    ]
    outputs = [f"s{each.side}.`{each.column}` AS `{each.name}`" for each in query.groups]
    outputs += [f"{_call(query, each)} AS `{each.name}`" for each in query.measures]
    groups = ", ".join(f"s{each.side}.`{each.column}`" for each in query.groups)
    inner = f"SELECT {', '.join(outputs)} FROM {tables} WHERE {' AND '.join(equal)}"
    inner += f" GROUP BY {groups}" if groups else ""
    names = [each.name for each in query.groups] + [each.name for each in query.measures if each.is_shown]
    return f"SELECT {', '.join(names)} FROM ({inner}) AS answers WHERE {query.having or 'true'}"


def _call(query: AggregateQuery, measure: Measure) -> str:
    if measure.value is None:
        return "COUNT(*)"
    value = query.sides[measure.side].values[measure.value]
    of_side = re.sub("`(.+?)`", rf"s{measure.side}.`\1`", value)
    return f"{measure.function}({of_side})"


def _computed(seed: int, text: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB answers over random rows, numbers as floats."""
    (sql,) = sqlglot.transpile(text, read="spark", write="duckdb")
    found = _tables(seed).execute(sql).fetchall()
    return [tuple(float(each) if isinstance(each, int | float) else each for each in row) for row in found]


@cache
def _tables(seed: int) -> duckdb.DuckDBPyConnection:
    drawn, base = random.Random(seed), duckdb.connect()
    texts, numbers = ["u", "v", "w", None], [0, 1, 2, 3, 4, None]
    for name in STREAMS:
        base.execute(f"CREATE TABLE {name} (src TEXT, dest TEXT, location TEXT, x INT, y INT, ok BOOLEAN)")
        domains: list[list[Any]] = [texts, texts, texts, numbers, numbers, [True, False, None]]
        rows = [[drawn.choice(domain) for domain in domains] for _ in range(30)]
        base.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?)", rows)
    return base

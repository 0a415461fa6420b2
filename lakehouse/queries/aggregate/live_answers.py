"""Answers and alarms of a join-aggregate as its tables hold them now, before they are published.

What is not finished is left out. The publisher's own tables are filled in memory, and asked by its own macros.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from lakehouse.queries.aggregate.publish import AggregateSnapshot, final_ticks, show_alarms
from lakehouse.serving.ask.answer_series import AnswerSeries, groups_of, series_of, whole_question
from lakehouse.serving.ask.series import MOST_KEYS, Key
from lakehouse.serving.literals import name
from lakehouse.serving.publish.macros import LAST_FILE
from lakehouse.serving.publish.query_snapshot import write_alone
from lakehouse.serving.segments.row_store import RowStore
from sql import statement

Facts = dict[str, Any]
LAST_ALARMS = 10
# More outputs than this are told in words alone.
MOST_OUTPUTS = 4
_ALARM = ("alarm", "state", "raised_us", "cleared_us", "changes", "merged_into", "final")


@dataclass(frozen=True)
class OverTime:
    """Outputs over the ticks of a query, of those of its ``groups`` with the greatest values, and its revisions.

    ``revisions``: stretches of ticks with their answers, and how many of those late rows changed, at once or by repair.
    """

    outputs: list[list[AnswerSeries]]
    groups: int
    revisions: list[Facts]


def standing(query: AggregateSnapshot) -> Facts:
    """Return before which time ticks are final, and alarms: those that are raised, and the last that ended.

    Cost: one pass over the changes of alarms.
    """
    with _connected() as connection:
        final_before_us = final_ticks(connection, query)
        found: Facts = {"final_before_us": final_before_us, "raised": [], "ended": []}
        if query.alarm_table is not None:
            store = RowStore(connection)
            query.take_alarms(store, query.alarm_table)
            store.settle()
            store.show()
            show_alarms(connection, query, final_before_us)
            found["raised"] = _alarms(connection, query, "state = 'raised'", "raised_us DESC, alarm")
            ended = f"ifnull(cleared_us, raised_us) DESC, alarm LIMIT {LAST_ALARMS}"
            found["ended"] = _alarms(connection, query, "state <> 'raised'", ended)
    return found


def over_time(query: AggregateSnapshot, points: int) -> OverTime:
    """Return at most so many points of each of the first outputs, and of revisions.

    Cost: as that of publishing the query.
    """
    with _connected() as connection:
        connection.execute(statement("serving/queries"))
        write_alone(connection, [query])
        connection.execute(statement(f"serving/{LAST_FILE}"))
        count = connection.execute("SELECT count(DISTINCT key_values) FROM answer_values").fetchone()
        shown = list(_shown(connection, query, points))
        return OverTime(shown, count[0] if count else 0, _revisions(connection, query, points))


@contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(statement("serving/timestamps"))
        yield connection


def _alarms(
    connection: duckdb.DuckDBPyConnection, query: AggregateSnapshot, which: str, order: str
) -> list[Facts]:
    groups = [group.name for group in query.groups]
    columns = ", ".join([*_ALARM, *map(name, groups)])
    rows = connection.execute(
        f"SELECT {columns} FROM {name(f'alarms_{query.name}')} WHERE {which} ORDER BY {order}"
    ).fetchall()
    return [
        {**dict(zip(_ALARM, row, strict=False)), "group": dict(zip(groups, row[len(_ALARM) :], strict=True))}
        for row in rows
    ]


def _shown(
    connection: duckdb.DuckDBPyConnection, query: AggregateSnapshot, points: int
) -> Iterator[list[AnswerSeries]]:
    """Yield the first outputs, all of the same groups: those with the greatest values of the first of them."""
    keys: list[Key] = []
    for output in query.outputs[:MOST_OUTPUTS]:
        asked = whole_question(connection, query.name, output.name, points)
        if asked is not None:
            greatest = "max(value) DESC NULLS LAST, key_values"
            keys = keys or groups_of(connection, asked, greatest, MOST_KEYS)
            yield series_of(connection, asked, keys)


def _revisions(connection: duckdb.DuckDBPyConnection, query: AggregateSnapshot, points: int) -> list[Facts]:
    table, every = name(f"revisions_{query.name}"), query.settings["every_us"]
    low, high = connection.execute(f"SELECT min(tick_us), max(tick_us) FROM {table}").fetchone() or (
        None,
        None,
    )
    if low is None:
        return []
    width = -(-((high - low) // every + 1) // points) * every
    changed = "count(*) FILTER (revision > 0 AND found = '{}')"
    rows = connection.execute(
        f"SELECT (tick_us - {low}) // {width}, count(*) FILTER (is_newest), {changed.format('online')}, "
        f"{changed.format('repair')} FROM {table} GROUP BY 1"
    ).fetchall()
    found = {row[0]: row[1:] for row in rows}
    names = ("answers", "revised", "repaired")
    return [
        {
            "from_us": low + number * width,
            "to_us": low + (number + 1) * width,
            **dict(zip(names, found.get(number, (0, 0, 0)), strict=True)),
        }
        for number in range((high - low) // width + 1)
    ]

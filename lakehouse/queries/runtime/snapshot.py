"""Snapshots of queries of all kinds, read from the logs of their tables.

The published metrics are sums over finished batches and repairs, and the times that they reached. They are in the
query's row of a version, and the next version adds what has finished since.

DuckDB reads the data files of the query's tables in place; nothing is copied before. Cost: the rows that are new
since the version before, and their metrics; one sort of all rows if it shares none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.config.columns import Column
from lakehouse.config.stream import Stream, instant_us
from lakehouse.queries.kind import Kind, Output, Query, kind_of, reach_of
from lakehouse.queries.runtime.batch_manifest import doubts_about
from lakehouse.queries.runtime.batch_metrics import (
    BatchMetrics,
    Facts,
    is_open,
    read_metrics_after,
)
from lakehouse.serving.literals import parquet
from lakehouse.serving.publish.query_snapshot import QuerySnapshot, ShownColumn
from lakehouse.serving.segments.shared_rows import SharedRows
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds, files_between, table_id
from sql import statement

_SUMS = {name: name for name in ("rows", "missed", "refused", "unusable")}
# The values of a query before anything is finished, besides its sums.
_NOTHING: Facts = {
    **{"batches": 0, "time_us": None, "newest_us": None},
    **{"repairs": 0, "repaired_through": 0, "repaired_us": None, "repaired": 0, "withdrawn": 0},
    "gone": 0,
}
_TYPES = {"string": "VARCHAR", "int": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}


def all_sums(kind: Kind) -> Mapping[str, str]:
    """Return the metrics of a kind that are published as sums, by their columns; one that it lacks is 0."""
    return {**_SUMS, **kind.sums}


def nothing(kind: Kind) -> Facts:
    """Return the published values before anything is finished."""
    return _NOTHING | dict.fromkeys(all_sums(kind), 0)


def read_published_metrics(layout: Home, query: str, kind: Kind, before: Facts | None = None) -> Facts:
    """Return the columns of ``queries`` that follow from metrics, and the table that these are in.

    ``before``: the row of the query in the version before; None to read all. It is ignored if it is of another table
    (as after the query's meaning changed), lacks columns, or counts batches that the tables lack.
    """
    metrics_are_in = table_id(layout.queries(query))
    if before is None or not _goes_on(layout, query, before, nothing(kind) | {"table_id": metrics_are_in}):
        before = nothing(kind)
    names = ("batch", *dict.fromkeys((*all_sums(kind).values(), "time_us", *kind.newest)))
    new = read_metrics_after(layout, query, names, before["batches"], before["repairs"])
    return {**folded(before, new, kind), "table_id": metrics_are_in}


def folded(before: Facts, new: BatchMetrics, kind: Kind) -> Facts:
    """Return the published values after more finished batches and repairs; any division into parts gives the same."""
    newest = (time for row in new.rows for name in kind.newest for time in _times(row[name]))
    committed = new.repairs[-1]["committed_at"] if new.repairs else None
    return {
        "batches": new.finished or before["batches"],
        **{column: before[column] + new.total(name) for column, name in all_sums(kind).items()},
        "time_us": greatest([before["time_us"], *(row["time_us"] for row in new.rows)]),
        "newest_us": greatest([before["newest_us"], *newest]),
        "repairs": new.last_repair or before["repairs"],
        "repaired_through": max(before["repaired_through"], new.repaired),
        "repaired_us": before["repaired_us"] if committed is None else instant_us(committed),
        "repaired": before["repaired"] + new.total_repaired("found"),
        "withdrawn": before["withdrawn"] + new.total_repaired("withdrawn"),
        "gone": before["gone"] + new.total_repaired("gone"),
    }


def greatest(times: Iterable[int | None]) -> int | None:
    """Return the latest of some times, None where there is none."""
    return max((time for time in times if time is not None), default=None)


def _times(value: int | list[int | None] | None) -> list[int | None]:
    return value if isinstance(value, list) else [value]


def _goes_on(layout: Home, query: str, before: Facts, needed: Facts) -> bool:
    """Return whether a version's values are complete and of these tables, and the tables have all that they count."""
    if not before.keys() >= needed.keys() or before["table_id"] != needed["table_id"]:
        return False
    ends = ((layout.queries(query), "batch", "batches"), (layout.repairs(query), "repair", "repairs"))
    return all((bounds(table, (name,))[0][1] or 0) >= before[counted] for table, name, counted in ends)


def shared_rows(snapshot: QuerySnapshot, table: str, order: Sequence[str], **more: Any) -> SharedRows:
    """Return one of a query's published tables."""
    return SharedRows(
        table,
        snapshot.basis,
        order,
        from_us=snapshot.published_from_us,
        batches=snapshot.batches,
        repairs=snapshot.repairs,
        **more,
    )


def shared_fields(
    layout: Home,
    query: Query,
    streams: Mapping[str, Stream],
    before: Facts | None,
    published_us: int | None,
) -> Facts:
    """Return the fields of ``QuerySnapshot``.

    ``before``: the row of the query in the version before, None for none. The query is published from
    ``published_us`` before its newest time on, by whole steps; None for all of it: one that is cut would show less
    than it has.
    """
    kind = kind_of(query)
    step_us = (getattr(query, kind.step) if kind.step else None) or 1
    # Before files are listed, so that these hold everything that the metrics count.
    metrics = read_published_metrics(layout, query.name, kind, before)
    newest_us = metrics["newest_us"]
    waiting = ("batch", metrics["repaired_through"] + 1, None)
    published_from_us = (
        None if newest_us is None or published_us is None else floor_to(step_us, newest_us - published_us)
    )
    reach_us = reach_of(query)
    doubts = doubts_about(layout, query, None if published_from_us is None else published_from_us - reach_us)
    return {
        "name": query.name,
        "kind": query.kind,
        "description": query.description,
        "definition": query.definition(),
        "statement": query.statement,
        **{name: value for name, value in metrics.items() if name not in kind.sums},
        "sums": {name: metrics[name] for name in kind.sums},
        "settings": {name: getattr(query, name) for name in kind.settings},
        "reach_us": reach_us,
        "published_from_us": published_from_us,
        "latest_us": max(streams[stream].latest for stream in query.streams),
        "late_files": tuple(files_between(layout.missed_rows(query.name), waiting)),
        "doubts": [each.sentence for each in doubts],
        "doubtful_from_us": min((each.from_us - reach_us for each in doubts), default=None),
    }


def shown_columns(
    query: Query, outputs: Iterable[Output], streams: Mapping[str, Stream]
) -> list[ShownColumn]:
    """Return the published columns of a query."""
    return [
        ShownColumn(
            each.name,
            stored_type(streams[query.streams[each.side]], each.column),
            f"{each.column} of {_row_in_words(query, each.side)}.",
        )
        for each in outputs
    ]


def _row_in_words(query: Query, number: int) -> str:
    side, place = query.sides[number], ("left", "right")[number] if len(query.sides) == 2 else number
    return kind_of(query).row.format(place=place, alias=side.alias, stream=side.stream)


def open_rows(snapshot: QuerySnapshot, columns: str = "event_us") -> str:
    """Return SQL for the logged rows that no repair has processed; ``columns`` are whole numbers."""
    if not snapshot.late_files:
        return f"SELECT {', '.join(f'0::BIGINT AS {column}' for column in columns.split(', '))} WHERE false"
    is_waiting = is_open(snapshot.repaired_through, snapshot.batches)
    return f"SELECT {columns} FROM {parquet(snapshot.late_files)} WHERE {is_waiting}"


def final_before(connection: duckdb.DuckDBPyConnection, passed_us: int | None, waiting: str) -> int | None:
    """Return the time before which everything is final: what neither late rows nor waiting rows can change.

    ``passed_us``: the time before which no row that streams allow can change anything. ``waiting``: SQL for rows that
    wait.
    """
    if passed_us is None:
        return None
    row = connection.execute(f"SELECT min(event_us) FROM ({waiting})").fetchone()
    return passed_us if row is None or row[0] is None else min(passed_us, row[0])


def filled(file: str, places: Mapping[str, str]) -> str:
    """Return a statement of ``sql/serving`` with its placeholders filled in."""
    sql = statement(f"serving/{file}")
    for place, words in places.items():
        sql = sql.replace(place, words)
    return sql


def stored_type(stream: Stream, column: str) -> str:
    """Return DuckDB's type for a column of a stream's raw table, or for one of its times."""
    found = stream.all_columns.get(column, Column(type="int"))
    is_exact = found.type in ("decimal", "double") and found.decimals is not None
    return f"DECIMAL(38, {found.decimals})" if is_exact else _TYPES[found.type]

"""Nodes and a snapshot of every stream -> the tables of one new DuckDB file.

Wide nodes (one row with all measures) become long ones (one row per measure that has values), because a range
question reads one measure. They are sorted by slot, then start: a slot is one measure, level and series, so that a
question touches a few row groups. Values go in as literals, see literals.py. Cost: one sort of the wide nodes; memory
as DuckDB needs, it spills.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, Level
from lakehouse.declare.durations import format_duration
from lakehouse.declare.stream import COUNTER_PARTS
from lakehouse.serving.file.macros import LAST_FILE, statements
from lakehouse.serving.file.query_snapshot import QuerySnapshot, write_queries
from lakehouse.serving.file.snapshot import (
    ROWS,
    PublishedMeasure,
    StreamSnapshot,
    fingerprint,
)
from lakehouse.serving.literals import literal, name, row, text
from sql import statement

_NEVER = 2**62
COUNTER_COLUMNS = ("n", "first_us", "last_us", "first", "last", "max", "drops_low", "drops_high")
# Two vectors: what is read around a node is unpacked whole, and most of it is not asked for.
ROW_GROUP = 4_096


@contextmanager
def drafted(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new file for writing as the connection's only database; closed and checkpointed at the end."""
    connection = duckdb.connect(":memory:", config={"preserve_insertion_order": True})
    try:
        # The session's zone would shift text times without an offset while macros are bound.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH {text(str(path))} AS draft (ROW_GROUP_SIZE {ROW_GROUP})")
        connection.execute("USE draft")
        yield connection
        connection.execute("CHECKPOINT draft")
        connection.execute("USE memory")
        connection.execute("DETACH draft")
    finally:
        connection.close()


def write_tables(
    connection: duckdb.DuckDBPyConnection,
    version: int,
    streams: Sequence[StreamSnapshot],
    queries: Sequence[QuerySnapshot] = (),
) -> None:
    """Fill every table of the version, with the macros and views."""
    for created in statements():
        connection.execute(created)
    slot = 0
    for number, stream in enumerate(sorted(streams, key=lambda one: one.name)):
        slot = _write_stream(connection, number, stream, slot)
    _write_ledger(connection, streams)
    write_queries(connection, queries)
    connection.execute(statement(f"serving/{LAST_FILE}"))
    names = "string_agg(stream || '.' || measure, ', ' ORDER BY stream, measure)"
    catalog = f"SELECT coalesce({names}, 'nothing') FROM measures"
    connection.execute(
        f"INSERT INTO publication VALUES ({version}, {time.time_ns() // 1000}, "
        f"{text(fingerprint(streams, queries))}, ({catalog}))"
    )


def _write_stream(
    connection: duckdb.DuckDBPyConnection, number: int, stream: StreamSnapshot, slot: int
) -> int:
    _load_wide(connection, stream)
    _write_series(connection, number, stream)
    count = _scalar(connection, f"SELECT count(*) FROM series WHERE stream_id = {number}")
    _rank_wide(connection, number, stream)
    first_slot = slot
    for measure in (PublishedMeasure(ROWS, "rows", 0), *stream.measures):
        _write_measure(connection, stream, measure, slot, count)
        if measure.is_counter:
            _write_counter(connection, stream, measure, slot, count)
        _write_ladder(connection, number, stream, measure, slot, count)
        slot += len(stream.levels) * count
    _write_levels(connection, stream)
    nodes = _scalar(connection, f"SELECT count(*) FROM nodes WHERE slot >= {first_slot} AND slot < {slot}")
    values = (
        *(number, stream.name, stream.definition, stream.newest_us, stream.earliest_us, stream.batch),
        *(stream.latest_us, stream.raw_path, stream.key_names, count, nodes),
        *(stream.raw_from_us, stream.retracted, stream.unchecked),
    )
    connection.execute(f"INSERT INTO streams VALUES {row(values)}")
    for reason, records in sorted(stream.quarantine.items()):
        connection.execute(f"INSERT INTO quarantine VALUES {row((stream.name, reason, records))}")
    return slot


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    found = connection.execute(query).fetchone()
    return int(found[0]) if found and found[0] is not None else 0


def _load_wide(connection: duckdb.DuckDBPyConnection, stream: StreamSnapshot) -> None:
    folder = stream.nodes
    if folder is None or not any(folder.glob("*.parquet")):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW wide AS {_empty(stream)}")
        return
    source = f"read_parquet({text(str(folder / '*.parquet'))})"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW wide AS SELECT * FROM {source}")


def _empty(stream: StreamSnapshot) -> str:
    names = ["start_us", "rows", "first_us", "last_us"]
    for measure in stream.measures:
        names += [f"{measure.name}__{part}" for part in ("n", "sum", "min", "max", "first_us", "last_us")]
        names += [f"{measure.name}__{part}" for part in COUNTER_PARTS if measure.is_counter]
    keys = [f"NULL::VARCHAR AS {name(key)}" for key in stream.key_names]
    columns = [f"NULL::BIGINT AS {name(column)}" for column in names]
    return f"SELECT {', '.join(['0 AS level', '0 AS grouping', *keys, *columns])} WHERE false"


def _key_values(stream: StreamSnapshot) -> str:
    whens = [
        f"WHEN {index} THEN [{', '.join(f'CAST({name(key)} AS VARCHAR)' for key in grouping)}]::VARCHAR[]"
        for index, grouping in enumerate(stream.groupings)
    ]
    return f"CASE grouping {' '.join(whens)} END"


def _write_series(connection: duckdb.DuckDBPyConnection, number: int, stream: StreamSnapshot) -> None:
    names = literal(list(stream.groupings))
    connection.execute(
        f"""
        INSERT INTO series
        SELECT {number}, grouping, {number} * 1000 + grouping, row_number() OVER (ORDER BY grouping, lookup) - 1,
            MAP(({names}::VARCHAR[][])[grouping + 1], key_values), key_values, lookup
        FROM (
            SELECT grouping, key_values, ifnull(lookup_of(key_values), '') AS lookup
            FROM (SELECT DISTINCT grouping, {_key_values(stream)} AS key_values FROM wide)
        )
        ORDER BY grouping, lookup
        """
    )


def _rank_wide(connection: duckdb.DuckDBPyConnection, number: int, stream: StreamSnapshot) -> None:
    # Lists compare their nulls as equal, so a missing key value finds its series. Sorted once, for every measure.
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE ranked AS
        SELECT wide.*, series.series_rank
        FROM (SELECT *, {_key_values(stream)} AS key_values FROM wide) AS wide
        JOIN series ON series.stream_id = {number}
            AND series.grouping = wide.grouping AND series.key_values = wide.key_values
        ORDER BY wide.level, series.series_rank, wide.start_us
        """
    )


def _write_measure(
    connection: duckdb.DuckDBPyConnection,
    stream: StreamSnapshot,
    measure: PublishedMeasure,
    slot: int,
    count: int,
) -> None:
    connection.execute(
        f"""
        INSERT INTO nodes
        SELECT {slot} + (level - 1) * {count} + series_rank AS slot, {_parent(stream.levels)}, start_us,
            {_measure_columns(measure)}
        FROM ranked WHERE {name("rows" if measure.name == ROWS else f"{measure.name}__n")} > 0
        """
    )


def _write_counter(
    connection: duckdb.DuckDBPyConnection,
    stream: StreamSnapshot,
    measure: PublishedMeasure,
    slot: int,
    count: int,
) -> None:
    n, first_us, last_us, *readings = (name(f"{measure.name}__{part}") for part in COUNTER_COLUMNS)
    if measure.decimals is not None:
        readings = [f"round(CAST({column} AS DOUBLE) * 1e{measure.decimals})" for column in readings]
    connection.execute(
        f"""
        INSERT INTO counter_nodes
        SELECT {slot} + (level - 1) * {count} + series_rank AS slot, {_parent(stream.levels)}, start_us,
            {n}, {first_us}, {last_us}, {", ".join(readings)}
        FROM ranked WHERE {n} > 0 AND "grouping" = {stream.meter_grouping}
        """
    )


def _parent(levels: Sequence[Level]) -> str:
    widths = [level.width_us for level in levels[1:]]
    whens = [f"WHEN {i} THEN start_us - (start_us % {w} + {w}) % {w}" for i, w in enumerate(widths, start=1)]
    return f"CASE level {' '.join(whens)} ELSE {KEPT_FOREVER_US} END" if whens else str(KEPT_FOREVER_US)


def _measure_columns(measure: PublishedMeasure) -> str:
    if measure.name == ROWS:
        return '"rows", NULL, NULL, NULL, NULL, NULL, 0, first_us, last_us'
    n, total, low, high, first, last = (
        name(f"{measure.name}__{part}") for part in ("n", "sum", "min", "max", "first_us", "last_us")
    )
    exact = wide = "NULL"
    if measure.decimals is not None:
        exact, low, high = (_unscaled(column, measure.decimals) for column in (total, low, high))
        total, exact = exact, f"TRY_CAST({exact} AS BIGINT)"
        wide = f"CASE WHEN {exact} IS NULL THEN {total} END"
    total, low, high = (f"CAST({column} AS DOUBLE)" for column in (total, low, high))
    magnitude = f"{n} * greatest(abs({low}), abs({high}))"
    return f"{n}, {total}, {exact}, {wide}, {low}, {high}, {magnitude}, {first}, {last}"


def _unscaled(column: str, decimals: int) -> str:
    """Return a decimal as a whole number of its last digit; by text, as multiplying could leave 38 digits."""
    return f"CAST(replace(CAST(CAST({column} AS DECIMAL(38, {decimals})) AS VARCHAR), '.', '') AS HUGEINT)"


def _write_ladder(
    connection: duckdb.DuckDBPyConnection,
    number: int,
    stream: StreamSnapshot,
    measure: PublishedMeasure,
    slot: int,
    count: int,
) -> None:
    decimals = measure.decimals if measure.is_exact else None
    connection.execute(
        "INSERT INTO measures VALUES "
        + row((stream.name, measure.name, measure.type, decimals, slot, measure.is_counter))
    )
    order = sorted(range(len(stream.groupings)), key=lambda index: (len(stream.groupings[index]), index))
    groupings = [
        {
            "id": _grouping_id(number, index),
            "key_names": list(stream.groupings[index]),
            "is_meter": index == stream.meter_grouping,
        }
        for index in order
    ]
    for index, level in enumerate(stream.levels):
        coarser = stream.levels[index + 1].width_us if index + 1 < len(stream.levels) else 0
        finer = stream.horizons[index - 1] if index else _NEVER
        values = (
            *(stream.name, measure.name, index + 1, slot + index * count, level.width_us, coarser, finer),
            *(measure.is_exact, 10.0 ** (decimals or 0), stream.newest_us, *_edges(stream, measure.name)),
            *(measure.is_counter, groupings, str([list(stream.groupings[index]) for index in order])),
        )
        connection.execute(f"INSERT INTO ladder VALUES {row(values)}")


def _grouping_id(number: int, grouping: int) -> int:
    return number * 1000 + grouping


def _edges(stream: StreamSnapshot, measure: str) -> tuple[int, int, int]:
    """Return before which instant answers are final, since when rows came, and where the kept past begins.

    A measure that came later begins there: what its values were before is not known.
    """
    final = KEPT_FOREVER_US if stream.newest_us is None else stream.newest_us - stream.latest_us
    earliest = KEPT_FOREVER_US if stream.earliest_us is None else stream.earliest_us
    kept = stream.horizons[-1] if stream.horizons else KEPT_FOREVER_US
    return final, earliest, max(kept, stream.since.get(measure, kept))


def _write_levels(connection: duckdb.DuckDBPyConnection, stream: StreamSnapshot) -> None:
    for index, level in enumerate(stream.levels):
        horizon = None if level.keep_us is None else stream.horizons[index]
        entered = stream.entered[index] if stream.entered else None
        named = (stream.name, index + 1, format_duration(level.width_us), format_duration(level.keep_us))
        values = ", ".join(literal(value) for value in (*named, level.width_us, level.keep_us, horizon))
        connection.execute(
            f"INSERT INTO levels SELECT {values}, count(*), min(start_us), max(start_us) + {level.width_us}, "
            f"{literal(entered)} FROM ranked WHERE level = {index + 1}"
        )


def _write_ledger(connection: duckdb.DuckDBPyConnection, streams: Sequence[StreamSnapshot]) -> None:
    for stream in streams:
        if stream.ledger is not None and any(stream.ledger.glob("*.parquet")):
            source = f"read_parquet({text(str(stream.ledger / '*.parquet'))})"
            connection.execute(
                f"INSERT INTO ledger BY NAME SELECT {text(stream.name)} AS stream, {_LEDGER} FROM {source}"
            )


_LEDGER = """batch, kind, files, records, received, requeued, accepted, quarantined, duplicates, reasons, missing,
    min_event_us, max_event_us, newest_us, late, lateness, max_lateness_us, schema_changes, lost, committed_at"""

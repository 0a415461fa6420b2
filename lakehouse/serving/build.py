"""Nodes and facts of every stream -> the tables of one new DuckDB file.

Wide nodes (one row with all measures) become long ones (one row per measure that has values), because a range
question reads one measure. They are sorted by slot, then start: a slot is one measure, level and series, so that a
question touches a few row groups. Cost: one sort of the nodes per measure; memory as DuckDB needs, it spills.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from lakehouse.algorithms.rollup.contract import Level
from lakehouse.catalog.durations import format_duration
from lakehouse.serving.facts import MACRO_FILES, ROWS, SQL_FOLDER, Measure, StreamFacts, fingerprint

ROW_GROUP = 16_384  # small row groups: a point question reads a few thousand rows, not 122,880 per piece


@contextmanager
def drafted(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new file for writing as the connection's only database; closed and checkpointed at the end."""
    connection = duckdb.connect(":memory:", config={"preserve_insertion_order": True})
    try:
        # The session's zone would shift text times without an offset while macros are bound.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH {quoted_text(str(path))} AS draft (ROW_GROUP_SIZE {ROW_GROUP})")
        connection.execute("USE draft")
        yield connection
        connection.execute("CHECKPOINT draft")
        connection.execute("USE memory")
        connection.execute("DETACH draft")
    finally:
        connection.close()


def quoted_text(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def write_tables(connection: duckdb.DuckDBPyConnection, version: int, streams: Sequence[StreamFacts]) -> None:
    """Fill every table of the version, then install the macros and views."""
    connection.execute(_sql("tables"))
    slot = 0
    for number, stream in enumerate(sorted(streams, key=lambda facts: facts.name)):
        slot = _write_stream(connection, number, stream, slot)
    _write_ledger(connection, streams)
    catalog = "SELECT coalesce(list(stream || '.' || measure ORDER BY stream, measure), []) FROM measures"
    connection.execute(
        f"INSERT INTO publication VALUES (?, ?, ?, ({catalog}))",
        [version, time.time_ns() // 1000, fingerprint(streams)],
    )
    for name in MACRO_FILES:
        connection.execute(_sql(name))


def _sql(name: str) -> str:
    return (SQL_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def _write_stream(connection: duckdb.DuckDBPyConnection, number: int, stream: StreamFacts, slot: int) -> int:
    _load_wide(connection, stream)
    _write_series(connection, number, stream)
    count = _scalar(connection, "SELECT count(*) FROM series WHERE stream_id = ?", [number])
    _rank_wide(connection, number, stream)
    first_slot = slot
    for measure in (Measure(ROWS, "rows", 0), *stream.measures):
        _write_measure(connection, stream, measure, slot, count)
        _write_answerable(connection, number, stream, measure, slot, count)
        slot += len(stream.levels) * count
    _write_levels(connection, stream)
    nodes = _scalar(connection, "SELECT count(*) FROM nodes WHERE slot >= ? AND slot < ?", [first_slot, slot])
    connection.execute(
        "INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(number, stream.name, stream.definition, stream.newest_us, stream.earliest_us, stream.batch),
            *(stream.latest_us, stream.raw_path, list(stream.key_names), count, nodes),
        ],
    )
    for reason, records in sorted(stream.quarantine.items()):
        connection.execute("INSERT INTO quarantine VALUES (?, ?, ?)", [stream.name, reason, records])
    return slot


def _scalar(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[object] = ()) -> int:
    row = connection.execute(query, list(values)).fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _load_wide(connection: duckdb.DuckDBPyConnection, stream: StreamFacts) -> None:
    folder = stream.nodes
    if folder is None or not any(folder.glob("*.parquet")):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW wide AS {_empty(stream)}")
        return
    source = f"read_parquet({quoted_text(str(folder / '*.parquet'))})"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW wide AS SELECT * FROM {source}")


def _empty(stream: StreamFacts) -> str:
    names = ["start_us", "rows", "first_us", "last_us"]
    for measure in stream.measures:
        names += [f"{measure.name}__{part}" for part in ("n", "sum", "min", "max", "first_us", "last_us")]
    keys = [f"NULL::VARCHAR AS {quoted(key)}" for key in stream.key_names]
    columns = [f"NULL::BIGINT AS {quoted(name)}" for name in names]
    return f"SELECT {', '.join(['0 AS level', '0 AS grouping', *keys, *columns])} WHERE false"


def _key_values(stream: StreamFacts) -> str:
    whens = [
        f"WHEN {index} THEN [{', '.join(f'CAST({quoted(key)} AS VARCHAR)' for key in grouping)}]::VARCHAR[]"
        for index, grouping in enumerate(stream.groupings)
    ]
    return f"CASE grouping {' '.join(whens)} END"


def _write_series(connection: duckdb.DuckDBPyConnection, number: int, stream: StreamFacts) -> None:
    names = [list(grouping) for grouping in stream.groupings]
    connection.execute(
        f"""
        INSERT INTO series
        SELECT $number, grouping, row_number() OVER (ORDER BY grouping, key_values) - 1,
            MAP(($names::VARCHAR[][])[grouping + 1], key_values), key_values
        FROM (SELECT DISTINCT grouping, {_key_values(stream)} AS key_values FROM wide)
        ORDER BY grouping, key_values
        """,
        {"number": number, "names": names},
    )


def _rank_wide(connection: duckdb.DuckDBPyConnection, number: int, stream: StreamFacts) -> None:
    # Lists compare their nulls as equal, so a missing key value finds its series.
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE ranked AS
        SELECT wide.*, series.series_rank
        FROM (SELECT *, {_key_values(stream)} AS key_values FROM wide) AS wide
        JOIN series ON series.stream_id = {number}
            AND series.grouping = wide.grouping AND series.key_values = wide.key_values
        """
    )


def _write_measure(
    connection: duckdb.DuckDBPyConnection, stream: StreamFacts, measure: Measure, slot: int, count: int
) -> None:
    connection.execute(
        f"""
        INSERT INTO nodes
        SELECT {slot} + (level - 1) * {count} + series_rank AS slot, {_parent(stream.levels)}, start_us,
            {_measure_columns(measure)}
        FROM ranked WHERE {quoted("rows" if measure.name == ROWS else f"{measure.name}__n")} > 0
        ORDER BY slot, start_us
        """
    )


def _parent(levels: Sequence[Level]) -> str:
    widths = [level.width_us for level in levels[1:]]
    whens = [f"WHEN {i} THEN start_us - (start_us % {w} + {w}) % {w}" for i, w in enumerate(widths, start=1)]
    return f"CASE level {' '.join(whens)} ELSE 0 END" if whens else "0"


def _measure_columns(measure: Measure) -> str:
    if measure.name == ROWS:
        return '"rows", NULL, NULL, NULL, NULL, first_us, last_us'
    n, total, low, high, first, last = (
        quoted(f"{measure.name}__{part}") for part in ("n", "sum", "min", "max", "first_us", "last_us")
    )
    if measure.decimals is None:
        return f"{n}, {total}, NULL, {low}, {high}, {first}, {last}"
    total, low, high = (_unscaled(column, measure.decimals) for column in (total, low, high))
    return f"{n}, CAST({total} AS DOUBLE), {total}, CAST({low} AS DOUBLE), CAST({high} AS DOUBLE), {first}, {last}"


def _unscaled(column: str, decimals: int) -> str:
    """Return a decimal as a whole number of its last digit; by text, as multiplying could leave 38 digits."""
    return f"CAST(replace(CAST(CAST({column} AS DECIMAL(38, {decimals})) AS VARCHAR), '.', '') AS HUGEINT)"


def _write_answerable(
    connection: duckdb.DuckDBPyConnection,
    number: int,
    stream: StreamFacts,
    measure: Measure,
    slot: int,
    count: int,
) -> None:
    decimals = measure.decimals if measure.is_exact else None
    connection.execute(
        "INSERT INTO measures VALUES (?, ?, ?, ?, ?)", [stream.name, measure.name, measure.type, decimals, slot]
    )
    kept = stream.horizons[-1] if stream.horizons else None
    order = sorted(range(len(stream.groupings)), key=lambda index: (len(stream.groupings[index]), index))
    connection.execute(
        "INSERT INTO answerable VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            *(stream.name, measure.name, number, slot, count, measure.is_exact, 10.0 ** (decimals or 0)),
            *(stream.newest_us, stream.earliest_us, stream.latest_us, kept),
            [{"grouping": index, "key_names": list(stream.groupings[index])} for index in order],
            _level_facts(stream.levels, stream.horizons),
        ],
    )


def _level_facts(levels: Sequence[Level], horizons: Sequence[int]) -> list[dict[str, int | None]]:
    return [
        {
            "level": index + 1,
            "width_us": level.width_us,
            "parent_us": levels[index + 1].width_us if index + 1 < len(levels) else None,
            "horizon_us": horizons[index],
            "finer_us": horizons[index - 1] if index else None,
        }
        for index, level in enumerate(levels)
    ]


def _write_levels(connection: duckdb.DuckDBPyConnection, stream: StreamFacts) -> None:
    for index, level in enumerate(stream.levels):
        connection.execute(
            """
            INSERT INTO levels
            SELECT $stream, $level, $width, $keep, $width_us, $keep_us, $horizon_us,
                count(*), min(start_us), max(start_us) + $width_us
            FROM ranked WHERE level = $level
            """,
            {
                "stream": stream.name,
                "level": index + 1,
                "width": format_duration(level.width_us),
                "keep": format_duration(level.keep_us),
                "width_us": level.width_us,
                "keep_us": level.keep_us,
                "horizon_us": None if level.keep_us is None else stream.horizons[index],
            },
        )


def _write_ledger(connection: duckdb.DuckDBPyConnection, streams: Sequence[StreamFacts]) -> None:
    connection.execute(_sql("ledger"))
    for stream in streams:
        if stream.ledger is not None and any(stream.ledger.glob("*.parquet")):
            source = f"read_parquet({quoted_text(str(stream.ledger / '*.parquet'))})"
            connection.execute(
                f"INSERT INTO ledger BY NAME SELECT {quoted_text(stream.name)} AS stream, {_LEDGER} FROM {source}"
            )


_LEDGER = """batch, kind, files, records, received, requeued, accepted, quarantined, duplicates, reasons, missing,
    min_event_us, max_event_us, newest_us, late, lateness, max_lateness_us, committed_at"""

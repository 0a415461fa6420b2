"""Storage plan of a stream: what is kept at which age, its bytes, and the effect of a changed declaration; no JVM.

Reads the tables as they are now, not the published version: the log of raw and rollup, and the columns of the rollup
that place its nodes. Cost: one pass over those columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from lakehouse.config.stream import Stream
from lakehouse.serving.literals import name, parquet
from lakehouse.serving.table_reader import connected
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.backfill import new_columns
from lakehouse.storage.tables.rollup_table import (
    RollupSchema,
    declared_schema,
    read_marker,
    schema_of_properties,
)
from lakehouse.storage.tables.schema_change import compare_schemas
from lakehouse.storage.tables.table_log import TableFacts, read_log

Fields = dict[str, Any]


def storage_plan(layout: Home, stream: Stream) -> Fields:
    """Return what the stream keeps and what will change, as plain values; times in microseconds, None for no limit."""
    log = read_log(layout.rollup(stream.name))
    schema = schema_of_properties(log.properties) if log else declared_schema(stream)
    newest = read_marker(layout.rollup(stream.name)).newest_us
    placed = _nodes(layout, log, schema, newest) if log else {}
    raw_us = raw_from(read_corrections(layout, stream.name))
    first = read_extent(layout, stream.name).earliest_us
    later = _later(layout, stream, newest, new_columns(stream, schema)) if log else {}
    change = compare_schemas(stream, schema, newest, raw_us, first, later)
    share = (log.bytes / max(1, sum(placed.values()))) if log else 0.0
    return {
        "stream": stream.name,
        "newest_us": newest,
        "earliest_us": first,
        "levels": list(_levels(schema, newest, placed, share)),
        "raw": _raw(layout, stream, newest, raw_us),
        "revised": _revised(layout, stream),
        "identities": _identities(layout, stream),
        "lacks_now": schema.lacks(newest),
        "change": asdict(change),
    }


def _nodes(layout: Home, log: TableFacts, schema: RollupSchema, newest_us: int | None) -> dict[int, int]:
    """Return how many nodes each level keeps."""
    keys = "".join(
        f", {name(key)}" for key in sorted({key for grouping in schema.groupings for key in grouping})
    )
    if not log.files:
        return {}
    source = parquet(log.files)
    with connected(layout.tables) as connection:
        kept = " OR ".join(
            f"(level = {number} AND start_us >= {start})"
            for number, start in enumerate(schema.horizons(newest_us), start=1)
        )
        counted = connection.execute(
            f'SELECT level, count(*) FROM (SELECT DISTINCT level, "grouping", start_us{keys} FROM {source} '
            f"WHERE {kept}) GROUP BY level"
        ).fetchall()
    return dict(counted)


def _levels(
    schema: RollupSchema, newest_us: int | None, placed: Mapping[int, int], share: float
) -> Sequence[Fields]:
    starts = schema.horizons(newest_us)
    return [
        {
            "level": number,
            "width_us": level.width_us,
            "keep_us": level.keep_us,
            "from_us": None if start == KEPT_FOREVER_US else start,
            "nodes": placed.get(number, 0),
            "bytes": round(share * placed.get(number, 0)),
        }
        for number, (level, start) in enumerate(zip(schema.levels, starts, strict=True), start=1)
    ]


def _raw(layout: Home, stream: Stream, newest_us: int | None, raw_us: int | None) -> Fields:
    log = read_log(layout.raw(stream.name))
    cut = None
    if stream.keep_raw is not None and newest_us is not None:
        cut = floor_to(stream.levels[-1].width_us, newest_us - stream.keep_raw)
    return {
        "keep_us": stream.keep_raw,
        "from_us": raw_us,
        "next_from_us": cut if cut is not None and (raw_us is None or cut > raw_us) else None,
        "rows": log.rows if log else 0,
        "bytes": log.bytes if log else 0,
        "files": len(log.files) if log else 0,
    }


def _revised(layout: Home, stream: Stream) -> Fields | None:
    """Return what is kept of revised rows, as long as raw rows; None where there are none."""
    log = read_log(layout.revised(stream.name))
    return {"rows": log.rows, "bytes": log.bytes} if log and log.files else None


def _identities(layout: Home, stream: Stream) -> Fields | None:
    """Return how many identities are known, in raw or beyond it, and in how many bytes; None for a stream without."""
    if not stream.identity:
        return None
    raw, beyond = read_log(layout.raw(stream.name)), read_log(layout.remembered(stream.name))
    folder = layout.identities(stream.name)
    index = sum(path.stat().st_size for path in folder.iterdir()) if folder.is_dir() else 0
    remembered = (beyond.rows or 0) if beyond else 0
    return {
        "keep_us": stream.duplicates_within,
        "rows": remembered + ((raw.rows or 0) if raw else 0),
        "remembered": remembered,
        "bytes": index + (beyond.bytes if beyond else 0),
    }


def _later(layout: Home, stream: Stream, newest_us: int | None, names: Sequence[str]) -> dict[str, int]:
    """Return since when new columns are in raw, of those that the first raw rows lack; as a rebuild finds it."""
    raw, ledger = read_log(layout.raw(stream.name)), read_log(layout.ledger(stream.name))
    if not (names and raw and raw.files and ledger and newest_us is not None):
        return {}
    source, entries = parquet(raw.files), parquet(ledger.files)
    later = {}
    with connected(layout.tables) as connection:
        stored = {row[0] for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()}
        for column in names:
            value = name(column) if column in stored else "NULL"
            found = connection.execute(
                f"SELECT min(batch), min(CASE WHEN {value} IS NOT NULL THEN batch END) FROM {source}"
            ).fetchone() or (None, None)
            before = "true" if found[1] is None else f"batch < {found[1]}"
            last = connection.execute(f"SELECT max(max_event_us) FROM {entries} WHERE {before}").fetchone()
            if last and last[0] is not None and found[0] != found[1]:
                later[column] = last[0] + 1
    return later

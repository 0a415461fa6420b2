"""Landed lines of JSON put into raw, quarantine and ledger as the ingest job puts them, without its Spark jobs.

For tests of what reads these tables: an ingest of a handful of rows takes seconds, this takes milliseconds. That both
write the same is held by ``tests/ingest/test_taking_in.py``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.confirmed import Reach
from lakehouse.algorithms.ingest.lateness import Lateness, measure_arrived, measure_files
from lakehouse.config.columns import Column
from lakehouse.config.landing import located
from lakehouse.config.stream import Stream
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import newest_version, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.ingest.batch_records import BatchRecords

US = {"s": 1_000_000, "ms": 1000, "us": 1}
Row = dict[str, Any]


def take_in(settings: Settings, spark: SparkSession, name: str) -> None:
    """Put all that has landed for a stream of JSON lines into its tables, like ``jobs.ingest.run``."""
    from lakehouse.ingest.batch_records import BatchRecords, Progress, StreamTables
    from lakehouse.ingest.drain import open_store

    stream, layout = settings.streams[name], settings.layout
    target = StreamTables(spark, layout, stream)
    folders = {table: getattr(layout, table)(name) for table in ("raw", "quarantine", "profile", "ledger")}
    schemas = _schemas(
        spark, stream.model_dump_json(include={"columns", "keys", "measures", "identity"}), stream
    )
    for table, (template, _) in schemas.items():
        if not folders[table].exists():
            shutil.copytree(template, folders[table])
    store, before = open_store(target)
    store.add_files(stream.source)
    for manifest in store.behind(before.batch):
        records = BatchRecords(target, manifest, store, before)
        for table, rows in _judged(records, folders["raw"]).items():
            if rows:
                append(
                    pa.Table.from_pylist(rows, schemas[table][1]),
                    folders[table],
                    f"ingest-{name}",
                    manifest.batch,
                )
            if table == "ledger":
                before = Progress.after(rows[0])


def append(rows: pa.Table, folder: Path, writer: str, version: int) -> None:
    """Append rows to a Delta table of Spark's, with the mark by which Spark knows that this writer did."""
    path = folder / f"part-{writer}-{version:05d}.parquet"
    pq.write_table(rows, path)
    added = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(_statistics(rows)),
    }
    mark = {"appId": f"tidemark-{writer}", "version": version, "lastUpdated": int(time.time() * 1000)}
    told = {
        "timestamp": int(time.time() * 1000),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
    }
    actions = [{"commitInfo": told}, {"txn": mark}, {"add": added}]
    number = newest_version(folder)
    assert number is not None
    with (folder / "_delta_log" / f"{number + 1:020d}.json").open("x", encoding="utf-8") as log:
        log.writelines(json.dumps(action) + "\n" for action in actions)


def _statistics(rows: pa.Table) -> dict[str, Any]:
    names = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    ends = {name: pc.min_max(rows[name]).as_py() for name in names}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: end["min"] for name, end in ends.items() if end["min"] is not None},
        "maxValues": {name: end["max"] for name, end in ends.items() if end["max"] is not None},
        "nullCount": {name: rows[name].null_count for name in names},
    }


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """The folder of this process's templates."""
    return tempfile.TemporaryDirectory(prefix="tidemark-templates-")


_made: dict[str, dict[str, tuple[Path, pa.Schema]]] = {}


def _schemas(spark: SparkSession, key: str, stream: Stream) -> dict[str, tuple[Path, pa.Schema]]:
    """Return the empty tables of a stream and their columns, made by Spark once for all streams of the same columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from lakehouse.ingest.batch_records import StreamTables
    from lakehouse.spark import tables
    from lakehouse.storage.layout import Home

    if key not in _made:
        layout = Home(Path(_kept().name) / str(len(_made)))
        StreamTables(spark, layout, stream).create()
        paths = {
            table: getattr(layout, table)(stream.name) for table in ("raw", "quarantine", "profile", "ledger")
        }
        _made[key] = {
            table: (path, to_arrow_schema(tables.read(spark, path).schema)) for table, path in paths.items()
        }
    return _made[key]


@dataclass(frozen=True)
class _Line:
    """A line of a landed file: its place and bytes, and the row that it says."""

    place: Row
    record: bytes
    row: Row

    def payload(self, stream: Stream) -> Row:
        """What makes it the same row: all that it says but when it was received."""
        arrival = stream.arrival_time.column if stream.arrival_time else None
        return {name: self.row[name] for name in stream.all_columns if name != arrival}


def _lines(records: BatchRecords) -> Iterator[_Line]:
    stream = records.stream
    assert (stream.source.format, stream.source.explode) == ("ndjson", ())
    for file in records.manifest.files:
        path = Path(located(stream.source.path, file.path))
        for number, record in enumerate(path.read_bytes().splitlines(), start=1):
            said = json.loads(record, parse_float=Decimal)
            row = {
                name: _value(said.get(column.path or name), column)
                for name, column in stream.all_columns.items()
            }
            arrival = stream.arrival_time
            times = {
                "event_us": int(said[stream.event_time.column] * US[stream.event_time.unit]),
                "arrival_us": int(said[arrival.column] * US[arrival.unit]) if arrival else None,
            }
            place = {"source_file": file.path, "source_line": number, "source_item": 0}
            yield _Line(place, record, {**times, **row, **place, "record_hash": None})


def _value(said: Any, column: Column) -> Any:
    if said is None or column.type == "string":
        return said
    if column.decimals is not None:
        return Decimal(said).quantize(Decimal(1).scaleb(-column.decimals))
    return {"int": int, "double": float, "boolean": bool}[column.type](said)


def _judged(records: BatchRecords, raw: Path) -> dict[str, list[Row]]:
    """Return what a batch adds to each table; a row that repeats an accepted one is none, or goes to quarantine."""
    from lakehouse.ingest.batch_stats import BatchStats
    from lakehouse.ingest.ingest import _ledger_row

    stream, lines = records.stream, list(_lines(records))
    verdicts = _verdicts(stream, lines, read_rows(raw) if stream.identity else [])
    accepted = [line.row for line, verdict in zip(lines, verdicts, strict=True) if verdict == "accepted"]
    conflicts = [
        _conflict(stream, line)
        for line, verdict in zip(lines, verdicts, strict=True)
        if verdict == "conflict"
    ]
    times = [row["event_us"] for row in accepted]
    stats = BatchStats(
        rows=len(lines),
        records=len(lines),
        accepted=len(accepted),
        duplicates=verdicts.count("duplicate"),
        reasons={"conflict": len(conflicts)} if conflicts else {},
        missing={name: sum(row[name] is None for row in accepted) for name in stream.all_columns},
        low=min(times, default=None),
        high=max(times, default=None),
        reached=Reach(stream.step_us).add(np.array(times, np.int64)).newest_us,
        lateness=_lateness(stream, accepted, records.before.newest_us),
    )
    entry = {**_ledger_row(records, stats), "committed_at": time.time_ns() // 1000}
    numbered = {"batch": records.manifest.batch}
    return {
        "raw": [row | numbered for row in accepted],
        "quarantine": [row | numbered for row in conflicts],
        "ledger": [entry],
    }


def _lateness(stream: Stream, rows: Sequence[Row], newest_us: int | None) -> Lateness:
    event = np.array([row["event_us"] for row in rows], np.int64)
    if stream.arrival_time:
        return measure_arrived(event, np.array([row["arrival_us"] for row in rows], np.int64), newest_us)
    files = {name: number for number, name in enumerate(dict.fromkeys(row["source_file"] for row in rows))}
    return measure_files(event, np.array([files[row["source_file"]] for row in rows]), newest_us, {})


def _verdicts(stream: Stream, lines: Sequence[_Line], known: Sequence[Mapping[str, Any]]) -> list[str]:
    if not stream.identity:
        return ["accepted"] * len(lines)
    assert "*" not in stream.identity
    seen: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in known:
        seen.setdefault(tuple(row[name] for name in stream.identity), []).append(row)
    found = {}
    for line in sorted(lines, key=lambda each: (each.row["arrival_us"] or 0, *each.place.values())):
        there = seen.setdefault(tuple(line.row[name] for name in stream.identity), [])
        near = [
            row for row in there if abs(row["event_us"] - line.row["event_us"]) <= stream.duplicates_within
        ]
        same = any(line.payload(stream).items() <= dict(row).items() for row in near)
        found[id(line)] = "accepted" if not near else "duplicate" if same else "conflict"
        if not near:
            there.append(line.row)
    return [found[id(line)] for line in lines]


def _conflict(stream: Stream, line: _Line) -> Row:
    detail = f"same identity ({', '.join(stream.identity)}) as an accepted row, other content"
    return {"reason": "conflict", "detail": detail, "record": line.record, **line.place, "message": None}

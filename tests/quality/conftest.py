"""A stream of six readings with all its tables in memory, right to the last row, for tests to break one thing of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.declare.settings import Settings, load_settings
from lakehouse.declare.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.streams.checks import Tables

CONFIG = """
[streams.telemetry]
event_time = { column = "ts", unit = "us" }
identity = ["device", "ts"]
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1s for 1m", "1m forever"]
event_time_bounds = ["2020-01-01", "2021-01-01"]
[streams.telemetry.source]
kind = "files"
path = "landing/*.csv"
format = "csv"
[streams.telemetry.columns]
device = "string"
ts = "int"
temp = "double"
"""
SECOND = 1_000_000
START = 1_590_000_000 * SECOND
LEDGER = (
    "batch bigint, kind string, received bigint, requeued bigint, accepted bigint, quarantined bigint, "
    "duplicates bigint, reasons map<string,bigint>"
)
RAW = (
    "event_us bigint, device string, ts bigint, temp double, source_file string, source_line bigint, "
    "batch bigint, record_hash binary"
)
QUARANTINE = "batch bigint, reason string, source_file string"
NODES = (
    "level int, grouping int, start_us bigint, batch bigint, device string, rows bigint, first_us bigint, "
    "last_us bigint, temp__n bigint, temp__sum double, temp__min double, temp__max double, "
    "temp__first_us bigint, temp__last_us bigint"
)


@dataclass(frozen=True)
class Lake:
    """The rows of every table as tuples, and how a session sees them."""

    spark: SparkSession
    stream: Stream
    ledger: tuple[tuple[Any, ...], ...]
    raw: tuple[tuple[Any, ...], ...]
    quarantine: tuple[tuple[Any, ...], ...]
    nodes: tuple[tuple[Any, ...], ...]

    def tables(self, since: int = -1) -> Tables:
        from lakehouse.streams.checks import Tables, ledger_rows

        ledger = ledger_rows(self.frame("ledger"))
        return Tables(self.stream, ledger, self.frame("raw"), self.frame("quarantine"), since)

    def frame(self, table: str) -> DataFrame:
        return self.spark.createDataFrame(list(getattr(self, table)), SCHEMAS[table])

    def with_row(self, table: str, index: int, column: str, value: object) -> Lake:
        """Return this lake with one field of one row changed."""
        names = [part.split()[0] for part in SCHEMAS[table].split(", ")]
        rows = [list(row) for row in getattr(self, table)]
        rows[index][names.index(column)] = value
        return self.with_rows(table, rows)

    def with_rows(self, table: str, rows: Any) -> Lake:
        """Return this lake with other rows in one table."""
        changed: dict[str, Any] = {table: tuple(tuple(row) for row in rows)}
        return replace(self, **changed)


SCHEMAS = {"ledger": LEDGER, "raw": RAW, "quarantine": QUARANTINE, "nodes": NODES}


def _reading(second: int, device: str, temp: float | None, batch: int) -> tuple[Any, ...]:
    event = START + second * SECOND
    return event, device, event, temp, "landing/a.csv", second + 1, batch, None


def _node(level: int, grouping: int, width: int, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    times = [row[0] for row in rows]
    values = [(row[3], row[0]) for row in rows if row[3] is not None]
    temps = [value for value, _ in values]
    start = min(times) - min(times) % width
    device = rows[0][1] if grouping == 0 else None
    first, last = min(at for _, at in values), max(at for _, at in values)
    totals = (len(temps), sum(temps), min(temps), max(temps), first, last)
    return level, grouping, start, rows[0][6], device, len(rows), min(times), max(times), *totals


def _nodes(raw: tuple[tuple[Any, ...], ...]) -> Iterator[tuple[Any, ...]]:
    for batch in (1, 2):
        rows = [row for row in raw if row[6] == batch]
        yield (0, -1, max(row[0] for row in rows), batch, None, len(rows), *[None] * 8)
        for level, width in ((1, SECOND), (2, 60 * SECOND)):
            for grouping in (0, 1):
                places = {(row[0] // width, row[1] if grouping == 0 else None) for row in rows}
                for slot, device in sorted(places, key=str):
                    inside = [r for r in rows if r[0] // width == slot and device in (None, r[1])]
                    yield _node(level, grouping, width, inside)


@pytest.fixture(scope="session")
def checked_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("quality")
    config = folder / "tidemark.toml"
    config.write_text(CONFIG, encoding="utf-8")
    return load_settings(config, folder / "var")


@pytest.fixture(scope="session")
def checked_lake(checked_settings: Settings, spark: SparkSession) -> Lake:
    raw = (
        _reading(0, "a", 20.0, 1),
        _reading(0, "b", 21.0, 1),
        _reading(1, "a", 20.5, 1),
        _reading(65, "a", 19.0, 2),
        _reading(130, "b", 22.0, 2),
        _reading(131, "b", 22.5, 2),
    )
    ledger = (
        (1, "files", 5, 0, 3, 1, 1, {"malformed": 1}),
        (2, "files", 4, 0, 3, 1, 0, {"clock": 1}),
    )
    quarantine = ((1, "malformed", "landing/a.csv"), (2, "clock", "landing/a.csv"))
    return Lake(spark, checked_settings.stream("telemetry"), ledger, raw, quarantine, tuple(_nodes(raw)))


@pytest.fixture
def checked_home(tmp_path: Path, checked_settings: Settings) -> Settings:
    """The same settings with a home of its own."""
    return checked_settings.model_copy(update={"home": tmp_path})

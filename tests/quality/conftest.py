"""A stream of six readings with all its tables in memory, right to the last row, for tests to break one thing of."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import Schema as DeltaSchema

from lakehouse.config.stream import Stream
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.checked import Checked
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append, create_table

if TYPE_CHECKING:
    from lakehouse.checks.checks import Tables

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
LONG, TEXT, DOUBLE = pa.int64(), pa.string(), pa.float64()
_COUNTS = ("received", "requeued", "accepted", "quarantined", "duplicates")
_TEMP = (
    ("n", LONG),
    ("sum", DOUBLE),
    ("min", DOUBLE),
    ("max", DOUBLE),
    ("first_us", LONG),
    ("last_us", LONG),
)
SCHEMAS = {
    "ledger": pa.schema(
        [
            ("batch", LONG),
            ("kind", TEXT),
            *((name, LONG) for name in _COUNTS),
            ("reasons", pa.map_(TEXT, LONG)),
            *((name, LONG) for name in ("min_event_us", "newest_us", "confirmed_us")),
        ]
    ),
    "raw": pa.schema(
        [
            ("event_us", LONG),
            ("device", TEXT),
            ("ts", LONG),
            ("temp", DOUBLE),
            ("source_file", TEXT),
            ("source_line", LONG),
            ("batch", LONG),
            ("record_hash", pa.binary()),
        ]
    ),
    "quarantine": pa.schema(
        [
            *(("batch", LONG), ("reason", TEXT), ("source_file", TEXT)),
            *(("source_line", LONG), ("detail", TEXT), ("record", pa.binary())),
        ]
    ),
    "nodes": pa.schema(
        [
            ("level", pa.int32()),
            ("grouping", pa.int32()),
            ("start_us", LONG),
            ("batch", LONG),
            ("device", TEXT),
            *((name, LONG) for name in ("rows", "first_us", "last_us")),
            *((f"temp__{part}", kind) for part, kind in _TEMP),
        ]
    ),
}


@dataclass(frozen=True)
class Lake:
    """The rows of every table as tuples, and how they look on disk."""

    stream: Stream
    ledger: tuple[tuple[Any, ...], ...]
    raw: tuple[tuple[Any, ...], ...]
    quarantine: tuple[tuple[Any, ...], ...]
    nodes: tuple[tuple[Any, ...], ...]

    def save(self, home: Home) -> Home:
        """Write the tables of a home anew, the ledger in its own time."""
        paths = {"ledger": home.ledger, "raw": home.raw, "quarantine": home.quarantine, "nodes": home.rollup}
        for table, path in paths.items():
            told = {"tidemark.definition": self.stream.definition()} if table == "nodes" else {}
            shutil.rmtree(path("telemetry"), ignore_errors=True)
            create_table(path("telemetry"), DeltaSchema.from_arrow(SCHEMAS[table]).to_json(), properties=told)
            self.append(path("telemetry"), table)
        self._write_requeues(ManifestStore(home.manifests("telemetry")))
        return home

    def _write_requeues(self, store: ManifestStore) -> None:
        """Write the manifest of each batch of the ledger that is a requeue, of records whose clock was wrong."""
        for batch in (row[0] for row in self.ledger if row[1] == "requeue"):
            while store.last_batch < batch - 1:
                store.add_requeue(("nothing",))
            store.add_requeue(("clock",))

    def append(self, path: Location, table: str, rows: Any = None) -> None:
        """Append rows, all by default, to a table."""
        columns = SCHEMAS[table].names
        found = [
            # The last columns are null: what rules are about comes first.
            dict(zip(columns, row, strict=False))
            for row in (getattr(self, table) if rows is None else rows)
        ]
        if found:
            append(path, [row | _pairs(row) for row in found])

    def tables(self, since: int = -1) -> Tables:
        """Return the tables as a check opens them, when batches up to one have passed."""
        from lakehouse.checks.checks import open_tables

        passed = [row for row in self.ledger if row[0] <= since]
        totals = {name: sum(row[2 + place] or 0 for row in passed) for place, name in enumerate(_COUNTS)}
        home = self.save(Home(Path(tempfile.mkdtemp(prefix="tidemark-checked-"))))
        found = open_tables(home, self.stream, Checked(since, totals=totals))
        assert found is not None
        return found

    def with_row(self, table: str, index: int, column: str, value: object) -> Lake:
        """Return this lake with one field of one row changed."""
        names = SCHEMAS[table].names
        rows = [list(row) for row in getattr(self, table)]
        rows[index][names.index(column)] = value
        return self.with_rows(table, rows)

    def with_rows(self, table: str, rows: Any) -> Lake:
        """Return this lake with other rows in one table."""
        changed: dict[str, Any] = {table: tuple(tuple(row) for row in rows)}
        return replace(self, **changed)


def _pairs(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value.items()) for name, value in row.items() if isinstance(value, dict)}


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
def checked_lake(checked_settings: Settings) -> Lake:
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
    return Lake(checked_settings.stream("telemetry"), ledger, raw, quarantine, tuple(_nodes(raw)))


@pytest.fixture
def checked_home(tmp_path: Path, checked_settings: Settings) -> Settings:
    """The same settings with a home of its own."""
    return checked_settings.model_copy(update={"home": tmp_path})

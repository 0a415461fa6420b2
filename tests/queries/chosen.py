"""Two registered selections, one of them with tables made by hand, and settings that hold them; no JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.queries.runtime.failure import Failure, write_failure
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import replace_definition
from tests.queries.joined import write_ledger
from tests.serving.streams import write_delta

SECOND = 1_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01
AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = """\
-- hot doors of the hall
SELECT place, temp FROM doors d WHERE in_hall(place) AND temp > 40 AND place <> 'x' DEADLINE 600 MILLISECONDS
"""
NEW = "SELECT * FROM doors WHERE temp > 90\n"
IN_HALL = "def in_hall(place) -> bool:\n    return place == 'hall'\n"
_STREAM = """\
[streams.doors]
event_time = { column = "ts", unit = "us" }
levels = ["1m forever"]
latest = "20s"
source = { path = "landing/doors/*", format = "ndjson" }
columns = { ts = "int", place = "string", temp = "double" }
"""
_LONG = pa.int64()
FIGURES = pa.schema(
    [("batch", _LONG), ("operator", pa.int32()), ("name", pa.string()), ("position", pa.int32())]
    + [(name, _LONG) for name in ("taken", "passed", "busy_us")]
    + [(name, pa.float64()) for name in ("handled_per_s", "selectivity", "priority")]
    + [(name, _LONG) for name in ("slice_us", "waited", "rows", "selected", "pieces", "misses", "delay_us")]
    + [("worst_delay_us", _LONG), ("arrived_per_s", pa.float64()), ("switch_us", pa.float64())]
    + [("tau_us", _LONG), ("changes", _LONG), ("tasks", pa.int32()), ("together", pa.int32())]
    + [("queue_bytes", _LONG), ("time_us", _LONG), ("committed_at", pa.timestamp("us", tz="UTC"))]
)
# Per batch and operator: position, taken, passed, busy us, n, S, priority, slice, most waited.
OPERATORS: tuple[Any, ...] = (
    (1, 0, "in_hall(place)", (0, 1000, 100, 20_000, 50_000.0, 0.1, 45_000.0, 9_000, 1000)),
    (1, 1, "`temp` > 40", (1, 100, 50, 1_000, 100_000.0, 0.5, 40_000.0, 500, 100)),
    (1, 2, "`place` <> 'x'", (2, 50, 50, 50, 1_000_000.0, 1.0, 990_000.0, 100, 50)),
    (2, 0, "in_hall(place)", (1, 1000, 500, 100_000, 10_000.0, 0.5, 4_000.0, 30_000, 1000)),
    (2, 1, "`temp` > 40", (0, 500, 50, 500, 1_000_000.0, 0.1, 900_000.0, 700, 500)),
    (2, 2, "`place` <> 'x'", (2, 50, 50, 50, 1_000_000.0, 1.0, 990_000.0, 100, 50)),
)
# Per batch: rows, selected, pieces, misses, mean and longest delay, V, switch, tau, replans, tasks, queries, bytes.
WHOLE: tuple[Any, ...] = (
    (1, (1000, 50, 4, 1, 300_000, 700_000, 1000.0, 5.0, 200_000, 0, 1, 1, 80_000)),
    (2, (1000, 50, 4, 0, 100_000, 200_000, 5000.0, 4.0, 400_000, 2, 2, 3, 90_000)),
)


def declare(folder: Path) -> Settings:
    """Write a configuration of a stream and two selections below ``folder``; return it as read."""
    (folder / "tidemark.toml").write_text(_STREAM, encoding="utf-8")
    for place, text in {
        "queries/hot.sql": TEXT,
        "queries/new.sql": NEW,
        "predicates/in_hall.py": IN_HALL,
    }.items():
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    return load_settings(folder / "tidemark.toml")


def query_of(settings: Settings) -> SelectionQuery:
    """Return the query that has tables."""
    return settings.of_kind(SelectionQuery)["hot"]


def run_by_hand(settings: Settings) -> None:
    """Write what two batches leave; in the second the order has changed."""
    layout, query = settings.layout, query_of(settings)
    replace_definition(layout.batch_manifests(query.name), definition_of(query), written_as(query))
    for number in (1, 2):
        write_manifest(
            layout.batch_manifests(query.name), "batch", BatchManifest(number, ((number - 1, number),))
        )
    write_ledger(layout, "doors", 2)
    _write_figures(layout, query.name)
    rows = [
        {"event_us": START_US + n * SECOND, "row_id": n, "batch": 1 + n // 50, "place": "hall", "temp": 50.0}
        for n in range(110)
    ]
    write_delta(pa.Table.from_pylist(rows), layout.selection(query.name))


def stop(settings: Settings) -> None:
    """Let a third batch raise."""
    write_manifest(settings.layout.batch_manifests("hot"), "batch", BatchManifest(3, ((2, 3),)))
    write_ledger(settings.layout, "doors", 3)
    stopped = Failure(3, "in_hall(place)", "TypeError: no place", "in_hall.py:2", "2026-01-02T00:03:00+00:00")
    write_failure(settings.layout, "hot", stopped)


def _write_figures(layout: Home, query: str) -> None:
    measured = FIGURES.names[4:12]
    whole = FIGURES.names[12:25]
    rows: list[dict[str, Any]] = [
        {"batch": batch, "operator": operator, "name": name, "position": told[0]}
        | dict(zip(measured, told[1:], strict=True))
        for batch, operator, name, told in OPERATORS
    ]
    for batch, told in WHOLE:
        time_us = START_US + 100 * batch * SECOND
        rows.append(
            {"batch": batch, "operator": -1, "time_us": time_us} | dict(zip(whole, told, strict=True))
        )
    for row in rows:
        row["committed_at"] = AT + timedelta(minutes=row["batch"])
    write_delta(pa.Table.from_pylist(rows, FIGURES), layout.queries(query))

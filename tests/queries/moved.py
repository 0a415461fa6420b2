"""A registered join of three streams with tables made by hand, and settings that hold it; no JVM.

Times are seconds after START_US.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import replace_definition
from tests.queries.joined import write_late, write_ledger, write_repairs
from tests.serving.streams import write_delta

SECOND = 1_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01
AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = """\
-- who came in, was seen and was let out
SELECT d.place, c.temp AS warmth
FROM doors [10 SECONDS] d JOIN badges [1 MINUTE] b ON d.place = b.place JOIN cameras [30 SECONDS] c ON b.place = c.place
WHERE d.temp > 1
SLACK 5 SECONDS AHEAD 1 HOUR
"""
_STREAM = """\
[streams.{name}]
event_time = {{ column = "ts", unit = "us" }}
arrival_time = {{ column = "came", unit = "us" }}
levels = ["1m forever"]
latest = "20s"
site = "{site}"
source = {{ path = "landing/{name}/*", format = "ndjson" }}
columns = {{ ts = "int", place = "string", temp = "double" }}
"""
_SITES = "[sites]\nnorth = { south = 4 }\n"
_LONG, _LONGS = pa.int64(), pa.list_(pa.int64())
_COUNTS = ("rows", "refused", "unusable", "missed")
FIGURES = pa.schema(
    [("batch", _LONG), ("side", pa.int32()), *((name, _LONG) for name in _COUNTS)]
    + [("visits", pa.list_(pa.int32())), ("planned", _LONGS), ("moved", _LONGS)]
    + [("planned_cost", pa.float64()), ("real_cost", pa.float64())]
    + [("joined", pa.string()), ("why", pa.string())]
    + [(name, _LONG) for name in ("held", "results", "shuffled", "collected", "bytes", "time_us")]
    + [("newest_us", _LONGS), ("committed_at", pa.timestamp("us", tz="UTC"))]
)
# Per batch and side: rows, refused, unusable, logged; visits, planned, moved; planned and real cost; held.
BLOCKS: tuple[Any, ...] = (
    (1, 0, (100, 1, 2, 0), [], [0], [0], 3.0, 3.0, 97),
    (1, 1, (50, 0, 0, 0), [], [0], [0], 1.0, 1.0, 50),
    (1, 2, (80, 0, 0, 0), [0, 1], [20, 60, 90], [20, 50, 70], 300.0, 260.5, 80),
    (2, 0, (40, 0, 0, 3), [2, 1], [30, 30, 45], [30, 10, 5], 150.0, 70.0, 120),
    (2, 1, (10, 0, 0, 1), [], [0], [0], 0.5, 0.5, 60),
    (2, 2, (0, 0, 0, 0), [], [0], [0], 0.0, 0.0, 80),
)
WHOLE = ((1, 70, 4000, 900, 5000, 100), (2, 5, 1000, 600, 6000, 200))


def declare(folder: Path, text: str = TEXT) -> Settings:
    """Write a configuration of three streams at two sites and one query below ``folder``; return it as read."""
    sites = (("doors", "north"), ("badges", "south"), ("cameras", "south"))
    streams = "\n".join(_STREAM.format(name=name, site=site) for name, site in sites)
    (folder / "tidemark.toml").write_text(streams + _SITES, encoding="utf-8")
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "queries" / "passing.sql").write_text(text, encoding="utf-8")
    return load_settings(folder / "tidemark.toml")


def query_of(settings: Settings) -> MultiwayQuery:
    """Return the query."""
    return settings.of_kind(MultiwayQuery)["passing"]


def run_by_hand(settings: Settings) -> None:
    """Write what two batches and a repair of the first leave; four rows of the second batch wait for a repair."""
    layout, query = settings.layout, query_of(settings)
    folder = layout.batch_manifests(query.name)
    replace_definition(folder, definition_of(query), written_as(query))
    for number in (1, 2):
        write_manifest(folder, "batch", BatchManifest(number, ((number - 1, number),) * 3))
    write_manifest(folder, "repair", BatchManifest(1, ((0, 1),)))
    for stream in ("doors", "badges", "cameras"):
        write_ledger(layout, stream, 2)
    _write_figures(layout, query.name)
    write_repairs(layout, query.name, [(1, 1, 0, 25, 0, 100)])
    write_late(
        layout, query.name, [("missed", 150 + number, 2) for number in range(4)] + [("refused", 9999, 1)]
    )
    _write_results(layout, query.name)


def _write_figures(layout: Home, query: str) -> None:
    rows: list[dict[str, Any]] = []
    for batch, side, counts, visits, planned, moved, planned_cost, real_cost, held in BLOCKS:
        told = {"visits": visits, "planned": planned, "moved": moved, "held": held}
        costs = {"planned_cost": planned_cost, "real_cost": real_cost}
        rows.append(
            {"batch": batch, "side": side, **dict(zip(_COUNTS, counts, strict=True)), **told, **costs}
        )
    for batch, results, shuffled, collected, size, _ in WHOLE:
        moved_bytes = {"shuffled": shuffled, "collected": collected, "bytes": size}
        told = {"joined": "pruned", "why": f"{batch} s pruned, 9 s plain"}
        rows.append({"batch": batch, "side": -1, "results": results, **moved_bytes, **told})
    seconds = {batch: START_US + second * SECOND for batch, *_, second in WHOLE}
    for row in rows:
        row |= {"time_us": seconds[row["batch"]], "newest_us": [seconds[row["batch"]] + SECOND] * 3}
        row |= {"committed_at": AT + timedelta(minutes=row["batch"])}
    write_delta(pa.Table.from_pylist(rows, FIGURES), layout.queries(query))


def _write_results(layout: Home, query: str) -> None:
    """Write results a second apart: 70 and 5 online, 25 of the repair; and some of a batch that is not finished."""
    counts = (("online", 1, 70), ("online", 2, 5), ("repair", 1, 25), ("online", 3, 9))
    kinds = [(found, batch) for found, batch, count in counts for _ in range(count)]
    rows = [
        {
            "event_us": START_US + second * SECOND,
            "times_us": [START_US + second * SECOND] * 3,
            "row_ids": [second] * 3,
            "found": found,
            "batch": batch,
            "place": "hall",
            "warmth": 20.5,
        }
        for second, (found, batch) in enumerate(kinds)
    ]
    write_delta(pa.Table.from_pylist(rows), layout.multiway(query))

"""A home with a registered query whose tables are written by hand, from figures that a test can compute with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Scale, Scales, write_manifest
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.control.manifests import Manifests, remove
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import replace_definition
from tests.serving.streams import write_delta

SECOND = 1_000_000
START_US = 1_767_225_600_000_000  # 2026-01-01
AT = datetime(2026, 1, 2, tzinfo=UTC)
TEXT = """\
-- answers to requests
SELECT r.device, s.bytes AS answer
FROM telemetry [RANGE 2 SECONDS] r JOIN flows [RANGE 2 SECONDS] s ON r.device = s.src AND s.bytes > r.temp + 0.5
WHERE r.location = 'hall'
RECALL 0.95 OVER 1 MINUTE
"""
_STREAM = """\
[streams.{name}]
event_time = {{ column = "ts", unit = "s" }}
keys = ["{key}"]
measures = ["{measure}"]
groupings = [["{key}"], []]
levels = ["1m forever"]
source = {{ path = "landing/{name}/*", format = "ndjson" }}
columns = {{ ts = "int", {key} = "string", {measure} = "double", location = "string" }}
"""
# Two batches of two buckets; the second found nothing new in bucket 1.
FIGURES = (
    # batch, bucket, rows, pairs, missed, refused, unusable, held, most held, bytes, left slack, right slack, time
    (1, 0, 1000, 1900, 10, 0, 3, 120, 150, 9000, 10_000, 20_000, 200),
    (1, 1, 900, 700, 5, 1, 0, 100, 110, 8000, 0, 30_000, 199),
    (2, 0, 500, 250, 2, 0, 0, 130, 180, 9500, 10_000, 1_500_000, 300),
    (2, 1, 40, 0, 0, 0, 0, 90, 95, 7000, 0, 30_000, 298),
)
EIGHT = (Scale(1, 8),)


def declare(folder: Path, **queries: str) -> Settings:
    """Write a configuration of two streams with these queries below ``folder``; return it as read."""
    streams = (("telemetry", "device", "temp"), ("flows", "src", "bytes"))
    texts = [_STREAM.format(name=name, key=key, measure=measure) for name, key, measure in streams]
    (folder / "tidemark.toml").write_text("\n".join(texts), encoding="utf-8")
    (folder / "queries").mkdir(exist_ok=True)
    for name, text in (queries or {"replies": TEXT}).items():
        (folder / "queries" / f"{name}.sql").write_text(text, encoding="utf-8")
    return load_settings(folder / "tidemark.toml")


def run_by_hand(settings: Settings, query: str = "replies") -> None:
    """Write what two batches and a repair of the first leave, as seconds since ``START_US``.

    Ten pairs a second for five minutes; from second 100 to 129 half of them were found by the repair, 7 s late. A row
    of second 120 was logged by the second batch and waits.
    """
    layout, joined = settings.layout, settings.of_kind(PairsQuery)[query]
    write_plans(layout, joined)
    for stream in ("telemetry", "flows"):
        write_ledger(layout, stream, 2)
    write_figures(layout, query, FIGURES)
    write_repairs(layout, query, [(1, 1, 15, 150, 2, 207)])
    whole = [(second, 10) for second in range(300) if not 100 <= second < 130]
    half = [(second, 5) for second in range(100, 130)]
    write_pairs(layout, query, online=[*whole, *half], repaired=half, wait_us=7 * SECOND)
    write_late(
        layout, query, [("missed", 120, 2), ("missed", 121, 2), ("refused", 9999, 1), ("missed", 100, 1)]
    )


def write_plans(
    layout: Home,
    query: PairsQuery,
    batches: int = 2,
    repairs: int = 1,
    scales: Scales = EIGHT,
) -> None:
    """Write which ingest batches the query took: the n-th of both streams in its n-th."""
    folder = layout.batch_manifests(query.name)
    replace_definition(folder, definition_of(query), written_as(query))
    remove(Manifests(folder, series) for series in ("batch", "repair"))
    for number in range(1, batches + 1):
        spans = ((number - 1, number), (number - 1, number))
        write_manifest(folder, "batch", BatchManifest(number, spans, scales=scales))
    for number in range(1, repairs + 1):
        write_manifest(folder, "repair", BatchManifest(number, ((number - 1, number),)))


def write_ledger(layout: Home, stream: str, batches: int) -> None:
    """Write that a stream has so many ingest batches."""
    times = dict.fromkeys(("min_event_us", "max_event_us", "newest_us", "confirmed_us"), START_US)
    rows = [{"batch": n, "accepted": 7, **times} for n in range(1, batches + 1)]
    write_delta(_table(rows), layout.ledger(stream))


def write_figures(layout: Home, query: str, figures: Sequence[Sequence[int]]) -> None:
    """Write figures of batches, in the order of ``FIGURES``; each batch ended a minute after the one before."""
    names = (
        *("batch", "bucket", "rows", "pairs", "missed", "refused", "unusable", "held", "most_held", "bytes"),
        *("left_slack_us", "right_slack_us", "time_us"),
    )
    rows = []
    for values in figures:
        row: dict[str, Any] = dict(zip(names, values, strict=True)) | {"late_after_silence": 0}
        row["time_us"] = START_US + row["time_us"] * SECOND
        rows.append(row | {"committed_at": AT + timedelta(minutes=row["batch"])})
    write_delta(_table(rows, bucket=pa.int32()), layout.queries(query))


def write_repairs(layout: Home, query: str, repairs: Sequence[tuple[int, int, int, int, int, int]]) -> None:
    """Write repairs: number, last batch, rows looked at, pairs found, rows beyond raw, second."""
    names = ("repair", "through", "looked_at", "found", "gone", "time_us")
    rows = [dict(zip(names, values, strict=True)) for values in repairs]
    told = [row | {"time_us": START_US + row["time_us"] * SECOND, "committed_at": AT} for row in rows]
    write_delta(_table(told), layout.repairs(query))


def write_pairs(
    layout: Home,
    query: str,
    online: Sequence[tuple[int, int]],
    repaired: Sequence[tuple[int, int]],
    wait_us: int = 0,
    batch: int = 1,
) -> None:
    """Write pairs as (second, how many), both of whose rows are of that second."""
    rows = [
        {
            **dict.fromkeys(("event_us", "left_us", "right_us"), START_US + second * SECOND),
            **{"left_row": second, "right_row": 1000 * second + number},
            **{"found": found, "wait_us": wait, "batch": batch},
        }
        for found, counts, wait in (("online", online, 0), ("repair", repaired, wait_us))
        for second, count in counts
        for number in range(count)
    ]
    write_delta(_table(rows), layout.pairs(query))


def write_late(layout: Home, query: str, rows: Sequence[tuple[str, int, int]], horizon: int = 86_400) -> None:
    """Write logged rows of the left side: what, second, batch; what they missed is not newer than ``horizon``.

    A row's number is its second; it came a minute late, so that its partners of that second needed this slack.
    """
    told = [
        {
            "what": what,
            "event_us": START_US + second * SECOND,
            **{"bucket": second % 2, "side": 0, "row": second},
            **dict.fromkeys(("time_us", "edge_us"), START_US + (second + 60) * SECOND),
            "horizon_us": START_US + horizon * SECOND,
            "batch": batch,
        }
        for what, second, batch in rows
    ]
    write_delta(_table(told, bucket=pa.int32()), layout.missed_rows(query))


def _table(rows: Sequence[Mapping[str, Any]], **types: pa.DataType) -> pa.Table:
    kinds = {int: pa.int64(), str: pa.string(), datetime: pa.timestamp("us", tz="UTC")}
    fields = [(name, types.get(name, kinds[type(value)])) for name, value in rows[0].items()]
    return pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields))

"""A home with a ledger, rejected records and a history of checks over two days, for tests of reports on quality."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse.spark.ddl import schema_of
from lakehouse.spark.tables import declared_columns
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append, as_json, create_table
from quality.history import SCHEMA

# Noon of the first day.
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000
HOSTILE = "<script>alert(1)</script>\"'&"
_COUNTS = ("batch", "received", "requeued", "accepted", "quarantined", "duplicates", "late", "newest_us")
LEDGER, QUARANTINE = declared_columns("ledger"), declared_columns("quarantine")
Fields = dict[str, Any]


def reported(root: Path) -> Home:
    """Return a home whose stream ``rooms`` was checked 40 times: a warning since the last day, a rule that failed."""
    home = Home(root)
    batches = ((1, 10, 0, 7, 2, 1, 3), (2, 5, 0, 4, 1, 0, 1))
    ledger = [
        dict(zip(_COUNTS, (*counts, NOON_US + counts[0]), strict=True))
        | {
            "reasons": [("clock", counts[4] - 1), ("rule_temp", 1)],
            "committed_at": NOON + timedelta(days=day),
        }
        for day, counts in enumerate(batches)
    ]
    write(home.ledger("rooms"), LEDGER, ledger)
    origin = {"source_file": f"{HOSTILE}.csv", "source_line": 7}
    records = [
        {"batch": 1, "reason": "clock", "detail": "3h ahead", "record": b'{"who": "Ann-1"}'} | origin,
        {"batch": 2, "reason": "rule_temp", "detail": f"temp is 99; the rule: {HOSTILE}", "record": b"99"}
        | origin,
    ]
    write(home.quarantine("rooms"), QUARANTINE, records)
    write(home.quality, schema_of(SCHEMA), list(_verdicts()))
    return home


def write(table: Location, schema: pa.Schema, rows: list[Fields]) -> None:
    """Append rows to a table, which is created before the first."""
    if not table.exists():
        create_table(table, as_json(schema))
    append(table, rows)


def verdict(table: str, rule: str, at: datetime, **more: Any) -> Fields:
    """Return a row of the history, of a rule that holds unless it says otherwise."""
    known = {"run_id": f"{more.get('stream', 'rooms')}-{at}", "stream": "rooms", "batch": 1, "table": table}
    known |= {"expectation": rule, "success": True, "observed": 0.0, "expected": "at most 0"}
    return known | {"says": f"{rule} is well.", "seen": "", "at": at} | more


def _verdicts() -> Iterator[Fields]:
    for run in range(40):
        at, is_late = NOON + timedelta(hours=run), run >= 20
        broken = {"success": False, "observed": 3.0, "seen": "batch 2"} if is_late else {}
        yield verdict("totals", "raw_gap", at, **broken)
        yield verdict("raw", "without_origin", at)
        counts = {"judged": 100, "broken": run, "sources": [(f"device {HOSTILE}", 2), ("device b", 1)]}
        seen = f"{run} of 100 new rows do not, such as a.csv:1: who is '{HOSTILE}'"
        yield verdict(
            "warnings", "temp", at, success=run < 30, says=f"Rooms are warm {HOSTILE}", seen=seen, **counts
        )
        if run < 39:
            yield verdict("rules", "old", at, success=False)
        else:
            yield verdict("rules", "new", at)
    yield verdict("batches", "repeats", NOON, stream="query-pairs")

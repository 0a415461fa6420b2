"""Cost of alarms to a batch, and to a publish, behind many that ended: in a process without Spark.

Each alarm of the history was raised and cleared; their changes lie in one file, as maintenance leaves them. Then a
tick comes at a time, with answers of ten groups that take turns: five alarms are raised, five cleared. Medians, in
seconds of processors. ``kept``: as a batch does; ``all``: where the file of standing alarms is missing, and made again.
``publish``: a version of the query alone, which has all alarms and shares them with the one before.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.publishing.snapshots import queries_to_publish
from lakehouse.queries.aggregate import alarms
from lakehouse.queries.kind import definition_of, written_as
from lakehouse.queries.runtime.tables import create_tables
from lakehouse.serving.publish.publish import publish
from lakehouse.storage.query_meaning import require_same
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append_arrow, arrow_schema, fitted, open_table
from lakehouse.storage.tables.table_reads import read_between
from tests.benchmarks.parts import cpu_s
from tests.queries.answered import START_US, declare, query_of

HISTORIES, QUICK_HISTORIES = (1_000, 10_000, 100_000, 1_000_000), (100, 1_000)
# The first of them warms up, and is the one that reads all to keep what stands.
BATCHES, QUICK_BATCHES = 16, 2
GROUPS, EVERY_US = 10, 5_000_000
TEXT = """\
SELECT a.place, COUNT(*) AS n FROM asks [10 SECONDS] a, replies [10 SECONDS] b WHERE a.place = b.place
GROUP BY a.place HAVING COUNT(*) > 5 EVERY 5 SECONDS SLACK 30 SECONDS ALARM
"""


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of processors of a batch's changes, by how many alarms came before."""
    found: dict[str, Any] = {}
    for history in QUICK_HISTORIES if quick else HISTORIES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            taken = _measured(Path(name), history, QUICK_BATCHES if quick else BATCHES)
        found |= {f"alarms_{figure}_cpu_s_at_{history}": value for figure, value in taken.items()}
    return found


def _measured(folder: Path, history: int, batches: int) -> dict[str, float]:
    settings = declare(folder, busy=TEXT)
    query, layout = query_of(TEXT, settings.streams), settings.layout
    create_tables(layout, query, settings.streams)
    require_same(layout.batch_manifests("busy"), "busy", definition_of(query), written_as(query))
    layout.serving.mkdir(parents=True)
    _append(layout.alarms("busy"), _ended(history), 0)
    taken: dict[str, list[float]] = {"kept": [], "all": [], "publish": []}
    for batch in range(1, batches + 1):
        tick_us = START_US + (history + batch) * EVERY_US
        holds = np.arange(GROUPS) % 2 == batch % 2
        told = {"tick_us": tick_us, "place": [f"p{place}" for place in range(GROUPS)], "holds": holds}
        _append(layout.answers("busy"), told | {"revision": 0, "found": "online", "batch": batch}, batch)
        changed = alarms.Changed(tick_us, tick_us)
        follow = alarms.Following.of(query, settings.streams, changed, "online", batch)
        own = (follow, layout.alarms("busy"), layout.answers("busy"), tick_us)
        rows = _timed(taken["kept"], lambda own=own: _changes(*own))
        kept = layout.folder_of(layout.alarms("busy")) / "_standing.parquet"
        content = kept.read_bytes()
        kept.unlink()
        _timed(taken["all"], lambda own=own: _changes(*own))
        kept.write_bytes(content)
        _append(layout.alarms("busy"), rows, batch, found="online", batch=batch)
        figures = dict.fromkeys(("rows", "late", "missed", "refused", "unusable", "answered", "revised"), 1)
        told = {"batch": np.array([batch]), "bucket": -1, "time_us": tick_us} | figures
        _append(layout.queries("busy"), told, batch)
        queries, _ = queries_to_publish(layout, settings.registered, settings.streams, None)
        _timed(taken["publish"], lambda queries=queries: publish(layout, [], queries=queries))
    return {name: round(statistics.median(seconds[1:]), 4) for name, seconds in taken.items()}


def _changes(follow: alarms.Following, changes: Location, answers: Location, tick_us: int) -> pa.Table:
    """Return what the answers of a tick change about alarms."""
    standing = alarms.standing_alarms(changes, Path(changes), tick_us, tick_us)
    return follow(standing, read_between(answers, ("tick_us", tick_us, None)))


def _timed(seconds: list[float], work: Callable[..., Any]) -> Any:
    before = cpu_s()
    found = work()
    seconds.append(cpu_s() - before)
    return found


def _ended(history: int) -> dict[str, Any]:
    """Return the changes of alarms that ended, each a tick after it began."""
    number = np.repeat(np.arange(history), 2)
    is_cleared = np.tile([False, True], history)
    raised_us = START_US + number * EVERY_US
    return {
        "alarm": [f"{one:016x}" for one in number.tolist()],
        "place": "p0",
        "state": np.where(is_cleared, "cleared", "raised"),
        "raised_us": raised_us,
        "cleared_us": pa.array(raised_us + EVERY_US, mask=~is_cleared),
        **{"change": is_cleared.astype(np.int32), "found": "online", "batch": 0},
    }


def _append(table: Location, columns: Any, number: int, **same: Any) -> None:
    known = open_table(table)
    rows = columns if isinstance(columns, pa.Table) else _table(columns)
    for name, value in same.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    append_arrow(known, table, fitted(rows, arrow_schema(known)), ("bench", number))


def _table(columns: dict[str, Any]) -> pa.Table:
    count = max(len(each) for each in columns.values() if not isinstance(each, (str, int)))
    return pa.table(
        {
            name: pa.repeat(value, count) if isinstance(value, (str, int)) else value
            for name, value in columns.items()
        }
    )

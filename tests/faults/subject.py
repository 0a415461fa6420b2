"""A small lakehouse with a query of every kind, all of its jobs in one process, and what its tables hold at the end.

Three streams send rows that are late, come twice or contradict others. The files are small and of plain lines, so that
no job starts Spark: a run of all jobs takes seconds, and hundreds of them can be tried. What Spark does instead for
large batches has crash points of its own, which tests/end_to_end and tests/queries/test_laws.py pass.

    python -m tests.faults.subject CONFIG       runs all jobs
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.queries.laws import EXAMPLES, asked
from tests.queries.multiway.streams import NAMES, T0, some_rows

ROWS = 60
# The parts of the rows that a lakehouse has taken when it is made.
TAKEN = (0, 2)
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
identity = ["room", "ts"]
duplicates_within = "1d"
keys = ["room"]
groupings = [["room"], []]
measures = ["value"]
levels = ["1s for 1m", "10s for 10m", "1m forever"]
[streams.{name}.source]
path = "{landing}/{name}/*"
format = "{kind}"
settle = 0
[streams.{name}.columns]
room = "string"
"""
# Queries that call no predicate of Python, for which Spark would start.
QUERIES = {
    **EXAMPLES,
    "selection": replace(
        EXAMPLES["selection"], text="SELECT room, value FROM doors WHERE value > 2 AND floor > 0"
    ),
}
COUNTS = ("records", "received", "requeued", "accepted", "quarantined", "duplicates")
Content = dict[str, str]
# What tells apart the rows of tables that queries write; readers that take the newest of them see none that is twice.
KEYS = {
    "answers": ("tick_us", "room", "revision"),
    "alarms": ("alarm", "change"),
    "missed_rows": ("batch", "what", "bucket", "side", "row"),
    "needed_slack": ("repair", "bucket", "from_us", "side", "slack_us"),
    "pairs": ("left_row", "right_row"),
    "states": ("batch", "bucket", "part", "leave_us", "content"),
    "windows": ("side", "source_file", "source_line", "source_item"),
}


def made(folder: Path) -> Path:
    """Make a lakehouse that has taken two parts of its rows through all jobs; return its configuration."""
    for stream in NAMES:
        (folder / "landing" / stream).mkdir(parents=True)
    (folder / "queries").mkdir()
    for name, example in QUERIES.items():
        (folder / "queries" / f"{name}.sql").write_text(example.text, encoding="utf-8")
    config = folder / "tidemark.toml"
    streams = "".join(
        STREAM.format(name=name, landing="landing", kind="ndjson") + 'floor = "int"\n' for name in NAMES
    )
    config.write_text(f'home = "var"\n{streams}', encoding="utf-8")
    for part in TAKEN:
        land(folder, part)
        run_jobs(config)
    return config


def land(folder: Path, part: int) -> None:
    """Land twenty seconds of rows of each stream: a third late, one in ten twice, one in twenty contradicted."""
    for name, rows in some_rows(11, part, ROWS).items():
        right = [{**row, "ts": min(row["ts"], row["received"])} for row in rows]
        others = [{**row, "value": -1.0, "received": row["received"] + 5} for row in right[::20]]
        lines = [json.dumps(row) for row in (*right, *right[::10], *others)]
        path = folder / "landing" / name / f"{part}.ndjson"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Older than any restored copy, so that it looks the same in each of them.
        os.utime(path, (T0 / 1000 + part,) * 2)


def run_jobs(config: Path) -> None:
    """Run every job that changes tables, for each stream and query, as the DAGs do one after the other."""
    for job, name in jobs_of(config):
        job(name)


def run_published(config: Path) -> None:
    """Run those jobs alone by which what has landed comes to be published."""
    from lakehouse.settings import load_settings

    streams = set(load_settings(config).streams)
    # Of each stream ingest and rollups come first, then those of queries.
    before = [(job, name) for job, name in jobs_of(config) if name in streams or not name]
    for job, name in before[: 2 * len(streams) + 1]:
        job(name)


def jobs_of(config: Path) -> list[tuple[Callable[[str], object], str]]:
    """Return every job with the stream or query that it is for, in the order of the DAGs."""
    from jobs import (
        build_rollups,
        ingest,
        maintain,
        maintain_queries,
        merge_raw,
        publish,
        repair_late,
        run_queries,
    )
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings = load_settings(config)
    spark = build_session(settings)
    of_streams, of_queries = (ingest, build_rollups), (run_queries, repair_late)
    found = [(job, name) for name in settings.streams for job in of_streams]
    found += [(job, name) for name in settings.registered for job in of_queries]
    later = [(job, name) for name in settings.streams for job in (maintain, merge_raw)]
    later += [(maintain_queries, name) for name in settings.registered]
    work = [[(partial(job.run, settings, spark), name) for job, name in some] for some in (found, later)]
    published = partial(publish.run, settings, spark, unchecked=True)
    return [*work[0], (lambda _: published(), ""), *work[1]]


def check(config: Path) -> None:
    """Check everything that rules are about.

    Raises:
        GateFailed: where one does not hold.
    """
    from jobs import check_quality, check_queries
    from lakehouse.settings import load_settings
    from lakehouse.spark.session import build_session

    settings = load_settings(config)
    spark = build_session(settings)
    for name in settings.streams:
        check_quality.run(settings, spark, name, full=True)
    for name in settings.registered:
        check_queries.run(settings, spark, name)


def content(config: Path) -> Content:
    """Return an order-free hash of what each table, query and answer says."""
    from lakehouse.settings import load_settings
    from lakehouse.storage.tables.table_log import read_rows

    settings = load_settings(config)
    layout, found = settings.layout, {}
    for name, stream in settings.streams.items():
        raw = read_rows(layout.raw(name))
        found[f"raw {name}"] = digest([row[c] for c in ("event_us", *stream.all_columns)] for row in raw)
        refused = read_rows(layout.quarantine(name))
        found[f"quarantine {name}"] = digest([row["reason"], row["record"]] for row in refused)
        ledger = read_rows(layout.ledger(name))
        found[f"ledger {name}"] = digest([[sum(row[c] or 0 for row in ledger) for c in COUNTS]])
    for name in settings.registered:
        table = getattr(layout, QUERIES[name].table)(name)
        rows = asked(QUERIES[name].found, found=pa.Table.from_pylist(read_rows(table)))
        found[f"query {name}"] = digest(rows.elements())
    return found | _answers(config)


def rows_twice(config: Path) -> list[str]:
    """Say of each table of a query that holds rows more than once how many they are."""
    from lakehouse.settings import load_settings
    from lakehouse.storage.tables.table_log import read_columns

    settings, found = load_settings(config), []
    for name in settings.registered:
        for table, key in KEYS.items():
            rows = read_columns(getattr(settings.layout, table)(name), key)
            twice = len(rows) - len(set(rows))
            found += [f"{table} {name}: {twice} of {len(rows)} rows twice"] if twice else []
    return found


def _answers(config: Path) -> Content:
    from lakehouse.serving.sandbox.sandbox import open_published
    from lakehouse.settings import load_settings

    day = time.strftime("%Y-%m-%d", time.gmtime(T0 / 1000))
    found = {}
    with open_published(load_settings(config).layout) as published:
        for name in NAMES:
            for by in ("[]", "['room']"):
                text = (
                    f"SELECT * EXCLUDE (as_of_version) FROM range_aggregate('{name}', 'value', "
                    f"'{day}', '{day}'::DATE + 1, \"by\" := {by})"
                )
                rows = published.connection.execute(text).fetchall()
                found[f"answers {name} by {by}"] = digest(rows)
    return found


def digest(rows: Iterable[Iterable[Any]]) -> str:
    """Return a hash of rows that knows no order, and how many they are."""
    told = sorted(repr([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)
    return f"{hashlib.sha256(chr(10).join(told).encode()).hexdigest()[:16]} ({len(told)} rows)"


if __name__ == "__main__":
    run_jobs(Path(sys.argv[1]))

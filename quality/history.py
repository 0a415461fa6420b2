"""Verdicts of every run in one Delta table, and what the last good run had seen.

One row is one rule's verdict in one run. Rows of one run are appended in one commit.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.spark.ddl import schema_of
from lakehouse.spark.deviations import WARNINGS
from lakehouse.storage.control.lease import WAIT_S, lease
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append as append_rows
from lakehouse.storage.tables.table_commits import arrow_schema, as_json, create_table, open_table
from lakehouse.storage.tables.table_files import dataset
from lakehouse.storage.tables.table_log import read_log
from quality.gate import Verdict

SCHEMA = """
    run_id STRING COMMENT 'the run of one stream',
    stream STRING COMMENT 'the stream that was checked, query-<name> for a registered query',
    batch BIGINT COMMENT 'the newest ingest batch, or batch of the query, that the run had seen',
    table STRING COMMENT 'what was checked: a table, or such as totals of a stream, periods of a query',
    expectation STRING COMMENT 'the metric that the rule is about',
    success BOOLEAN COMMENT 'whether the rule held',
    observed DOUBLE COMMENT 'the largest value of the metric',
    expected STRING COMMENT 'the limit',
    says STRING COMMENT 'the rule in a sentence',
    seen STRING COMMENT 'what was observed, with masked examples, of a rule that the stream declares',
    judged BIGINT COMMENT 'rows that a rule about each row judged',
    broken BIGINT COMMENT 'rows that broke it',
    sources MAP<STRING, BIGINT> COMMENT 'the keys of those that broke it most, and their rows',
    at TIMESTAMP COMMENT 'when it was checked'
"""
_NO_RUNS = pa.schema(
    {"run_id": pa.string(), "success_min": pa.bool_(), "batch_max": pa.int64()}
).empty_table()


def append(home: Home, stream: str, batch: int, verdicts: Sequence[Verdict]) -> str:
    """Append one run's verdicts and return its run id; the table is created with the first."""
    table, now = home.quality, datetime.now(UTC)
    run_id = f"{stream}-{now:%Y%m%dT%H%M%S.%fZ}"
    rows = [
        {
            "run_id": run_id,
            "stream": stream,
            "batch": batch,
            "table": verdict.table,
            "expectation": verdict.metric,
            "success": verdict.success,
            "observed": verdict.observed,
            "expected": verdict.expected,
            "says": verdict.says,
            "seen": verdict.seen or verdict.where,
            **_counted(verdict),
            "at": now,
        }
        for verdict in verdicts
    ]
    if read_log(table) is None:
        # Of two that create a table at once, one would change the other's and make its append fail.
        with lease(home, table, WAIT_S):
            create_table(table, as_json(schema_of(SCHEMA)))
    elif lacking := {*schema_of(SCHEMA).names} - {*arrow_schema(open_table(table)).names}:
        problem = f"{table} is of another Tidemark and has no column {', '.join(sorted(lacking))}"
        raise ValueError(f"{problem}; delete the folder: it holds the history of checks and nothing else")
    append_rows(table, rows)
    return run_id


def _counted(verdict: Verdict) -> dict[str, Any]:
    counts = verdict.counts
    if counts is None:
        return {"judged": None, "broken": None, "sources": None}
    return {"judged": counts.judged, "broken": counts.broken, "sources": list(counts.sources)}


def last_judged(table: Location, stream: str) -> tuple[int, bool]:
    """Return the newest batch that this stream's last run had seen, -1 for none, and whether no rule failed in it."""
    runs = _runs(table, stream)
    if not len(runs):
        return -1, True
    # A run's name begins with its stream, and goes on with its time.
    last = max(runs.to_pylist(), key=lambda run: str(run["run_id"]))
    return int(last["batch_max"]), bool(last["success_min"])


def verified_through(table: Location, stream: str) -> int:
    """Return the newest batch that a run of this stream without a failure had seen; -1 where there was none."""
    runs = _runs(table, stream)
    newest = pc.max(runs.filter(runs["success_min"])["batch_max"]).as_py()
    return -1 if newest is None else int(newest)


def _runs(table: Location, stream: str) -> pa.Table:
    """Return the runs of a stream: each one's newest batch, and whether no rule failed."""
    log = read_log(table)
    if log is None or not log.files:
        return _NO_RUNS
    verdicts = dataset(list(log.files))
    # A rule that warns stops nothing.
    judged = (pc.field("stream") == stream) & ~pc.field("table").isin(WARNINGS)
    rows = verdicts.to_table(columns=["run_id", "batch", "success"], filter=judged)
    return rows.group_by("run_id").aggregate([("success", "min"), ("batch", "max")])

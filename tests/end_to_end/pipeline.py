"""The whole way of the data for one configuration, and what its tables hold at the end of it.

    python -m tests.end_to_end.pipeline CONFIG JOB

runs one job of it in a process of its own, which a test may kill.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.profiles import read_profile
from lakehouse.storage.tables.table_log import read_rows
from tests.support.folded import folded, rows_of
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# By the first word of their crash points.
JOBS = ("ingest", "rollup", "maintain", "publish")


def digest(rows: Iterable[Any]) -> str:
    """Hash rows in any order; doubles count to nine digits, which is far above what their sums are off by."""
    told = sorted(repr([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16] + f" ({len(told)} rows)"


def logical_content(settings: Settings, name: str) -> dict[str, str]:
    """Return a hash per table over what must not differ: not batches, files, lines, times of day or lateness."""
    layout, stream = settings.layout, settings.streams[name]
    raw = table_rows(layout.raw(name), "event_us", *stream.all_columns)
    quarantine = table_rows(layout.quarantine(name), "reason", "record", "source_item")
    counts = [
        f"sum({c})" for c in ("records", "received", "requeued", "accepted", "quarantined", "duplicates")
    ]
    ledger = table_rows(layout.ledger(name), *counts, "max(newest_us)")
    nodes = rows_of(folded(settings, name))
    found: dict[str, Iterable[Any]] = {
        "raw": raw,
        "quarantine": quarantine,
        "ledger": ledger,
        "profile": profile_rows(settings, name),
        "rollup": nodes,
        "remembered": [(row["identity"], row["payload"]) for row in read_rows(layout.remembered(name))],
    }
    return {table: digest(rows) for table, rows in found.items()} | {"answers": answers(settings, name)}


def profile_rows(settings: Settings, name: str) -> Iterable[Any]:
    """Return a row a column and day of the profile, of figures that do not depend on how rows were cut into batches."""
    for day, columns in read_profile(settings.layout, name, 0, 2**62).items():
        for column, own in columns.items():
            figures = own.summary
            weights = sorted(zip(figures.bins, figures.weights, strict=True))
            if figures.rows:
                yield (day, column, figures.rows, figures.missing, figures.low, figures.high, weights)


def answers(settings: Settings, name: str, measure: str = "temp") -> str:
    """Hash the published nodes and totals as an analyst sees them."""
    from lakehouse.serving.sandbox.sandbox import open_published

    with open_published(settings.layout) as published:
        asked = f"'{name}', '{measure}', '2020-01-01', '2021-01-01'"
        text = f"SELECT * EXCLUDE (as_of_version) FROM range_aggregate({asked})"
        return digest(published.connection.execute(text).fetchall())


def run_job(job: str, spark: SparkSession, settings: Settings) -> None:
    """Run one job, for every stream."""
    if job == "publish":
        publish.run(settings, spark, unchecked=True)
        return
    for name in settings.streams:
        {"ingest": ingest, "rollup": build_rollups, "maintain": maintain}[job].run(settings, spark, name)


def run(spark: SparkSession, settings: Settings) -> dict[str, dict[str, str]]:
    """Run every job once; return the hashes per stream."""
    for job in JOBS:
        run_job(job, spark, settings)
    return {name: logical_content(settings, name) for name in settings.streams}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("job", choices=JOBS)
    asked = parser.parse_args(argv)
    settings = load_settings(asked.config)
    run_job(asked.job, build_session(settings), settings)


if __name__ == "__main__":
    main()

"""The whole way of the data for one configuration, in a process of its own that a test may kill.

    python -m tests.end_to_end.pipeline CONFIG

Prints one JSON object: a hash of the logical content of each table, whatever order rows stand in.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.catalog.settings import Settings, load_settings
from lakehouse.spark import rollup, tables
from lakehouse.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def digest(rows: Iterable[Any]) -> str:
    """Hash rows in any order; doubles count to nine digits, which is far above what their sums are off by."""
    told = sorted(repr([f"{v:.9g}" if isinstance(v, float) else v for v in row]) for row in rows)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16] + f" ({len(told)} rows)"


def logical_content(spark: SparkSession, settings: Settings, name: str) -> dict[str, str]:
    """Return a hash per table over what must not differ: not batches, files, lines, times of day or lateness."""
    layout, stream = settings.layout, settings.streams[name]
    raw = tables.read(spark, layout.raw(name)).select("event_us", *stream.all_columns)
    quarantine = tables.read(spark, layout.quarantine(name)).select("reason", "record", "source_item")
    counts = [
        f"sum({c})" for c in ("records", "received", "requeued", "accepted", "quarantined", "duplicates")
    ]
    ledger = tables.read(spark, layout.ledger(name)).selectExpr(*counts, "max(newest_us)")
    nodes = rollup.folded_nodes(spark, layout, stream)
    frames = {"raw": raw, "quarantine": quarantine, "ledger": ledger, "rollup": nodes}
    return {table: digest(frame.collect()) for table, frame in frames.items()} | {
        "answers": answers(settings, name)
    }


def answers(settings: Settings, name: str) -> str:
    """Hash the published nodes and totals as an analyst sees them."""
    from lakehouse.serving.sandbox import open_published

    with open_published(settings.layout) as published:
        text = f"SELECT * EXCLUDE (as_of_version) FROM range_aggregate('{name}', 'temp', '2020-01-01', '2021-01-01')"
        return digest(published.connection.execute(text).fetchall())


def run(spark: SparkSession, settings: Settings) -> dict[str, dict[str, str]]:
    """Run every job once; return the hashes per stream."""
    for name in settings.streams:
        ingest.run(settings, spark, name)
        build_rollups.run(settings, spark, name)
        maintain.run(settings, spark, name)
    publish.run(settings, spark, unchecked=True)
    return {name: logical_content(spark, settings, name) for name in settings.streams}


def main() -> None:
    """Run, and print the hashes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    settings = load_settings(parser.parse_args().config)
    print(json.dumps(run(build_session(settings), settings)))


if __name__ == "__main__":
    main()

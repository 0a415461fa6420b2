"""The tables of a join of three streams or more."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.progress import progress_before
from lakehouse.queries.runtime.tables import output_types
from lakehouse.spark import tables


def create_tables(
    spark: SparkSession, layout: Home, query: MultiwayQuery, streams: Mapping[str, Stream]
) -> None:
    """Create the query's tables where they are not there; the one that counts its batches is last."""
    if tables.exists(layout.queries(query.name)):
        return
    types = output_types(query, streams)
    shown = "".join(f",\n    `{name}` {kind}" for name, kind in types.items())
    held = "".join(f",\n    `o_{name}` {kind}" for name, kind in types.items())
    create, name = tables.create, query.name
    tables.side_by_side(
        lambda: create(spark, layout.joins(name), "results", columns=shown),
        lambda: create(spark, layout.windows(name), "windows", columns=held),
        lambda: create(spark, layout.late(name), "late"),
        lambda: create(spark, layout.states(name), "states"),
        lambda: create(spark, layout.repairs(name), "repairs"),
    )
    create(spark, layout.queries(name), "moves")


def drop_old_windows(spark: SparkSession, layout: Home, query: MultiwayQuery) -> None:
    """Delete the rows that no later batch meets: those beyond their windows once the last batch was finished."""
    done = finished(layout, query.name)
    until_us = progress_before(layout, query, done + 1).until_us
    if until_us is None or not tables.exists(layout.windows(query.name)):
        return
    horizon = until_us - query.slack_us
    gone = [
        f"side = {number} AND event_us < {horizon - side.window_us}"
        for number, side in enumerate(query.sides)
    ]
    tables.remove(spark, layout.windows(query.name), f"batch <= {done} AND ({' OR '.join(gone)})")

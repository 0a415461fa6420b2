"""Whether a rollup table is what its stream declares now; how long levels keep their nodes may change as it is."""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.sql.types import StructType

from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.home.open_tables import opened
from lakehouse.home.rollup_table import (
    RollupSchema,
    declared_schema,
    read_marker,
    read_rollup_schema,
    same_but_keeps,
)
from lakehouse.home.schema_change import compare_schemas
from lakehouse.home.table_commits import add_columns, set_properties
from lakehouse.spark.tables import rollup_schema

log = logging.getLogger(__name__)


class RollupOutdated(RuntimeError):
    """The stream is declared differently from what its rollups were built for."""


class HistoryErased(RuntimeError):
    """The last level would forget what no other level holds."""


def require_current(layout: Home, stream: Stream) -> RollupSchema:
    """Return the schema of the stream's rollup; changed `keep` times of levels are applied.

    Whoever calls holds the rollup's lease.

    Raises:
        RollupOutdated: when widths, groupings or measures are not those the table was built for.
        HistoryErased: when the last level is to keep less than it holds.
    """
    schema, now = read_rollup_schema(layout.rollup(stream.name)), declared_schema(stream)
    if schema is None:
        return now
    if not same_but_keeps(now, schema):
        raise RollupOutdated(
            f"stream {stream.name}: its rollups were built for other levels, groupings or measures; it is now declared "
            f"as {stream.definition()}; `tidemark plan {stream.name}` tells what that means, "
            f"`tidemark rebuild {stream.name}` builds them again"
        )
    _add_carries(layout, stream)
    if now.levels == schema.levels:
        return schema
    return _keep_otherwise(layout, stream, schema)


def _add_carries(layout: Home, stream: Stream) -> None:
    """Give a table that an earlier Tidemark made the columns that it lacks; its nodes have no carries."""
    path = layout.rollup(stream.name)
    with opened(path) as known:
        there = {column.name for column in known.schema().fields}
    lacking = [column for column in rollup_schema(stream) if column.name not in there]
    if lacking:
        add_columns(path, StructType(lacking).json())


def set_schema(layout: Home, stream: Stream, schema: RollupSchema) -> None:
    """Write the stream's definition, and what its rollup lacks, into the table's properties, in one commit."""
    properties = {"tidemark.definition": stream.definition(), **schema.properties()}
    set_properties(layout.rollup(stream.name), properties)


def _keep_otherwise(layout: Home, stream: Stream, schema: RollupSchema) -> RollupSchema:
    """Take on how long levels keep their nodes; nodes that are gone already stay gone, as floors."""
    newest = read_marker(layout.rollup(stream.name)).newest_us
    first = read_extent(layout, stream.name).earliest_us
    change = compare_schemas(stream, schema, newest, raw_from(read_corrections(layout, stream.name)), first)
    if change.refusals:
        raise HistoryErased(f"stream {stream.name}: " + "; ".join(change.refusals))
    for sentence in change.effects:
        log.warning("stream %s: %s", stream.name, sentence)
    floors = () if newest is None else tuple(schema.horizons(newest))
    kept = replace(declared_schema(stream), floors=floors, since=schema.since)
    set_schema(layout, stream, kept)
    return kept

"""Nodes of a rollup table as a publish folds them."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.rollup.nodes import folder_of
from lakehouse.rollup.rollup import folded_nodes
from lakehouse.settings import Settings
from lakehouse.storage.tables.rollup_table import read_marker, read_rollup_schema


def folded(settings: Settings, name: str) -> pa.Table:
    """Return one row per node of a stream whose rollup is current."""
    path = settings.layout.rollup(name)
    schema = read_rollup_schema(path)
    assert schema is not None
    horizons = schema.horizons(read_marker(path).newest_us)
    stream = settings.stream(name)
    none = folder_of(stream).schema.empty_table()
    return pa.concat_tables([none, *folded_nodes(settings.layout, stream, horizons)])


def rows_of(nodes: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    """Return some columns, or all of them, as tuples."""
    return list(zip(*nodes.select(columns or nodes.column_names).to_pydict().values(), strict=True))

"""Nodes of a rollup table as a publish folds few of them, in this process.

``tests/streams/test_rollup.py`` and ``test_counters.py`` hold them to the nodes that Spark folds.
"""

from __future__ import annotations

import pyarrow as pa

from lakehouse.declare.settings import Settings
from lakehouse.home.marker import read_marker
from lakehouse.home.rollup_schema import read_rollup_schema
from lakehouse.streams.rollup import folded_nodes_here


def folded(settings: Settings, name: str) -> pa.Table:
    """Return one row per node of a stream whose rollup is current."""
    path = settings.layout.rollup(name)
    schema = read_rollup_schema(path)
    assert schema is not None
    horizons = schema.horizons(read_marker(path).newest_us)
    return folded_nodes_here(settings.layout, settings.stream(name), horizons)


def rows_of(nodes: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    """Return some columns, or all of them, as tuples."""
    return list(zip(*nodes.select(columns or nodes.column_names).to_pydict().values(), strict=True))

"""Deletion from a table of states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.engine import engine_of
from lakehouse.queries.runtime import tables as runtime_tables
from lakehouse.queries.runtime.batch_manifest import BatchManifest, Scale, write_manifest
from lakehouse.queries.runtime.tables import drop_old_states
from lakehouse.spark import tables
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = ("bucket", "part", "content", "leave_us", "batch")


def _append(table: Location, rows: list[tuple[Any, ...]], batch: int) -> None:
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    tables.append_rows(found, table, "query-q", batch)


def _parts(layout: Home) -> list[tuple[int, str, int | None]]:
    rows = ((row["batch"], row["part"], row.get("leave_us")) for row in read_rows(layout.states("q")))
    return sorted(rows, key=repr)


def test_a_table_of_states_loses_what_is_superseded(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Home(tmp_path)
    table, done = layout.states("q"), {"batch": 2}
    monkeypatch.setattr(runtime_tables, "finished", lambda *_: done["batch"])
    tables.create(table, "states")

    for batch, alive_from in ((3, 5), (4, 20)):
        new = [
            (0, "policy", b"counts", None, batch),
            (0, "left", b"rows", 10 * (batch - 2), batch),
            (0, "left", None, alive_from, batch),
        ]
        _append(table, new, batch)
    done["batch"] = 3
    drop_old_states(engine_of(session), layout, "q")
    segments = [(3, "left", 10), (4, "left", 20)]
    unfinished = [(4, "left", 20), (4, "policy", None)]
    assert _parts(layout) == sorted([*segments, (3, "left", 5), (3, "policy", None), *unfinished], key=repr)

    done["batch"] = 4
    drop_old_states(engine_of(session), layout, "q")
    assert _parts(layout) == sorted([(4, "left", 20), *unfinished], key=repr)

    # Batch 5 is cut into other buckets and writes anew what is alive, also that which would have been alive for longer.
    new = [(bucket, "left", b"rows", 20, 5) for bucket in (0, 1)] + [(0, "left", None, 15, 5)]
    _append(table, new, 5)
    scales = Scale(1, 1), Scale(5, 2)
    write_manifest(layout.batch_manifests("q"), "batch", BatchManifest(5, ((4, 5),), scales=scales))
    done["batch"] = 5
    drop_old_states(engine_of(session), layout, "q")
    assert _parts(layout) == [(5, "left", 15), (5, "left", 20), (5, "left", 20)]

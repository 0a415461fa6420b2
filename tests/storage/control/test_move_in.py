"""Rows of a home that is told of a database are there after the next command."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.control.move_in import move_in
from lakehouse.storage.control.outcomes import last_outcome, read_all, record
from lakehouse.storage.control.store import FILE, store_of
from lakehouse.storage.layout import Home
from tests.storage.control.postgres import Postgres

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.slow
def test_a_home_that_is_told_of_a_database_brings_its_rows_there(tmp_path: Path, server: Postgres) -> None:
    home = Home(tmp_path / "var")
    for job in ("publish", "maintain"):
        record(home, job, "all", True, NOW, 1, {"version": 7})
    ManifestStore(home.manifests("s")).add_requeue(("clock",))
    store_of(home).change("INSERT INTO tidemark_delivered VALUES (:home, 'busy', 7, 2)")
    home = replace(home, control=server.url)
    record(home, "maintain", "all", False, NOW, 1, {}, "newer")

    move_in(home)

    assert [one["job"] for one in read_all(home)] == ["maintain", "publish"]
    assert (last_outcome(home, "maintain", "all") or {})["error"] == "newer"
    delivered = "SELECT query, batch, repair FROM tidemark_delivered WHERE home = :home"
    assert store_of(home).rows(delivered) == [("busy", 7, 2)]
    assert [each.reasons for each in ManifestStore(home.manifests("s")).behind(0)] == [("clock",)]
    assert not (home.root / FILE).exists()

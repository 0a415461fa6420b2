from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.queries.runtime import reset_query as forgetting
from lakehouse.queries.runtime.batch_manifest import BatchManifest, write_manifest
from lakehouse.queries.runtime.reset_query import forget, known_queries
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.control.manifests import names_in
from lakehouse.storage.control.outcomes import read_all, record
from lakehouse.storage.layout import Home
from lakehouse.storage.query_meaning import QueryChanged, read_definition, replace_definition, require_same

MEANING = "a JOIN b"


@pytest.fixture
def layout(tmp_path: Path) -> Home:
    """A home where two queries have run."""
    home = Home(tmp_path)
    for query in ("replies", "near"):
        for table in home.tables_of(query):
            (table / "_delta_log").mkdir(parents=True)
            Path(table, "part-0.parquet").write_bytes(b"rows")
        replace_definition(home.batch_manifests(query), MEANING, MEANING)
        write_manifest(home.batch_manifests(query), "batch", BatchManifest(1, ((0, 1), (0, 1))))
        for job in forgetting.JOBS:
            record(home, job, query, True, datetime.now(UTC), 1, {})
    return home


def _traces(layout: Home, query: str) -> list[object]:
    left: list[object] = [place for place in layout.tables_of(query) if place.exists()]
    left += [layout.batch_manifests(query)] * (query in names_in(layout, "batch_manifests"))
    return [*left, *(outcome for outcome in read_all(layout) if outcome["stream"] == query)]


def test_all_that_a_query_wrote_goes_and_nothing_of_others(layout: Home) -> None:
    before = _traces(layout, "near")

    assert forget(layout, "replies") == len(layout.tables_of("replies")) * len(b"rows")

    assert _traces(layout, "replies") == []
    assert _traces(layout, "near") == before
    assert known_queries(layout) == ["near"]


def test_a_query_that_never_ran_is_forgotten_as_well(tmp_path: Path) -> None:
    assert forget(Home(tmp_path), "replies") == 0
    assert known_queries(Home(tmp_path)) == []


@pytest.mark.parametrize("held", ["queries", "repairs"])
def test_it_is_refused_while_the_query_is_run_or_repaired(layout: Home, held: str) -> None:
    before = _traces(layout, "replies")

    with lease(layout, getattr(layout, held)("replies")), pytest.raises(LeaseHeld):
        forget(layout, "replies")

    assert _traces(layout, "replies") == before


@pytest.mark.parametrize("tables_gone", range(5))
def test_killed_on_the_way_the_query_is_refused_until_it_is_forgotten_whole(
    layout: Home, tables_gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Path] = []

    def dying(path: Path) -> None:
        if len(gone) == tables_gone:
            raise KeyboardInterrupt
        gone.append(path)
        real(path)

    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", dying)
    with pytest.raises(KeyboardInterrupt):
        forget(layout, "replies")
    monkeypatch.setattr(shutil, "rmtree", real)

    with pytest.raises(QueryChanged, match="tidemark queries --forget replies"):
        require_same(layout.batch_manifests("replies"), "replies", MEANING, MEANING)
    forget(layout, "replies")
    assert _traces(layout, "replies") == []
    assert read_definition(layout.batch_manifests("replies")) is None

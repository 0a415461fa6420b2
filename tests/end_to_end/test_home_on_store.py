"""Machines that have a store and a database in common, and no folder, take turns at one home."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import ingest, run_queries
from lakehouse.config.problems import ConfigError
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.serving.ask.ask import ask
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.control.lease import lease
from lakehouse.storage.control.move_in import move_in
from lakehouse.storage.control.place import ControlNotNamed
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_rows
from tests.end_to_end.pipeline import digest
from tests.end_to_end.test_tables_on_store import CONFIG, PIPELINE, begin, content, land, run
from tests.storage.control.postgres import Postgres
from tests.storage.control.postgres import running as database_running
from tests.support.killing import kill_fresh
from tests.support.stores.s3 import BUCKET, S3, named, require_jars

pytestmark = pytest.mark.slow
TEXTS = st.sampled_from(["one", "two", "drei \N{SNOWMAN}"])
QUERY = "SELECT device, temp FROM t WHERE temp > 0.5\n"


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    require_jars()
    with named() as server:
        yield server


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with database_running() as server:
        yield server


def declared(folder: Path, url: str, control: str | None) -> Path:
    """Write the configuration of a home on the store, with a query."""
    (folder / "landing").mkdir(parents=True)
    told = f'home = "{url}"\n' + (f'control = "{control}"\n' if control else "")
    (folder / "tidemark.toml").write_text(CONFIG.format(tables=told))
    return folder / "tidemark.toml"


def registered(config: Path) -> None:
    (config.parent / "queries").mkdir()
    (config.parent / "queries" / "warm.sql").write_text(QUERY)


def machine(config: Path, name: str, patch: pytest.MonkeyPatch) -> Settings:
    """Return the configuration as a machine reads it whose folder for copies is its own."""
    patch.setenv("TIDEMARK_SCRATCH", str(config.parent / name))
    return load_settings(config)


def turn(settings: Settings) -> dict[str, Any]:
    """Run every job; return what the tables hold then, and the query's."""
    run(settings)
    run_queries.run(settings, build_session(settings), "warm")
    rows = read_rows(settings.layout.selection("warm"))
    return content(settings) | {"selection": digest([row["device"], row["temp"]] for row in rows)}


def test_machines_take_turns_at_a_home_and_one_that_is_killed_is_taken_over(
    store: S3, database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = begin(tmp_path / "here")
    registered(tmp_path / "here" / "tidemark.toml")
    here = load_settings(here.config)
    config = declared(tmp_path / "there", f"s3://{BUCKET}/turns", database.url)
    registered(config)

    for part, name in enumerate(("a", "b", "a")):
        land(here, part, 200)
        expected = turn(here)
        there = machine(config, name, monkeypatch)
        land(there, part, 200)
        if name == "b":
            # The other machine takes the file in, and dies before its batch is finished.
            monkeypatch.setenv("TIDEMARK_SCRATCH", str(config.parent / "a"))
            kill_fresh("ingest.raw-appended", PIPELINE, str(config), "ingest")
            there = machine(config, name, monkeypatch)
        assert turn(there) == expected
        assert ManifestStore(there.layout.manifests("t")).last_batch == part + 1
    # Neither machine has a table, and both read what was published last.
    assert not list((tmp_path / "there").rglob("_delta_log"))
    words = ("t", "temp", "sum", "2023-11-14T22:00:00", "2023-11-15")
    assert ask(machine(config, "a", monkeypatch).home, *words) == ask(there.home, *words)


def test_a_home_on_a_store_needs_a_database_and_no_other_home_writes_where_one_does(
    store: S3, database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ConfigError, match="control, the database that keeps leases and manifests of the home s3://"
    ):
        machine(declared(tmp_path / "none", f"s3://{BUCKET}/alone", None), "a", monkeypatch)

    alone = [begin(tmp_path / name, f"s3://{BUCKET}/alone") for name in ("first", "second")]
    with lease(alone[0].layout, alone[0].layout.raw("t")):
        pass
    refused = pytest.raises(
        ControlNotNamed, match="writes to s3://landing/alone: name a database that both ask"
    )
    with refused, lease(alone[1].layout, alone[1].layout.raw("t")):
        pass

    shared = machine(declared(tmp_path / "shared", f"s3://{BUCKET}/shared", database.url), "a", monkeypatch)
    with lease(shared.layout, shared.layout.raw("t")):
        pass
    without = begin(tmp_path / "without", f"s3://{BUCKET}/shared")
    refused = pytest.raises(ControlNotNamed, match="a database keeps the leases of s3://landing/shared")
    with refused, lease(without.layout, without.layout.raw("t")):
        pass


def test_what_a_home_had_before_it_shared_comes_to_other_machines(
    store: S3, database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(tmp_path / "first", f"s3://{BUCKET}/later")
    land(first, 0, 50)
    ingest.run(first, build_session(first), "t")

    move_in(replace(first.layout, control=database.url))
    config = declared(tmp_path / "second", f"s3://{BUCKET}/later", database.url)
    second = machine(config, "b", monkeypatch)
    with lease(second.layout, second.layout.raw("t")):
        known = ManifestStore(second.layout.manifests("t"))
    assert known.behind(0) != []
    assert Home(second.home).tables == first.layout.tables


@given(turns=st.lists(st.tuples(st.sampled_from("ab"), st.lists(TEXTS, max_size=3)), max_size=8))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whoever_takes_a_lease_has_all_manifests_as_they_were_written(
    store: S3,
    database: Postgres,
    tmp_path_factory: pytest.TempPathFactory,
    turns: list[tuple[str, list[str]]],
) -> None:
    folder = tmp_path_factory.mktemp("turns")
    config, written = declared(folder, f"s3://{BUCKET}/{folder.name}", database.url), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        for name, texts in [*turns, ("a", []), ("b", [])]:
            layout = machine(config, name, patch).layout
            with lease(layout, layout.raw("t")):
                manifests = ManifestStore(layout.manifests("t"))
                assert [each.reasons[0] for each in manifests.behind(0)] == written
                for text in texts:
                    manifests.add_requeue((text,))
                written += texts

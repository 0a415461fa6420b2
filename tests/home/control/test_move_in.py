"""What a home kept elsewhere before is in its control store after the next command."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse.declare.settings import load_settings
from lakehouse.home.control import move_in as module
from lakehouse.home.control import place
from lakehouse.home.control.move_in import move_in
from lakehouse.home.control.store import FILE, store_of
from lakehouse.home.layout import Home
from lakehouse.home.outcomes import last_outcome, read_all, record
from tests.home.control.postgres import Postgres

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home as an earlier version left it."""
    root = tmp_path / "var"
    (root / "runs").mkdir(parents=True)
    kept = {"job": "ingest", "stream": "a-b", "ok": True, "ended": "2026-01-01", "figures": {"files": 3}}
    (root / "runs" / "ingest-a-b.json").write_text(json.dumps(kept))
    (root / "runs" / "build_rollups-soil_2.json").write_text('{"job": ')
    (root / "runs" / ".ingest-a.json.host.17").write_text("{")
    token = {"name": "t", "hash": "ab", "scopes": ["read"], "streams": None, "created_at": "2026"}
    (root / "delivered_alarms.json").write_text('{"busy": [7, 2]}')
    (root / "delivered_alarms.lock").touch()
    (root / "tokens.json").write_text(json.dumps({"tokens": [token]}))
    return Home(root)


def test_outcomes_of_an_earlier_version_are_read_on_by_the_next_command(home: Home, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('home = "var"\n')

    load_settings(tmp_path / "tidemark.toml")

    found = {(outcome["job"], outcome["stream"]): outcome for outcome in read_all(home)}
    assert found["ingest", "a-b"]["figures"] == {"files": 3}
    broken = found["build_rollups", "soil_2"]
    assert not broken["ok"] and "expected the outcome of a job as JSON" in broken["error"]
    assert sorted(path.name for path in home.root.iterdir()) == [FILE]


def test_a_newer_row_stays_and_killed_on_the_way_the_next_command_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(home, "ingest", "a-b", False, NOW, 1, {}, "newer")

    def dying(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dying)
        with pytest.raises(KeyboardInterrupt):
            move_in(home.root)
    move_in(home.root)

    assert (last_outcome(home, "ingest", "a-b") or {})["error"] == "newer"
    assert len(read_all(home)) == 2
    assert not list(home.root.glob("*/*.json"))


def test_a_home_that_cannot_be_written_is_left_as_it_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(module, "_add", refused)

    move_in(home.root)

    assert (home.root / "runs" / "ingest-a-b.json").exists() and (home.root / "tokens.json").exists()


@pytest.mark.slow
def test_a_home_that_is_told_of_a_database_brings_its_rows_there(home: Home, server: Postgres) -> None:
    record(home, "publish", "all", True, NOW, 1, {"version": 7})
    move_in(home.root)
    before = read_all(home)
    place.use(home.root, server.url)
    try:
        move_in(home.root)

        assert read_all(home) == before and len(before) == 3
        tokens = store_of(home.root).rows(
            "SELECT name, scopes, streams FROM tidemark_tokens WHERE home = :home"
        )
        assert tokens == [("t", '["read"]', None)]
        delivered = "SELECT query, batch, repair FROM tidemark_delivered WHERE home = :home"
        assert store_of(home.root).rows(delivered) == [("busy", 7, 2)]
        assert not (home.root / FILE).exists()
    finally:
        place.use(home.root, None)

"""Leases in a real Postgres: processes that die, are paused or lose the database, on a home that two machines share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.storage.control import place, session
from lakehouse.storage.control.database import ControlUnreachable, connect
from lakehouse.storage.control.lease import LeaseHeld, is_held, lease
from lakehouse.storage.control.seal import PROPERTY
from lakehouse.storage.control.session import LeaseLost, session_of
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import append_arrow, create_table, open_table
from lakehouse.storage.tables.table_log import read_rows
from tests.storage.control.postgres import PASSWORD, Postgres
from tests.support.stores.s3 import BUCKET, running

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
COLUMNS = '{"type":"struct","fields":[{"name":"by","type":"string","nullable":true,"metadata":{}}]}'
# Another machine: it holds the lease, prepares a commit if it is told to, and makes it when it hears a line.
WRITER = """
import sys
from pathlib import Path
import pyarrow as pa
from lakehouse.storage.control import session
from lakehouse.storage.layout import Home
from lakehouse.storage.control.lease import lease
from lakehouse.storage.tables import table_commits as tables

home, is_prepared, silent = Home(Path(sys.argv[1])), sys.argv[2] == "prepared", float(sys.argv[3])
table = home.raw("s")
session.SILENT_S, session._WORD_S = silent, silent / 5
rows = pa.table({"by": ["paused"]})
try:
    with lease(home, table):
        if is_prepared:
            known = tables.open_table(table)
            added = tables.write_arrow(known, table, rows)
        print("held", flush=True)
        sys.stdin.readline()
        if not is_prepared:
            known = tables.open_table(table)
            added = tables.write_arrow(known, table, rows)
        tables.commit(known, table, added)
        print("committed", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def home(tmp_path: Path, server: Postgres) -> Home:
    """A home with one table, whose leases are in the database; ``other`` is its path on another machine."""
    root = tmp_path / "here"
    root.mkdir()
    (tmp_path / "other").symlink_to(root)
    create_table(root / "raw" / "s", COLUMNS)
    create_table(root / "ledger" / "s", COLUMNS)
    create_table(root / "raw" / "another", COLUMNS)
    return Home(root, control=server.url)


class Writer:
    """Another machine, which has the same home at another path."""

    def __init__(self, home: Home, server: Postgres, kind: str = "prepared", silent_s: float = 60) -> None:
        words = [sys.executable, "-c", WRITER, str(home.root.parent / "other"), kind, str(silent_s)]
        environment = os.environ | {"TIDEMARK_CONTROL": server.url, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.says()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def _append(table: Location, by: str) -> None:
    append_arrow(open_table(table), table, pa.table({"by": [by]}))


def _who(table: Location) -> list[str]:
    return sorted(open_table(table).to_pyarrow_table()["by"].to_pylist())


def _told(table: Location) -> list[Any]:
    """Return what the commits of a table say of leases."""
    logs = sorted(Path(table, "_delta_log").glob("*.json"))
    infos = [
        json.loads(line) for log in logs for line in log.read_text().splitlines() if "commitInfo" in line
    ]
    return [info["commitInfo"].get("tidemark.fence") for info in infos]


def test_one_writer_of_two_machines_and_what_it_commits_says_its_number(home: Home, server: Postgres) -> None:
    table = home.raw("s")
    for number in (1, 2):
        with lease(home, table):
            assert is_held(home, table)
            assert not is_held(home, home.raw("another"))
            with pytest.raises(LeaseHeld, match=rf"process {os.getpid()} on "), lease(home, table):
                pass
            with Writer(home, server) as other:
                assert other.says().startswith("LeaseHeld")
            _append(table, str(number))
        assert not is_held(home, table)

    assert _told(table) == [None, "raw/s 1", "raw/s 2"], "given back each time: nothing is sealed"
    assert not list(home.root.rglob("*.lease"))


def test_a_lease_ends_with_a_process_that_is_killed_and_tables_of_its_stream_are_sealed(
    home: Home, server: Postgres
) -> None:
    table = home.raw("s")
    with lease(home, table):
        pass
    with Writer(home, server) as other:
        assert other.says() == "held"
        with pytest.raises(LeaseHeld, match=rf"now: process {other.process.pid} on "), lease(home, table):
            pass
        other.process.send_signal(signal.SIGKILL)
        with lease(home, table, timeout_s=20):
            _append(table, "successor")

    assert _told(table) == [None, "raw/s 3", "raw/s 3"]
    sealed = [
        open_table(home.root / name).metadata().configuration.get(PROPERTY) for name in ("raw/s", "ledger/s")
    ]
    assert sealed == ["raw/s 3", "raw/s 3"]
    assert open_table(home.raw("another")).version() == 0


@pytest.mark.parametrize("kind", ["prepared", "unprepared"])
def test_a_writer_that_was_paused_past_its_lease_commits_nothing(
    home: Home, server: Postgres, kind: str
) -> None:
    table = home.raw("s")
    with lease(home, table):
        pass
    with Writer(home, server, kind, silent_s=1.5) as paused:
        assert paused.says() == "held"
        if kind == "prepared":
            # It goes on saying words for longer than it may be silent.
            time.sleep(2)
            assert is_held(home, table)
        paused.process.send_signal(signal.SIGSTOP)
        with lease(home, table, timeout_s=30):
            before = open_table(table).version()
            paused.process.send_signal(signal.SIGCONT)
            assert paused.go_on().startswith("LeaseLost this process has lost its leases on raw/s (number 2)")
            assert open_table(table).version() == before
            _append(table, "successor")

    assert _who(table) == ["successor"]


@pytest.mark.parametrize("kind", ["prepared", "unprepared"])
def test_a_writer_of_a_table_on_a_store_that_was_paused_past_its_lease_commits_nothing(
    home: Home, server: Postgres, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with running() as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        home = replace(home, store=f"s3://{BUCKET}/tables")
        table = home.raw("s")
        create_table(table, COLUMNS)
        with lease(home, table):
            pass
        with Writer(home, server, kind, silent_s=1.5) as paused:
            assert paused.says() == "held"
            paused.process.send_signal(signal.SIGSTOP)
            with lease(home, table, timeout_s=30):
                before = open_table(table)
                assert before.metadata().configuration.get(PROPERTY) == "raw/s 3"
                paused.process.send_signal(signal.SIGCONT)
                assert paused.go_on().startswith(
                    "LeaseLost this process has lost its leases on raw/s (number 2)"
                )
                assert open_table(table).version() == before.version()
                _append(table, "successor")

        assert [row["by"] for row in read_rows(table)] == ["successor"]


def test_a_database_that_dies_is_told_of_and_work_goes_on_when_it_is_back(
    home: Home, server: Postgres
) -> None:
    table = home.raw("s")
    with pytest.raises(LeaseLost, match=r"lost its leases on raw/s \(number 1\)") as lost, lease(home, table):
        _append(table, "before")
        server.kill()
        _append(table, "after")
    with pytest.raises(ControlUnreachable, match="control store postgresql") as refused, lease(home, table):
        pass
    assert PASSWORD not in f"{lost.value} {refused.value}"
    server.start()
    with lease(home, table):
        _append(table, "again")

    assert _who(table) == ["again", "before"]
    assert _told(table)[-2:] == ["raw/s 2", "raw/s 2"], "sealed, because the one before did not give it back"


def test_a_process_that_is_not_told_of_the_database_is_refused(home: Home, server: Postgres) -> None:
    with lease(home, home.raw("s")):
        pass
    untold = Home(home.root)

    with pytest.raises(place.ControlNotNamed, match="TIDEMARK_CONTROL"), lease(untold, untold.raw("s")):
        pass


def test_threads_of_a_process_share_its_session_and_each_lease_is_one_threads(
    home: Home, server: Postgres
) -> None:
    with ExitStack() as held:
        for name in ("raw/s", "raw/another"):
            held.enter_context(lease(home, home.root / name))
        mine = session_of(server.url)
        assert {name for _, name in mine.held} == {"raw/s", "raw/another"}
        with connect(server.url) as connection:
            sessions = connection.exec_driver_sql(
                "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'"
            ).scalar()
        assert sessions == 1
    assert not mine.held
    assert session.SILENT_S == 60

"""The rows of a home: the same in its own file and in Postgres, on a full disk and after a kill."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.doctor import examine
from lakehouse.home_checks import Finding
from lakehouse.settings import load_settings
from lakehouse.storage.control.database import ControlUnreachable
from lakehouse.storage.control.schema import VERSION, OtherVersion
from lakehouse.storage.control.store import FILE, store_of
from lakehouse.storage.damaged import DamagedFile
from lakehouse.storage.layout import Home
from tests.storage.control.postgres import Postgres

ROOT = Path(__file__).parents[3]
ADD = (
    "INSERT INTO tidemark_outcomes VALUES (:home, :job, :stream, :outcome) "
    "ON CONFLICT (home, job, stream) DO UPDATE SET outcome = excluded.outcome"
)
ALL = "SELECT job, outcome FROM tidemark_outcomes WHERE home = :home ORDER BY job"
WRITER = """
import sys
from pathlib import Path
from lakehouse.storage.control.store import store_of
from lakehouse.storage.layout import Home
store = store_of(Home(Path(sys.argv[1])))
for number in range(1_000_000):
    store.change(sys.argv[2], job=str(number % 50), stream="s", outcome=str(number) * 500)
    print(number, flush=True)
"""


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """A home that keeps its rows in its file, and one that keeps them in a database."""
    is_shared = request.param == "postgres"
    return Home(tmp_path, control=request.getfixturevalue("server").url if is_shared else None)


def _add(home: Home, job: str, outcome: str = "{}") -> int:
    return store_of(home).change(ADD, job=job, stream="s", outcome=outcome)


def test_a_row_is_changed_and_read_and_a_home_has_its_own(home: Home) -> None:
    text = '{"ü": "a\'b", "n": null} \\u0000'
    assert store_of(home).rows(ALL) == []
    assert [_add(home, "one"), _add(home, "one", text)] == [1, 1]
    assert store_of(home).rows(ALL) == [("one", text)]
    assert not (home.root / FILE).exists() or stat.S_IMODE((home.root / FILE).stat().st_mode) == 0o600

    other = replace(home, root=home.root / "another")
    assert store_of(other).rows(ALL) == []


def test_tables_are_made_once_by_writers_that_come_at_once(tmp_path: Path) -> None:
    first = [threading.Thread(target=_add, args=(Home(tmp_path), str(number))) for number in range(6)]
    for thread in first:
        thread.start()
    for thread in first:
        thread.join()

    assert [job for job, _ in store_of(Home(tmp_path)).rows(ALL)] == [str(number) for number in range(6)]


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (VERSION - 1, "run the older Tidemark that made them, or ingest the landed files"),
        (VERSION + 1, "run the newer Tidemark that made them"),
    ],
)
def test_a_home_of_another_version_is_refused_with_what_to_do(
    tmp_path: Path, version: int, advice: str
) -> None:
    """The older one has a form that was never released: one table, with other columns."""
    (tmp_path / "tidemark.toml").write_text('home = "."\n')
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("CREATE TABLE tidemark_outcomes (name TEXT)")
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    found = rf"control\.sqlite has tables of version {version}, and this Tidemark reads version {VERSION}: {advice}"

    for command in (lambda: load_settings(tmp_path / "tidemark.toml"), lambda: _add(Home(tmp_path), "one")):
        with pytest.raises(OtherVersion, match=found):
            command()
    told = {each.check: each for each in examine(tmp_path / "tidemark.toml")}["configuration"]
    assert (told.state, re.search(found, told.found) is not None) == ("wrong", True)


def test_rows_are_read_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _add(Home(tmp_path), "one")
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda address, **rest: real(address.replace("=rw", "=ro"), **rest)
    )

    assert [job for job, _ in store_of(Home(tmp_path)).rows(ALL)] == ["one"]
    with pytest.raises(ControlUnreachable, match=r"control store .*readonly"):
        _add(Home(tmp_path), "two")


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _add(Home(tmp_path), "one")
    real = sqlite3.connect

    def full(address: str, **rest: object) -> sqlite3.Connection:
        database = real(address, **rest)  # type: ignore[call-overload]
        database.execute("PRAGMA max_page_count = 1")
        return database  # type: ignore[no-any-return]

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", full)
        with pytest.raises(ControlUnreachable, match="database or disk is full"):
            _add(Home(tmp_path), "two", "x" * 100_000)

    assert store_of(Home(tmp_path)).rows(ALL) == [("one", "{}")]


def test_a_file_that_is_no_store_is_named_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"something else" * 100)

    with pytest.raises(
        DamagedFile, match=r"control\.sqlite is damaged .*: restore it from a copy of the home; without"
    ):
        store_of(Home(tmp_path)).rows(ALL)


@pytest.mark.slow
def test_doctor_looks_at_every_page_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('home = "."\n')
    for number in range(40):
        _add(Home(tmp_path), str(number), "x" * 2_000)

    def found() -> Finding:
        return {each.check: each for each in examine(tmp_path / "tidemark.toml")}["control"]

    assert (found().state, found().found) == ("ok", f"{tmp_path / FILE}, tables of version {VERSION}")
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(12 * 4096)
        file.write(b"\xff" * 4096)
    assert found().state == "wrong" and "control.sqlite is damaged" in found().found


def test_a_writer_that_is_killed_leaves_every_row_that_it_had_told_of(tmp_path: Path) -> None:
    for _ in range(2):
        words = [sys.executable, "-c", WRITER, str(tmp_path), ADD]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
        ) as writer:
            assert writer.stdout is not None
            for _ in range(60):
                last = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            last = max([last, *map(int, writer.stdout.read().split("\n")[:-1])])
        found = dict(store_of(Home(tmp_path)).rows(ALL))
        assert found[str(last % 50)] == str(last) * 500
        assert all(len(text) % 500 == 0 for text in found.values())
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


@pytest.mark.slow
def test_the_database_that_dies_is_told_of_and_rows_are_there_when_it_is_back(
    tmp_path: Path, server: Postgres
) -> None:
    home = Home(tmp_path, control=server.url)
    _add(home, "one")
    server.kill()
    with pytest.raises(ControlUnreachable, match="control store postgresql"):
        _add(home, "two")
    server.start()
    _add(home, "three")
    assert [job for job, _ in store_of(home).rows(ALL)] == ["one", "three"]

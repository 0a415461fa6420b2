from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.serving.ask.ask import ask
from lakehouse.serving.publish.gate import PublishRefused
from lakehouse.serving.publish.publish import is_current, publish
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.versions.versions import current_version, versions
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS
from tests.serving.streams import RandomStream, random_rows


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> StreamSnapshot:
    return STREAMS["pair"].write(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, snapshot: StreamSnapshot) -> Path:
    """A home with one version of the stream, for copies: a publish takes half a second."""
    folder = tmp_path_factory.mktemp("published") / "home"
    publish(Home(folder), [snapshot])
    return folder


@pytest.fixture
def home(tmp_path: Path, published: Path) -> Home:
    """A home whose version 1 has the stream."""
    return Home(shutil.copytree(published, tmp_path / "home"))


def changed(snapshot: StreamSnapshot, number: int) -> StreamSnapshot:
    return replace(snapshot, quarantine={"malformed": number})


def test_the_first_publish_is_version_one(tmp_path: Path, snapshot: StreamSnapshot) -> None:
    done = publish(Home(tmp_path), [snapshot])

    assert (done.version, done.is_new, done.totals_compared) == (1, True, len(snapshot.totals))
    assert (tmp_path / "serving" / "current").read_text() == "00000001\n"
    assert sorted(path.name for path in (tmp_path / "serving").glob(".*")) == []


def test_the_same_again_makes_no_new_version(home: Home, snapshot: StreamSnapshot) -> None:
    again = publish(home, [snapshot])

    assert (again.version, again.is_new) == (1, False)
    assert is_current(home, [snapshot])
    assert not is_current(home, [changed(snapshot, 1)])


@pytest.mark.parametrize(
    "change", [{"batch": 99}, {"definition": "other"}, {"latest_us": 1}, {"quarantine": {"clock": 2}}]
)
def test_whatever_readers_would_see_makes_a_new_version(
    home: Home, snapshot: StreamSnapshot, change: dict[str, object]
) -> None:
    assert publish(home, [replace(snapshot, **change)]).version == 2  # type: ignore[arg-type]


@pytest.mark.slow
def test_old_versions_go_and_those_being_read_stay(home: Home, snapshot: StreamSnapshot) -> None:
    with open_published(home) as reader:
        for number in range(1, 5):
            publish(home, [changed(snapshot, number)], keep_versions=2)
        answers = reader.connection.execute("SELECT version FROM publication").fetchall()
        while_read = versions(home.serving)

    assert (answers, while_read) == ([(1,)], [1, 4, 5])
    assert publish(home, [changed(snapshot, 9)], keep_versions=2).removed == (1, 4)


@pytest.mark.parametrize(
    ("field", "by", "message"),
    [
        ("rows", 1, r"pair level 1 grouping 0 measure temp: the rollup has \d+ rows, the new file \d+"),
        ("n", -1, r"measure temp: the rollup has n = \d+, the new file \d+"),
        ("total", 0.5, r"measure temp: the rollup has sum = .*, the new file .*, beyond rounding"),
    ],
)
def test_a_total_that_differs_refuses_the_publish_and_the_pointer_stays(
    home: Home, snapshot: StreamSnapshot, field: str, by: float, message: str
) -> None:
    totals = [
        replace(t, **{field: getattr(t, field) + by})
        if (t.level, t.grouping, t.measure) == (1, 0, "temp")
        else t
        for t in snapshot.totals
    ]

    with pytest.raises(PublishRefused, match=message):
        publish(home, [replace(changed(snapshot, 7), totals=totals)])

    assert (current_version(home.serving), versions(home.serving)) == (1, [1])
    assert list(home.serving.glob(".draft*")) == []


def test_nodes_that_no_total_speaks_of_refuse_the_publish(tmp_path: Path, snapshot: StreamSnapshot) -> None:
    totals = [total for total in snapshot.totals if total.level != 2]

    with pytest.raises(PublishRefused, match=r"level 2 .*the rollup has no total"):
        publish(Home(tmp_path), [replace(snapshot, totals=totals)])


def test_a_lost_node_file_refuses_the_publish(tmp_path: Path, snapshot: StreamSnapshot) -> None:
    with pytest.raises(PublishRefused, match=r"the rollup has \d+ rows, the new file 0"):
        publish(Home(tmp_path), [replace(snapshot, nodes=None)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["publish.segment-written", "publish.file-written", "publish.pointer-moved"]
)
def test_killed_anywhere_the_next_publish_ends_in_one_whole_version(
    tmp_path: Path, snapshot: StreamSnapshot, place: str
) -> None:
    code = (
        "import pickle, sys; from pathlib import Path; from lakehouse.storage.layout import Home\n"
        "from lakehouse.serving.publish.publish import publish\n"
        "publish(Home(Path(sys.argv[1])), [pickle.load(sys.stdin.buffer)])"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        input=pickle.dumps(snapshot),
        env=os.environ | {"TIDEMARK_CRASH_AT": place},
        check=False,
    )

    done = publish(Home(tmp_path), [snapshot])

    assert killed.returncode == -signal.SIGKILL
    assert ask(tmp_path, "pair", "*", "count", 0, 1000)[0].as_of_version == done.version


@pytest.mark.slow
def test_readers_in_a_loop_always_see_one_whole_version(home: Home, snapshot: StreamSnapshot) -> None:
    """Version v holds v records in quarantine: a torn read would show another number."""
    publish(home, [changed(snapshot, 2)])
    seen: list[tuple[int, int]] = []

    with reading(home, seen), reading(home, seen):
        for number in range(3, 9):
            publish(home, [changed(snapshot, number)], keep_versions=1)

    assert {version == records for version, records in seen} == {True}
    assert len({version for version, _ in seen}) > 2
    assert versions(home.serving)[-1] == 8


@contextmanager
def reading(home: Home, seen: list[tuple[int, int]]) -> Iterator[None]:
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            with open_published(home) as reader:
                seen.extend(
                    reader.connection.execute(
                        "SELECT version, records FROM publication, quarantine"
                    ).fetchall()
                )

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_streams_may_come_and_go(tmp_path: Path, home: Home, snapshot: StreamSnapshot) -> None:
    other = RandomStream("other", STREAMS["flat"].levels, random_rows(9, 40, 300)).write(tmp_path / "other")

    publish(home, [other, snapshot])
    both = ask(home, "other", "*", "count", 0, 300)[0].value
    publish(home, [other])

    assert both == 40
    with open_published(home) as reader:
        assert reader.connection.execute("SELECT stream FROM streams").fetchall() == [("other",)]


def test_every_table_and_column_says_what_it_is(published: Path) -> None:
    with open_published(published) as reader:
        bare = reader.connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND NOT internal "
            "AND table_name NOT IN (SELECT view_name FROM duckdb_views())"
        ).fetchall()
        tables = reader.connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE comment IS NULL"
        ).fetchall()

    assert (bare, tables) == ([], [])

"""Manifests as rows: which files and messages were read, and which columns came when."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.stream import Source
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.control.local import LocalStore
from lakehouse.storage.control.manifests import names_in
from lakehouse.storage.control.store import FILE
from lakehouse.storage.layout import Home

ID = "cotmujI_SuCbmLd1Pj57BQ"


def source(folder: Path) -> Source:
    return Source.model_validate({"path": f"{folder}/*.csv", "format": "csv", "settle": 0, "batch_files": 2})


def land(folder: Path, names: str, header: str = "time,temp") -> None:
    for name in names:
        (folder / f"{name}.csv").write_text(f"{header}\n1,2\n")


def shown(store: ManifestStore, source: Source, folder: Path) -> tuple[object, ...]:
    """What can be asked of a landing."""
    paths = [path.name for path in sorted(folder.glob("*.csv"))]
    files = sorted((each.path, each.size, each.fields, dict(each.columns)) for each in store.files_of(paths))
    new = [path for path, _ in store.new_files(source)]
    return (
        store.last_batch,
        new,
        store.changed_files,
        files,
        store.read_until(),
    )


# What comes in: files with these columns, or changed; messages, read or lost; a requeue.
arrivals = st.one_of(
    st.tuples(st.just("files"), st.sampled_from(["time,temp", "time,temp,room", "time", "temp"])),
    st.tuples(st.just("change"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["kafka", "lost", "requeue"]), st.none()),
)


@given(st.lists(arrivals, max_size=25))
@settings(max_examples=40, deadline=None)
def test_a_store_that_is_opened_for_each_step_says_what_one_says_that_stays_open(
    steps: list[tuple[str, object]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked, opened = source(folder), Home(folder / "var").manifests("opened")
        stays = ManifestStore(Home(folder / "var").manifests("stays"))
        for number, step in enumerate(steps):
            stores = [ManifestStore(opened), stays]
            _take(step, number, stores, folder)
            for store in stores:
                store.add_files(asked)
        land(folder, "z", "time,new")

        assert shown(ManifestStore(opened), asked, folder) == shown(stays, asked, folder)
        assert ManifestStore(opened).add_files(asked) == stays.add_files(asked) == 1
        assert ManifestStore(opened).behind(0) == stays.behind(0)
        assert [each.batch for each in stays.behind(0)] == list(range(1, stays.last_batch + 1))


def _take(step: tuple[str, object], number: int, stores: list[ManifestStore], folder: Path) -> None:
    kind, what = step
    if kind == "files":
        land(folder, f"{number:02d}"[-1] + "abc"[number % 3], str(what))
    if kind == "change" and (read := sorted(folder.glob("*.csv"))):
        read[number % len(read)].write_text("time,temp\n" + "1,2\n" * 7)
    given = (OffsetRange("t", number % 3, 5 * number, 5 * number + 5, ID),)
    for store in stores:
        if kind == "kafka":
            store.add_ranges([given])
        if kind == "lost":
            store.give_up(given, store.last_batch + 1)
        if kind == "requeue":
            store.add_requeue(("bad_number",))


def test_a_manifest_is_written_once_by_whichever_store_comes_first(tmp_path: Path) -> None:
    first, second = (ManifestStore(Home(tmp_path / "var").manifests("s")) for _ in range(2))
    first.add_requeue(("first",))

    with pytest.raises(FileExistsError):
        second.add_requeue(("second",))
    assert [each.reasons for each in ManifestStore(first.part).behind(0)] == [("first",)]


def test_columns_are_compared_with_those_of_files_long_ago(tmp_path: Path) -> None:
    land(tmp_path, "a", "time,temp,room")
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(source(tmp_path))
    land(tmp_path, "b", "time,temp")
    store.add_files(source(tmp_path))
    store.add_ranges([()] * 9)
    store = ManifestStore(store.part)

    land(tmp_path, "c", "time,room,floor")
    store.add_files(source(tmp_path))

    assert store.behind(11)[-1].schema_changes == ("c.csv: gained floor", "c.csv: lost temp")


def test_a_question_about_old_files_costs_no_more_behind_many_manifests(tmp_path: Path) -> None:
    """Every question is a search of an index: none goes through the rows of a stream."""
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    land(tmp_path, "abcd")
    store.add_files(source(tmp_path))
    plans = list[str]()
    with closing(sqlite3.connect(tmp_path / "var" / FILE)) as database, pytest.MonkeyPatch.context() as patch:

        def explained(_: object, statement: str, **values: object) -> list[tuple[object, ...]]:
            asked = {"home": "", **values}
            plans.extend(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", asked))
            return database.execute(statement, asked).fetchall()

        patch.setattr(LocalStore, "rows", explained)
        again = ManifestStore(store.part)
        again.new_files(source(tmp_path))
        again.files_of(["a.csv"])
        again.behind(0)
        again.add_files(source(tmp_path), lambda _: False)
        names_in(Home(tmp_path / "var"), "manifests")

    tables = [plan for plan in plans if "tidemark_" in plan or " m " in plan]
    assert tables and not [plan for plan in tables if not plan.startswith("SEARCH")]


HALVED = """
import sys
from dataclasses import replace
from pathlib import Path
from lakehouse.ingest.sources.manifest import halves
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
store = ManifestStore(Home(Path(sys.argv[1])).manifests("s"))
one = store.behind(1)[0]
store.put_in_place(replace(one, kind="split", files=()), *halves(one))
"""


def test_killed_after_a_split_each_file_is_in_one_manifest(tmp_path: Path) -> None:
    land(tmp_path, "abcdefg")
    files = source(tmp_path)
    store = ManifestStore(Home(tmp_path / "var").manifests("s"))
    store.add_files(files)
    environment = os.environ | {"TIDEMARK_CRASH_AT": "ingest.manifest-written"}

    ended = subprocess.run(
        [sys.executable, "-c", HALVED, str(store.part.home.root)], env=environment, check=False
    )

    assert ended.returncode == -signal.SIGKILL
    again = ManifestStore(store.part)
    again.add_files(files)
    assert sorted(os.path.basename(f.path)[0] for m in again.behind(0) for f in m.files) == list("abcdefg")
    assert [each.batch for each in again.behind(0)] == list(range(1, again.last_batch + 1))

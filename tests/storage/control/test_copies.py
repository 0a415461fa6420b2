"""Cost of copies for the taker of a lease: of what is new, however many manifests the stream has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakehouse.queries.runtime.reset_query import forget
from lakehouse.storage.control import copies, place, seal
from lakehouse.storage.control.copies import _PAGE, _SINCE
from lakehouse.storage.control.lease import lease
from lakehouse.storage.control.seal import write_sealed
from lakehouse.storage.control.session import LeaseLost, Session
from lakehouse.storage.layout import Home
from lakehouse.storage.tables import tables_place
from lakehouse.storage.tables.table_commits import create_table
from tests.storage.control.postgres import Postgres
from tests.support.stores.s3 import BUCKET, running

pytestmark = pytest.mark.slow
ROWS, NEW = 20_000, 3
FILL = (
    "INSERT INTO tidemark_files SELECT :home, 'manifests/t/' || n, 'raw/t', n, '{}' "
    "FROM generate_series(1, CAST(:rows AS int)) AS n"
)
COLUMNS = '{"type":"struct","fields":[{"name":"by","type":"string","nullable":true,"metadata":{}}]}'


class Killed(BaseException):
    """What ends a process."""


@pytest.fixture
def home(tmp_path: Path, server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home with tables on a store, whose manifests are rows of the database."""
    root = tmp_path / "home"
    root.mkdir()
    with running() as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        tables_place.use(root, f"s3://{BUCKET}/{tmp_path.name}")
        place.use(root, server.url)
        create_table(Home(root).raw("s"), COLUMNS)
        yield Home(root)
        place.use(root, None)
        tables_place.use(root, None)


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from steps(each)


def test_a_lease_reads_no_row_that_the_home_has_copied(server: Postgres) -> None:
    session = Session(server.url)
    home = "a home of many manifests"
    assert session.take(home, "raw/t", "a test") is not None
    session.change(FILL, home=home, rows=ROWS)
    session.change("ANALYZE tidemark_files")
    values = {"home": home, "copied": json.dumps({"raw/t": ROWS - NEW}), "most": _PAGE}

    found = session.rows(_SINCE, **values)
    [[[told]]] = session.rows(f"EXPLAIN (ANALYZE, FORMAT JSON) {_SINCE}", **values)
    session.give_back(home, "raw/t")

    assert [row[1] for row in found] == [ROWS - 2, ROWS - 1, ROWS]
    read = [each["Actual Rows"] + each.get("Rows Removed by Filter", 0) for each in steps(told["Plan"])]
    assert max(read) == NEW


@pytest.mark.parametrize("end", [Killed, LeaseLost])
def test_a_manifest_whose_writer_ends_before_it_has_the_file_is_copied_with_the_next_lease(
    home: Home, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]
) -> None:
    """Other machines may go on from it, and nobody may write another of its number."""
    manifest = home.manifests("s") / "00000001.json"

    def ends(*_: object, **__: object) -> None:
        raise end

    with monkeypatch.context() as patched, pytest.raises(end), lease(home.raw("s")):
        patched.setattr(seal, "replacing", ends)
        write_sealed(manifest, "its batch", is_new=True)
    assert not manifest.exists()

    with lease(home.raw("s")):
        assert manifest.read_text() == "its batch"


def test_a_file_whose_deletion_was_cut_off_is_deleted_with_the_next_lease(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = home.manifests("s") / "00000001.json"

    def ends(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed), lease(home.raw("s")):
        write_sealed(manifest, "its batch", is_new=True)
        patched.setattr(Path, "unlink", ends)
        copies.drop(manifest)
    assert manifest.exists()

    with lease(home.raw("s")):
        assert not manifest.exists()


def test_what_this_home_has_written_is_not_copied_again(home: Home) -> None:
    manifest = home.manifests("s") / "00000001.json"
    with lease(home.raw("s")):
        write_sealed(manifest, "its batch", is_new=True)
    # As folding does.
    manifest.unlink()

    with lease(home.raw("s")):
        assert not manifest.exists()


@pytest.mark.parametrize("cut_off", ["second row", "note"])
def test_what_a_home_had_before_it_shared_becomes_rows_though_its_first_lease_is_cut_off(
    home: Home, monkeypatch: pytest.MonkeyPatch, cut_off: str
) -> None:
    folder = home.manifests("s")
    folder.mkdir(parents=True)
    for number in range(1, 4):
        (folder / f"0000000{number}.json").write_text(f"{number} with 'quotes', \"others\" and ünïcode")
    asked: list[str] = []
    rows = Session.rows

    def ends_at_the_second_row(session: Session, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        asked.extend([statement] * ("INSERT INTO tidemark_files" in statement))
        if len(asked) == 2:
            raise Killed
        return rows(session, statement, **values)

    def ends(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, suppress(Killed):
        if cut_off == "note":
            patched.setattr(copies, "_note", ends)
        else:
            patched.setattr(Session, "rows", ends_at_the_second_row)
        with lease(home.raw("s")):
            pass
    with lease(home.raw("s")):
        pass

    there = place.place_of(folder)
    assert there is not None
    found = there.session.rows(
        "SELECT path, part, content FROM tidemark_files WHERE home = :home ORDER BY change", home=there.home
    )
    texts = [(path.name, path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert found == [(f"manifests/s/{name}", "raw/s", text) for name, text in texts]
    assert json.loads((home.root / "copies.json").read_text()) == {"raw/s": 3}


def test_a_query_that_is_forgotten_is_forgotten_with_what_this_home_has_folded(home: Home) -> None:
    """Batches of the next query of that name have the same numbers, and other machines have the folded ones."""
    folder = home.batch_manifests("q")
    with lease(home.queries("q")):
        write_sealed(folder / "query", "its definition")
        for number in (1, 2):
            write_sealed(folder / f"batch-{number:08d}", "a batch", is_new=True)
    # As folding does.
    (folder / "batch-00000001").unlink()
    forget(home, "q")

    there = place.place_of(folder)
    assert there is not None
    known = "SELECT path FROM tidemark_files WHERE home = :home AND content IS NOT NULL"
    assert there.session.rows(known, home=there.home) == [] and not folder.exists()
    with lease(home.queries("q")):
        write_sealed(folder / "batch-00000001", "another", is_new=True)

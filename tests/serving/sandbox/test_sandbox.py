from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.serving.publish.publish import publish
from lakehouse.serving.sandbox.sandbox import PublishedReader, SqlFailed, open_published, run_sql
from lakehouse.serving.versions.versions import NotPublished, segment_path
from lakehouse.storage.layout import Home
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.sandbox.payloads import BOMBS, ESCAPES, SECRET, SEGMENT_ESCAPES


@pytest.fixture
def seen() -> list[int]:
    """A name in Python that DuckDB's client could take for a table."""
    return [1]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a secret in a file, behind a link, and in the environment."""
    (tmp_path / "secret.csv").write_text(f"{SECRET}\n", encoding="ascii")
    (tmp_path / "link.csv").symlink_to(tmp_path / "secret.csv")
    monkeypatch.setenv("SECRET", SECRET)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("payload", ESCAPES)
def test_no_statement_gets_out(lakehouse: Lakehouse, outside: Path, seen: list[int], payload: str) -> None:
    before = sorted(outside.iterdir())
    text = payload.format(secret=outside / "secret.csv", folder=outside, name=outside.name)

    with pytest.raises(SqlFailed) as refused:
        run_sql(lakehouse.reader, text, 10, 5.0)

    assert SECRET not in str(refused.value)
    assert sorted(outside.iterdir()) == before


@pytest.mark.parametrize("payload", ESCAPES)
def test_the_locked_connection_alone_holds_too(lakehouse: Lakehouse, outside: Path, payload: str) -> None:
    """Without the list of refused functions: nothing outside is read, written or changed."""
    before = sorted(outside.iterdir())
    text = payload.format(secret=outside / "secret.csv", folder=outside, name=outside.name)

    told = _attempt(lakehouse.reader, text)

    assert SECRET not in told
    assert sorted(outside.iterdir()) == before
    assert lakehouse.reader.connection.execute("SELECT version FROM publication").fetchall() == [(1,)]


def _attempt(reader: PublishedReader, text: str) -> str:
    import duckdb

    cursor = reader.connection.cursor()
    try:
        return str(cursor.execute(text or "SELECT 0").fetchall())
    except (duckdb.Error, RuntimeError) as error:
        return str(error)
    finally:
        cursor.close()


@pytest.mark.slow
@pytest.mark.parametrize("payload", BOMBS, ids=lambda text: text[:40])
def test_what_eats_memory_or_time_is_stopped(lakehouse: Lakehouse, payload: str) -> None:
    began = time.monotonic()

    with pytest.raises(SqlFailed):
        run_sql(lakehouse.reader, payload.replace("{{", "{").replace("}}", "}"), 10, 0.5)

    assert time.monotonic() - began < 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM nodes",
        "FROM range_sum('deep', 'hits', make_timestamp(0), make_timestamp(3000), by := ['device'])",
        "WITH x AS (SELECT 1 AS i) SELECT i FROM x",
        "DESCRIBE nodes",
        "SHOW TABLES",
        "SUMMARIZE levels",
        "VALUES (1), (2)",
        "SELECT 1 -- a remark",
        "SELECT * FROM rollups LIMIT 3;",
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'nodes'",
    ],
)
def test_what_only_reads_is_answered(lakehouse: Lakehouse, text: str) -> None:
    assert run_sql(lakehouse.reader, text, 100, 10.0).rows


def test_rows_come_as_json_knows_them(lakehouse: Lakehouse) -> None:
    result = run_sql(
        lakehouse.reader,
        "SELECT 1 AS i, 'a' AS t, TIMESTAMP '2026-01-02 03:04:05' AS at, 1.50::DECIMAL(5, 2) AS d, [1, NULL] AS l, "
        "MAP {'k': 'v'} AS m, 'nan'::DOUBLE AS f, '\\xAB'::BLOB AS b",
    )

    assert result.columns == ["i", "t", "at", "d", "l", "m", "f", "b"]
    assert result.rows == [[1, "a", "2026-01-02T03:04:05", "1.50", [1, None], {"k": "v"}, "nan", "ab"]]


def test_more_rows_than_allowed_are_cut_and_told(lakehouse: Lakehouse) -> None:
    result = run_sql(lakehouse.reader, "FROM range(10)", 3)

    assert (result.rows, result.truncated) == ([[0], [1], [2]], True)


def test_times_are_utc_whatever_the_zone_of_the_machine(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "TZ", "America/New_York")

    asked = "SELECT TIMESTAMPTZ '2026-07-01 12:00:00' = TIMESTAMPTZ '2026-07-01 12:00:00+00'"
    assert run_sql(lakehouse.reader, asked).rows == [[True]]


def test_an_error_in_the_statement_is_told_in_duckdbs_words(lakehouse: Lakehouse) -> None:
    with pytest.raises(SqlFailed, match="nodez"):
        run_sql(lakehouse.reader, "SELECT * FROM nodez")


def test_a_statement_takes_less_than_half_a_second(lakehouse: Lakehouse) -> None:
    began = time.process_time() + os.times().children_user + os.times().children_system

    run_sql(lakehouse.reader, "FROM levels")

    assert time.process_time() + os.times().children_user + os.times().children_system - began < 0.5


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    """A version that reads a segment beside its own file."""
    folder = tmp_path_factory.mktemp("segmented")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse.serving.segments.merge.OWN_NODES", 1)
        publish(Home(folder), [STREAMS["pair"].write(folder / "pair")])
    with open_published(folder) as reader:
        yield reader


@pytest.mark.slow
@pytest.mark.parametrize("payload", SEGMENT_ESCAPES)
def test_segments_open_no_door(segmented: PublishedReader, outside: Path, payload: str) -> None:
    segment = segment_path(segmented.hold.path.parent, "00000001")
    before, content = sorted(outside.iterdir()), segment.read_bytes()
    text = payload.format(secret=outside / "secret.csv", folder=outside, segment=segment)

    with pytest.raises(SqlFailed) as refused:
        run_sql(segmented, text, 10, 5.0)
    told = "" if payload.startswith("DETACH") else _attempt(segmented, text)

    assert SECRET not in str(refused.value) and SECRET not in told
    assert (sorted(outside.iterdir()), segment.read_bytes()) == (before, content)
    assert run_sql(segmented, "SELECT count(*) > 0 FROM nodes").rows == [[True]]


def test_nothing_published_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(NotPublished, match="run `tidemark run`"):
        open_published(tmp_path)

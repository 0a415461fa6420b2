from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.home.layout import Home
from lakehouse.serving.file.publish import publish
from lakehouse.serving.file.versions import NotPublished, segment_path
from lakehouse.serving.sandbox.sandbox import PublishedReader, SqlFailed, open_published, run_sql
from tests.serving.conftest import STREAMS, Lakehouse

SECRET = "the-secret-that-nobody-may-read"
ESCAPES = [
    # reading files
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_csv('{secret}', header = false)",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{folder}/*.parquet')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM '{folder}/../{name}/secret.csv'",
    "SELECT * FROM 'file://{secret}'",
    "SELECT * FROM 'link.csv'",
    'SELECT * FROM "{secret}"',
    "FROM '{folder}/*.csv'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "WITH x AS (SELECT * FROM read_text('{secret}')) FROM x",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM parquet_metadata('{folder}/x.parquet')",
    "SELECT getenv('SECRET')",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{secret}')",
    "FROM reads_of('{secret}')",
    "FROM nodes_inside('{secret}')",
    "FROM parts_inside('{secret}')",
    "FROM sum_of('{secret}', '{secret}')",
    "FROM increase_of('{secret}', '{secret}')",
    "FROM count_of('{secret}', '{secret}')",
    "FROM avg_of('{secret}', '{secret}')",
    "FROM min_of('{secret}', '{secret}')",
    "FROM max_of('{secret}', '{secret}')",
    "DESCRIBE SELECT * FROM '{secret}'",
    "SUMMARIZE '{secret}'",
    # the Delta reader does its own input and output
    "SELECT * FROM delta_scan('{folder}')",
    "SELECT * FROM delta_scan('https://127.0.0.1:9/x')",
    "SELECT * FROM 'https://127.0.0.1:9/secret.csv'",
    "SELECT * FROM 's3://bucket/secret.csv'",
    # writing
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY nodes TO '{folder}/out.parquet'",
    "EXPORT DATABASE '{folder}/out'",
    "IMPORT DATABASE '{folder}/out'",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t AS SELECT 1",
    "INSERT INTO quarantine VALUES ('x', 'y', 1)",
    "DELETE FROM nodes",
    "UPDATE publication SET version = 9",
    "DROP TABLE nodes",
    # other databases, extensions, settings
    "ATTACH '{folder}/other.duckdb' AS o",
    "ATTACH ':memory:' AS m",
    "ATTACH '{folder}' AS d (TYPE delta)",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/evil.duckdb_extension'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET memory_limit",
    "SET temp_directory = '{folder}'",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA profiling_output = '{folder}/profile'",
    "CREATE SECRET s (TYPE s3)",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_settings()",
    # several statements, prepared ones, macros that shadow ours
    "SELECT 1; DROP TABLE nodes",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/out.csv'",
    "/* SELECT */ ATTACH ':memory:' AS m -- SELECT 1",
    "PREPARE p AS SELECT * FROM read_text('{secret}')",
    "EXECUTE p",
    "CREATE TEMP MACRO range_sum(a, b, c, d) AS TABLE SELECT 42",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')",
    "BEGIN TRANSACTION",
    "USE memory",
    "CHECKPOINT",
    "VACUUM",
    "SELECT json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM seen",
    "",
    "\\0",
]
BOMBS = [
    "SELECT repeat('x', 1000000000)",
    "SELECT lpad('x', 1000000000, 'y')",
    "SELECT count(*) FROM range(100000000000) a, range(100000) b",
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r",
    "SELECT list_sum(list_transform(range(300000000), lambda x: length(x::VARCHAR || 'abcdefghij')))",
    "SELECT printf('%1000000000s', 'x')",
    "SELECT format('{{:2000000000}}', 'x')",
    "SELECT string_agg(md5(i::VARCHAR), '') FROM range(200000000) t(i)",
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "SELECT '" + "x" * 200_000 + "'",
    "SELECT list_sort(list_transform(range(200000000), lambda x: hash(x)))[1]",
]


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


@pytest.mark.parametrize("payload", BOMBS, ids=lambda text: text[:40])
def test_what_eats_memory_or_time_is_stopped(lakehouse: Lakehouse, payload: str) -> None:
    began = time.monotonic()

    with pytest.raises(SqlFailed):
        run_sql(lakehouse.reader, payload.replace("{{", "{").replace("}}", "}"), 10, 0.5)

    assert time.monotonic() - began < 3.5


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


SEGMENT_ESCAPES = [
    "SELECT * FROM read_text('{secret}')",
    "SELECT count(*) FROM read_blob('{segment}')",
    "ATTACH '{segment}' AS again",
    "ATTACH '{folder}/other.duckdb' AS o",
    "DETACH s00000001",
    "USE s00000001",
    "DELETE FROM s00000001.segment.nodes",
    "DROP TABLE s00000001.segment.nodes",
    "CREATE TABLE s00000001.segment.more AS SELECT 1",
    "COPY (SELECT 1) TO '{segment}'",
]


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedReader]:
    """A version that reads a segment beside its own file."""
    folder = tmp_path_factory.mktemp("segmented")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehouse.serving.file.merge.OWN_NODES", 1)
        publish(Home(folder), [STREAMS["pair"].write(folder / "pair")])
    with open_published(folder) as reader:
        yield reader


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

from __future__ import annotations

from contextlib import suppress

import duckdb
import pytest

from lakehouse.serving.sandbox.guard import (
    LONGEST_STATEMENT,
    StatementRefused,
    allowed_functions,
    check_statement,
)
from tests.serving.conftest import Lakehouse

# They read outside, show paths or settings, change what others see, wait, or make huge values in one step.
REFUSED_WORDS = """
    __internal_compress_integral_ubigint __internal_compress_integral_uinteger
    __internal_compress_integral_usmallint __internal_compress_integral_utinyint
    __internal_compress_string_hugeint __internal_compress_string_ubigint __internal_compress_string_uhugeint
    __internal_compress_string_uinteger __internal_compress_string_usmallint __internal_compress_string_utinyint
    __internal_decompress_integral_bigint __internal_decompress_integral_hugeint
    __internal_decompress_integral_integer __internal_decompress_integral_smallint
    __internal_decompress_integral_ubigint __internal_decompress_integral_uhugeint
    __internal_decompress_integral_uinteger __internal_decompress_integral_usmallint __internal_decompress_string
    array_resize arrow_scan arrow_scan_dumb checkpoint create_sort_key current_query current_setting currval
    disable_logging disable_profiling duckdb_approx_database_count duckdb_connection_count
    duckdb_coordinate_systems duckdb_databases duckdb_dependencies duckdb_extensions duckdb_external_file_cache
    duckdb_log_contexts duckdb_logs duckdb_logs_parsed duckdb_memory duckdb_prepared_statements
    duckdb_profiling_settings duckdb_secret_types duckdb_secrets duckdb_sequences duckdb_settings
    duckdb_table_sample duckdb_temporary_files duckdb_variables enable_logging enable_profiling force_checkpoint
    getvariable glob json_execute_serialized_sql json_serialize_plan list_resize lpad nextval pandas_scan
    parquet_bloom_probe
    parquet_file_metadata parquet_full_metadata parquet_kv_metadata parquet_metadata parquet_scan parquet_schema
    parse_duckdb_log_message pg_conf_load_time pg_postmaster_start_time pg_sleep pragma_collations
    pragma_database_size pragma_metadata_info pragma_platform pragma_show pragma_storage_info pragma_table_info
    pragma_user_agent pragma_version python_map_function query query_table read_blob read_csv read_csv_auto
    read_duckdb read_json read_json_auto read_json_objects read_json_objects_auto read_ndjson read_ndjson_auto
    read_ndjson_objects read_parquet read_text repeat repeat_row rpad seq_scan sleep_ms sniff_csv test_all_types
    test_vector_types truncate_duckdb_logs which_secret write_log
"""
REFUSED = frozenset(REFUSED_WORDS.split())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1; SELECT 2", "found 2 statements"),
        ("DROP TABLE nodes", "another kind of statement"),
        ("SELEC 1", "syntax error"),
        ("SELECT upper(rePeat('x', 3))", r"repeat\(\) is not allowed"),
        ("SELECT (SELECT max(content) FROM read_text('x'))", r"read_text\(\) is not allowed"),
        ("SELECT 1 ORDER BY lpad('x', 3, 'y')", r"lpad\(\) is not allowed"),
        ("SELECT current_setting('home_directory')", r"current_setting\(\) is not allowed"),
        ("FROM enable_logging()", r"enable_logging\(\) is not allowed"),
        (
            "SELECT json_serialize_plan('SELECT 1', optimize := true)",
            r"json_serialize_plan\(\) is not allowed",
        ),
        ("FROM duckdb_databases()", r"duckdb_databases\(\) is not allowed"),
        ("FROM duckdb_databases", "duckdb_databases is not allowed"),
        ("SELECT (SELECT count(*) FROM pg_settings)", "pg_settings is not allowed"),
        ('FROM pg_catalog."pg_database"', "pg_database is not allowed"),
        ("SELECT pg_sleep(1)", r"pg_sleep\(\) is not allowed"),
        ("FROM sum_of('nodes', 'nodes')", r"sum_of\(\) is not allowed"),
        ("SELECT no_such_function(1)", r"no_such_function\(\) is not allowed"),
        ("SELECT '" + "x" * LONGEST_STATEMENT + "'", f"at most {LONGEST_STATEMENT} characters"),
        ("SELECT 1\0", "NUL"),
    ],
)
def test_a_refused_statement_is_told_why(lakehouse: Lakehouse, text: str, reason: str) -> None:
    with pytest.raises(StatementRefused, match=reason):
        check_statement(lakehouse.reader.connection, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'repeat(1)'",
        "FROM nodes",
        "SELECT repeat FROM (SELECT 1 AS repeat)",
        "SHOW TABLES",
        "DESCRIBE nodes",
        "SUMMARIZE streams",
        "SELECT table_name, comment FROM duckdb_tables()",
        "FROM information_schema.tables",
        "FROM range_sum('deep', 'temp', TIMESTAMP '1970-01-01', TIMESTAMP '1970-01-02')",
        "SELECT stream, row_number() OVER (ORDER BY nodes DESC), sum(nodes) FILTER (nodes > 1) OVER () FROM streams",
        "SELECT date_trunc('hour', make_timestamp(first_us)) AS hour, quantile_cont(n, 0.5) FROM nodes GROUP BY ALL",
        "SELECT CASE WHEN n > 1 THEN 'a' ELSE coalesce(NULL, 'b') END, n::VARCHAR LIKE '1%' FROM nodes",
        "SELECT list_transform([1, 2], lambda x: x + 1), {'a': 1}.a, MAP {'k': 1}['k'], [1, 2][1:1], 'a' || 'b'",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT max(n) FROM t",
        "FROM generate_series(1, 3) a, range(3) b, (VALUES (1), (2)) c(v)",
    ],
)
def test_a_name_in_a_text_or_a_column_is_no_call(lakehouse: Lakehouse, text: str) -> None:
    check_statement(lakehouse.reader.connection, text)


def test_every_function_of_duckdb_is_allowed_or_is_known_to_be_refused() -> None:
    """A new DuckDB fails here: look at what it brings, then add it to one of the two lists."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type <> 'pragma'"
        ).fetchall()
    known = {name for (name,) in rows}

    assert sorted(known - allowed_functions() - REFUSED) == []
    assert sorted(allowed_functions() & REFUSED) == []
    assert sorted((allowed_functions() | REFUSED) - known) == []


def test_every_view_of_duckdb_is_allowed_or_begins_as_those_that_are_refused() -> None:
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT schema_name, view_name FROM duckdb_views() WHERE internal"
        ).fetchall()

    others = [
        f"{s}.{v}" for s, v in rows if s != "information_schema" and not v.startswith(("duckdb_", "pg_"))
    ]
    assert sorted(others) == [
        *("main.pragma_database_list", "main.sqlite_master", "main.sqlite_schema"),
        *("main.sqlite_temp_master", "main.sqlite_temp_schema"),
    ]


_OF_TEXT = """
    SELECT DISTINCT function_name, len(parameter_types) FROM duckdb_functions()
    WHERE function_type = 'scalar' AND len(parameter_types) BETWEEN 1 AND 3
        AND len(list_filter(parameter_types, lambda kind: kind NOT IN ('VARCHAR', 'JSON', 'ANY'))) = 0
"""


def test_no_allowed_function_evaluates_its_text() -> None:
    """A planner that folds constants calls whatever function a text names."""
    evaluating = []
    with duckdb.connect() as connection:
        for name, count in connection.execute(_OF_TEXT).fetchall():
            texts = ", ".join([r"'SELECT ''evalu'' || ''ated'''"] * count)
            for more in ("", ", optimize := true"):
                with suppress(duckdb.Error):
                    row = connection.execute(f'SELECT "{name}"({texts}{more})').fetchone()
                    evaluating += [name] if row and "evaluated" in str(row[0]) else []

    assert not set(evaluating) & allowed_functions()
    assert "json_serialize_plan" in evaluating

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from lakehouse.serving.publish.build import drafted, write_tables
from lakehouse.serving.publish.macros import create_macros, macros

Macro = tuple[str, ...]


def macros_of(path: Path) -> set[Macro]:
    """Every macro as a reader of the file finds it; DuckDB keeps the names after EXCLUDE in no order."""
    columns = "function_name, function_type, parameters::VARCHAR, macro_definition, ifnull(comment, '')"
    with duckdb.connect(str(path), read_only=True) as connection:
        found = connection.execute(
            f"SELECT {columns} FROM duckdb_functions() WHERE NOT internal AND function_type LIKE '%macro%'"
        ).fetchall()
    return {tuple(re.sub(r"EXCLUDE \(([^)]*)\)", in_order, text) for text in macro) for macro in found}


def in_order(excluded: re.Match[str]) -> str:
    return f"EXCLUDE ({', '.join(sorted(excluded[1].split(', ')))})"


@pytest.mark.parametrize("is_shared", [False, True])
def test_copied_macros_are_those_that_the_statements_create(tmp_path: Path, is_shared: bool) -> None:
    with drafted(tmp_path / "version.duckdb", tmp_path) as connection:
        write_tables(connection, 1, [])
        names = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE database_name = 'draft' AND function_name <> 'lookup_of'"
        ).fetchall()
        for (name,) in names:
            for kind in ("MACRO", "MACRO TABLE"):
                connection.execute(f"DROP {kind} IF EXISTS {name}")
        for created in macros(is_shared=is_shared):
            connection.execute(created)
    with drafted(tmp_path / "copied.duckdb", tmp_path) as connection:
        create_macros(connection, is_shared=is_shared)

    expected, copied = macros_of(tmp_path / "version.duckdb"), macros_of(tmp_path / "copied.duckdb")

    assert len(copied) > 40
    assert copied == {macro for macro in expected if macro[0] != "lookup_of"}


def test_versions_with_segments_read_the_newest_of_their_nodes(tmp_path: Path) -> None:
    for is_shared in (False, True):
        with drafted(tmp_path / f"{is_shared}.duckdb", tmp_path) as connection:
            create_macros(connection, is_shared=is_shared)

    alone, shared = macros_of(tmp_path / "False.duckdb"), macros_of(tmp_path / "True.duckdb")

    assert {macro[0] for macro in shared - alone} == {macro[0] for macro in alone - shared} != set()


def test_no_file_is_left_beside_a_version(tmp_path: Path) -> None:
    with drafted(tmp_path / "version.duckdb", tmp_path) as connection:
        create_macros(connection, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["version.duckdb"]

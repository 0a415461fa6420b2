from __future__ import annotations

import pytest

from lakehouse.serving.sandbox.guard import LONGEST_STATEMENT, StatementRefused, check_statement
from tests.serving.conftest import Lakehouse


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1; SELECT 2", "found 2 statements"),
        ("DROP TABLE nodes", "another kind of statement"),
        ("SELEC 1", "syntax error"),
        ("SELECT upper(rePeat('x', 3))", r"repeat\(\) is not allowed"),
        ("SELECT (SELECT max(content) FROM read_text('x'))", r"read_text\(\) is not allowed"),
        ("SELECT 1 ORDER BY lpad('x', 3, 'y')", r"lpad\(\) is not allowed"),
        ("SELECT '" + "x" * LONGEST_STATEMENT + "'", f"at most {LONGEST_STATEMENT} characters"),
        ("SELECT 1\0", "NUL"),
    ],
)
def test_a_refused_statement_is_told_why(lakehouse: Lakehouse, text: str, reason: str) -> None:
    with pytest.raises(StatementRefused, match=reason):
        check_statement(lakehouse.reader.connection, text)


@pytest.mark.parametrize(
    "text", ["SELECT 'repeat(1)'", "FROM nodes", "SELECT repeat FROM (SELECT 1 AS repeat)"]
)
def test_a_name_in_a_text_or_a_column_is_no_call(lakehouse: Lakehouse, text: str) -> None:
    check_statement(lakehouse.reader.connection, text)

"""A question answered by the macro itself, as SQL asks it."""

from __future__ import annotations

import duckdb

from lakehouse.serving.ask.macros import COLUMNS
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.literals import text, text_map


def whole(connection: duckdb.DuckDBPyConnection, question: Question) -> list[Answer]:
    """Return the answers of the macro of the question's aggregate."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM bucket_{question.aggregate}({text(question.stream)}, {text(question.measure)}, "
        f"[{question.start_us}, {question.end_us}], keys := {text_map(question.where)})"
    ).fetchall()
    return [Answer(*row) for row in rows]

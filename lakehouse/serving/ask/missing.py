"""The rows of a range without a value of the measure that was asked for.

An answer counts values, and the measure ``*`` counts rows; the rest has no value. The ledger says whether a stream has
such rows at all, so most questions need no second one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.literals import text


@dataclass(frozen=True)
class Missing:
    """Number of rows without a value; both are estimates unless ``is_exact``."""

    rows: int
    missing: int
    is_exact: bool

    @property
    def sentence(self) -> str:
        """The counts as people read them."""
        about = "" if self.is_exact else "about "
        return f"of {about}{self.rows:,} rows {about}{self.missing:,} have no value"


def missing_of(
    connection: duckdb.DuckDBPyConnection, question: Question, answers: Sequence[Answer]
) -> Missing | None:
    """Return how many rows behind answers have no value, None if all have one; the question must have been checked.

    By keys, a key without values has no answer, but its rows count. With a limit, only keys that have an answer count.
    """
    lacking = (
        f"SELECT 1 FROM ledger WHERE stream = {text(question.stream)} "
        f"AND map_extract(missing, {text(question.measure)})[1] > 0 LIMIT 1"
    )
    if question.measure == "*" or connection.execute(lacking).fetchone() is None:
        return None
    counted = answer(connection, replace(question, measure="*", aggregate="count", exact=False, limit=None))
    if question.limit:
        keys = [one.key for one in answers]
        counted = [one for one in counted if one.key in keys]
    rows, values = (sum(one.rows for one in each) for each in (counted, answers))
    if rows <= values:
        return None
    is_exact = all(one.rows_low == one.rows_high for one in (*counted, *answers))
    return Missing(rows, rows - values, is_exact)

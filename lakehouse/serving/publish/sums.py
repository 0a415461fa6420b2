"""Sums of doubles as two columns, in DuckDB: lakehouse/algorithms/rollup/runs.py as macros of a publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_TOGETHER = "(a + b)"
_SEEN = f"({_TOGETHER} - a)"
# A step is a lambda, because a macro repeats its argument wherever it names it.
_MACROS = f"""
    CREATE OR REPLACE TEMP MACRO two_sum(a, b) AS
        {{total: {_TOGETHER}, carry: (a - ({_TOGETHER} - {_SEEN})) + (b - {_SEEN})}};
    CREATE OR REPLACE TEMP MACRO quick_sum(a, b) AS {{total: {_TOGETHER}, carry: b - {_SEEN}}};
    CREATE OR REPLACE TEMP MACRO added(x, y) AS list_transform(list_transform(
        [{{high: two_sum(x.total, y.total), low: two_sum(x.carry, y.carry)}}],
        lambda s: {{high: quick_sum(s.high.total, s.high.carry + s.low.total), rest: s.low.carry}}),
        lambda s: quick_sum(s.high.total, s.rest + s.high.carry))[1];
    CREATE OR REPLACE TEMP MACRO totalled(pairs) AS
        CASE WHEN len(pairs) > 1 THEN list_reduce(pairs, lambda x, y: added(x, y)) ELSE pairs[1] END;
"""


def create_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Create ``added`` and ``totalled``: the sum of two pairs {total, carry}, and of a list of them."""
    connection.execute(_MACROS)


def pairs(total: str, carry: str) -> str:
    """Return SQL for the list that ``totalled`` adds up, of the rows of a group."""
    return f"list({{total: {total}, carry: ifnull({carry}, 0.0)}}) FILTER ({total} IS NOT NULL)"


def is_known(total: str, carry: str) -> str:
    """Return SQL for whether all sums of a group have their carries."""
    return f"bool_and({carry} IS NOT NULL) FILTER ({total} IS NOT NULL)"

"""Conditions as the parser reads and ``arrow_sql`` evaluates them, beside a yardstick that shares no code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.tasks.arrow_sql import mask_of
from lakehouse.queries.selection.query import SelectionQuery
from tests.oracles.queries.conditions import Node, Row, conditions_of, rows_of
from tests.queries.declared_streams import stream_of

STREAM = stream_of(
    columns={
        "count": "int",
        "other": "int",
        "volts": {"type": "decimal", "decimals": 3},
        "amps": {"type": "decimal", "decimals": 18},
        "heat": "double",
        "flag": "boolean",
        "open": "boolean",
    }
)
TYPES = {
    "device": pa.string(),
    "room": pa.string(),
    "count": pa.int64(),
    "other": pa.int64(),
    "volts": pa.decimal128(38, 3),
    "amps": pa.decimal128(38, 18),
    "temp": pa.float64(),
    "heat": pa.float64(),
    "flag": pa.bool_(),
    "open": pa.bool_(),
}
ROWS = rows_of(60, seed=1)
CONDITIONS = conditions_of(10_000, seed=2)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()], [*TYPES]
    )


def read(conditions: list[Node]) -> list[str]:
    """Return what a query has of conditions that are joined by AND."""
    where = " AND ".join(node.sql for node in conditions)
    query = parse_query("q", f"SELECT device FROM readings WHERE {where}", {"readings": STREAM})
    assert isinstance(query, SelectionQuery)
    return [each.text for each in query.conjuncts]


def holds(node: Node) -> list[bool]:
    return [node.of(row) is True for row in ROWS]


@pytest.mark.parametrize("count", [2_500, pytest.param(10_000, marks=pytest.mark.long)])
def test_random_conditions_hold_for_the_rows_that_sql_says(count: int) -> None:
    conditions, batch, different = CONDITIONS[:count], batch_of(ROWS), []

    for first in range(0, count, 50):
        some = conditions[first : first + 50]
        texts = read(some)
        if len(texts) < len(some):
            # Two spellings of one condition are one.
            texts = [text for node in some for text in read([node])]
        for node, text in zip(some, texts, strict=True):
            found = np.asarray(mask_of(text)(batch)).astype(bool).tolist()
            if found != holds(node):
                different.append((node.sql, found, holds(node)))

    assert different == []


def test_every_operator_occurs_in_them_negated_and_not() -> None:
    operators = frozenset[str]().union(*(node.operators for node in CONDITIONS[:2_500]))

    assert operators >= {
        "Like",
        "ILike",
        "Escape",
        "negate",
        "In",
        "Between",
        "Is",
        "NullSafeEQ",
        "NullSafeNEQ",
        "Not",
        "Mod",
    }

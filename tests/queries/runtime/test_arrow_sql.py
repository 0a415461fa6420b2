"""Conditions as Arrow masks beside Spark, which has the last word on what SQL means."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.arrow_sql import mask_of
from lakehouse.queries.selection.query import SelectionQuery
from tests.queries.declared_streams import stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = stream_of(
    columns={
        "count": "int",
        "volts": {"type": "decimal", "decimals": 3},
        "flag": "boolean",
        "other": "int",
    }
)
ROWS = pa.table(
    {
        "device": pa.array(["a", "Ab", "", None, "a%c", "a\nb", " a ", "ß"]),
        "room": pa.array(["a", "ab", None, None, "b", "a_c", "A", "ss"]),
        "temp": pa.array([1.0, -2.5, 0.0, None, 1e300, 0.1, -0.0, 3.0]),
        "count": pa.array([1, -7, 0, None, 2**62, 5, 3, 10], pa.int64()),
        "other": pa.array([1, 7, None, None, -(2**62), 4, 3, 11], pa.int64()),
        "volts": pa.array(
            [Decimal(v) if v else None for v in ("1.000", "0.001", "-7.5", "", "9", "0", "3.1", "10")],
            pa.decimal128(38, 3),
        ),
        "flag": pa.array([True, False, None, True, False, True, None, False]),
    }
)
CONDITIONS = (
    *("temp > 0", "temp <= 0.1", "0 = temp", "temp <> 1", "count < 3", "count >= 3.5", "count = 5e0"),
    *("volts > 0.5", "volts = 1", "volts < count", "volts <= temp", "count = other", "count < other"),
    *(
        "device = 'a'",
        "device <> 'a'",
        "device < room",
        "device LIKE 'a%'",
        "device LIKE '_b'",
        "device ILIKE 'A%'",
    ),
    *("NOT device LIKE 'a%'", "device IN ('a', 'x')", "device NOT IN ('a', NULL)", "count IN (1, 5, NULL)"),
    *(
        "count IS NULL",
        "count IS NOT NULL",
        "flag",
        "NOT flag",
        "flag = TRUE",
        "flag IS TRUE",
        "flag IS NOT TRUE",
    ),
    *("flag <=> NULL", "count <=> other", "device <=> room", "temp > 0 OR flag", "NOT (temp > 0 AND flag)"),
    *("temp + count > 0", "temp * 2 - 1 < count", "count / 2 = 2.5", "count % 3 = 1", "-count % 3 = -1"),
    *(
        "ABS(count) = 7",
        "ABS(temp - 1) <= 1",
        "-count > 0",
        "-temp = 2.5",
        "LOWER(device) = 'ab'",
        "UPPER(room) = 'A'",
    ),
    *("LENGTH(device) > 1", "TRIM(device) = 'a'", "LENGTH(TRIM(device)) = 1", "NOT count BETWEEN 1 AND 5"),
    *("count > 9223372036854775808", "temp IN (1, 0.1)", "(count > 0 OR NULL)", "flag < TRUE", "device > ''"),
)


def test_a_number_with_more_digits_than_a_decimal_column_is_compared_exactly() -> None:
    """Spark rounds it to the column's digits, so that 0.001 would not be more than 0.0005."""
    (batch,) = ROWS.to_batches()

    found = np.asarray(mask_of("`volts` > 0.0005")(batch)).astype(bool)

    assert found.tolist() == [True, True, False, False, True, False, True, True]


@pytest.mark.spark
def test_a_mask_says_what_spark_says(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS)
    (batch,) = ROWS.to_batches()
    told, said = {}, {}

    for text in CONDITIONS:
        query = parse_query("q", f"SELECT * FROM readings WHERE {text}", {"readings": STREAM})
        assert isinstance(query, SelectionQuery)
        masks = [np.asarray(mask_of(each.text)(batch)).astype(bool) for each in query.conjuncts]
        told[text] = np.logical_and.reduce(masks).tolist()
        where = " AND ".join(each.text for each in query.conjuncts)
        said[text] = [row[0] for row in frame.selectExpr(f"coalesce({where}, false)").collect()]

    assert told == said

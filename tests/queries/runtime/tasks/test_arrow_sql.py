"""Conditions and columns of Arrow rows beside Spark, which has the last word on what SQL means."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.tasks.arrow_sql import mask_of, one_batch, select, where
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
        # The last is of the year 9999, where doubles are a multiple of 32 microseconds apart.
        "event_us": pa.array([1, 9, 9, 0, -9, 0, 0, 253402300799999999], pa.int64()),
        "arrival_us": pa.array([0, 3, None, 0, 0, -6, 9, 253402300799999993], pa.int64()),
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
    *(
        "UPPER(room) = 'SS'",
        "UPPER(device) = 'SS'",
        "LOWER(device) = 'ß'",
        "room ILIKE 'S_'",
        "device ILIKE '%SS'",
    ),
    # Infinity less itself is no number: to Spark it is above all others.
    *("temp * 1e300 * 1e300 - temp * 1e300 * 1e300 > 5", "temp * 1e300 * 1e300 - temp * 1e300 * 1e300 = 0"),
    *(
        "temp * 1e300 * 1e300 - temp * 1e300 * 1e300 <= 5",
        "temp < temp * 1e300 * 1e300 - temp * 1e300 * 1e300",
    ),
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


# What kinds of query make of raw rows.
COLUMNS = (
    *("device", "`temp` AS `t`", "3 AS side", "false AS is_refused", "0L AS `key`", "'online' AS found"),
    *(
        "CAST(NULL AS string) AS none",
        "CAST(NULL AS decimal(38,3)) AS less",
        "CAST(`room` AS string) AS same",
    ),
    "xxhash64(device, `count`, `flag`) AS `row`",
    "IF(`device` IS NOT NULL AND `volts` IS NOT NULL, xxhash64(`device`, `volts`), NULL) AS `joined`",
    "CAST(pmod(xxhash64(xxhash64(`room`), 0L), 8) AS int) AS bucket",
    "xxhash64(`temp`) AS of_double",
    "xxhash64(3) AS of_short",
    "coalesce(event_us - arrival_us > 5, false) AS is_ahead",
    "`device` IS NULL OR `room` IS NULL AS is_unusable",
    "CAST(`volts` AS double) AS volts",
    "CAST(CAST(`count` AS DOUBLE) * CAST(`temp` AS DOUBLE) + 1 AS double) AS v_0",
    "CAST(CASE WHEN NOT `device` IS NULL THEN CAST(1 AS DOUBLE) END AS double) AS v_1",
    "CASE WHEN other > 0 THEN (temp + temp) / other END AS mean",
    "`other` > 3 AS is_new",
)


@pytest.mark.spark
def test_a_column_is_what_spark_makes_of_it(spark: SparkSession) -> None:
    expected = spark.createDataFrame(ROWS).selectExpr(*COLUMNS).toArrow()

    found = select(one_batch(ROWS), COLUMNS)

    assert found.schema.names == expected.schema.names
    for name in found.schema.names:
        assert (name, found.schema.field(name).type) == (name, expected.schema.field(name).type)
        assert (name, found[name].to_pylist()) == (name, expected[name].to_pylist())


def test_rows_are_let_through_by_a_condition_and_without_one() -> None:
    batch = one_batch(ROWS)

    assert (
        where(batch, "temp > 0 AND flag").to_pylist() == where(where(batch, "flag"), "temp > 0").to_pylist()
    )
    assert where(batch, None) is batch
    assert select(where(batch, "false"), ["device", "1 AS one"]).num_rows == 0


def test_decimals_become_the_nearest_doubles() -> None:
    """What Arrow itself makes of many is the double beside it."""
    texts = [f"{number}.{number % 1000:03d}" for number in range(-50_000, 50_000, 7)]
    batch = one_batch(pa.table({"v": pa.array(map(Decimal, texts), pa.decimal128(38, 3))}))

    assert select(batch, ["CAST(`v` AS double) AS v"])["v"].to_pylist() == [float(text) for text in texts]


def test_a_function_that_no_column_has_is_refused() -> None:
    with pytest.raises(ValueError, match="found reflect"):
        select(one_batch(ROWS), ["reflect(device) AS x"])

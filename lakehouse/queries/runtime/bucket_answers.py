"""The answers of a batch's buckets, as one table whose ``kind`` says what a row is: made by Spark or in this process.

Starting Spark's tasks takes longer than all work on a batch of ten thousand rows. This process therefore reads the
rows of a small batch and runs its buckets one after the other. Both make the same rows with the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from math import gcd
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.queries.runtime.bucket import METRICS
from lakehouse.spark.ddl import schema_of

# This process runs a batch of at most so many rows.
MOST_ROWS_HERE = 500_000
# But not if its buckets' answers are larger than this, as where each row has thousands of partners.
MOST_BYTES_HERE = 256 << 20

# Rows in Spark, or in this process.
Rows: TypeAlias = DataFrame | pa.Table
# The work of a task on one bucket: its number, its rows, and the rows that belong to them -> rows of the answer.
Work = Callable[[tuple[pa.Scalar, ...], pa.Table, pa.Table], pa.Table]


def fit_here(rows: int) -> bool:
    """Return whether this process handles so many rows, rather than Spark."""
    return rows <= MOST_ROWS_HERE


class TooLarge(Exception):
    """The answers of a batch's buckets are larger than this process may hold."""


def by_bucket(rows: Rows, others: Rows, work: Work, columns: str) -> Rows:
    """Return the answers of all buckets, from each bucket's rows and the other rows that belong to it.

    Raises:
        TooLarge: in this process, beyond ``MOST_BYTES_HERE``.
    """
    if isinstance(rows, pa.Table):
        return _by_bucket_here(rows, others, work, to_arrow_schema(schema_of(columns)))

    # Spark reads a function's parameters from its signature, which an object with __call__ does not have.
    def one(key: tuple[pa.Scalar, ...], rows: pa.Table, others: pa.Table) -> pa.Table:
        return work(key, rows, others)

    return rows.groupBy("bucket").cogroup(others.groupBy("bucket")).applyInArrow(one, schema_of(columns))


def in_new_buckets(rows: Rows, old: int, new: int) -> Rows:
    """Return the rows of old buckets for each new bucket that takes rows of theirs; ``parent`` is the old one."""
    common = gcd(old, new)
    if isinstance(rows, pa.Table):
        steps = np.arange(0, new, common)
        taken = rows.take(pa.array(np.repeat(np.arange(len(rows)), len(steps))))
        bucket = (rows["bucket"].to_numpy()[:, None] % common + steps).ravel().astype(np.int32)
        at = rows.schema.get_field_index("bucket")
        return taken.append_column("parent", taken["bucket"]).set_column(at, "bucket", pa.array(bucket))
    children = F.expr(f"sequence(parent % {common}, {new - 1}, {common})")
    return rows.withColumn("parent", F.col("bucket")).withColumn("bucket", F.explode(children))


def of_kind(answers: Rows, kind: str, columns: Mapping[str, str]) -> Rows:
    """Return the rows of a kind; ``columns`` maps their new names to the names in the answers."""
    if isinstance(answers, pa.Table):
        rows = answers.filter(pc.equal(answers["kind"], kind))
        return rows.select(list(columns.values())).rename_columns(list(columns))
    return answers.where(F.col("kind") == kind).select(
        *(F.col(old).alias(new) for new, old in columns.items())
    )


def between(rows: Rows, number: str, first: int, last: int) -> Rows:
    """Return the rows with a number from the first to the last."""
    if isinstance(rows, pa.Table):
        return rows.filter((pc.field(number) >= first) & (pc.field(number) <= last))
    return rows.where(F.col(number).between(first, last))


def all_of(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, which have the same kind and columns."""
    if isinstance(parts[0], pa.Table):
        return pa.concat_tables(parts)
    return reduce(DataFrame.unionByName, parts)


def count_of(answers: Rows, kind: str) -> int:
    """Return how many rows of a kind there are."""
    rows = of_kind(answers, kind, {"kind": "kind"})
    return rows.num_rows if isinstance(rows, pa.Table) else rows.count()


def bucket_metrics(answers: Rows, names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the metrics of each bucket."""
    rows = of_kind(answers, METRICS, {"bucket": "bucket", **{name: f"f_{name}" for name in names}})
    if isinstance(rows, pa.Table):
        found: list[dict[str, Any]] = rows.to_pylist()
        return found
    return [row.asDict() for row in rows.collect()]


def with_constants(rows: Rows, constants: Mapping[str, str | int | None]) -> Rows:
    """Return rows with additional constant columns, whose types come from the table."""
    if isinstance(rows, pa.Table):
        for name, value in constants.items():
            rows = rows.append_column(
                name, pa.nulls(len(rows)) if value is None else pa.repeat(value, len(rows))
            )
        return rows
    return rows.withColumns({name: F.lit(value) for name, value in constants.items()})


@contextmanager
def computed_once(answers: Rows) -> Iterator[Rows]:
    """Keep Spark's answers in memory while they are written."""
    if isinstance(answers, pa.Table):
        yield answers
        return
    kept = answers.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _by_bucket_here(rows: pa.Table, others: pa.Table, work: Work, schema: pa.Schema) -> pa.Table:
    found, size = [schema.empty_table()], 0
    for bucket in np.union1d(rows["bucket"].to_numpy(), others["bucket"].to_numpy()):
        own = (each.filter(pc.equal(each["bucket"], bucket)).combine_chunks() for each in (rows, others))
        found.append(work((pa.scalar(bucket, pa.int32()),), *own))
        size += found[-1].nbytes
        if size > MOST_BYTES_HERE:
            raise TooLarge(f"{len(found) - 1} buckets answer {size:,} bytes")
    return pa.concat_tables(found)

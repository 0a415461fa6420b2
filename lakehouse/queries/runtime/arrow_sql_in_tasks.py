"""Conditions and columns of a DataFrame, which Spark's tasks evaluate with ``arrow_sql``, as this process does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from lakehouse.queries.runtime import arrow_sql
from lakehouse.queries.runtime.reading import Columns
from lakehouse.queries.runtime.scan.task import READER, Work


def select(rows: DataFrame, columns: Sequence[str], where: str | None = None) -> DataFrame:
    """Return columns, given as SQL, of the rows for which a condition holds; without a condition, of all rows."""
    texts = [*columns, *([where] if where else [])]
    read = rows.select(*(F.col(f"`{name}`") for name in sorted(arrow_sql.columns_read(texts))))
    work = _Work(tuple(columns), where)
    return read.mapInArrow(work.run, from_arrow_schema(work.schema(to_arrow_schema(read.schema))))


def passed(raw: DataFrame, columns: Columns, work: Work) -> DataFrame:
    """Return the rows of a side that the only reader of a scan lets through; ``columns`` are what it reads."""
    read = raw.select(*(F.col(f"`{name}`") for name in columns.rows.schema.names))

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work.run(arrow_sql.one_batch(arrow_sql.select(batch, columns.columns)) for batch in batches)

    found = read.mapInArrow(scan, from_arrow_schema(work.answer))
    return found.where(F.col(READER) == 0)


@dataclass(frozen=True)
class _Work:
    columns: tuple[str, ...]
    where: str | None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from arrow_sql.select(arrow_sql.where(batch, self.where), self.columns).to_batches()

    def schema(self, read: pa.Schema) -> pa.Schema:
        return arrow_sql.select(arrow_sql.one_batch(read.empty_table()), self.columns).schema

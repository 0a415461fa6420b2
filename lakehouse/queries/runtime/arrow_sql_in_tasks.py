"""Conditions and columns of a DataFrame, which Spark's tasks evaluate with ``arrow_sql``, as this process does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from lakehouse.queries.runtime import arrow_sql


def select(rows: DataFrame, columns: Sequence[str], where: str | None = None) -> DataFrame:
    """Return columns, given as SQL, of the rows for which a condition holds; without a condition, of all rows."""
    texts = [*columns, *([where] if where else [])]
    read = rows.select(*(F.col(f"`{name}`") for name in sorted(arrow_sql.columns_read(texts))))
    work = _Work(tuple(columns), where)
    return read.mapInArrow(work.run, from_arrow_schema(work.schema(to_arrow_schema(read.schema))))


@dataclass(frozen=True)
class _Work:
    columns: tuple[str, ...]
    where: str | None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from arrow_sql.select(arrow_sql.where(batch, self.where), self.columns).to_batches()

    def schema(self, read: pa.Schema) -> pa.Schema:
        return arrow_sql.select(arrow_sql.one_batch(read.empty_table()), self.columns).schema

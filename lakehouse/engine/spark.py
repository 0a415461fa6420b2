"""Kernels as Spark jobs, one for each call: DataFrames and Arrow functions only, so that any kind of session runs them.

map       numbers of items --> mapInArrow(kernel) --> entries and figures
by_key    numbers of items --> mapInArrow(read) --> rows, packed by key --> applyInArrow(kernel) --> the same
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakehouse.engine.contract import Kernel, KeyedKernel
from lakehouse.engine.faults import received
from lakehouse.engine.tasks import (
    ERROR,
    KEY,
    PACKED,
    OverItems,
    OverKeys,
    Packing,
    as_bytes,
    notes_of,
    with_error,
)
from lakehouse.engine.work import work_here
from lakehouse.spark.cluster import context_of, parallelism
from lakehouse.spark.session import is_local, naming_death

# Tasks for each core, so that cores that have long items leave the others to the rest.
_TASKS_A_CORE = 4


class SparkEngine:
    """Makes each call one Spark job; memory of the driver: the items, and what kernels return."""

    def __init__(self, session: SparkSession, cores: int | None = None) -> None:
        self._session = session
        self._cores = cores

    @property
    def cores(self) -> int:
        """Number of tasks that run at a time."""
        if self._cores is None:
            with naming_death():
                self._cores = parallelism(self._session)
        return self._cores

    @property
    def is_local(self) -> bool:
        """True if tasks run on this machine."""
        return is_local(self._session)

    def map(self, items: pa.Table, kernel: Kernel, schema: pa.Schema, step: str) -> pa.Table:
        """Run a kernel once for each item, in one job."""
        if not items.num_rows:
            return schema.empty_table()
        return self._collected(self._over(items, kernel, schema, step), schema, step, self._tasks(items))

    def by_key(
        self,
        items: pa.Table,
        read: Kernel,
        rows_schema: pa.Schema,
        key: str,
        kernel: KeyedKernel,
        schema: pa.Schema,
        step: str,
    ) -> pa.Table:
        """Run a kernel once for each key, in one job with a shuffle."""
        if not items.num_rows:
            return schema.empty_table()
        rows = self._over(items, Packing(read, rows_schema, key), PACKED, step)
        task = OverKeys(kernel, schema, step)
        found = rows.groupBy(KEY).applyInArrow(lambda key, rows: task(key, rows), _spark_schema(schema))
        return self._collected(found, schema, step, self._tasks(items))

    def _over(self, items: pa.Table, kernel: Kernel, schema: pa.Schema, step: str) -> DataFrame:
        # Items go with the function, not as rows: Spark puts rows that come from Arrow into one partition.
        task = OverItems(as_bytes(items), kernel, schema, step)
        numbers = self._session.range(0, items.num_rows, 1, self._tasks(items))
        return numbers.mapInArrow(lambda batches: task(batches), _spark_schema(schema))

    def _tasks(self, items: pa.Table) -> int:
        return min(int(items.num_rows), _TASKS_A_CORE * self.cores)

    def _collected(self, found: DataFrame, schema: pa.Schema, step: str, tasks: int) -> pa.Table:
        with self._described(step), naming_death():
            rows = found.toArrow()
        failed, met_in, shuffled_bytes = notes_of(rows[ERROR].drop_null().to_pylist())
        work_here().add(1, tasks + len(met_in), shuffled_bytes)
        if failed:
            raise received(failed[0])
        return rows.filter(pc.is_null(rows[ERROR])).drop_columns(ERROR).cast(schema)

    @contextmanager
    def _described(self, step: str) -> Iterator[None]:
        """Let Spark's pages call the jobs of this thread by what they do, and by Airflow's task that does it."""
        asking = [value for name in ("DAG_ID", "TASK_ID") if (value := os.environ.get(f"AIRFLOW_CTX_{name}"))]
        step = f"{'.'.join(asking)}: {step}" if asking else step
        context = context_of(self._session)
        if context is None:
            # A server's clients describe nothing; a tag holds no comma.
            tag = step.replace(",", ";")
            self._session.addTag(tag)
            try:
                yield
            finally:
                self._session.removeTag(tag)
            return
        context.setJobDescription(step)
        try:
            yield
        finally:
            context.setJobDescription(None)


def _spark_schema(schema: pa.Schema) -> Any:
    return from_arrow_schema(with_error(schema.empty_table()).schema)

"""Kernels in this process, one after the other: for tests, and for machines without Java."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakehouse.engine.contract import Kernel, KeyedKernel
from lakehouse.engine.faults import noted


class LocalEngine:
    """Makes the calls of an engine itself; memory: all rows of a step, where rows meet by key."""

    cores, is_local = 1, True

    def map(self, items: pa.Table, kernel: Kernel, schema: pa.Schema, step: str) -> pa.Table:
        """Run a kernel once for each item."""
        return pa.concat_tables([schema.empty_table(), *self._yielded(items, kernel, schema, step)])

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
        """Run a kernel once for each key."""
        rows = pa.concat_tables([rows_schema.empty_table(), *self._yielded(items, read, rows_schema, step)])
        keys = rows[key].to_numpy()
        order = np.argsort(keys, kind="stable")
        numbers, firsts = np.unique(keys[order], return_index=True)
        found = [schema.empty_table()]
        for number, first, end in zip(numbers.tolist(), firsts, [*firsts[1:], len(order)], strict=False):
            own = rows.take(pa.array(order[first:end]))
            try:
                found.append(kernel(number, own).cast(schema))
            except Exception as error:
                raise noted(error, step, number) from error.__cause__
        return pa.concat_tables(found)

    @staticmethod
    def _yielded(items: pa.Table, kernel: Kernel, schema: pa.Schema, step: str) -> Iterator[pa.Table]:
        for item in items.to_pylist():
            try:
                for each in kernel(item):
                    yield each.cast(schema)
            except Exception as error:
                raise noted(error, step, item) from error.__cause__

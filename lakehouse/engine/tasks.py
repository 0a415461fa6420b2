"""The part of a Spark job that runs in a task: kernels over items or keys, and their errors as rows.

An error of a kernel is a result, in a column of its own: the driver raises it as it was, and Spark runs nothing again
that would fail again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.engine.faults import noted, sent

if TYPE_CHECKING:
    from lakehouse.engine.contract import Kernel, KeyedKernel

# No column of a stream has "__" in its name.
ERROR = "kernel__error"


@dataclass(frozen=True)
class OverItems:
    """A kernel over the items whose numbers reach a task; ``key``: a column that errors need a number in."""

    items: bytes
    kernel: Kernel
    schema: pa.Schema
    step: str
    key: str | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the kernel yields of each item, or its error."""
        _one_core()
        items = pa.ipc.open_stream(self.items).read_all()
        for batch in batches:
            for item in items.take(batch.column(0)).to_pylist():
                yield from self._of(item)

    def _of(self, item: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        try:
            for each in self.kernel(item):
                yield from with_error(each.cast(self.schema)).to_batches()
        except Exception as error:
            yield from _failed(noted(error, self.step, item), self.schema, self.key).to_batches()


@dataclass(frozen=True)
class OverKeys:
    """A kernel over the rows of one key after the other."""

    kernel: KeyedKernel
    schema: pa.Schema
    step: str

    def __call__(self, key: Any, rows: pa.Table) -> pa.Table:
        """Return what the kernel returns of a key's rows, its error, or one that came with the rows."""
        _one_core()
        errors = rows[ERROR].drop_null()
        if len(errors):
            return _with(errors.slice(0, 1), self.schema)
        number = int(key[0].as_py())
        try:
            return with_error(self.kernel(number, rows.drop_columns(ERROR)).cast(self.schema))
        except Exception as error:
            return _failed(noted(error, self.step, number), self.schema, None)


def with_error(rows: pa.Table) -> pa.Table:
    """Return rows with the column of errors, of which there are none."""
    return rows.append_column(pa.field(ERROR, pa.binary()), pa.nulls(rows.num_rows, pa.binary()))


def _failed(error: Exception, schema: pa.Schema, key: str | None) -> pa.Table:
    return _with(pa.array([sent(error)], pa.binary()), schema, key)


def _with(errors: Any, schema: pa.Schema, key: str | None = None) -> pa.Table:
    """Return one row that is an error."""
    columns = {
        field.name: pa.array([0], field.type) if field.name == key else pa.nulls(1, field.type)
        for field in schema
    }
    return pa.table({**columns, ERROR: errors})


@cache
def _one_core() -> None:
    # Other cores have other tasks.
    pa.set_cpu_count(1)

"""The part of a Spark job that runs in a task: kernels over items or keys, and their errors as rows.

An error of a kernel is a result, in a column of its own: the driver raises it as it was, and Spark runs nothing again
that would fail again.

Rows that are to meet by key are packed: all rows of a key that a reader yields at once are one value of bytes. Spark
would otherwise take each table apart into rows, sort these, and make tables of them again, which takes most of the
time of a job with many columns.
"""

import ctypes
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from lakehouse.engine.contract import Item, Kernel, KeyedKernel
from lakehouse.engine.faults import noted, sent

# No column of a stream has "__" in its name.
ERROR = "kernel__error"
KEY = "key"
PACKED = pa.schema({KEY: pa.int64(), "rows": pa.binary()})
# A value of bytes is of about so many at most, before it is compressed.
_PACK_BYTES = 32 * 1024 * 1024
_NOTE = struct.Struct(">qq")
_C = ctypes.CDLL(None)
_WRITTEN = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class OverItems:
    """A kernel over the items whose numbers reach a task."""

    items: bytes
    kernel: Kernel
    schema: pa.Schema
    step: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the kernel yields of each item, or its error."""
        _one_core()
        items = from_bytes(self.items)
        for batch in batches:
            for item in items.take(batch.column(0)).to_pylist():
                yield from self._of(item)
                _release()

    def _of(self, item: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        try:
            for each in self.kernel(item):
                yield from with_error(each.cast(self.schema)).to_batches()
        except Exception as error:
            yield from _failed(noted(error, self.step, item), self.schema).to_batches()


@dataclass(frozen=True)
class Packing:
    """A kernel that packs what ``read`` yields by key."""

    read: Kernel
    schema: pa.Schema
    key: str

    def __call__(self, item: Item) -> Iterator[pa.Table]:
        """Yield a key and its rows as bytes, for each key among rows that come at once."""
        for rows in self.read(item):
            yield self._packed(rows.cast(self.schema))

    def _packed(self, rows: pa.Table) -> pa.Table:
        keys = rows[self.key].to_numpy()
        order = np.argsort(keys, kind="stable")
        numbers, firsts = np.unique(keys[order], return_index=True)
        most = max(1, rows.num_rows * _PACK_BYTES // max(rows.nbytes, 1))
        found: list[tuple[int, bytes]] = []
        for number, first, end in zip(numbers.tolist(), firsts, [*firsts[1:], len(order)], strict=False):
            for low in range(first, end, most):
                own = rows.take(pa.array(order[low : min(low + most, end)]))
                found.append((number, as_bytes(own, _WRITTEN)))
        return pa.table({KEY: [key for key, _ in found], "rows": [packed for _, packed in found]}, PACKED)


def as_bytes(rows: pa.Table, options: pa.ipc.IpcWriteOptions | None = None) -> bytes:
    """Return rows as bytes, which ``from_bytes`` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_bytes(content: Any) -> pa.Table:
    """Return rows that ``as_bytes`` made bytes of."""
    return pa.ipc.open_stream(content).read_all()


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
            whole = pa.concat_tables([from_bytes(packed.as_buffer()) for packed in rows["rows"]])
            found = with_error(self.kernel(number, whole).cast(self.schema))
            _release()
            return pa.concat_tables([found, _with(pa.array([_note_of(rows)], pa.binary()), self.schema)])
        except Exception as error:
            return _failed(noted(error, self.step, number), self.schema)


def with_error(rows: pa.Table) -> pa.Table:
    """Return rows with the column of errors, of which there are none."""
    return rows.append_column(pa.field(ERROR, pa.binary()), pa.nulls(rows.num_rows, pa.binary()))


def _note_of(packed: pa.Table) -> bytes:
    """Return the number of this task and the bytes of the rows that met in it, as a row's error that is none."""
    context = TaskContext.get()
    return _NOTE.pack(context.taskAttemptId() if context else 0, packed["rows"].nbytes)


def notes_of(errors: Iterable[bytes]) -> tuple[list[bytes], set[int], int]:
    """Return errors alone; the numbers of the tasks in which rows met, and the bytes of these rows."""
    # A pickled error begins with a byte above those of a number.
    known = [(each, None if each[0] >= 128 else _NOTE.unpack(each)) for each in errors]
    notes = [note for _, note in known if note]
    failed = [each for each, note in known if note is None]
    return failed, {task for task, _ in notes}, sum(size for _, size in notes)


def _failed(error: Exception, schema: pa.Schema) -> pa.Table:
    return _with(pa.array([sent(error)], pa.binary()), schema)


def _with(errors: Any, schema: pa.Schema) -> pa.Table:
    """Return one row that is an error."""
    return pa.table({**{field.name: pa.nulls(1, field.type) for field in schema}, ERROR: errors})


def _release() -> None:
    # What Arrow and C keep for later is as much as a kernel needed, and is lacking beside what the next one holds.
    pa.default_memory_pool().release_unused()
    if trim := getattr(_C, "malloc_trim", None):
        trim(0)


@cache
def _one_core() -> None:
    # Other cores have other tasks.
    pa.set_cpu_count(1)

"""Tables of a batch that is too large for memory, in a temporary file without a name, mapped when they are read."""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections.abc import Callable

import pyarrow as pa

# The function that returns a table: one in memory, or one that it reads back.
Kept = Callable[[], pa.Table]
_ALIGNED = 64


class Spill:
    """A file of tables. Any thread writes or reads them; all are written before the first is read.

    Disk: the bytes of the tables, until this object and the tables read from it are freed, or the process ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="tidemark-")  # noqa: SIM115
        self._lock = threading.Lock()
        self._mapped: pa.Buffer | None = None

    def put(self, table: pa.Table) -> Kept:
        """Write a table; return what reads it back, without a copy."""
        with self._lock:
            start = -(-self._file.tell() // _ALIGNED) * _ALIGNED
            self._file.seek(start)
            with pa.ipc.new_stream(self._file, table.schema) as writer:
                writer.write_table(table)
            size = self._file.tell() - start
        return lambda: pa.ipc.open_stream(self._bytes().slice(start, size)).read_all()

    def _bytes(self) -> pa.Buffer:
        # One thread maps the file; ``cached_property`` lets each do so that comes before the first has done it.
        with self._lock:
            if self._mapped is None:
                self._file.flush()
                self._mapped = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
                self._file.close()
            return self._mapped

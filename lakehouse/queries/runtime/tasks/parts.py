"""Parts of several tables that one task writes, and their entries on the way to the driver."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine.parts import ENTRIES, TableSink

# Entries of parts, each with the number of the sink that wrote it.
SUNK = pa.schema([("sink", pa.int32()), *ENTRIES])
# A task writes the rows that it holds once they are as large as this.
MOST_BYTES = 256 << 20


class Parts:
    """Rows for some sinks, which are held until there are enough for a part."""

    def __init__(self, sinks: Sequence[TableSink]) -> None:
        self._sinks = sinks
        self._held: list[list[pa.Table]] = [[] for _ in sinks]
        self._bytes, self._entries = 0, [SUNK.empty_table()]

    def add(self, sink: int, rows: pa.Table) -> None:
        """Add rows for the sink of this number."""
        self._held[sink].append(rows)
        self._bytes += rows.nbytes
        if self._bytes > MOST_BYTES:
            self._write()

    def entries(self) -> pa.Table:
        """Write what is held; return the entries of all parts."""
        self._write()
        return pa.concat_tables(self._entries)

    def _write(self) -> None:
        for number, (sink, held) in enumerate(zip(self._sinks, self._held, strict=True)):
            entries = sink.write(held)
            numbers = pa.repeat(pa.scalar(number, pa.int32()), len(entries))
            self._entries.append(entries.add_column(0, "sink", numbers).cast(SUNK))
            held.clear()
        self._bytes = 0


def entries_by_sink(found: pa.Table, sinks: int) -> list[pa.Table]:
    """Return the entries that each of some sinks has among rows with other columns."""
    return [found.filter(pc.equal(found["sink"], number)).select(ENTRIES.names) for number in range(sinks)]

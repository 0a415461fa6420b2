"""Lines -> records of delimited text whose quotes span lines: a record ends with the line in which all are closed."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def joined_by_quotes(
    batches: Iterable[pa.RecordBatch], quote: bytes, longest: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of numbered lines, each with the number of its first line and the first fault of its lines.

    Between its lines a record has newlines, whatever ends lines in the file. One whose quotes are still open after more
    than ``longest`` bytes, or at the end, ends there.

    Cost: some passes over the bytes, in Arrow. Memory: a batch, and the longest record.
    """
    rest: pa.RecordBatch | None = None
    for batch in batches:
        lines = batch if rest is None else _stacked(rest, batch)
        rest, records = _cut(lines, quote, longest)
        yield records
    if rest is not None:
        yield _joined(rest, np.zeros(1, np.int64))


def _cut(lines: pa.RecordBatch, quote: bytes, longest: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
    """Return the lines of the last record if it is open still, and the records before it."""
    quotes = pc.count_substring(lines["record"], quote).to_numpy()
    is_open = np.cumsum(quotes) % 2 == 1
    starts = np.flatnonzero(~np.append(False, is_open[:-1]))
    if not len(is_open) or not is_open[-1]:
        return None, _joined(lines, starts)
    last = int(starts[-1])
    size = pc.sum(pc.binary_length(lines["record"].slice(last))).as_py()
    if size > longest:
        return None, _joined(lines, starts)
    return lines.slice(last), _joined(lines.slice(0, last), starts[:-1])


def _joined(lines: pa.RecordBatch, starts: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return the lines from each start up to the next one as one."""
    if len(starts) == lines.num_rows:
        return lines
    offsets = pa.array(np.append(starts, lines.num_rows), pa.int32())
    records = pc.binary_join(
        pa.ListArray.from_arrays(offsets, lines["record"]), pa.scalar(b"\n", pa.binary())
    )
    faults = np.full(len(starts), None, object)
    faulty = np.flatnonzero(lines["fault"].is_valid().to_numpy(zero_copy_only=False))[::-1]
    faults[np.searchsorted(starts, faulty, "right") - 1] = lines["fault"].take(pa.array(faulty)).to_pylist()
    first = lines["source_line"].take(pa.array(starts))
    return pa.record_batch([first, records, pa.array(faults, pa.string())], schema=lines.schema)


def _stacked(first: pa.RecordBatch, then: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([first, then]).combine_chunks().to_batches()[0]

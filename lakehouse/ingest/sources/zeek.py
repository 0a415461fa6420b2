"""The lines of a Zeek log that are none of its records: its header, which a log has once (no pyspark).

The header names the fields of all lines, so lines behind another one, of other fields, cannot be read by it. They are
of two logs that were put together, and are kept with a fault. A header that comes again as it was changes nothing.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FIELDS = b"#fields"


def without_headers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on numbered lines, but for those that begin with ``#``; those behind a header of other fields have a fault.

    Cost: Python per header.
    """
    first: bytes | None = None
    other = 0  # Where the header of the lines stands, where it is not the first one's.
    for batch in batches:
        lines = batch.column(1)
        of_other = np.full(len(lines), other, np.int64)
        for row in np.flatnonzero(_begin(lines, _FIELDS)):
            header = lines[row].as_py()
            first = header if first is None else first
            other = 0 if header == first else int(batch.column(0)[row].as_py())
            of_other[row:] = other
        # A line of JSON names its fields itself.
        of_other[_begin(lines, b"{")] = 0
        told = _told(of_other, batch.column(2))
        found = pa.record_batch([batch.column(0), lines, told], schema=batch.schema)
        yield found.filter(pa.array(~_begin(lines, b"#")))


def _begin(lines: pa.Array, mark: bytes) -> npt.NDArray[np.bool_]:
    begins: npt.NDArray[np.bool_] = pc.starts_with(lines, mark).to_numpy(zero_copy_only=False)
    return begins


def _told(of_other: npt.NDArray[np.int64], faults: pa.Array) -> pa.Array:
    """Return the faults of lines, with that of those behind another header."""
    if not of_other.any():
        return faults
    places, which = np.unique(of_other, return_inverse=True)
    texts = [
        f"other_header: the header at line {place} names other fields than the first one of the file"
        if place
        else None
        for place in places.tolist()
    ]
    return pc.coalesce(faults, pa.array(texts, pa.string()).take(pa.array(which)))

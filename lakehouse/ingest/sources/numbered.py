"""Numbered lines, as files and topics alike become them."""

import pyarrow as pa

LINE_SCHEMA = pa.schema(
    {
        "source_file": pa.string(),
        "source_line": pa.int64(),
        "layout": pa.int32(),
        "record": pa.binary(),
        "fault": pa.string(),
    }
)


def located_lines(
    numbers: pa.Array, records: pa.Array, path: str, layout: int = 0, faults: pa.Array | None = None
) -> pa.Table:
    """Return numbered lines of one file, as ``LINE_SCHEMA`` has them."""
    count = len(numbers)
    files, layouts = pa.repeat(path, count), pa.repeat(pa.scalar(layout, pa.int32()), count)
    faults = pa.nulls(count, pa.string()) if faults is None else faults
    return pa.table([files, numbers, layouts, records, faults], schema=LINE_SCHEMA)


def faulty_line(path: str, fault: str) -> pa.Table:
    """Return the one line that a file is which cannot be read."""
    return located_lines(pa.array([0]), pa.array([b""], pa.binary()), path, -1, pa.array([fault]))

"""Numbered lines of a task, and rows of Parquet, beside which stand the typed rows of those that are plain.

Tasks cut files into lines anyway, in Python: there a plain line is typed in Arrow for a fraction of what Spark takes
for it. Spark gets its row as ``typed``, and no record to parse. Where rows are compared the record goes along too, as
a row that turns out to be a conflict is quarantined with it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.manifest import Layout
from lakehouse.streams.sources.plain_columns import Mask
from lakehouse.streams.sources.plain_lines import can_be_plain, read_plain, read_plain_rows


def typed_lines(lines: pa.RecordBatch, layout: Layout, stream: Stream, path: str) -> pa.Table:
    """Return lines as ``split.numbered_lines`` yields them of a path, in their order, with ``typed``."""
    if not can_be_plain(stream):
        return pa.table(lines)
    found = read_plain(lines, layout, stream, path)
    return _beside(found.rows, pa.table(lines), found.is_plain, stream)


def typed_values(numbers: pa.Array, rows: pa.StructArray, stream: Stream, path: str) -> pa.Table:
    """Return rows of a Parquet file as ``row``, in their order, with their ``source_line`` and ``typed``."""
    lines = pa.table({"source_line": numbers, "row": rows})
    if not can_be_plain(stream):
        return lines
    found = read_plain_rows(pa.RecordBatch.from_struct_array(rows), numbers, stream, path)
    return _beside(found.rows, lines, found.is_plain, stream)


def _beside(rows: pa.Table, lines: pa.Table, is_plain: Mask, stream: Stream) -> pa.Table:
    """Return the plain lines as rows, and the others as they are, in order of lines and items."""
    names = [name for name in rows.column_names if name != "source_line"]
    typed = pa.StructArray.from_arrays([rows[name].combine_chunks() for name in names], names)
    columns = {"source_line": rows["source_line"], "typed": typed}
    if stream.identity:
        # Of several rows of a line one has what they were read from.
        places = pc.index_in(rows["source_line"], lines["source_line"].combine_chunks())
        is_first = pc.equal(rows["source_item"], 0)
        of_first = pc.if_else(is_first, places, pa.scalar(None, pa.int32()))
        said = next(name for name in ("record", "row") if name in lines.column_names)
        columns[said] = lines[said].combine_chunks().take(of_first.combine_chunks())
    others = lines.filter(pa.array(~is_plain))
    both = pa.concat_tables([pa.table(columns), others], promote_options="default")
    items = np.concatenate([rows["source_item"].to_numpy(), np.zeros(others.num_rows, np.int32)])
    order = np.lexsort((items, both["source_line"].to_numpy()))
    return both.take(pa.array(order)) if np.any(np.diff(order) != 1) else both

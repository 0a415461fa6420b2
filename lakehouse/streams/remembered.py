"""Identities that outlive their raw rows: written before retention drops the rows, kept for ``duplicates_within``.

    raw rows        [ dropped                    )[ kept
    remembered                 [ as hashes       )
    known                      [-------------------------------

They are made of what raw holds when its rows go, so a row that was retracted before is not among them. Cost: the
columns of identity and content of the rows that go, a row group at a time; files of forgotten ones go whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import Correction
from lakehouse.home.layout import Home
from lakehouse.home.lease import files_of
from lakehouse.home.table_commits import Parts, commit, open_table
from lakehouse.home.table_files import source
from lakehouse.home.table_log import file_facts, files_between, newest_version
from lakehouse.spark import tables
from lakehouse.streams.identities import REMEMBERED, compared, fingerprints, identity_columns


def remember(layout: Home, stream: Stream, dropped: Correction) -> None:
    """Append the identities of raw rows that a correction is about to drop, as far back as it says; once."""
    known_us, end_us = _span(dropped)
    if not dropped.identity or known_us >= end_us:
        return
    table = layout.remembered(stream.name)
    tables.create(table, "remembered")
    files = files_between(layout.raw(stream.name), ("event_us", known_us, end_us - 1))
    groups = [group for path in files for group in _row_groups(path, stream)]
    parts = [partial(_remembered, *group, stream, dropped) for group, _ in groups]
    schema = pa.schema([(name, pa.int64()) for name in REMEMBERED])
    rows = Parts(schema, parts, [size for _, size in groups])
    tables.append_parts_once(rows, table, f"remember-{stream.name}", dropped.number)


def forget(layout: Home, stream: Stream, before_us: int) -> None:
    """Delete the files of identities that are all of before a time."""
    table = layout.remembered(stream.name)
    if newest_version(table) is None:
        return
    with tables.lease(files_of(table), tables.MERGE_S):
        ends = ((file.path, file.bounds["event_us"][1]) for file in file_facts(table, ("event_us",)))
        gone = [str(path.relative_to(table)) for path, last in ends if last is not None and last < before_us]
        if gone:
            commit(open_table(table), table, [], gone)


def oldest_end(layout: Home, stream: Stream, before_us: int) -> int | None:
    """Return where the files end that hold only identities of before a time, None where there are none."""
    files = file_facts(layout.remembered(stream.name), ("event_us",))
    ends = (last + 1 for _, last in (file.bounds["event_us"] for file in files) if last is not None)
    return max((end for end in ends if end <= before_us), default=None)


def _span(dropped: Correction) -> tuple[int, int]:
    """Return from which time on, and up to which, identities are remembered."""
    start = KEPT_FOREVER_US if dropped.known_from_us is None else dropped.known_from_us
    return start, KEPT_FOREVER_US if dropped.to_us is None else dropped.to_us


def _row_groups(path: Path, stream: Stream) -> Iterator[tuple[tuple[Path, int], int]]:
    """Yield the row groups of a file with their rows; none of a file from before the identity was declared."""
    with pq.ParquetFile(source(path)) as file:
        if {*identity_columns(stream)} <= {*file.schema_arrow.names}:
            for number in range(file.num_row_groups):
                yield (path, number), file.metadata.row_group(number).num_rows


def _remembered(path: Path, group: int, stream: Stream, dropped: Correction) -> pa.Table:
    with pq.ParquetFile(source(path)) as file:
        there = [name for name in ("batch", *compared(stream)) if name in file.schema_arrow.names]
        rows = file.read_row_group(group, columns=there)
    event, (start, end) = rows["event_us"], _span(dropped)
    goes = pc.and_(pc.less(event, end), pc.less_equal(rows["batch"], dropped.through))
    rows = rows.filter(pc.and_(goes, pc.greater_equal(event, start)))
    return fingerprints(rows, stream).sort_by("event_us")

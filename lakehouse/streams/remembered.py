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
    known_us, end_us = dropped.known_from_us, dropped.to_us
    if not dropped.identity or known_us is None or end_us is None or known_us >= end_us:
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
    event, batch = rows["event_us"], rows["batch"]
    goes = pc.and_(pc.less(event, dropped.to_us), pc.less_equal(batch, dropped.through))
    rows = rows.filter(pc.and_(goes, pc.greater_equal(event, dropped.known_from_us)))
    return fingerprints(rows, stream).sort_by("event_us")

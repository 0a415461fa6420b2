"""Identities that outlive their raw rows: written before retention drops the rows, kept for ``duplicates_within``.

    raw rows        [ dropped                    )[ kept
    remembered                 [ as hashes       )
    known                      [-------------------------------

They are made of what raw holds when its rows go, so a row that was retracted before is not among them. Cost: one
Spark job over the columns of identity and content of the rows that go; files of forgotten ones go whole.
"""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, sink_of
from lakehouse.ingest.identities.identities import compared, fingerprints, identity_columns
from lakehouse.ingest.raw_rows import RawRows, raw_columns, raw_items, rows_of
from lakehouse.spark import tables
from lakehouse.storage.control.lease import files_of
from lakehouse.storage.corrections import Correction
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_commits import commit, open_table
from lakehouse.storage.tables.table_log import file_facts, newest_version


def remember(engine: Engine, layout: Home, stream: Stream, dropped: Correction) -> None:
    """Append the identities of raw rows that a correction is about to drop, as far back as it says; once."""
    known_us = KEPT_FOREVER_US if dropped.known_from_us is None else dropped.known_from_us
    end_us = KEPT_FOREVER_US if dropped.to_us is None else dropped.to_us
    if not dropped.identity or known_us >= end_us:
        return
    table, raw = layout.remembered(stream.name), layout.raw(stream.name)
    tables.create(table, "remembered")
    items = raw_items(raw, RawRows(last=dropped.through, from_us=known_us, to_us=end_us))
    columns = raw_columns(raw, compared(stream))
    kernel = partial(_remembered, stream=stream, columns=columns, sink=sink_of(table))
    entries = engine.map(items, kernel, ENTRIES, f"remember identities of {stream.name}")
    commit_entries(table, entries, (f"remember-{stream.name}", dropped.number))


def _remembered(item: Item, stream: Stream, columns: pa.Schema, sink: TableSink) -> Iterator[pa.Table]:
    if {*identity_columns(stream)} <= {*columns.names}:
        rows = (fingerprints(piece, stream).sort_by("event_us") for piece in rows_of(item, columns))
        yield sink.write(rows)


def forget(layout: Home, stream: Stream, before_us: int) -> None:
    """Delete the files of identities that are all of before a time."""
    table = layout.remembered(stream.name)
    if newest_version(table) is None:
        return
    with tables.lease(layout, files_of(table), tables.MERGE_S):
        ends = ((file.path, file.ends("event_us")[1]) for file in file_facts(table))
        gone = [str(path.relative_to(table)) for path, last in ends if last is not None and last < before_us]
        if gone:
            commit(open_table(table), table, [], gone)


def oldest_end(layout: Home, stream: Stream, before_us: int) -> int | None:
    """Return where the files end that hold only identities of before a time, None where there are none."""
    files = file_facts(layout.remembered(stream.name))
    ends = (last + 1 for _, last in (file.ends("event_us") for file in files) if last is not None)
    return max((end for end in ends if end <= before_us), default=None)

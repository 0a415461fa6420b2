"""Index of identities made of what raw holds, and of what is remembered of rows that it holds no more.

Tasks hash the identities of stored rows, and write the hashes to files; the driver makes a run of the index of them.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Item, engine_of
from lakehouse.ingest.aside import delete_aside, read_aside, write_aside
from lakehouse.ingest.batch_records import StreamTables
from lakehouse.ingest.identities.identities import REMEMBERED, definition, hashes_of, identity_columns
from lakehouse.ingest.raw_rows import RawRows, raw_columns, raw_items, rows_of
from lakehouse.storage.identity_index import LARGE, IdentityIndex
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.tables.table_log import newest_version

_FILES = pa.schema({"path": pa.string(), "low": pa.int64(), "high": pa.int64()})
_HASHES = pa.schema({"hash": pa.uint64(), "batch": pa.uint32()})
_REMEMBERED = pa.schema(dict.fromkeys(REMEMBERED, pa.int64()))


def index_before(layout: Home, stream: Stream, batch: int) -> IdentityIndex:
    """Return the index as it is, of what batches before one accepted."""
    return IdentityIndex(layout.identities(stream.name), definition(stream), batch)


def open_index(target: StreamTables, batch: int) -> IdentityIndex:
    """Return the index of what batches before one accepted; batches that it lacks are read from raw."""
    index = index_before(target.layout, target.stream, batch)
    for first, last in index.missing():
        for part in _parts(target, first, last):
            index_stored(target, *part)
    index.merge()
    return index


def index_stored(target: StreamTables, first: int, last: int) -> None:
    """Make what the index has of some batches of what raw holds, and of what is remembered of them beyond it.

    Cost: one Spark job over the files that have such rows; memory: their hashes.
    """
    stream, layout = target.stream, target.layout
    raw, remembered, rows = layout.raw(stream.name), layout.remembered(stream.name), RawRows(first, last)
    columns = raw_columns(raw, identity_columns(stream))
    items = [raw_items(raw, rows)]
    if newest_version(remembered) is not None:
        items.append(raw_items(remembered, rows))
    marks = pa.array(
        [number == 0 for number, each in enumerate(items) for _ in range(each.num_rows)], pa.bool_()
    )
    kernel = partial(_hashed, stream=stream, columns=columns, table=str(raw.absolute()))
    step = f"index identities of {stream.name}, batches {first} to {last}"
    work = pa.concat_tables(items).append_column("is_raw", marks)
    files = engine_of(target.spark).map(work, kernel, _FILES, step).to_pylist()
    hashes = pa.concat_tables([_HASHES.empty_table(), *(read_aside(each["path"]) for each in files)])
    ends = min((each["low"] for each in files), default=0), max((each["high"] for each in files), default=0)
    index = index_before(layout, stream, last)
    index.add(first, last, hashes["hash"].to_numpy(), hashes["batch"].to_numpy(), ends)
    delete_aside(each["path"] for each in files)


def _hashed(item: Item, stream: Stream, columns: pa.Schema, table: str) -> Iterator[pa.Table]:
    """Write the hashes of an item's identities, with their batches, to a file beside a table."""
    parts, times = [_HASHES.empty_table()], list[int]()
    if item["is_raw"] and not {*identity_columns(stream)} <= {*columns.names}:
        return
    for rows in rows_of(item, columns if item["is_raw"] else _REMEMBERED):
        if item["is_raw"]:
            hashes, has_all = hashes_of(rows, stream)
            hashes, rows = hashes[has_all], rows.filter(pa.array(has_all))
        else:
            hashes = rows["identity"].to_numpy().view(np.uint64)
        parts.append(pa.table([hashes, rows["batch"].to_numpy().astype(np.uint32)], _HASHES.names))
        times += [time for time in pc.min_max(rows["event_us"]).as_py().values() if time is not None]
    if times:
        path = write_aside(table, pa.concat_tables(parts))
        yield pa.table({"path": [path], "low": [min(times)], "high": [max(times)]}, _FILES)


def _parts(target: StreamTables, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut batches into parts that fit into memory: their first and their last."""
    rows, start = 0, first
    for entry in read_ledger(target.layout, target.stream.name, first - 1, last):
        if rows and rows + entry.accepted > LARGE:
            yield start, entry.batch - 1
            rows, start = 0, entry.batch
        rows += entry.accepted
    yield start, last

"""Identities that stand again as near as duplicates can: what no raw table should hold. Rows meet by identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.table_rows import TableRows
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import file_items
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.tables.table_reads import pieces_of

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream

# Rows of earlier batches are compared where so many rows are of the same time.
FEW_ROWS = 1_000_000
_ROWS_A_BUCKET = 500_000
_COUNTS = pa.schema({"batch": pa.int64(), "repeated": pa.int64()})
# No column of a stream has "__" in its name.
_BUCKET = pa.field("identity__bucket", pa.int32())


def repeated_identities(
    stream: Stream, raw: TableRows, batches: tuple[int, int], times: tuple[int, int], engine: Engine
) -> Mapping[int, int]:
    """Count per batch, of those after one up to and with another, the rows whose identity stands again.

    ``times``: the earliest and the latest time of these rows. Rows of earlier batches are compared as well where those
    of the same time are few, and always where every batch is asked for. Cost: one Spark job with a shuffle, over the
    files that may have such a row.
    """
    identity = ["record_hash"] if stream.identity_is_record else list(stream.identity)
    since, through = batches
    if not identity:
        return {}
    new = raw.between("batch", since + 1, through)
    low, high = times[0] - stream.repeat_distance_us, times[1] + stream.repeat_distance_us
    around = raw.between("event_us", low, high)
    is_all = since < 0
    chosen = around if is_all or around.count <= FEW_ROWS else new
    compared = (-1 if chosen is around else since, through)
    names = dict.fromkeys([*identity, "event_us", "batch"])
    columns = pa.schema([raw.schema.field(name) for name in names])
    buckets = 1 + chosen.count // _ROWS_A_BUCKET
    found = engine.by_key(
        file_items(chosen.paths),
        partial(_by_identity, columns, identity, buckets, (low, high), compared),
        *(columns.append(_BUCKET), _BUCKET.name),
        partial(_counted, identity=identity, within_us=stream.repeat_distance_us, since=since),
        *(_COUNTS, f"look for repeated identities of {stream.name}"),
    )
    counts = Counter[int]()
    for row in found.to_pylist():
        counts[row["batch"]] += row["repeated"]
    return counts


def repeats(rows: pa.Table, identity: Sequence[str], within_us: int, since: int) -> dict[int, int]:
    """Count rows that follow one of the same identity within a time, by the newer batch of both, where it is new.

    A row that lacks a part of it has no identity, so ingest accepts it however often it comes.
    """
    rows = rows.filter(reduce(and_, (pc.field(name).is_valid() for name in identity)))
    columns = [rows[name] for name in identity]
    codes = [
        column.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        for column in columns
    ]
    event, batch = rows["event_us"].to_numpy(), rows["batch"].to_numpy()
    order = np.lexsort((event, *codes))
    event, batch = event[order], batch[order]
    is_same = np.ones(max(len(order) - 1, 0), np.bool_)
    for code in codes:
        found = code[order]
        is_same &= found[1:] == found[:-1]
    newer = np.maximum(batch[1:], batch[:-1])
    chosen = newer[is_same & (event[1:] - event[:-1] <= within_us) & (newer > since)]
    numbers, counts = np.unique(chosen, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _by_identity(
    columns: pa.Schema,
    identity: Sequence[str],
    buckets: int,
    times: tuple[int, int],
    batches: tuple[int, int],
    item: Item,
) -> Iterator[pa.Table]:
    """Yield the rows of a file between two times and after one batch, with the bucket of their identity."""
    for rows in pieces_of(item["path"], columns):
        event, batch = rows["event_us"].to_numpy(), rows["batch"].to_numpy()
        is_own = (event >= times[0]) & (event <= times[1]) & (batch > batches[0]) & (batch <= batches[1])
        own = rows.filter(pa.array(is_own))
        hashes = xxhash64([own[name] for name in identity], own.num_rows)
        yield own.append_column(_BUCKET, pa.array((hashes % buckets).astype(np.int32)))


def _counted(_: int, rows: pa.Table, identity: Sequence[str], within_us: int, since: int) -> pa.Table:
    found = repeats(rows, identity, within_us, since)
    return pa.table({"batch": list(found), "repeated": list(found.values())}, _COUNTS)

"""Identity and content of rows as columns and as hashes: what makes two rows the same, whichever engine reads them.

Spark and Arrow hash an identity alike. Of a row that raw no longer has only hashes are left: 128 bits of its identity
and 64 of its content (decision 0016 says how likely a mistake is).
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import ORIGIN
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.identity_index import Hashes

REMEMBERED = ("event_us", "batch", "identity", "identity_more", "payload")


def identity_columns(stream: Stream) -> list[str]:
    """Return the columns of raw that make rows the same row."""
    return ["record_hash"] if stream.identity_is_record else list(stream.identity)


def payload_columns(stream: Stream) -> list[str]:
    """Return what a record says; when it was received is not part of that."""
    arrival = stream.arrival_time.column if stream.arrival_time else None
    stored = () if stream.identity_is_record else stream.all_columns
    return ["event_us", *(name for name in stored if name != arrival)]


def compared(stream: Stream) -> list[str]:
    """Return the columns that decide which rows are the same and which of them came first."""
    names = [*identity_columns(stream), *payload_columns(stream), "event_us", "arrival_us", *ORIGIN]
    return list(dict.fromkeys(names))


def definition(stream: Stream) -> str:
    """Return what identities are made of, as a short text: hashes of another definition say nothing."""
    types = {name: sql_type(column) for name, column in stream.all_columns.items()}
    text = ", ".join(f"{name} {types.get(name)}" for name in identity_columns(stream))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hashes_of(rows: pa.Table, stream: Stream) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the same hashes of rows in Arrow, and which rows have one."""
    columns = [rows[name].combine_chunks() for name in identity_columns(stream)]
    has_all = np.ones(rows.num_rows, np.bool_)
    for column in columns:
        has_all &= column.is_valid().to_numpy(zero_copy_only=False)
    return xxhash64(columns, rows.num_rows).view(np.uint64), has_all


def fingerprints(rows: pa.Table, stream: Stream) -> pa.Table:
    """Return what is remembered of rows, in their order; those without an identity are left out.

    A missing value adds nothing to the hash of the content, so a column that is declared later, and that an old row
    lacks, does not make a repeat of it another row.
    """
    hashes, has_all = hashes_of(rows, stream)
    columns = [rows[name].combine_chunks() for name in identity_columns(stream)]
    more = xxhash64(columns, rows.num_rows, np.uint64(int(definition(stream), 16)))
    payload = np.zeros(rows.num_rows, np.uint64)
    for name in payload_columns(stream):
        if name in rows.column_names:
            column = rows[name].combine_chunks()
            is_valid = column.is_valid().to_numpy(zero_copy_only=False)
            payload[is_valid] += xxhash64([column], rows.num_rows, _seed_of(name)).view(np.uint64)[is_valid]
    parts = (hashes.view(np.int64), more, payload.view(np.int64))
    table = pa.table({name: pa.array(values) for name, values in zip(REMEMBERED[2:], parts, strict=True)})
    for position, name in enumerate(REMEMBERED[:2]):
        table = table.add_column(
            position, name, rows[name] if name in rows.column_names else pa.nulls(len(rows))
        )
    return table.filter(pa.array(has_all))


def _seed_of(column: str) -> np.uint64:
    """Return a seed by which equal values of two columns have different hashes."""
    return np.uint64(int.from_bytes(hashlib.sha256(column.encode()).digest()[:8], "little"))

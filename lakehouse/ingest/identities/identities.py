"""Identity and content of rows as columns and as hashes: what makes two rows the same, whichever engine reads them.

Spark and Arrow hash an identity alike, for the index, whose finds are compared by value. Of a row that raw no longer
has only digests are left, which nothing can be compared with: 128 bits of BLAKE2b of its identity, to which nobody
finds another one, and 64 of its content (decision 0016).
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import sql_type
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import ORIGIN
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.identity_index import Hashes

REMEMBERED = ("event_us", "batch", "identity", "digest_high", "digest_low", "payload")


def identity_columns(stream: Stream) -> list[str]:
    """Return the columns of raw that make rows the same row."""
    return ["record_hash"] if stream.identity_is_record else list(stream.identity)


def payload_columns(stream: Stream) -> list[str]:
    """Return what a record says; when it was received is not part of that, unless it tells which record is newer."""
    arrival = stream.arrival_time.column if stream.arrival_time else None
    if stream.revisions and stream.revisions.newest_by == arrival:
        arrival = None
    stored = () if stream.identity_is_record else stream.all_columns
    return ["event_us", *(name for name in stored if name != arrival)]


def compared(stream: Stream) -> list[str]:
    """Return the columns that decide which rows are the same and which of them came first; of revisions all columns."""
    names = [*identity_columns(stream), *payload_columns(stream), "event_us", "arrival_us", *ORIGIN]
    return list(dict.fromkeys([*names, *(stream.all_columns if stream.revisions else ())]))


def definition(stream: Stream) -> str:
    """Return what identities are made of, as a short text: hashes of another definition say nothing."""
    types = {name: sql_type(column) for name, column in stream.all_columns.items()}
    text = ", ".join(f"{name} {types.get(name)}" for name in identity_columns(stream))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hashes_of(rows: pa.Table, stream: Stream) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the same hashes of rows in Arrow, and which rows have one."""
    columns = [rows[name].combine_chunks() for name in identity_columns(stream)]
    has_all = np.ones(rows.num_rows, np.bool_)
    for column in columns:
        has_all &= column.is_valid().to_numpy(zero_copy_only=False)
    return xxhash64(columns, rows.num_rows).view(np.uint64), has_all


def fingerprints(rows: pa.Table, stream: Stream) -> pa.Table:
    """Return what is remembered of rows, in their order; those without an identity are left out.

    A missing value adds nothing to the digest of the content, so a column that is declared later, and that an old row
    lacks, does not make a repeat of it another row. Cost: some three microseconds a row.
    """
    hashes, has_all = hashes_of(rows, stream)
    identity = _digests(rows, identity_columns(stream), definition(stream), 16)
    there = [name for name in payload_columns(stream) if name in rows.column_names]
    payload = _digests(rows, there, "", 8)
    parts = (hashes.view(np.int64), identity[:, 0], identity[:, 1], payload[:, 0])
    table = pa.table({name: pa.array(values) for name, values in zip(REMEMBERED[2:], parts, strict=True)})
    for position, name in enumerate(REMEMBERED[:2]):
        table = table.add_column(
            position, name, rows[name] if name in rows.column_names else pa.nulls(len(rows))
        )
    return table.filter(pa.array(has_all))


def _digests(rows: pa.Table, names: Sequence[str], salt: str, size: int) -> npt.NDArray[np.int64]:
    """Return a digest of the named values of each row, in words of 64 bits."""
    records = [f"{salt};".encode()] * rows.num_rows
    if names and rows.num_rows:
        parts = [_spelt(rows[name].combine_chunks(), name) for name in sorted(names)]
        joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary())).to_pylist()
        records = [begin + record for begin, record in zip(records, joined, strict=True)]
    content = b"".join(hashlib.blake2b(record, digest_size=size).digest() for record in records)
    return np.frombuffer(content, "<i8").reshape(rows.num_rows, size // 8)


def _spelt(column: pa.Array, name: str) -> pa.Array:
    """Return values as bytes that no other value of a column has, behind its name and their length; none for null."""
    if pa.types.is_floating(column.type):
        # Both zeros are one number.
        column = pc.add(column, 0.0)
    text = column if pa.types.is_binary(column.type) else column.cast(pa.string()).cast(pa.binary())
    lengths = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
    nothing, mark = pa.scalar(b"", pa.binary()), pa.scalar(b":", pa.binary())
    whole = pc.binary_join_element_wise(pa.scalar(f"{name}:".encode()), lengths, mark, text, nothing)
    return pc.coalesce(whole, nothing)

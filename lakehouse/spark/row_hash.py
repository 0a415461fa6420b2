"""Spark's ``xxhash64`` of Arrow columns: the same number of a row as Spark has, so that either may make it."""

from collections.abc import Sequence
from decimal import Context

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest import identity_hash
from lakehouse.algorithms.ingest.identity_hash import Hashes


def xxhash64(
    columns: Sequence[pa.Array], rows: int, seed: np.uint64 = identity_hash.SEED
) -> npt.NDArray[np.int64]:
    """Return a hash of each row; a null adds nothing to it. With another seed than Spark's, it is another hash.

    Columns: whole numbers, doubles, booleans, texts, also as dictionaries, and decimals of more than 18 digits, as
    tables have them. Cost: O(bytes); of a first column with few values each value is hashed once.
    """
    found = np.full(rows, seed)
    for place, column in enumerate(columns):
        one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        added = _with_values(one, found, seed if place == 0 else None)
        is_valid = one.is_valid().to_numpy(zero_copy_only=False) if one.null_count else True
        found = np.where(is_valid, added, found)
    return found.view(np.int64)


def _with_values(column: pa.Array, before: Hashes, seed: np.uint64 | None) -> Hashes:
    """Add a column, the first one where a seed is given."""
    if seed is not None and pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        return _with_column(column, before)
    if seed is None:
        return _with_column(column.dictionary_decode(), before)
    of_values = _with_column(column.dictionary, np.full(len(column.dictionary), seed))
    if not len(of_values):
        return before
    return np.asarray(of_values[pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)])


def _with_column(column: pa.Array, before: Hashes) -> Hashes:
    """Add a column; what a null adds is of no meaning."""
    kind = column.type
    if pa.types.is_int32(kind):
        return identity_hash.with_halves(pc.fill_null(column, 0).to_numpy().view(np.uint32), before)
    if pa.types.is_integer(kind):
        return identity_hash.with_integers(pc.fill_null(column, 0).cast(pa.int64()).to_numpy(), before)
    if pa.types.is_floating(kind):
        return identity_hash.with_doubles(pc.fill_null(column, 0.0).to_numpy(), before)
    if pa.types.is_boolean(kind):
        filled = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        return identity_hash.with_halves(filled.astype(np.uint32), before)
    if pa.types.is_decimal(kind):
        column = _unscaled(column)
    texts = pc.fill_null(column.cast(pa.large_binary()), b"")
    _, offsets, content = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return identity_hash.with_bytes(np.frombuffer(content or b"", np.uint8), ends, before)


def _unscaled(column: pa.Array) -> pa.Array:
    """Return the digits of decimals as Java writes whole numbers: big endian, no longer than need be."""
    found = column.dictionary_encode()
    exact = Context(prec=76)
    numbers = [int(value.scaleb(column.type.scale, exact)) for value in found.dictionary.to_pylist()]
    lengths = [(number if number >= 0 else ~number).bit_length() // 8 + 1 for number in numbers]
    written = [n.to_bytes(length, "big", signed=True) for n, length in zip(numbers, lengths, strict=True)]
    return pa.array(written, pa.binary()).take(found.indices)

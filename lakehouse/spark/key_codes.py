"""Exact numbers of keys: equal if and only if the values of all key columns are, whatever their hashes.

Rows meet in a bucket by a hash. Inside it kernels compare these numbers, made of the values themselves.

Whole numbers and decimals are equal by value, whatever their types; beside a double both are doubles. -0.0 equals 0.0,
NaN equals NaN, and null equals nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.spark.comparisons import double


@dataclass(frozen=True)
class KeyCodes:
    """The keys of some rows. ``code`` int64, from 0, dense; ``is_null``: a column of the key is null."""

    code: npt.NDArray[np.int64]
    is_null: npt.NDArray[np.bool_]


def key_codes(tables: Sequence[pa.Table | pa.RecordBatch]) -> list[KeyCodes]:
    """Return the keys of each table's rows: equal numbers, in whichever table, are equal keys.

    The tables hold the key columns alone, in the same order; names may differ, and types if they can be compared.
    Without a column all keys are equal. Cost: O(values), by one hash table for each column.
    """
    ends = np.cumsum([0, *(each.num_rows for each in tables)])
    code, is_null = np.zeros(ends[-1], np.int64), np.zeros(ends[-1], np.bool_)
    for place in range(tables[0].num_columns if tables else 0):
        column = _as_one([each.column(place) for each in tables])
        is_null |= column.is_null().to_numpy(zero_copy_only=False)
        code = code * (len(column) + 1) + _dense(column)
        if place:
            code = _dense(pa.array(code))
    return [KeyCodes(code[a:b], is_null[a:b]) for a, b in pairwise(ends)]


def _dense(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers of a column's values; null has one of its own."""
    indices = column.dictionary_encode("encode").indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def _as_one(columns: Sequence[Any]) -> pa.Array:
    """Return all columns as one of a common type, in which equal values have equal bytes."""
    decoded = [_decoded(each) for each in columns]
    kinds = {each.type for each in decoded if not pa.types.is_null(each.type)}
    if any(map(pa.types.is_floating, kinds)):
        decoded = [_plain_double(double(each)) for each in decoded]
    elif any(map(pa.types.is_decimal, kinds)) and len(kinds) > 1:
        scale = max(kind.scale for kind in kinds if pa.types.is_decimal(kind))
        decoded = [each.cast(pa.decimal256(76, scale)) for each in decoded]
    elif kinds and all(map(pa.types.is_integer, kinds)):
        decoded = [each.cast(pa.int64()) for each in decoded]
    elif kinds:
        [kind] = kinds
        decoded = [each.cast(kind) for each in decoded]
    return pa.concat_arrays(decoded)


def _decoded(column: Any) -> pa.Array:
    """Return a column in one piece, a dictionary as its values, and texts with wide offsets."""
    one = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(one.type):
        one = one.dictionary_decode()
    return one.cast(pa.large_string()) if pa.types.is_string(one.type) else one


def _plain_double(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan")), pc.add(column, 0.0))

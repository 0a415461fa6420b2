"""The order in which rows of a batch are processed, of rows in Arrow.

Rows of files: file by file in path order, line by line. Rows of topics: by arrival time, then topic, partition and
offset, whichever partition they came in; those without an arrival time first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Key = npt.NDArray[Any]


def processing_order(rows: pa.Table, by_arrival: bool, *first: Key) -> npt.NDArray[np.intp]:
    """Return the places of rows in processing order; keys that come ``first`` outrank it, the last of them most."""
    places = rows["source_item"].to_numpy(), rows["source_line"].to_numpy(), _ranks(rows["source_file"])
    keys = (*places, *([_arrivals(rows["arrival_us"])] if by_arrival else []), *first)
    return np.arange(rows.num_rows) if _is_in_order(keys) else np.lexsort(keys)


def _is_in_order(keys: Sequence[Key]) -> bool:
    """Whether rows stand in order of these keys, of which the last counts most: nearly always, as files are read."""
    is_before = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
    is_same = ~is_before
    for key in reversed(keys):
        is_before |= is_same & np.less(key[:-1], key[1:])
        is_same &= np.equal(key[:-1], key[1:])
    return bool(np.all(is_before | is_same))


def _arrivals(times: pa.ChunkedArray) -> Key:
    return np.asarray(pc.fill_null(times, np.iinfo(np.int64).min).to_numpy())


def _ranks(paths: pa.ChunkedArray) -> Key:
    """Return for each text how many distinct ones sort before it; paths are many times fewer than rows."""
    found = paths.combine_chunks()
    if not pa.types.is_dictionary(found.type):
        found = found.dictionary_encode()
    rank = np.argsort(np.argsort(np.array(found.dictionary.to_pylist(), dtype=object)))
    return np.asarray(rank[found.indices.to_numpy()])

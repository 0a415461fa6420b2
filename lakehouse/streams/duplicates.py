"""Find the rows of a batch that repeat an accepted row without reading all of raw: first by hashes, then exactly.

    hashes of the batch's identities -> those that occur twice, or in the index of earlier batches -> suspects
    suspects, and the rows of raw with their hash -> identities and contents compared -> verdicts

The cost is that of the batch, of a search in the index, and of the files of raw that hold a suspect's hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.duplicates import CONFLICT, DUPLICATE, verdicts
from lakehouse.declare.stream import Stream
from lakehouse.home.identity_index import Batches, Hashes
from lakehouse.home.table_log import files_with
from lakehouse.streams.accepted_rows import Wanted, rows_in
from lakehouse.streams.batch_records import StreamTables
from lakehouse.streams.identities import (
    compared,
    identity_columns,
    identity_has_time,
    open_index,
    payload_columns,
)
from lakehouse.streams.lateness import processing_order

# Suspects are compared this many at a time: each takes about 200 bytes of memory.
AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Hashed:
    """A batch's rows by the hash of their identity: those that have one, and their earliest and latest time."""

    batch: int
    hashes: Hashes
    low: int
    high: int


def find_repeats(
    target: StreamTables, hashed: Hashed, rows_of: Callable[[Hashes], pa.Table]
) -> pa.Table | None:
    """Return the rows that are duplicates or conflicts, with their ``verdict``; None for none.

    ``rows_of`` returns the batch's usable rows with given hashes, with all columns named by ``compared``; its other
    columns are kept. The batch's own hashes are added to the index.
    """
    index = open_index(target, hashed.batch)
    unique, counts = np.unique(hashed.hashes, return_counts=True)
    within = target.stream.duplicates_within
    known, batches = index.find(unique, hashed.low - within, hashed.high + within)
    index.add(
        *(hashed.batch, hashed.batch, unique, np.full(len(unique), hashed.batch, np.uint32)),
        (hashed.low, hashed.high),
    )
    suspects = np.union1d(unique[counts > 1], known)
    if not len(suspects):
        return None
    found = []
    for part in np.array_split(suspects, -(-len(suspects) // AT_ONCE)):
        rows, is_known = rows_of(part), np.isin(known, part)
        earlier = _earlier(target, hashed.batch, rows, known[is_known], batches[is_known])
        found.append(judged(rows, earlier, target.stream))
    repeats = pa.concat_tables(found)
    return repeats if repeats.num_rows else None


def count_repeats(repeats: pa.Table | None) -> dict[str, int]:
    """Return how many duplicates and conflicts there are."""
    if repeats is None:
        return {}
    counts = {each["values"]: each["counts"] for each in repeats["verdict"].value_counts().to_pylist()}
    return {"duplicate": counts.get(DUPLICATE, 0), "conflict": counts.get(CONFLICT, 0)}


def conflict_detail(stream: Stream) -> str:
    """Return the detail of a conflict in quarantine."""
    return f"same identity ({', '.join(stream.identity)}) as an accepted row, other content"


def _earlier(
    target: StreamTables, batch: int, rows: pa.Table, hashes: Hashes, batches: Batches
) -> pa.Table | None:
    """Return the accepted rows with some hashes, in some batches, that are close enough in time to be duplicates."""
    if not len(hashes) or not rows.num_rows:
        return None
    stream, times = target.stream, pc.min_max(rows["event_us"]).as_py()
    low, high = times["min"] - stream.duplicates_within, times["max"] + stream.duplicates_within
    exact = np.unique(rows["event_us"].to_numpy()) if identity_has_time(stream) else None
    numbers = np.unique(batches[batches < batch])
    wanted = Wanted(np.unique(hashes), numbers, low, high, exact)
    raw = target.layout.raw(stream.name)
    files = files_with(raw, "batch", numbers.tolist(), ("event_us", low, high)) if len(numbers) else []
    return rows_in(files, wanted, stream, rows.select(compared(stream)).schema)


def judged(rows: pa.Table, earlier: pa.Table | None, stream: Stream) -> pa.Table:
    """Return the rows of a batch that repeat another of its rows or an accepted ``earlier`` one, with a ``verdict``."""
    names = compared(stream)
    both = rows.select(names)
    if earlier is not None:
        both = pa.concat_tables([both, earlier.select(names).cast(both.schema)])
    known = np.arange(both.num_rows) >= rows.num_rows
    identity, payload = _codes(both, identity_columns(stream)), _codes(both, payload_columns(stream))
    order = processing_order(both, True, ~known, identity)
    has_identity = np.all([both[name].is_valid().to_numpy() for name in identity_columns(stream)], axis=0)
    order = order[has_identity[order]]
    found = np.zeros(both.num_rows, np.int8)
    found[order] = verdicts(
        *(identity[order].reshape(-1, 1), payload[order], both["event_us"].to_numpy()[order], known[order]),
        stream.duplicates_within,
    )
    verdict = found[: rows.num_rows]
    return rows.append_column("verdict", pa.array(verdict)).filter(pa.array(verdict != 0))


def _codes(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return a number per row, the same for rows that are equal in these columns; two nulls are equal."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        column = rows[name].combine_chunks()
        if pa.types.is_floating(column.type):
            # 0.0 and -0.0 are the same number.
            column = pc.add(column, 0.0)
        places = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (int(places.max(initial=0)) + 1) + places, return_inverse=True)
    return codes

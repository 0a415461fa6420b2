"""Find the rows of a batch that repeat an accepted row without reading all of raw: first by hashes, then exactly.

    hashes of the batch's identities -> those that occur twice, or in the index of earlier batches -> suspects
    suspects, and the rows of raw with their hash -> identities and contents compared -> verdicts
    suspects, and what is remembered of rows that raw no longer has -> hashes compared -> verdicts

The cost is that of the batch, of a search in the index, and of the files that hold a suspect's hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.duplicates import ACCEPTED, verdicts
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.config.stream import Stream
from lakehouse.ingest.batch_records import StreamTables, processing_order
from lakehouse.ingest.identities.identities import (
    REMEMBERED,
    compared,
    fingerprints,
    hashes_of,
    identity_columns,
    payload_columns,
)
from lakehouse.ingest.identities.revisions import with_revised
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.identity_index import Batches, Hashes
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import file_facts
from lakehouse.storage.tables.tables_place import place_at

# Suspects are compared this many at a time: each takes about 200 bytes of memory.
_AT_ONCE = 1_000_000
_ROW = ("event_us", "batch")


@dataclass(frozen=True)
class Accepted:
    """The rows that earlier batches accepted: the addresses of raw, and of what is remembered of its former rows.

    ``raw_from_us``: since when raw has all rows of whole top nodes; None for always.
    """

    stream: Stream
    raw: str
    remembered: str
    raw_from_us: int | None = None

    @staticmethod
    def of(target: StreamTables) -> Accepted:
        """Return those of a stream's tables."""
        stream, layout = target.stream, target.layout
        kept_us = raw_from(read_corrections(layout, stream.name)) if stream.revisions else None
        if kept_us is not None:
            kept_us = -floor_to(stream.levels[-1].width_us, -kept_us)
        raw, remembered = (str(table(stream.name).absolute()) for table in (layout.raw, layout.remembered))
        return Accepted(stream, raw, remembered, kept_us)


def repeats_of(
    batch: int,
    accepted: Accepted,
    suspects: Hashes,
    known: tuple[Hashes, Batches],
    rows_of: Callable[[Hashes], pa.Table],
) -> pa.Table | None:
    """Return those of a batch's suspects that are duplicates or conflicts, with their ``verdict``; None for none.

    Where rows are revised, also those that are REVISED, of the batch or of accepted ones, which have a ``batch``.

    ``known``: hashes that earlier batches have, and these batches; ``rows_of`` returns the batch's
    usable rows with given hashes, with all columns named by ``compared``; its other columns are kept.
    """
    found = []
    hashes, batches = known
    for part in np.array_split(suspects, -(-len(suspects) // _AT_ONCE)) if len(suspects) else ():
        rows, is_known = rows_of(part), np.isin(hashes, part)
        wanted = _wanted(accepted.stream, batch, rows, hashes[is_known], batches[is_known])
        earlier, remembered = (None, None) if wanted is None else _known(accepted, wanted, rows)
        found.append(judged(rows, earlier, accepted.stream, remembered, accepted.raw_from_us))
    repeats = pa.concat_tables(found) if found else None
    return repeats if repeats is not None and repeats.num_rows else None


def conflict_detail(stream: Stream) -> str:
    """Return the detail of a conflict in quarantine."""
    why = (
        "; raw no longer keeps the rows of its time (keep_raw), so none is revised"
        if stream.revisions
        else ""
    )
    return f"same identity ({', '.join(stream.identity)}) as an accepted row, other content{why}"


def _wanted(stream: Stream, batch: int, rows: pa.Table, hashes: Hashes, batches: Batches) -> _Wanted | None:
    """Return which accepted rows, with some hashes, in some batches, are close enough in time to be repeated."""
    if not len(hashes) or not rows.num_rows:
        return None
    times, apart = pc.min_max(rows["event_us"]).as_py(), stream.repeat_distance_us
    exact = None if apart else np.unique(rows["event_us"].to_numpy())
    numbers = np.unique(batches[batches < batch])
    return _Wanted(np.unique(hashes), numbers, times["min"] - apart, times["max"] + apart, exact)


def _known(accepted: Accepted, wanted: _Wanted, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the accepted rows that are wanted, and what is remembered of those that raw no longer has."""
    schema = rows.select(compared(accepted.stream)).schema.append(pa.field("batch", pa.int64()))
    earlier = _rows_in(wanted.files(place_at(accepted.raw)), wanted, accepted.stream, schema)
    return earlier, _remembered_in(wanted.files(place_at(accepted.remembered)), wanted)


def judged(
    rows: pa.Table,
    earlier: pa.Table | None,
    stream: Stream,
    remembered: pa.Table | None = None,
    raw_from_us: int | None = None,
) -> pa.Table:
    """Return the rows of a batch that repeat another of its rows or an accepted one, with a ``verdict``.

    Accepted are ``earlier`` rows, which are compared by their values, and ``remembered`` ones, by their hashes. Where
    rows are revised, those that are REVISED are among them; since ``raw_from_us`` they can be.
    """
    both = rows
    if earlier is not None:
        both = pa.concat_tables([rows, earlier], promote_options="default")
    known = np.arange(both.num_rows) >= rows.num_rows
    identity, payload = _codes(both, identity_columns(stream)), _codes(both, payload_columns(stream))
    order = processing_order(both, ~known, identity)
    has_identity = np.all([both[name].is_valid().to_numpy() for name in identity_columns(stream)], axis=0)
    order, event = order[has_identity[order]], both["event_us"].to_numpy()
    sorted_rows = _Sorted(identity[order], payload[order], event[order], known[order])
    if remembered is not None and remembered.num_rows:
        sorted_rows, order = _with_remembered(sorted_rows, order, rows, stream, remembered)
    found = np.zeros(both.num_rows, np.int8)
    verdict = verdicts(
        *(sorted_rows.identity.reshape(-1, 1), sorted_rows.payload, sorted_rows.event_us, sorted_rows.known),
        stream.duplicates_within,
    )
    found[order[order >= 0]] = verdict[order >= 0]
    both = both.append_column("verdict", pa.array(found))
    if stream.revisions:
        if earlier is None:
            both = both.append_column("batch", pa.nulls(both.num_rows, pa.int64()))
        is_gone = np.isin(identity, sorted_rows.identity[order < 0])
        is_kept = event >= raw_from_us if raw_from_us is not None else np.True_
        both = with_revised(both, identity, payload, has_identity & ~is_gone & is_kept, stream)
    return both.filter(pc.not_equal(both["verdict"], ACCEPTED))


class _Sorted(NamedTuple):
    """Rows as the kernel of verdicts takes them: by identity, inside one known ones first, then processing order."""

    identity: npt.NDArray[np.int64]
    payload: npt.NDArray[np.int64]
    event_us: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]


def _with_remembered(
    judged_rows: _Sorted, order: npt.NDArray[np.intp], rows: pa.Table, stream: Stream, remembered: pa.Table
) -> tuple[_Sorted, npt.NDArray[np.intp]]:
    """Add what is remembered of accepted rows; their position in the order is -1.

    An identity or content that has the hashes of one of the batch's gets its number, others are of no interest.
    """
    positions = order[order < rows.num_rows]
    mine = fingerprints(rows.take(pa.array(positions)), stream)
    is_mine = order < rows.num_rows
    hashes = [[part[name].to_numpy() for part in (mine, remembered)] for name in REMEMBERED[2:]]
    identity = _matched(hashes[:-1], judged_rows.identity[is_mine])
    payload = _matched(hashes, judged_rows.payload[is_mine])
    # The content of an accepted row that none of the batch repeats is another than all of theirs.
    payload = np.where(payload < 0, judged_rows.payload.max(initial=0) + 1, payload)
    met = identity >= 0
    parts = (
        identity[met],
        payload[met],
        remembered["event_us"].to_numpy()[met],
        np.ones(met.sum(), np.bool_),
    )
    joined = [np.concatenate([more, part]) for more, part in zip(parts, judged_rows, strict=True)]
    both = np.concatenate([np.full(met.sum(), -1), order])
    by_identity = np.lexsort((~joined[3], joined[0]))
    return _Sorted(*(part[by_identity] for part in joined)), both[by_identity]


def _matched(
    hashes: Sequence[Sequence[npt.NDArray[np.int64]]], codes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the code of the row that has the same hashes, for each of the others; -1 where there is none.

    ``hashes``: of each kind those of the rows with these codes, and those of the others.
    """
    stacked = np.stack([np.concatenate(kind) for kind in hashes], axis=1)
    _, number = np.unique(stacked, axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_number = np.full(number.max(initial=0) + 1, -1)
    of_number[number[: len(codes)]] = codes
    return np.asarray(of_number[number[len(codes) :]])


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


@dataclass(frozen=True)
class _Wanted:
    """Wanted rows: of some hashes and batches, between two event times, or of these ``exact`` ones."""

    hashes: Hashes
    batches: Batches
    low: int
    high: int
    exact: npt.NDArray[np.int64] | None

    def files(self, table: Location) -> list[Location]:
        """Return the files of a table that may have such a row, none where there is no table."""
        if not len(self.batches):
            return []
        files = file_facts(table, ("event_us", self.low, self.high))
        return [file.path for file in files if self._may_be_of(*file.ends("batch"))]

    def _may_be_of(self, first: int | None, last: int | None) -> bool:
        """True if a wanted batch lies between two, or these are not known."""
        if first is None or last is None:
            return True
        at = np.searchsorted(self.batches, first)
        return bool(at < len(self.batches) and self.batches[at] <= last)

    def near(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows have such a batch and time."""
        times = rows["event_us"].to_numpy()
        found = (times >= self.low) & (times <= self.high)
        if self.exact is not None:
            found &= np.isin(times, self.exact)
        found[found] = np.isin(rows["batch"].to_numpy()[found], self.batches)
        return np.asarray(found)


def _rows_in(files: Sequence[Location], wanted: _Wanted, stream: Stream, schema: pa.Schema) -> pa.Table:
    """Return the wanted rows of files of raw in the columns of a schema; a row group is held at a time.

    Rows are null in columns that were declared after they came.
    """
    found = [schema.empty_table()]
    for path in files:
        with pq.ParquetFile(source(path)) as file:
            there = set(file.schema_arrow.names)
            # Rows that came before a part of the identity was declared are never compared.
            if set(identity_columns(stream)) <= there:
                found += (_rows_of(file, n, wanted, stream, schema) for n in range(file.num_row_groups))
    return pa.concat_tables(found)


def _rows_of(
    file: pq.ParquetFile, group: int, wanted: _Wanted, stream: Stream, schema: pa.Schema
) -> pa.Table:
    is_near = wanted.near(file.read_row_group(group, columns=list(_ROW)))
    if not is_near.any():
        return schema.empty_table()
    places = np.flatnonzero(is_near)
    identities = file.read_row_group(group, columns=identity_columns(stream)).take(pa.array(places))
    hashes, has_one = hashes_of(identities, stream)
    places = places[has_one & np.isin(hashes, wanted.hashes)]
    if not len(places):
        return schema.empty_table()
    there = [name for name in schema.names if name in file.schema_arrow.names]
    rows = file.read_row_group(group, columns=there).take(pa.array(places))
    for name in set(schema.names) - set(there):
        rows = rows.append_column(name, pa.nulls(len(places), schema.field(name).type))
    return rows.select(schema.names).cast(schema)


def _remembered_in(files: Sequence[Location], wanted: _Wanted) -> pa.Table:
    """Return what files remember of the wanted rows; a row group is held at a time."""
    parts = [pa.schema([(name, pa.int64()) for name in REMEMBERED]).empty_table()]
    for path in files:
        with pq.ParquetFile(source(path)) as file:
            for group in range(file.num_row_groups):
                is_near = wanted.near(file.read_row_group(group, columns=list(_ROW)))
                if is_near.any():
                    rows = file.read_row_group(group, columns=list(REMEMBERED)).filter(pa.array(is_near))
                    hashes = rows["identity"].to_numpy().view(np.uint64)
                    parts.append(rows.filter(pa.array(np.isin(hashes, wanted.hashes))))
    return pa.concat_tables(parts)

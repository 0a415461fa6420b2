"""Raw rows of both streams as a join takes them, each in the buckets where it can meet partners.

    bucket, side, event_us, arrival_us, row, key, n_0 ...     what the kernel reads; source, where sources are watched
    k_0 ...                                                   the columns of the key, whose hash ``key`` is
    batch, source_file, source_line, source_item              the order in which rows are taken in
    o_<name> ...                                              the query's own columns, of the row's side

Rows are taken in by arrival time. Those without one come first, batch by batch in the order of event time: files of one
batch have no order among themselves, so their names decide nothing, and no row is late for what its own batch holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.bucketing import place_in_buckets
from lakehouse.algorithms.late_join.conditions import Condition, scales_of
from lakehouse.algorithms.late_join.contract import MISSING, NO_SOURCE, NO_TIME, Batch, Float64s, Pairs
from lakehouse.config.stream import Stream
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime.exact_numbers import halves_of
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH, column_type, hash_of, output_columns
from lakehouse.queries.runtime.tasks.reading import SideRows, TaskRows
from lakehouse.spark.comparisons import compared
from lakehouse.spark.noted_rows import PLACE

ORDER = ("batch", *PLACE)


def side_rows(
    source: RowSource, query: PairsQuery, streams: Mapping[str, Stream], buckets: int
) -> list[SideRows]:
    """Return the rows of both streams, in their buckets, as tasks read them."""
    sides = [source.read(side, _columns(query, streams, side)) for side in (0, 1)]
    return [
        SideRows(side.files, InBuckets(side.rows, query.condition, buckets, own.numbers))
        for side, own in zip(sides, query.sides, strict=True)
    ]


@dataclass(frozen=True)
class InBuckets:
    """Rows with the bucket in which each is used; some are used in several. ``numbers``: the columns of n_0 ..."""

    rows: TaskRows
    condition: Condition
    buckets: int
    numbers: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.rows.schema.insert(0, pa.field("bucket", pa.int32()))

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files. Raises ValueError when an exact number is beyond what is compared."""
        for batch in self.rows.batches(paths):
            for place, name in enumerate(self.numbers):
                _check_range(batch.column(f"n_{place}"), name)
            yield in_buckets(batch, self.condition, self.buckets)


def in_buckets(rows: pa.RecordBatch, condition: Condition, buckets: int) -> pa.RecordBatch:
    """Return the rows with the bucket in which each is used; some are used in several."""
    positions, bucket = place_in_buckets(condition, as_batch(pa.Table.from_batches([rows])), buckets)
    columns = [pa.array(bucket.astype(np.int32)), *rows.take(pa.array(positions)).columns]
    return pa.record_batch(columns, ["bucket", *rows.schema.names])


def as_batch(rows: pa.Table, first: int | None = None) -> Batch:
    """Return rows as the kernels take them, by their own numbers or by those that begin with ``first``."""
    event = rows["event_us"].to_numpy()
    columns = [name for name in rows.column_names if name.startswith("n_")]
    numbers = [_numbers_of(rows[name].combine_chunks()) for name in columns]
    has_source = "source" in rows.column_names
    return Batch.of(
        rows["side"].to_numpy(),
        event,
        arrival_us=pc.coalesce(rows["arrival_us"], rows["event_us"]).to_numpy(),
        row=rows["row"].to_numpy() if first is None else np.arange(first, first + rows.num_rows),
        key=rows["key"].fill_null(0).to_numpy(),
        missing=rows["key"].is_null().to_numpy(),
        numbers=np.column_stack(numbers) if numbers else np.zeros((len(event), 0)),
        source=rows["source"].fill_null(NO_SOURCE).to_numpy() if has_source else None,
    )


def _numbers_of(column: pa.Array) -> Float64s:
    """Return doubles, or the two words of each decimal, as the kernels take them."""
    if not pa.types.is_decimal(column.type):
        return np.asarray(column.fill_null(np.nan).to_numpy(zero_copy_only=False)).reshape(-1, 1)
    words = halves_of(column).copy()
    if column.null_count:
        words[column.is_null().to_numpy(zero_copy_only=False)] = 0, MISSING
    return words.view(np.float64)


def _check_range(column: pa.Array, name: str) -> None:
    """Raise ValueError if a number of a column is beyond +-2^125 units of its scale."""
    if not pa.types.is_decimal(column.type):
        return
    upper = halves_of(column)[:, 1]
    is_beyond = ((upper < -(2**61)) | (upper >= 2**61)) & column.is_valid().to_numpy(zero_copy_only=False)
    if is_beyond.any():
        found, scale = column[int(np.flatnonzero(is_beyond)[0])].as_py(), column.type.scale
        raise ValueError(
            f"expected numbers of column {name!r} that are below {2**125:.3g} in units of 1e-{scale}, found {found}:"
            " leave such rows out by a condition on the column"
        )


def with_equal_keys(pairs: Pairs, left: pa.Table, right: pa.Table) -> tuple[Pairs, pa.Table, pa.Table]:
    """Return the pairs whose rows have equal keys, and these rows; others have met because their keys' hashes are."""
    keys = [name for name in left.column_names if name.startswith("k_")]
    is_same = [compared("EQ", left[name], right[name]) for name in keys]
    if all(pc.all(each).as_py() is not False for each in is_same):
        return pairs, left, right
    passes = reduce(pc.and_, is_same)
    kept = np.flatnonzero(passes.to_numpy(zero_copy_only=False))
    return pairs[kept], left.filter(passes), right.filter(passes)


def in_order(rows: pa.Table, first: Sequence[str] = ()) -> pa.Table:
    """Return rows in the order in which they are taken in; ``first`` are columns that count before it.

    The order of two rows depends on these two alone: a repair, which reads some rows only, has them in the same one.
    """
    has_none = rows["arrival_us"].is_null()
    columns = {
        "came": rows["arrival_us"].fill_null(NO_TIME),
        "of_batch": pc.if_else(has_none, rows["batch"], 0),
        "due": pc.if_else(has_none, rows["event_us"], 0),
    }
    columns |= {name: rows[name] for name in (*first, "side", *ORDER)}
    keys = [(name, "ascending") for name in (*first, "came", "of_batch", "due", "side", *ORDER)]
    return rows.take(pc.sort_indices(pa.table(columns), keys))


def _columns(query: PairsQuery, streams: Mapping[str, Stream], number: int) -> tuple[str, ...]:
    side = query.sides[number]
    source = () if query.sources is None else (f"{_number_of(query.sources[number])} AS `source`",)
    scales = scales_of(query.condition)
    kinds = ("double" if scales[each] is None else f"decimal(38,{scales[each]})" for each in sorted(scales))
    numbers = zip(side.numbers, kinds, strict=True)
    return (
        f"{number} AS side",
        "event_us",
        "arrival_us",
        f"{ROW_HASH} AS `row`",
        f"{_number_of(side.keys)} AS `key`",
        *source,
        *(f"CAST(`{name}` AS {kind}) AS n_{place}" for place, (name, kind) in enumerate(numbers)),
        *(
            f"CAST(`{name}` AS {column_type(streams, side, name)}) AS k_{place}"
            for place, name in enumerate(side.keys)
        ),
        *ORDER,
        *output_columns(query, streams, number),
    )


def _number_of(columns: Sequence[str]) -> str:
    """Return SQL for a number that tells rows apart by these columns; no columns tell none apart."""
    return hash_of(columns) if columns else "0L"

"""Which rows of a batch repeat an accepted row: the kernel of ``algorithms.ingest.duplicates`` over Spark rows.

Only identities seen more than once reach the kernel; all others are settled by one count per identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import verdicts
from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream

VERDICTS = "source_file string, source_line bigint, source_item int, verdict tinyint"
_ORIGIN = ["source_file", "source_line", "source_item"]


def verdicts_on(
    rows: DataFrame, accepted: DataFrame | None, stream: Stream, times: tuple[int, int]
) -> DataFrame:
    """Return (origin, verdict) of the rows that are duplicates (1) or conflicts (2).

    ``rows`` are the batch's usable rows, with the earliest and latest of their ``times``; ``accepted`` the raw rows
    of earlier batches, None for none. Rows lacking a part of their identity are never compared.
    """
    both, within = _slim(rows, stream, known=False), stream.duplicates_within
    if accepted is not None:
        near = accepted.where(F.col("event_us").between(times[0] - within, times[1] + within))
        both = both.unionByName(_slim(_with_all_columns(near, stream), stream, known=True))
    repeated = both.groupBy("id1", "id2").agg(F.count("*").alias("times"), F.min("known").alias("known"))
    repeated = repeated.where("times > 1 and not known").select("id1", "id2")
    suspects = both.join(repeated, ["id1", "id2"], "left_semi")
    # All rows of an identity must meet in one partition, in processing order, rows of earlier batches first.
    ordered = suspects.repartition("id1").sortWithinPartitions(
        "id1", "id2", F.desc("known"), F.col("arrival_us").asc_nulls_first(), *_ORIGIN
    )
    return ordered.mapInArrow(_judge(within), VERDICTS)


def _with_all_columns(raw: DataFrame, stream: Stream) -> DataFrame:
    """Return raw rows with the columns that were declared after they came: these are null."""
    lacking = {name: column for name, column in stream.all_columns.items() if name not in raw.columns}
    return raw.withColumns({name: F.lit(None).cast(sql_type(column)) for name, column in lacking.items()})


def _slim(rows: DataFrame, stream: Stream, known: bool) -> DataFrame:
    names = ["record_hash"] if stream.identity_is_record else list(stream.identity)
    payload = [*stream.all_columns] if not stream.identity_is_record else []
    complete = rows.where(" and ".join(f"{name} is not null" for name in names))
    return complete.select(
        F.xxhash64(*names).alias("id1"),
        F.xxhash64(F.lit(1), *names).alias("id2"),
        _digest(payload, stream).alias("payload"),
        "event_us",
        "arrival_us",
        *_ORIGIN,
        F.lit(known).alias("known"),
    )


def _digest(names: list[str], stream: Stream) -> Column:
    """A hash of what a record says; when it was received is not part of that."""
    arrival = stream.arrival_time.column if stream.arrival_time else None
    said = [name for name in names if name != arrival]
    # xxhash64 skips nulls, so (null, 1) and (1, null) would be equal: the places of nulls are hashed, too.
    gaps = [F.col(name).isNull() for name in said]
    return F.xxhash64("event_us", *said, *gaps)


def _judge(within_us: int) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collected = [batch for batch in batches if batch.num_rows]
        if not collected:
            return
        table = pa.Table.from_batches(collected)
        identity = np.column_stack([table["id1"].to_numpy(), table["id2"].to_numpy()])
        known = table["known"].to_numpy()
        result = verdicts(
            identity, table["payload"].to_numpy(), table["event_us"].to_numpy(), known, within_us
        )
        verdict_rows = table.select(_ORIGIN).append_column("verdict", pa.array(result, pa.int8()))
        yield from verdict_rows.filter(pa.array((result != 0) & ~known)).combine_chunks().to_batches()

    return judge

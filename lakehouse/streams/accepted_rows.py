"""Rows of raw that may be repeated, read on the driver: of the files that may hold them, few columns, then few rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.declare.stream import Stream
from lakehouse.home.identity_index import Batches, Hashes
from lakehouse.home.table_files import source
from lakehouse.streams.identities import hashes_of, identity_columns

_ROW = ("event_us", "batch")


@dataclass(frozen=True)
class Wanted:
    """Which rows: of some hashes and batches, between two event times, or of these ``exact`` ones."""

    hashes: Hashes
    batches: Batches
    low: int
    high: int
    exact: npt.NDArray[np.int64] | None

    def near(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows have such a batch and time."""
        times = rows["event_us"].to_numpy()
        found = (times >= self.low) & (times <= self.high)
        if self.exact is not None:
            found &= np.isin(times, self.exact)
        found[found] = np.isin(rows["batch"].to_numpy()[found], self.batches)
        return np.asarray(found)


def rows_in(files: Sequence[Path], wanted: Wanted, stream: Stream, schema: pa.Schema) -> pa.Table:
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


def _rows_of(file: pq.ParquetFile, group: int, wanted: Wanted, stream: Stream, schema: pa.Schema) -> pa.Table:
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

"""Rows that a correction has noted in the table `retracted/<stream>`, as tasks look for them: by value.

A row is known by its place: its file, line and item. The hash of a place only chooses which places are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_between
from lakehouse.storage.tables.table_reads import pieces_of

# What tells the rows of a stream apart.
PLACE = ("source_file", "source_line", "source_item")
_PLACES = pa.schema(zip(PLACE, (pa.string(), pa.int64(), pa.int32()), strict=True))
_NOTED = pa.schema([("correction", pa.int64()), ("event_us", pa.int64()), *_PLACES])


@dataclass(frozen=True)
class NotedRows:
    """The rows that a correction has noted, by the files that have them.

    Memory of a task: 24 bytes for each, and the names of their files.
    """

    paths: tuple[str, ...]
    correction: int

    @classmethod
    def of(cls, layout: Home, stream: str, number: int) -> NotedRows:
        """Return those of a correction of a stream."""
        files = files_between(layout.retracted(stream), ("correction", number, number))
        return cls(tuple(str(file.absolute()) for file in files), number)

    def are(self, places: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows are noted, by their files, lines and items, in this order."""
        places = places.rename_columns(list(PLACE)).cast(_PLACES)
        row, (hashes, noted) = _hashes(places), _noted(self)
        found = np.isin(row, hashes)
        at = np.flatnonzero(found)
        if len(at):
            there = np.flatnonzero(np.isin(hashes, row[at]))
            known, own = key_codes([noted.take(pa.array(there)), places.take(pa.array(at))])
            found[at] = np.isin(own.code, known.code)
        return found

    def times(self) -> npt.NDArray[np.int64]:
        """Return their event times."""
        return np.concatenate(
            [np.empty(0, np.int64), *(each["event_us"].to_numpy() for each in self._pieces())]
        )

    def places(self) -> pa.Table:
        """Return their places, files as a dictionary."""
        parts = [_PLACES.empty_table(), *(each.select(PLACE) for each in self._pieces())]
        files = (each["source_file"].dictionary_encode() for each in parts)
        coded = [each.set_column(0, PLACE[0], file) for each, file in zip(parts, files, strict=True)]
        return pa.concat_tables(coded).combine_chunks()

    def _pieces(self) -> Iterator[pa.Table]:
        for path in self.paths:
            for rows in pieces_of(path, _NOTED):
                yield rows.filter(pc.equal(rows["correction"], self.correction))


@lru_cache(maxsize=4)
def _noted(noted: NotedRows) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Return the places of noted rows, and the hash of each."""
    places = noted.places()
    return _hashes(places), places


def _hashes(places: pa.Table) -> npt.NDArray[np.int64]:
    return xxhash64(places.columns, places.num_rows)

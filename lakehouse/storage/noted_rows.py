"""Hashes of rows that a correction has noted in the table `retracted/<stream>`, as tasks look for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import files_between
from lakehouse.storage.tables.table_reads import pieces_of

_NOTED = pa.schema({"correction": pa.int64(), "event_us": pa.int64(), "row": pa.int64()})


@dataclass(frozen=True)
class NotedRows:
    """The rows that a correction has noted, by the files that have them. Memory of a task: 8 bytes for each."""

    paths: tuple[str, ...]
    correction: int

    @classmethod
    def of(cls, layout: Home, stream: str, number: int) -> NotedRows:
        """Return those of a correction of a stream."""
        files = files_between(layout.retracted(stream), ("correction", number, number))
        return cls(tuple(str(file.absolute()) for file in files), number)

    def are(self, row: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which hashes of rows are noted."""
        return np.isin(row, _hashes(self))

    def pieces(self) -> Iterator[pa.Table]:
        """Yield their times and hashes."""
        for path in self.paths:
            for rows in pieces_of(path, _NOTED):
                yield rows.filter(pc.equal(rows["correction"], self.correction))


@lru_cache(maxsize=4)
def _hashes(noted: NotedRows) -> npt.NDArray[np.int64]:
    parts = [rows["row"].to_numpy() for rows in noted.pieces()]
    return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))

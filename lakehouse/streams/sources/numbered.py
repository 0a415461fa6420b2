"""Numbered lines, as files and topics alike become them, their headers, and sets of them: those that raw holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lakehouse.home.table_files import source
from lakehouse.streams.sources.manifest import Layout

LINE_SCHEMA = pa.schema(
    {
        "source_file": pa.string(),
        "source_line": pa.int64(),
        "layout": pa.int32(),
        "record": pa.binary(),
        "fault": pa.string(),
    }
)
_ROWS = 1_000_000


@dataclass(frozen=True)
class NumberedLines:
    """Lines of a batch and the headers they refer to."""

    frame: DataFrame
    layouts: tuple[Layout, ...]


def located_lines(
    numbers: pa.Array, records: pa.Array, path: str, layout: int = 0, faults: pa.Array | None = None
) -> pa.Table:
    """Return numbered lines of one file, as ``LINE_SCHEMA`` has them."""
    count = len(numbers)
    files, layouts = pa.repeat(path, count), pa.repeat(pa.scalar(layout, pa.int32()), count)
    faults = pa.nulls(count, pa.string()) if faults is None else faults
    return pa.table([files, numbers, layouts, records, faults], schema=LINE_SCHEMA)


def faulty_line(path: str, fault: str) -> pa.Table:
    """Return the one line that a file is which cannot be read."""
    return located_lines(pa.array([0]), pa.array([b""], pa.binary()), path, -1, pa.array([fault]))


@dataclass(frozen=True)
class LineSet:
    """Some lines of a file, or offsets of a partition, by number: a bit for each from the first on."""

    first: int
    bits: npt.NDArray[np.uint8]

    @staticmethod
    def of(numbers: npt.NDArray[np.int64]) -> LineSet:
        """Return the set of these lines, of which there is one at least."""
        first = int(numbers.min())
        is_in = np.zeros(int(numbers.max()) + 1 - first, np.bool_)
        is_in[numbers - first] = True
        return LineSet(first, np.packbits(is_in))

    def lack(self, numbers: pa.Array) -> pa.Array:
        """Return which of some lines are not in the set."""
        places = numbers.to_numpy() - self.first
        known = np.clip(places // 8, 0, len(self.bits) - 1)
        is_in = (self.bits[known] >> (7 - places % 8).astype(np.uint8)) & 1
        return pa.array((is_in == 0) | (places // 8 != known))


ALL: Mapping[str, LineSet] = {}


def lines_in(written: list[Path]) -> dict[str, LineSet]:
    """Return, by file, the lines that the rows of these files of raw come from: two columns are read here."""
    found: dict[str, list[npt.NDArray[np.int64]]] = {}
    for path in written:
        with pq.ParquetFile(source(path), read_dictionary=["source_file"]) as file:
            for batch in file.iter_batches(_ROWS, columns=["source_file", "source_line"]):
                paths, numbers = batch.column(0), batch.column(1).to_numpy()
                places = paths.indices.to_numpy()
                cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
                for low, high in pairwise(cuts):
                    if low < high:
                        found.setdefault(paths.dictionary[int(places[low])].as_py(), []).append(
                            numbers[low:high]
                        )
    return {path: LineSet.of(np.concatenate(parts)) for path, parts in found.items()}

"""Rows of meters in which falls of a counter are looked for: nodes of the rollup, and what is kept of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.key_nodes import IS_KEPT, Nodes
from lakehouse.spark.row_hash import xxhash64

PARTS = ("n", "first_us", "last_us", "max", "first", "last", "drops_low", "drops_high")
# What a row is; of a period its falls, the node before it, and 1 if the counter falls from that one.
KIND, FALLS, BEFORE_US, FELL = (f"kept__{name}" for name in ("kind", "falls", "before_us", "fell"))
# A node; the last settled one; falls of a period in settled nodes; a period with too many; how many periods have not.
NODE, SETTLED, PERIOD, BROKEN, COUNT = range(5)
NEVER, EVER = -(2**62), 2**62
PERIODS = np.dtype([(name, np.int64) for name in ("meter", "start", "at", "falls", "before_us", "fell")])
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Falls:
    """Counter whose falls are looked for, more than ``most`` in a period; ``files``: with first and last start."""

    nodes: Nodes
    counter: str
    per_us: int
    most: int
    table: pa.Schema
    files: Sequence[tuple[str, int | None, int | None]]

    @cached_property
    def kept(self) -> pa.Schema:
        """The columns of nodes, and of what is kept of them."""
        names = [*self.nodes.keys, "start_us", *(f"{self.counter}__{part}" for part in PARTS)]
        own = (pa.field(name, pa.int64()) for name in (KIND, FALLS, BEFORE_US, FELL))
        return pa.schema([*(self.table.field(name) for name in names), *own])

    def read(self, low_us: int, high_us: int, hashes: Integers) -> Iterator[pa.Table]:
        """Yield the nodes with a reading from a time on, before another, whose keys have some hashes."""
        for path, first_us, last_us in self.files:
            if (last_us is None or last_us >= low_us) and (first_us is None or first_us < high_us):
                for rows in self.nodes.read(path, self.table, self.kept):
                    start = pc.field("start_us")
                    own = self.relevant(rows).filter((start >= low_us) & (start < high_us))
                    yield own.filter(pa.array(np.isin(self.hashes(own), hashes)))

    def relevant(self, rows: pa.Table) -> pa.Table:
        """Return nodes with a reading, and what is kept, from the first start on."""
        has = pc.and_(pc.greater(rows[f"{self.counter}__n"], 0), pc.is_valid(rows[f"{self.counter}__first"]))
        is_one = pc.or_kleene(has, pc.greater(rows[KIND], SETTLED))
        is_late_enough = pc.greater_equal(rows["start_us"], self.nodes.since_us)
        is_own = pc.fill_null(pc.and_(is_one, is_late_enough), False)
        return rows if pc.all(is_own).as_py() else rows.filter(is_own)

    def hashes(self, rows: pa.Table) -> Integers:
        """Return hashes of the keys of rows."""
        return xxhash64([rows[name] for name in self.nodes.keys], rows.num_rows)

    def as_kept(self, rows: int, columns: dict[str, Any]) -> pa.Table:
        """Return rows of these columns as they are kept."""
        return pa.table(
            [
                columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
                for field in self.kept
            ],
            schema=self.kept,
        )


@dataclass(frozen=True)
class Meters:
    """Rows, each with the number of its meter, from 0; ``one``: a row of each number."""

    rows: pa.Table
    number: Integers
    one: Integers

    @classmethod
    def of(cls, rows: pa.Table, keys: Sequence[str]) -> Meters:
        """Number the rows by their keys."""
        number = np.zeros(len(rows), np.int64)
        for place, name in enumerate(keys):
            codes = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
            codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
            own = codes.indices.to_numpy().astype(np.int64)
            both = number * (len(codes.dictionary) + 1) + own
            # Codes of one column leave no number out.
            number = np.unique(both, return_inverse=True)[1] if place else own
        one = np.empty(int(number.max(initial=-1)) + 1, np.int64)
        one[number[::-1]] = np.arange(len(number))[::-1]
        return cls(rows, number, one)

    @cached_property
    def kind(self) -> Integers:
        """The kind of each row."""
        return whole(self.rows[KIND], NODE)

    @cached_property
    def start(self) -> Integers:
        """The start of each row's node or period."""
        return whole(self.rows["start_us"], NEVER)

    @cached_property
    def is_new(self) -> Flags:
        """True of rows that came since the check before."""
        return ~flags(self.rows[IS_KEPT])


def whole(column: pa.ChunkedArray, nothing: int) -> Integers:
    """Return whole numbers, and one instead of none."""
    return np.asarray(column.fill_null(nothing).to_numpy(), np.int64)


def flags(column: pa.ChunkedArray) -> Flags:
    """Return truths, of which none is unknown."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)

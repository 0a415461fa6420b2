"""Local times that come twice -> the same with the offset that the order of their file's rows shows.

A file is read once more for it, if it has such a time: a row may show by where it stands what an earlier one means.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.double_hour import DAY_US, FIRST, SECOND, DoubleHour, double_hours, passes
from lakehouse.ingest.parser.plain_values import Mask, clock_times
from lakehouse.ingest.parser.texts import local_time

# Columns of what the order is read from; others are what tells the sources of rows apart.
LINE, ITEM, TEXT = "line", "item", "text"
_WALL = "wall"
# One number for a line and an item: lines have fewer items.
_ITEMS = 2**24
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShownOffsets:
    """Offsets from UTC, such as +01:00, of rows of one file, by line and item, in order."""

    rows: Ints
    offsets: pa.Array

    def of(self, lines: pa.Array, items: Ints) -> pa.Array:
        """Return the offset of each row, null where none is shown."""
        wanted = lines.to_numpy() * _ITEMS + items
        if not len(self.rows):
            return pa.nulls(len(wanted), pa.string())
        nearest = np.minimum(np.searchsorted(self.rows, wanted), len(self.rows) - 1)
        return self.offsets.take(pa.array(nearest, mask=self.rows[nearest] != wanted))


def shown_offsets(blocks: Iterable[pa.Table], zone: str) -> ShownOffsets:
    """Return what the order of a file's rows shows, of which blocks have the columns above.

    Memory: the rows within a day of a double hour.
    """
    near, hours = list[pa.Table](), set[DoubleHour]()
    for rows in blocks:
        walls, is_local = _walls(rows[TEXT].combine_chunks())
        hours.update(double_hours(zone, walls[is_local]))
        is_near = is_local & _is_within(walls, hours, DAY_US)
        near.append(rows.append_column(_WALL, pa.array(walls)).filter(pa.array(is_near)))
    every = pa.concat_tables(near).sort_by([(LINE, "ascending"), (ITEM, "ascending")])
    walls, sources = every[_WALL].to_numpy(), _sources(every)
    offsets = np.full(len(walls), "", dtype="U6")
    for hour in hours:
        shown = passes(sources, walls, hour)
        for which, offset in zip((FIRST, SECOND), hour.offsets_us, strict=True):
            offsets[shown == which] = _text(offset)
    is_shown = offsets != ""
    keys = every[LINE].to_numpy() * _ITEMS + every[ITEM].to_numpy()
    return ShownOffsets(keys[is_shown], pa.array(offsets[is_shown], pa.string()))


def with_offsets(texts: pa.Array, offsets: pa.Array) -> pa.Array:
    """Return texts, or bytes, with the offsets behind them, unchanged where there is none."""
    nothing = pa.scalar("").cast(texts.type)
    return pc.coalesce(pc.binary_join_element_wise(texts, offsets.cast(texts.type), nothing), texts)


def _walls(texts: pa.Array) -> tuple[Ints, Mask]:
    """Return the microseconds that clocks show, and which texts are such a time without an offset."""
    shown, offsets = clock_times(texts)
    walls = pc.fill_null(shown, 0).to_numpy().copy()
    is_local = (
        pc.and_(shown.is_valid(), pc.equal(offsets, "")).fill_null(False).to_numpy(zero_copy_only=False)
    )
    is_local = is_local.copy()
    odd = np.flatnonzero(pc.and_(shown.is_null(), texts.is_valid()).to_numpy(zero_copy_only=False))
    for row, text in zip(odd.tolist(), texts.take(pa.array(odd)).to_pylist(), strict=True):
        wall = local_time(text)
        if wall is not None:
            walls[row], is_local[row] = wall, True
    return walls, is_local


def _is_within(walls: Ints, hours: Iterable[DoubleHour], beside_us: int) -> Mask:
    is_within = np.zeros(len(walls), np.bool_)
    for hour in hours:
        is_within |= (walls >= hour.begin_us - beside_us) & (walls < hour.end_us + beside_us)
    return is_within


def _sources(rows: pa.Table) -> Ints:
    """Return a number for each row, the same for those whose other texts are the same."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for name in rows.column_names:
        if name not in (LINE, ITEM, TEXT, _WALL):
            encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
            pairs = numbers * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
            numbers = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return numbers


def _text(offset_us: int) -> str:
    hours, minutes = divmod(abs(offset_us) // 60_000_000, 60)
    return f"{'-' if offset_us < 0 else '+'}{hours:02}:{minutes:02}"
